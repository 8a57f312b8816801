//! The open or assumed parameters, changed one at a time.

use super::runs::Platforms;
use crate::FigureError;
use crate::open::{Case, Change, one_at_a_time};

/// All cases; the first is convoy's choice.
pub(super) fn all() -> Result<Vec<Case<Platforms>>, FigureError> {
    let base = Platforms::open()?;
    let changes: [Change<Platforms>; 4] = [
        ("cores", "cores twice as fast", |it| cores(it, 0.5)),
        ("cores", "cores half as fast", |it| cores(it, 2.0)),
        ("the card's queue", "a queue of 32 packets at the card", |it| depth(it, "card", 32)),
        ("a core's queue", "a queue of 8 packets at a core", |it| depth(it, "core", 8)),
    ];
    Ok(one_at_a_time(&base, &changes))
}

fn cores(platforms: &mut Platforms, times: f64) {
    for core in platforms.connectx.processors.iter_mut().filter(|of| of.name == "core") {
        core.init_ratio *= times;
        core.enc_ratio *= times;
    }
}

fn depth(platforms: &mut Platforms, name: &str, packets: usize) {
    for platform in [&mut platforms.connectx, &mut platforms.bluefield] {
        platform.processors.iter_mut().filter(|of| of.name == name).for_each(|of| of.depth = packets);
    }
}
