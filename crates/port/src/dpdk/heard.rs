//! ARP and neighbour discovery received by one queue of a port, passed to the others: a device
//! delivers an answer to one queue, whichever of them asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::l2_host::Discovery;

/// Messages that wait for a queue, at most; others are lost, and requested again if needed.
const WAITING: usize = 64;

#[derive(Default)]
struct Inbox {
    /// Avoids the lock while there are no messages.
    has_some: AtomicBool,
    messages: Mutex<Vec<Discovery>>,
}

/// An inbox for each queue.
pub(super) struct Heard(Vec<Inbox>);

impl Heard {
    pub(super) fn new(queues: usize) -> Self {
        Self((0..queues).map(|_| Inbox::default()).collect())
    }

    /// Passes a message to all queues but `own`.
    pub(super) fn tell(&self, own: usize, message: &Discovery) {
        let others = self.0.iter().enumerate().filter(|(queue, _)| *queue != own);
        for (_, inbox) in others {
            let mut messages = inbox.messages.lock().unwrap_or_else(PoisonError::into_inner);
            if messages.len() < WAITING {
                messages.push(*message);
                inbox.has_some.store(true, Ordering::Release);
            }
        }
    }

    /// Messages of other queues since the last call.
    pub(super) fn take(&self, own: usize) -> Vec<Discovery> {
        let Some(inbox) = self.0.get(own).filter(|inbox| inbox.has_some.load(Ordering::Acquire)) else {
            return Vec::new();
        };
        let mut messages = inbox.messages.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.has_some.store(false, Ordering::Release);
        std::mem::take(&mut messages)
    }
}

#[cfg(test)]
mod tests {
    use convoy_packet::MacAddress;
    use convoy_packet::arp::{Arp, Operation};

    use super::*;

    fn message(last: u8) -> Discovery {
        let mac = MacAddress([2, 0, 0, 0, 0, last]);
        let sender = [192, 0, 2, last].into();
        let operation = Operation::Reply;
        Discovery::Arp(Arp { operation, sender_mac: mac, sender, target_mac: mac, target: sender })
    }

    #[test]
    fn all_queues_but_the_own_are_reported_once_and_no_more_than_have_room() {
        let heard = Heard::new(3);
        heard.tell(1, &message(7));
        heard.tell(0, &message(8));
        assert_eq!(heard.take(0), [message(7)]);
        assert_eq!(heard.take(1), [message(8)]);
        assert_eq!(heard.take(2), [message(7), message(8)]);
        assert_eq!(heard.take(2), []);
        (0..200).for_each(|last| heard.tell(0, &message(last)));
        assert_eq!((heard.take(1).len(), heard.take(0).len()), (WAITING, 0));
    }
}
