//! The neighbours' hardware addresses, by ARP (RFC 826) and neighbour discovery (RFC 4861), and the
//! packets that wait for one. Pure: time is an argument, in ms.
//!
//! Known and requested addresses are kept apart, so that a scan of absent hosts takes no room from
//! present ones.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use convoy_packet::{Frame, MacAddress};

use super::waiting::Waiting;

/// How long an answer is valid.
pub(super) const KNOWN_MS: u64 = 60_000;
/// From this age on an address in use is requested again, while its answer is still valid.
const REFRESH_MS: u64 = 45_000;
/// Between two requests.
pub(super) const REQUEST_MS: u64 = 1_000;
/// Requests without answer until the address is given up.
pub(super) const REQUESTS: u32 = 3;
/// Known addresses, at most; the least recently used ones are displaced.
const KNOWN: usize = 4_096;
/// How many of them are displaced at a time, so that the search for them is rare.
const ROOM: usize = KNOWN / 16;
/// Requested addresses, at most; the oldest is displaced.
const ASKED: usize = 256;

/// Requests for one address.
struct Requests {
    /// Unanswered ones, including the one that is due; 0 if none is needed.
    count: u32,
    next_ms: u64,
}

/// An address that has answered.
struct KnownNeighbour {
    mac: MacAddress,
    until_ms: u64,
    /// When a packet last left for it, if any has.
    used_ms: Option<u64>,
    requests: Requests,
}

/// An address that has not answered yet.
struct AskedNeighbour {
    /// Its place in the order in which addresses were first requested.
    number: u64,
    requests: Requests,
}

/// The table.
#[derive(Default)]
pub(super) struct Neighbours {
    known: HashMap<IpAddr, KnownNeighbour>,
    asked: HashMap<IpAddr, AskedNeighbour>,
    waiting: Waiting,
    next_number: u64,
    /// When the earliest request of each table is due.
    known_due_ms: Option<u64>,
    asked_due_ms: Option<u64>,
}

impl Neighbours {
    /// Finds the hardware address of a packet's next hop, or keeps the packet until that has
    /// answered: [`Self::due`] then sends requests. At most `share` packets in frames of one size
    /// wait. Displaced ones are added to `displaced`.
    pub(super) fn route(
        &mut self,
        next_hop: IpAddr,
        frame: Frame,
        now_ms: u64,
        share: usize,
        displaced: &mut Vec<Frame>,
    ) -> Option<(MacAddress, Frame)> {
        if let Some(known) = self.known.get_mut(&next_hop) {
            if now_ms < known.until_ms {
                known.used_ms = Some(now_ms);
                if known.until_ms - now_ms <= KNOWN_MS - REFRESH_MS && known.requests.count == 0 {
                    known.requests = Requests { count: 1, next_ms: now_ms };
                    self.known_due_ms = Some(now_ms);
                }
                return Some((known.mac, frame));
            }
            self.known.remove(&next_hop);
        }
        if !self.asked.contains_key(&next_hop) {
            self.ask_for(next_hop, now_ms, displaced);
        }
        displaced.extend(self.waiting.push(next_hop, frame, share));
        None
    }

    fn ask_for(&mut self, address: IpAddr, now_ms: u64, displaced: &mut Vec<Frame>) {
        if self.asked.len() >= ASKED
            && let Some((&oldest, _)) = self.asked.iter().min_by_key(|(_, asked)| asked.number)
        {
            self.asked.remove(&oldest);
            displaced.extend(self.waiting.take(oldest));
        }
        let requests = Requests { count: 1, next_ms: now_ms };
        self.asked.insert(address, AskedNeighbour { number: self.next_number, requests });
        self.next_number += 1;
        self.asked_due_ms = Some(now_ms);
    }

    /// Learns an address, if packets go to it or, after a message to this host, may soon; returns
    /// the packets that waited for it.
    pub(super) fn learn(
        &mut self,
        address: IpAddr,
        mac: MacAddress,
        is_to_us: bool,
        now_ms: u64,
    ) -> VecDeque<Frame> {
        let was_asked = self.asked.remove(&address).is_some();
        let old = self.known.get(&address);
        if old.is_none() {
            if !was_asked && !is_to_us {
                return VecDeque::new();
            }
            if self.known.len() >= KNOWN {
                self.make_room(now_ms);
            }
        }
        let old_use_ms = self.known.get(&address).and_then(|old| old.used_ms);
        let used_ms = if was_asked { Some(now_ms) } else { old_use_ms };
        let requests = Requests { count: 0, next_ms: now_ms };
        self.known.insert(address, KnownNeighbour { mac, until_ms: now_ms + KNOWN_MS, used_ms, requests });
        if was_asked { self.waiting.take(address) } else { VecDeque::new() }
    }

    /// Whether an address is known to have another hardware address than this.
    pub(super) fn knows_other(&self, address: IpAddr, mac: MacAddress, now_ms: u64) -> bool {
        self.known.get(&address).is_some_and(|known| now_ms < known.until_ms && known.mac != mac)
    }

    /// Sends every request that is due; returns the packets whose next hop has not answered for too
    /// long.
    pub(super) fn due(&mut self, now_ms: u64, ask: &mut dyn FnMut(IpAddr)) -> Vec<Frame> {
        let is_due = |due_ms: Option<u64>| due_ms.is_some_and(|due_ms| due_ms <= now_ms);
        if is_due(self.known_due_ms) {
            let mut next_ms = None;
            self.known.retain(|address, known| known.requests.go_on(now_ms, &mut next_ms, || ask(*address)));
            self.known_due_ms = next_ms;
        }
        if !is_due(self.asked_due_ms) {
            return Vec::new();
        }
        let (before, mut next_ms) = (self.asked.len(), None);
        self.asked.retain(|address, asked| asked.requests.go_on(now_ms, &mut next_ms, || ask(*address)));
        self.asked_due_ms = next_ms;
        if self.asked.len() == before {
            return Vec::new();
        }
        self.waiting.take_unless(|address| self.asked.contains_key(&address))
    }

    /// Removes expired answers, or otherwise the least recently used ones; first those that were
    /// never used, since anyone on the link can have them learned.
    fn make_room(&mut self, now_ms: u64) {
        self.known.retain(|_, known| now_ms < known.until_ms);
        if self.known.len() < KNOWN {
            return;
        }
        let mut by_use: Vec<_> =
            self.known.iter().map(|(address, known)| ((known.used_ms, known.until_ms), *address)).collect();
        by_use.select_nth_unstable(ROOM);
        for (_, address) in &by_use[..ROOM] {
            self.known.remove(address);
        }
    }
}

impl Requests {
    /// Sends a request, through `ask`, if it is due; `false` once too many were unanswered. Lowers
    /// `earliest_ms` to when the next is due.
    fn go_on(&mut self, now_ms: u64, earliest_ms: &mut Option<u64>, ask: impl FnOnce()) -> bool {
        if self.count == 0 {
            return true;
        }
        if self.next_ms <= now_ms {
            if self.count > REQUESTS {
                return false;
            }
            ask();
            self.count += 1;
            self.next_ms = now_ms + REQUEST_MS;
        }
        *earliest_ms = Some(earliest_ms.map_or(self.next_ms, |earliest| earliest.min(self.next_ms)));
        true
    }
}

#[cfg(test)]
mod tests;
