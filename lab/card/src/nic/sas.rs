//! The installed SAs, their places in the caches, and the functions that they need in the slots.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::cache::Cache;
use crate::command::{CommandDirection, Operation, Pipeline};
use crate::error::CardError;
use crate::filter::FilterTable;
use crate::sa::{Algorithm, Inbound, SA_BYTES, Sa};
use crate::signature::SignatureTable;

/// A command that waits for room in the transmit ring.
pub(super) struct Order {
    pub(super) pipeline: Pipeline,
    pub(super) operation: Operation,
    pub(super) place: u8,
    pub(super) body: OrderBody,
    pub(super) effect: Effect,
}

/// What follows a command's prefix.
pub(super) enum OrderBody {
    None,
    Sa(Zeroizing<[u8; SA_BYTES]>),
    Table(Vec<u8>),
}

impl OrderBody {
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Sa(body) => &body[..],
            Self::Table(body) => body,
        }
    }
}

/// What is so once a command is done.
pub(super) enum Effect {
    /// The slot has its function, or memory its page.
    Loaded,
    /// The place in the cache has the SA of this number, or none.
    Placed(u8, Option<u32>),
    /// The table is in force.
    Filter(Arc<FilterTable>),
    /// So are these signatures.
    Signatures(Arc<SignatureTable>),
}

/// A slot's function, and the number of SAs that use it.
#[derive(Clone, Copy, Default)]
struct SaSlot {
    function: u8,
    users: usize,
}

/// An installed SA; inbound if it has an SPI.
pub(super) struct SaEntry {
    pub(super) sa: Sa,
    pub(super) inbound: Option<Inbound>,
}

impl SaEntry {
    fn pipeline(&self) -> Pipeline {
        self.inbound.map_or(CommandDirection::Seal, |_| CommandDirection::Open).pipeline()
    }
}

/// All installed SAs, and the commands that bring the card to the same state.
pub(super) struct Sas {
    built: [u16; 2],
    slots: [SaSlot; 2],
    entries: HashMap<u32, SaEntry>,
    /// X1's cache. An outbound SA is loaded with its first packet.
    sealing: Cache,
    /// X2's cache. The place of an inbound SA is given by its SPI ([`Inbound::place`]), since the
    /// card only looks there.
    opening: [Option<u32>; 256],
    pub(super) orders: VecDeque<Order>,
}

impl Sas {
    pub(super) fn new(built: [u16; 2]) -> Self {
        Self {
            built,
            slots: [SaSlot::default(); 2],
            entries: HashMap::new(),
            sealing: Cache::default(),
            opening: [None; 256],
            orders: VecDeque::new(),
        }
    }

    pub(super) fn get(&self, number: u32) -> Option<&SaEntry> {
        self.entries.get(&number)
    }

    /// The function for an algorithm. While other SAs use the slot, only its present function is
    /// possible.
    fn function(&self, pipeline: Pipeline, algorithm: Algorithm) -> Option<u8> {
        let slot = self.slots[pipeline as usize];
        let function = algorithm.function(self.built[pipeline as usize], slot.function)?;
        (slot.users == 0 || function == slot.function).then_some(function)
    }

    /// Installs an SA, replacing an earlier one with this number.
    pub(super) fn install(&mut self, number: u32, sa: Sa, inbound: Option<Inbound>) -> Result<(), CardError> {
        self.remove(number);
        let entry = SaEntry { sa, inbound };
        let pipeline = entry.pipeline();
        let function = self.function(pipeline, entry.sa.algorithm).filter(|_| entry.sa.is_fit());
        let function = function.ok_or(CardError::Unfit)?;
        let is_taken =
            |inbound: Inbound| inbound.spi == [0; 4] || self.opening[usize::from(inbound.place())].is_some();
        if inbound.is_some_and(is_taken) {
            return Err(CardError::Unfit);
        }
        let slot = &mut self.slots[pipeline as usize];
        slot.users += 1;
        if slot.function != function {
            slot.function = function;
            self.order(pipeline, Operation::SlotLoad(function), 0);
        }
        if let Some(inbound) = inbound {
            self.opening[usize::from(inbound.place())] = Some(number);
            self.order_inbound(number, &entry.sa, inbound);
        }
        self.entries.insert(number, entry);
        Ok(())
    }

    pub(super) fn remove(&mut self, number: u32) {
        let Some(entry) = self.entries.remove(&number) else { return };
        let pipeline = entry.pipeline();
        self.slots[pipeline as usize].users -= 1;
        let places = match entry.inbound {
            Some(inbound) => {
                self.opening[usize::from(inbound.place())] = None;
                vec![inbound.place()]
            }
            None => self.sealing.remove(number),
        };
        for place in places {
            self.order(pipeline, Operation::SaRemove, place);
        }
    }

    /// The place in X1's cache for a packet of an outbound SA, and the command that loads the SA if
    /// it is not cached.
    pub(super) fn place(&mut self, number: u32, is_esn: bool) -> Option<(u8, Option<Order>)> {
        let entry = self.entries.get(&number).filter(|entry| entry.inbound.is_none())?;
        let name = (number, is_esn);
        if let Some(place) = self.sealing.find(name) {
            return Some((place, None));
        }
        let place = self.sealing.place(name);
        let body = OrderBody::Sa(entry.sa.body(is_esn, None));
        let (pipeline, operation) = (Pipeline::X1, Operation::SaInstall);
        let effect = Effect::Placed(place, Some(number));
        Some((place, Some(Order { pipeline, operation, place, body, effect })))
    }

    /// Whether the SA is cached, so that [`Self::place`] needs no command.
    pub(super) fn is_at_hand(&mut self, number: u32, is_esn: bool) -> bool {
        self.sealing.find((number, is_esn)).is_some()
    }

    /// Reloads the functions and SAs after a reset of the card.
    pub(super) fn restore(&mut self) {
        self.orders.clear();
        self.sealing = Cache::default();
        for pipeline in [Pipeline::X1, Pipeline::X2] {
            let slot = self.slots[pipeline as usize];
            if slot.users != 0 {
                self.order(pipeline, Operation::SlotLoad(slot.function), 0);
            } else {
                self.slots[pipeline as usize].function = 0;
            }
        }
        let entries = std::mem::take(&mut self.entries);
        for (number, entry) in &entries {
            if let Some(inbound) = entry.inbound {
                self.order_inbound(*number, &entry.sa, inbound);
            }
        }
        self.entries = entries;
    }

    fn order(&mut self, pipeline: Pipeline, operation: Operation, place: u8) {
        let effect = match operation {
            Operation::SlotLoad(_) => Effect::Loaded,
            _ => Effect::Placed(place, None),
        };
        self.orders.push_back(Order { pipeline, operation, place, body: OrderBody::None, effect });
    }

    fn order_inbound(&mut self, number: u32, sa: &Sa, inbound: Inbound) {
        let body = OrderBody::Sa(sa.body(false, Some(inbound)));
        let (pipeline, operation, place) = (Pipeline::X2, Operation::SaInstall, inbound.place());
        let effect = Effect::Placed(place, Some(number));
        self.orders.push_back(Order { pipeline, operation, place, body, effect });
    }
}
