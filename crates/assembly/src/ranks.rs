//! Ranks of the tunnels' policies within a priority, in the order of the configuration. They are
//! far apart, so that a tunnel may come between two others and all that stay keep theirs: a worker
//! then changes few policies, however many there are.

use convoy_config::TunnelConfig;

/// The ranks below are those of bypasses.
const FIRST: u64 = 1 << 40;
/// The gateway's own ranks are below.
const END: u64 = 1 << 63;
/// Free ranks between two tunnels, where there is room.
const GAP: u64 = 1 << 40;
/// Free ranks between tunnels that had to move for lack of room, at least, so that the next ones
/// need not.
const LEAST: u64 = 1 << 20;

/// The ranks of tunnels of which none has one: for each, that of its first policy.
pub fn of(tunnels: &[TunnelConfig]) -> Vec<u64> {
    in_place(tunnels, &vec![None; tunnels.len()])
}

/// The ranks of tunnels, of which those that stay had the ranks `before`. As few as possible of
/// these get another one.
pub fn in_place(tunnels: &[TunnelConfig], before: &[Option<u64>]) -> Vec<u64> {
    let widths: Vec<u64> = tunnels.iter().map(|tunnel| tunnel.selectors().count() as u64).collect();
    spread(&widths, before)
}

/// The ranks of tunnels with these numbers of policies, of which those that stay had `before`.
fn spread(widths: &[u64], before: &[Option<u64>]) -> Vec<u64> {
    let mut keeps = in_order(before);
    let mut ranks: Vec<u64> = before.iter().map(|rank| rank.unwrap_or_default()).collect();
    let (mut at, mut least) = (0, 1);
    while at < ranks.len() {
        if keeps[at] {
            at += 1;
            continue;
        }
        let end = (at..ranks.len()).find(|tunnel| keeps[*tunnel]).unwrap_or(ranks.len());
        let low = at.checked_sub(1).map_or(FIRST, |last| ranks[last] + widths[last]);
        let high = ranks.get(end).copied().unwrap_or(END);
        let free = (high - low).saturating_sub(widths[at..end].iter().sum());
        let gap = (free / (end - at + 1) as u64).min(GAP);
        if gap < least && end - at < ranks.len() {
            // As many neighbours on both sides move as well.
            least = LEAST;
            let more = end - at;
            at = at.saturating_sub(more);
            keeps[at..ranks.len().min(end + more)].fill(false);
            continue;
        }
        let mut next = low;
        for tunnel in at..end {
            ranks[tunnel] = next + gap;
            next = ranks[tunnel] + widths[tunnel];
        }
        (at, least) = (end, 1);
    }
    ranks
}

/// Which tunnels keep their ranks: as many as possible of which each is behind the previous one.
fn in_order(before: &[Option<u64>]) -> Vec<bool> {
    // By length, the rows of tunnels in order that end with the lowest rank: their last tunnels.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous = vec![None; before.len()];
    for (at, rank) in before.iter().enumerate().filter(|(_, rank)| rank.is_some()) {
        let length = ends.partition_point(|end| before[*end] < *rank);
        previous[at] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut keeps = vec![false; before.len()];
    let mut last = ends.last().copied();
    while let Some(at) = last {
        keeps[at] = true;
        last = previous[at];
    }
    keeps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_tunnel_between_two_others_moves_none() {
        let before = spread(&[1, 3, 1], &[None; 3]);
        let kept = before.iter().copied().map(Some);
        let with_one: Vec<_> = kept.clone().take(1).chain([None]).chain(kept.skip(1)).collect();
        let now = spread(&[1, 2, 3, 1], &with_one);
        assert_eq!([now[0], now[2], now[3]], before[..]);
        assert!(now[0] < now[1] && now[1] + 2 < now[2], "{now:?}");
    }

    #[test]
    fn a_tunnel_that_moves_is_the_only_one_to_get_another_rank() {
        let before: Vec<_> = spread(&[1; 5], &[None; 5]).into_iter().map(Some).collect();
        let reordered = [1, 2, 3, 0, 4].map(|place: usize| before[place]);
        let now = spread(&[1; 5], &reordered);
        let moved: Vec<usize> = (0..5).filter(|at| Some(now[*at]) != reordered[*at]).collect();
        assert_eq!(moved, [3]);
    }

    #[test]
    fn thousands_of_tunnels_that_come_at_one_place_move_few_others() {
        let mut ranks = spread(&[1; 2], &[None; 2]);
        let (mut moves, mut reloads) = (0, 0);
        for _ in 0..2_000 {
            let mut before: Vec<_> = ranks.iter().copied().map(Some).collect();
            before.insert(1, None);
            ranks = spread(&vec![1; before.len()], &before);
            let moved = before.iter().zip(&ranks).filter(|(before, now)| **before != Some(**now)).count() - 1;
            (moves, reloads) = (moves + moved, reloads + usize::from(moved > 0));
        }
        assert!(moves < 40 * 2_000 && reloads < 2_000 / 10, "{moves} in {reloads} of them");
    }

    proptest! {
        #[test]
        fn ranks_are_in_order_and_do_not_overlap(
            widths in proptest::collection::vec(1u64..4, 1..40),
            before in proptest::collection::vec(proptest::option::of(0u64..60), 40),
        ) {
            // Those that stay did not overlap: tight, so that there often is no room.
            let before: Vec<_> = before.into_iter().map(|rank| Some(FIRST + 4 * rank?)).collect();
            let mut seen = std::collections::HashSet::new();
            let before: Vec<_> = before.iter().take(widths.len()).map(|rank| rank.filter(|rank| seen.insert(*rank))).collect();
            let ranks = spread(&widths, &before);
            prop_assert!(ranks[0] >= FIRST);
            for at in 1..ranks.len() {
                prop_assert!(ranks[at - 1] + widths[at - 1] <= ranks[at], "{:?}", ranks);
            }
        }
    }
}
