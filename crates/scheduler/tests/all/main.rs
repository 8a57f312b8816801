//! The scheduler as its users see it.

mod reference;
mod rules;
mod waiting;
