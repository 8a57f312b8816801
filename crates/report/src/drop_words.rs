//! Drop reasons in words, for an operator who asks.

use convoy_dataplane::drop_watch;
use convoy_ipsec::DropReason;

/// What drops of a reason usually mean and what to do, as the log says it; of reasons that the log
/// never warns of, what they are.
pub fn meaning(reason: DropReason) -> String {
    drop_watch::meaning(reason).map_or_else(|| reason.meaning(), str::to_owned)
}
