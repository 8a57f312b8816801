//! A port's card as an engine: packets submitted to it are sealed as they leave by that port
//! (docs/lab/card.md, "In a gateway").

use std::collections::HashMap;
use std::task::Waker;

use convoy_card::nic::{NicControl, OWN_PLACES};
use convoy_card::{Inbound, Sa};
use convoy_ipsec::{CryptoPacket, CryptoStatus, Direction, KeyMaterial, SaIndex};
use convoy_packet::Offload;
use zeroize::Zeroize;

use super::CardEngineSettings;
use super::lookaside::SLACK_NS;
use super::{clock, esp};
use convoy_engine::KeyTable;
use convoy_engine::{
    Binding, Completion, EngineControl, EngineDescription, EngineError, EngineKind, EngineQueue, Outcome,
    Placement, Refused, Submission, Takes,
};

/// An SA installed in the card.
struct Bound {
    /// The SA's number at the card. No other SA ever gets it, so that a late packet never meets
    /// another SA's keys.
    number: u32,
    direction: Direction,
    /// Without keys, which tagging a packet does not need.
    shape: Sa,
}

/// The card behind a port, inline. It works only for SAs bound to it, so it names no transforms.
pub struct CardInFlight {
    description: EngineDescription,
    control: NicControl,
    bound: HashMap<u32, Bound>,
    /// Their indices, by the card's number.
    indices: HashMap<u32, SaIndex>,
    next_number: u32,
    /// For packets that leave in fragments, or are no ESP in the card's format.
    reference: KeyTable,
    done: Vec<Completion>,
}

impl CardInFlight {
    /// The engine of a port whose card is `control`; it has the port's name.
    pub fn new(port: &str, control: NicControl) -> Self {
        let description = EngineDescription {
            name: port.to_owned(),
            kind: EngineKind::of::<CardEngineSettings>(),
            device: None,
            placement: Placement::Inline,
            transforms: Vec::new(),
            depth: 0,
            gathers: 1,
            is_model: true,
            needs_input_kept: false,
            takes: Takes::MultiPackets,
            slack_ns: SLACK_NS,
        };
        Self {
            description,
            control,
            bound: HashMap::new(),
            indices: HashMap::new(),
            next_number: 0,
            reference: KeyTable::default(),
            done: Vec::new(),
        }
    }

    /// Its cost per multi-packet and per block of 16 bytes, in ns of the card's time.
    pub fn cost_ns() -> (f64, f64) {
        clock::in_flight()
    }

    /// Tags a packet for its departure. One that the card could not seal is sealed here.
    fn tag(&self, sa: SaIndex, bound: &Bound, packet: &mut CryptoPacket) {
        let is_whole = !packet.leaves_in_pieces();
        let fits = is_whole.then(|| esp::in_flight(&bound.shape, packet)).flatten();
        let Some((esp_start, seq_high)) = fits else {
            if let Some(reference) = self.reference.get(sa) {
                reference.run(Direction::Seal, std::slice::from_mut(packet));
            }
            return;
        };
        packet.frame.set_offload(Offload::Seal { sa: bound.number, esp_start, seq_high });
        packet.status = CryptoStatus::Done;
    }
}

impl EngineControl for CardInFlight {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, _sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        let engine = self.description.name.clone();
        Err(EngineError::Unsupported { engine, transform: keys.transform() })
    }

    fn bind(&mut self, sa: SaIndex, binding: Binding, keys: &KeyMaterial) -> bool {
        let Some(made) = esp::sa(keys) else { return false };
        let inbound = match binding.direction {
            Direction::Seal => None,
            Direction::Open => Some(Inbound { spi: binding.spi.to_be_bytes(), is_tunnel: binding.is_tunnel }),
        };
        let mut shape = made.clone();
        shape.key.zeroize();
        shape.auth_key.zeroize();
        let number = self.next_number;
        let is_taken = self.reference.install(&self.description.name, sa, keys).is_ok()
            && self.control.install(number, made, inbound).is_ok();
        if is_taken {
            self.next_number = number.wrapping_add(1);
            self.bound.insert(sa.0, Bound { number, direction: binding.direction, shape });
            self.indices.insert(number, sa);
        } else {
            self.reference.remove(sa);
        }
        is_taken
    }

    fn bound(&self, number: u32) -> Option<SaIndex> {
        self.indices.get(&number).copied()
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.reference.remove(sa);
        if let Some(bound) = self.bound.remove(&sa.0) {
            self.indices.remove(&bound.number);
            self.control.remove(bound.number);
        }
    }
}

impl EngineQueue for CardInFlight {
    fn submit(&mut self, mut submission: Submission) -> Result<(), Box<Refused>> {
        let (sa, direction) = (submission.sa, submission.direction);
        let sealing = self
            .bound
            .get(&sa.0)
            .filter(|bound| (bound.direction, direction) == (Direction::Seal, Direction::Seal));
        let Some(bound) = sealing else {
            return Err(self.description.refuse_unkeyed(submission));
        };
        // The port submits nothing more to the card: further packets gather in the window.
        if self.control.room() <= OWN_PLACES {
            let reason = EngineError::NoRoom(self.description.name.clone());
            return Err(Box::new(Refused { submission, reason }));
        }
        let mut blocks = 0;
        for packet in &mut submission.packets {
            blocks += packet.job.blocks();
            self.tag(sa, bound, packet);
        }
        let (t_init, t_block) = clock::in_flight();
        let service_ns = Some((t_init + t_block * f64::from(blocks)) as u64);
        self.done.push(Completion { submission, outcome: Outcome::Done, service_ns });
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn wake_by(&mut self, _: &Waker) -> bool {
        true
    }
}
