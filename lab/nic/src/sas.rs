//! The SAs of the interface, each at the card or, if that cannot have it, in software.

use std::collections::HashSet;

use convoy_card::nic::NicControl;
use convoy_devices::card_engine::CardInFlight;
use convoy_engine::{Binding, Completion, EngineControl, EngineError, EngineQueue, Software, Submission};
use convoy_ipsec::{CryptoPacket, Direction, Mode, SaConfig, SaDirection, SaIndex};

/// The two engines.
pub(crate) struct Engines {
    card: CardInFlight,
    software: Software,
    at_card: HashSet<SaIndex>,
    done: Vec<Completion>,
    /// Packets that the software has processed.
    pub(crate) by_software: u64,
}

impl Engines {
    pub(crate) fn new(control: NicControl) -> Self {
        Self {
            card: CardInFlight::new("card", control),
            software: Software::new("software"),
            at_card: HashSet::new(),
            done: Vec::new(),
            by_software: 0,
        }
    }

    /// Has an SA processed; whether by the card.
    ///
    /// # Errors
    /// [`EngineError`] if no engine supports it.
    pub(crate) fn install(&mut self, index: SaIndex, sa: &SaConfig) -> Result<bool, EngineError> {
        // Also for packets that come to the host as they were, such as fragments.
        self.software.install_key(index, &sa.keys)?;
        let direction = match sa.direction {
            SaDirection::Outbound => Direction::Seal,
            SaDirection::Inbound => Direction::Open,
        };
        let binding = Binding { direction, spi: sa.spi, is_tunnel: sa.mode == Mode::Tunnel };
        // The card does not know the upper half of an inbound packet's sequence number.
        let fits = direction == Direction::Seal || !sa.esn;
        let is_taken = fits && self.card.bind(index, binding, &sa.keys);
        if is_taken {
            self.at_card.insert(index);
        }
        Ok(is_taken)
    }

    pub(crate) fn remove(&mut self, index: SaIndex) {
        self.software.remove_key(index);
        self.card.remove_key(index);
        self.at_card.remove(&index);
    }

    /// The SA of a number of the card's.
    pub(crate) fn bound(&self, number: u32) -> Option<SaIndex> {
        self.card.bound(number)
    }

    /// Processes a packet, or marks it for the card. What no engine has accepted stays pending.
    pub(crate) fn process(&mut self, packet: CryptoPacket) -> Option<CryptoPacket> {
        let Self { card, software, at_card, done, by_software } = self;
        let (sa, direction) = (packet.sa, packet.direction);
        let submission = Submission::new(0, sa, direction, vec![packet]);
        let is_the_card_s = direction == Direction::Seal && at_card.contains(&sa);
        let queue: &mut dyn EngineQueue = if is_the_card_s { card } else { software };
        *by_software += u64::from(!is_the_card_s);
        if let Err(refused) = queue.submit(submission) {
            return refused.submission.packets.into_iter().next();
        }
        queue.poll(done);
        done.drain(..).flat_map(|completion| completion.submission.packets).next()
    }
}
