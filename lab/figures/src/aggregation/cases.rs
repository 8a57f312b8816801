//! The open or assumed parameters, changed one at a time.

use super::runs::Platforms;
use crate::FigureError;
use crate::open::{Case, Change, one_at_a_time};

/// All cases; the first is convoy's choice.
pub(super) fn all() -> Result<Vec<Case<Platforms>>, FigureError> {
    let base = Platforms::open()?;
    let changes: [Change<Platforms>; 6] = [
        ("path MTU", "a path MTU of 1280 bytes", |it| it.mtu = 1280),
        ("path MTU", "a path MTU of 9000 bytes", |it| it.mtu = 9000),
        ("t_init", "a t_init of 0.5 us", |it| it.each(|platform| platform.reference.t_init_us = 0.5)),
        ("t_init", "a t_init of 10 us", |it| it.each(|platform| platform.reference.t_init_us = 10.0)),
        ("trailer", "an ESP trailer in each packet of the paper's platform", Platforms::with_trailer),
        ("queues", "queues of 30 multi-packets", |it| it.each(|platform| platform.set_depth(30))),
    ];
    Ok(one_at_a_time(&base, &changes))
}
