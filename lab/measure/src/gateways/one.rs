//! A single gateway between two links of UDP sockets, in one of the four schemes of the IXP425
//! paper (figure 6).

use std::time::Duration;

use convoy_assembly::assemble;
use convoy_dataplane::clock::Clock;
use convoy_port::{Port, memory};
use serde::Serialize;

use super::relay::Relay;
use super::running::Running;
use super::sites::{Service, site};
use super::threads::latest_named;
use super::{Gateways, LINK_MTU, LINK_PACKETS, Placement, Waiting, flow, worker};
use crate::device::MeasureError;
use crate::family::{Families, Family};
use crate::sockets::UdpEnd;
use crate::stream::Reads;
use crate::tester::{End, Tester, Time};

/// Longest time that a packet may spend in such a gateway, even where its threads share a core.
const QUIET: Duration = Duration::from_millis(60);

/// Name of the engine with a thread of its own, and so of that thread.
const APART: &str = "apart";

/// Which work is moved off the gateway's worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Scheme {
    /// Packet I/O has a thread of its own; otherwise the worker makes the system calls.
    pub is_io_apart: bool,
    /// Cryptography has an engine on a core of its own; otherwise the worker does it.
    pub is_crypto_apart: bool,
}

impl Scheme {
    /// The four schemes in the paper's order.
    pub const ALL: [Self; 4] = [
        Self { is_io_apart: false, is_crypto_apart: false },
        Self { is_io_apart: true, is_crypto_apart: false },
        Self { is_io_apart: false, is_crypto_apart: true },
        Self { is_io_apart: true, is_crypto_apart: true },
    ];

    /// What is moved off the worker's core.
    pub fn name(&self) -> &'static str {
        match (self.is_io_apart, self.is_crypto_apart) {
            (false, false) => "none",
            (true, false) => "packet I/O",
            (false, true) => "cryptography",
            (true, true) => "both",
        }
    }

    /// The `[[engine]]` tables of a gateway in this scheme.
    fn engines(&self, core: usize, waiting: Waiting) -> String {
        let is_shared = waiting == Waiting::Sleeps;
        let apart = format!(
            "[[engine]]\nname = \"{APART}\"\nkind = \"multibuffer\"\ncore = {core}\ncore_is_shared = {is_shared}\n"
        );
        // Without engines in its configuration, the gateway selects the fastest one on the worker's
        // core by calibration.
        if self.is_crypto_apart { apart } else { String::new() }
    }

    /// Starts a gateway in this scheme, between the ends of a tester; `waiting` is what its threads
    /// do without work.
    ///
    /// # Errors
    /// [`MeasureError`] if something needed is not available, for example an engine with a core of
    /// its own that supports the cipher.
    pub fn start(
        &self,
        service: &Service,
        placement: &Placement,
        waiting: Waiting,
    ) -> Result<Gateways, MeasureError> {
        let engines = self.engines(placement.engine, waiting);
        let config = site(service, 1, Families::default(), &engines, 1)?;
        let [near, inside] = UdpEnd::wire()?;
        let [far, outside] = UdpEnd::wire()?;
        let (inside, outside, relay) = if self.is_io_apart {
            let (inside_ring, worker_inside) = memory::link("inside", "inside", LINK_PACKETS, LINK_MTU);
            let (outside_ring, worker_outside) = memory::link("outside", "outside", LINK_PACKETS, LINK_MTU);
            let boxed =
                |wire: UdpEnd, ring| (Box::new(wire) as Box<dyn Port>, Box::new(ring) as Box<dyn Port>);
            let joints = vec![boxed(inside, inside_ring), boxed(outside, outside_ring)];
            let relay = Relay::start(joints, placement.io, waiting)?;
            (Box::new(worker_inside) as Box<dyn Port>, Box::new(worker_outside) as Box<dyn Port>, Some(relay))
        } else {
            (Box::new(inside) as Box<dyn Port>, Box::new(outside) as Box<dyn Port>, None)
        };
        let mut costs = assemble::costs();
        let worker = worker(&config, &mut costs, Clock::start().into(), inside, outside)?;
        // Otherwise each of many gateways would calibrate the engines again.
        costs.save();
        // Ends the engine that was calibrated, whose thread has the name of the gateway's.
        drop(costs);
        let reads = if *service == Service::Forward { Reads::Stamps } else { Reads::EspNumbers };
        let ends = [End::new(Box::new(near))?, End::new(Box::new(far))?.reading(reads)];
        let tester = Tester::new(ends, flow(Family::V4, 1), Time::machine()).waiting(QUIET);
        let running = vec![Running::start(worker, placement.first, waiting)?];
        let crypto = if self.is_crypto_apart { latest_named(APART) } else { None };
        Ok(Gateways { relay, crypto, ..Gateways::new(tester, running, placement.tester) })
    }
}
