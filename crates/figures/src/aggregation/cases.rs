//! The open or assumed parameters, changed one at a time.

use super::runs::Platforms;
use crate::FigureError;
use crate::paper::Case;

/// All cases; the first is convoy's choice.
pub(super) fn all() -> Result<Vec<Case<Platforms>>, FigureError> {
    let base = Platforms::open()?;
    type Change = fn(&mut Platforms);
    let changes: [(&'static str, Change); 7] = [
        ("", |_| {}),
        ("a path MTU of 1280 bytes", |it| it.mtu = 1280),
        ("a path MTU of 9000 bytes", |it| it.mtu = 9000),
        ("a t_init of 0.5 us", |it| it.each(|platform| platform.reference.t_init_us = 0.5)),
        ("a t_init of 10 us", |it| it.each(|platform| platform.reference.t_init_us = 10.0)),
        ("an ESP trailer in each packet of the paper's platform", Platforms::with_trailer),
        ("queues of 30 multi-packets", |it| it.each(|platform| platform.set_depth(30))),
    ];
    let case = |(name, change): (&'static str, Change)| {
        let mut platforms = base.clone();
        change(&mut platforms);
        Case { name, platforms }
    };
    Ok(changes.into_iter().map(case).collect())
}
