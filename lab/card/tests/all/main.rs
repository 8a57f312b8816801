//! The verilated card behind its drivers.

mod bundling;
mod exchange;
mod gather;
mod gigabit;
mod inline;
mod interrupts;
mod platform;
mod video;
