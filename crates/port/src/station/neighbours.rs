//! Who has which address on the link (RFC 826), and the packets that wait to know. Pure: time is an argument, in ms.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use convoy_packet::{Frame, MacAddress};

/// How long an answer holds.
pub(super) const KNOWN_MS: u64 = 60_000;
/// From this age on an address that is in use is asked for again, while its answer still holds.
const REFRESH_MS: u64 = 45_000;
/// Between two requests.
pub(super) const REQUEST_MS: u64 = 1_000;
/// Requests without answer until the address is given up.
pub(super) const REQUESTS: u32 = 3;
/// Packets that wait for one address; the oldest makes room.
pub(super) const WAITING: usize = 64;
/// Addresses that are kept: next hops are few, and strangers must not fill the memory.
const ADDRESSES: usize = 1_024;

struct Neighbour {
    /// And until when it holds.
    known: Option<(MacAddress, u64)>,
    /// Requests that are unanswered, and when the next is due.
    requests: u32,
    next_request_ms: u64,
    waiting: VecDeque<Frame>,
}

/// What is to be done with a packet.
pub(super) enum Next {
    /// Send it there.
    Send(MacAddress, Frame),
    /// It waits, and this one had to go for it.
    Waits(Option<Frame>),
}

/// The table.
#[derive(Default)]
pub(super) struct Neighbours {
    table: HashMap<Ipv4Addr, Neighbour>,
    next_due_ms: Option<u64>,
}

impl Neighbours {
    /// Finds the way for a packet to a next hop, or keeps it until that has answered: [`Self::due`] then asks.
    pub(super) fn route(&mut self, next_hop: Ipv4Addr, frame: Frame, now_ms: u64) -> Next {
        if !self.table.contains_key(&next_hop) && self.table.len() >= ADDRESSES && !self.make_room(now_ms) {
            return Next::Waits(Some(frame));
        }
        let neighbour = self.table.entry(next_hop).or_insert_with(|| Neighbour {
            known: None,
            requests: 0,
            next_request_ms: now_ms,
            waiting: VecDeque::new(),
        });
        if let Some((mac, until_ms)) = neighbour.known
            && now_ms < until_ms
        {
            if until_ms - now_ms <= KNOWN_MS - REFRESH_MS && neighbour.requests == 0 {
                neighbour.next_request_ms = now_ms;
                self.next_due_ms = Some(now_ms);
                neighbour.requests = 1;
            }
            return Next::Send(mac, frame);
        }
        if neighbour.waiting.is_empty() {
            (neighbour.known, neighbour.requests, neighbour.next_request_ms) = (None, 1, now_ms);
            self.next_due_ms = Some(now_ms);
        }
        neighbour.waiting.push_back(frame);
        let is_full = neighbour.waiting.len() > WAITING;
        Next::Waits(if is_full { neighbour.waiting.pop_front() } else { None })
    }

    /// Learns where an address is, if it is one that packets go to or, from a message to this host, may soon; what waited for it.
    pub(super) fn learn(
        &mut self,
        address: Ipv4Addr,
        mac: MacAddress,
        is_to_us: bool,
        now_ms: u64,
    ) -> VecDeque<Frame> {
        let is_new = !self.table.contains_key(&address);
        if is_new && (!is_to_us || self.table.len() >= ADDRESSES && !self.make_room(now_ms)) {
            return VecDeque::new();
        }
        let known = Some((mac, now_ms + KNOWN_MS));
        let fresh = Neighbour { known, requests: 0, next_request_ms: now_ms, waiting: VecDeque::new() };
        let old = self.table.insert(address, fresh);
        old.map(|old| old.waiting).unwrap_or_default()
    }

    /// Asks for every address whose request is due; the packets whose next hop has not answered for too long.
    pub(super) fn due(&mut self, now_ms: u64, ask: &mut dyn FnMut(Ipv4Addr)) -> Vec<Frame> {
        let mut given_up = Vec::new();
        if self.next_due_ms.is_none_or(|due_ms| now_ms < due_ms) {
            return given_up;
        }
        let mut next_due_ms = None;
        self.table.retain(|address, neighbour| {
            if neighbour.requests == 0 {
                return true;
            }
            if neighbour.next_request_ms <= now_ms {
                if neighbour.requests > REQUESTS {
                    given_up.extend(neighbour.waiting.drain(..));
                    return false;
                }
                ask(*address);
                neighbour.requests += 1;
                neighbour.next_request_ms = now_ms + REQUEST_MS;
            }
            let due_ms = neighbour.next_request_ms;
            next_due_ms = Some(next_due_ms.map_or(due_ms, |earliest: u64| earliest.min(due_ms)));
            true
        });
        self.next_due_ms = next_due_ms;
        given_up
    }

    /// Forgets answers that no longer hold.
    fn make_room(&mut self, now_ms: u64) -> bool {
        self.table.retain(|_, neighbour| {
            !neighbour.waiting.is_empty() || neighbour.known.is_some_and(|(_, until_ms)| now_ms < until_ms)
        });
        self.table.len() < ADDRESSES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_packet::FramePool;

    const HOP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

    fn frame(pool: &mut FramePool, byte: u8) -> Frame {
        pool.take_filled(&[byte; 40], 0).expect("a frame")
    }

    fn asked(neighbours: &mut Neighbours, now_ms: u64) -> (usize, usize) {
        let mut count = 0;
        let given_up = neighbours.due(now_ms, &mut |_| count += 1);
        (count, given_up.len())
    }

    fn waits(next: Next) -> bool {
        matches!(next, Next::Waits(None))
    }

    #[test]
    fn packets_wait_for_the_answer_and_leave_in_order() {
        let (mut pool, mut neighbours) = (FramePool::new(8, 0), Neighbours::default());
        assert!((0..3).all(|byte| waits(neighbours.route(HOP, frame(&mut pool, byte), 10))));
        assert_eq!(asked(&mut neighbours, 10), (1, 0));
        assert_eq!(asked(&mut neighbours, 11), (0, 0));
        let freed = neighbours.learn(HOP, MAC, false, 12);
        assert_eq!(freed.iter().map(|frame| frame[0]).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(matches!(neighbours.route(HOP, frame(&mut pool, 3), 13), Next::Send(MAC, _)));
        assert_eq!(asked(&mut neighbours, 20_000), (0, 0), "it is known");
    }

    #[test]
    fn an_address_that_does_not_answer_is_given_up_after_three_requests() {
        let (mut pool, mut neighbours) = (FramePool::new(8, 0), Neighbours::default());
        assert!(waits(neighbours.route(HOP, frame(&mut pool, 0), 0)));
        let rounds: Vec<_> = (0..5).map(|second| asked(&mut neighbours, second * REQUEST_MS)).collect();
        assert_eq!(rounds, [(1, 0), (1, 0), (1, 0), (0, 1), (0, 0)]);
        assert!(waits(neighbours.route(HOP, frame(&mut pool, 0), 9_000)));
        assert_eq!(asked(&mut neighbours, 9_000), (1, 0), "the next packet asks again");
    }

    #[test]
    fn an_answer_is_refreshed_in_use_and_holds_for_a_minute() {
        let (mut pool, mut neighbours) = (FramePool::new(8, 0), Neighbours::default());
        neighbours.learn(HOP, MAC, true, 0);
        assert!(matches!(neighbours.route(HOP, frame(&mut pool, 0), REFRESH_MS), Next::Send(..)));
        assert_eq!(asked(&mut neighbours, REFRESH_MS), (1, 0));
        assert!(matches!(neighbours.route(HOP, frame(&mut pool, 0), REFRESH_MS + 1), Next::Send(..)));
        assert!(waits(neighbours.route(HOP, frame(&mut pool, 0), KNOWN_MS)));
        assert_eq!(asked(&mut neighbours, KNOWN_MS), (1, 0));
    }

    #[test]
    fn too_many_waiting_packets_drop_the_oldest() {
        let (mut pool, mut neighbours) = (FramePool::new(128, 0), Neighbours::default());
        assert!((0..WAITING).all(|at| waits(neighbours.route(HOP, frame(&mut pool, at as u8), 0))));
        let Next::Waits(Some(dropped)) = neighbours.route(HOP, frame(&mut pool, 99), 0) else {
            panic!("one too many");
        };
        assert_eq!(dropped[0], 0);
    }

    #[test]
    fn strangers_do_not_fill_the_table() {
        let mut neighbours = Neighbours::default();
        for n in 0..5_000_u32 {
            neighbours.learn(n.into(), MAC, true, 0);
        }
        assert_eq!(neighbours.table.len(), ADDRESSES);
        neighbours.learn(HOP, MAC, false, 0);
        assert!(!neighbours.table.contains_key(&HOP), "what others say to each other is not kept");
        neighbours.learn(HOP, MAC, true, KNOWN_MS);
        assert_eq!(neighbours.table.len(), 1, "old answers make room");
    }
}
