//! The scheduler as its users see it.

mod classes;
mod reference;
mod rules;
mod waiting;
