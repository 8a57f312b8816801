//! `[tunnel.soft]` and `[tunnel.hard]`.

use convoy_ipsec::{Lifetime, LifetimeLimits};
use convoy_settings::Checker;
use toml::Spanned;

use crate::file;

pub(super) fn lifetime(
    c: &mut Checker<'_>,
    soft: Option<&file::Limits>,
    hard: Option<&file::Limits>,
) -> Lifetime {
    let at = soft.map(|soft| &soft.at.span);
    let (soft, hard) = (limits(soft), limits(hard));
    let is_late =
        |soft: Option<u64>, hard: Option<u64>| soft.zip(hard).is_some_and(|(soft, hard)| soft >= hard);
    let late = is_late(soft.bytes, hard.bytes)
        || is_late(soft.packets, hard.packets)
        || is_late(soft.time_ns, hard.time_ns);
    if let Some(span) = at.filter(|_| late) {
        c.add(
            span,
            "tunnel.soft",
            "each soft limit must be below the hard one, so that there is time for a new SA",
        );
    }
    Lifetime { soft, hard }
}

fn limits(file: Option<&file::Limits>) -> LifetimeLimits {
    let Some(file) = file else { return LifetimeLimits::default() };
    let number = |value: &Option<Spanned<u64>>| value.as_ref().map(|value| *value.get_ref());
    let time_ns = number(&file.seconds).map(|seconds| seconds.saturating_mul(1_000_000_000));
    LifetimeLimits { bytes: number(&file.bytes), packets: number(&file.packets), time_ns }
}
