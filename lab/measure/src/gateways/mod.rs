//! Gateways of this process between the tester's ends: two joined by a `memory` link, or a single
//! one.

mod one;
mod relay;
mod running;
mod sites;
mod threads;

use std::ops::RangeInclusive;

use convoy_assembly::assemble;
use convoy_config::Config;
use convoy_dataplane::clock::{Clock, VirtualTime};
use convoy_dataplane::costs::Costs;
use convoy_dataplane::pipeline::PipelineResources;
use convoy_dataplane::worker::Worker;
use convoy_port::Port;
use convoy_port::memory::{self, Memory};
use convoy_state::Starts;
use nix::unistd::Pid;
use serde::Serialize;

pub use one::Scheme;
use relay::Relay;
use running::Running;
pub use running::Utilisation;
pub use sites::Service;
pub(crate) use sites::site;
use threads::CoreTime;
pub use threads::{Role, ThreadCost, Waiting, rate_on_own_cores};

use crate::cores::{self, Pinned};
use crate::device::{DeviceOutcome, DeviceTrial, DeviceUnderTest, MeasureError};
use crate::family::{Families, Family};
use crate::flow::Flow;
use crate::tester::{End, Tester, Time};

/// Capacity of each link in packets, per direction: the usual default of a network card's ring.
const LINK_PACKETS: usize = 1024;
/// MTU of the links in bytes.
const LINK_MTU: usize = 9200;
/// Seed of the simulation's random numbers.
const SEED: u64 = 1;

/// The cores on which the parts of a measurement run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// The tester's core.
    pub tester: usize,
    /// The first gateway's core.
    pub first: usize,
    /// The second gateway's core; `None` if it takes turns with the tester on the tester's thread.
    pub second: Option<usize>,
    /// Core of engines with a thread of their own; where the machine has too few, that of other
    /// parts of the gateway, so that the tester has a core to itself.
    pub engine: usize,
    /// Core of packet I/O with a thread of its own; may be shared likewise.
    pub io: usize,
}

impl Placement {
    /// A placement on these cores. With only one core, all parts share it.
    pub fn on(cores: &[usize]) -> Self {
        let core = |at: usize| cores.get(at).copied();
        let tester = core(0).unwrap_or(0);
        let first = core(1).unwrap_or(tester);
        let engine = core(3).or(core(2)).unwrap_or(first);
        Self { tester, first, second: core(2), engine, io: core(4).or(core(2)).unwrap_or(first) }
    }

    /// A placement on the cores that this process may use.
    pub fn here() -> Self {
        Self::on(&cores::allowed())
    }

    /// Whether the engine and the packet I/O can have a core each, apart from those of the gateway
    /// and the tester.
    pub fn has_cores_apart(&self) -> bool {
        let mut all = [self.tester, self.first, self.engine, self.io];
        all.sort_unstable();
        all.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// How the threads of a gateway in a [`Scheme`] wait: where any two of them might share a core,
    /// all sleep, in every scheme, so that the schemes differ in nothing else.
    pub fn waiting(&self) -> Waiting {
        if self.has_cores_apart() { Waiting::Polls } else { Waiting::Sleeps }
    }
}

/// Configuration of two gateways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayPair {
    /// What they do with packets.
    pub service: Service,
    /// Number of tunnels between them, one per host, with one SA per direction each.
    pub tunnels: u16,
    /// Address families of the packets.
    pub families: Families,
    /// The `[[engine]]` tables of both; if empty, each selects engines by calibration.
    pub engine: String,
    /// Cores on which they run.
    pub placement: Placement,
}

impl GatewayPair {
    /// Both gateways with default engines and cores.
    pub fn of(service: Service) -> Self {
        let (families, placement) = (Families::default(), Placement::here());
        Self { service, tunnels: 1, families, engine: String::new(), placement }
    }

    fn configs(&self) -> Result<[Config; 2], MeasureError> {
        let of = |number| site(&self.service, self.tunnels, self.families, &self.engine, number);
        Ok([of(1)?, of(2)?])
    }

    /// Starts both gateways on threads of their own, with a tester at their outer ends.
    ///
    /// # Errors
    /// [`MeasureError`] if something needed is not available.
    pub fn start(&self) -> Result<Gateways, MeasureError> {
        let mut costs = assemble::costs();
        let ([first, second], ends) = self.assemble(&mut costs, &mut || Clock::start().into())?;
        let placement = &self.placement;
        let running = vec![Running::start(first, placement.first, Waiting::Polls)?];
        let mut gateways = Gateways::new(self.tester(ends, Time::machine())?, running, placement.tester);
        match placement.second {
            Some(core) => gateways.running.push(Running::start(second, core, Waiting::Polls)?),
            None => return Ok(gateways.with_turns(vec![second])),
        }
        Ok(gateways)
    }

    /// Sets up both gateways on the tester's thread and in virtual time, so that runs are
    /// reproducible.
    ///
    /// # Errors
    /// [`MeasureError`] if something needed is not available.
    pub fn simulated(&self) -> Result<Gateways, MeasureError> {
        let time = VirtualTime::new();
        let mut resources = || PipelineResources::simulated(&time, SEED);
        let (workers, ends) = self.assemble(&mut Costs::without_cache(), &mut resources)?;
        let tester = self.tester(ends, Time::Virtual(time.clone()))?;
        Ok(Gateways::new(tester, Vec::new(), self.placement.tester).with_turns(workers.into()))
    }
}

/// From a host at the first site to hosts at the second.
pub(crate) fn flow(family: Family, hosts: u16) -> Flow {
    let address = |text: &str| text.parse().expect("an address and a port");
    let (from, to) = match family {
        Family::V4 => ("10.1.0.9:9000", "10.2.0.1:9000"),
        Family::V6 => ("[fd00:1::9]:9000", "[fd00:2::1]:9000"),
    };
    Flow { from: address(from), to: address(to), hosts }
}

fn worker(
    config: &Config,
    costs: &mut Costs,
    resources: PipelineResources,
    inside: Box<dyn Port>,
    outside: Box<dyn Port>,
) -> Result<Worker, MeasureError> {
    let failed = |error: assemble::AssembleError| MeasureError::Gateway(error.to_string());
    let engines = assemble::engines(config, costs).map_err(failed)?.pop().unwrap_or_default();
    let beginnings = &Starts::Unlimited;
    let (pipeline, _) =
        assemble::pipeline(config, 0, engines, costs, resources, beginnings).map_err(failed)?;
    Ok(Worker::new(pipeline, vec![inside], vec![outside]))
}

impl GatewayPair {
    fn assemble(
        &self,
        costs: &mut Costs,
        resources: &mut dyn FnMut() -> PipelineResources,
    ) -> Result<([Worker; 2], [Memory; 2]), MeasureError> {
        let (near, inside_first) = memory::link("near", "inside", LINK_PACKETS, LINK_MTU);
        let (outside_first, outside_second) = memory::link("outside", "outside", LINK_PACKETS, LINK_MTU);
        let (inside_second, far) = memory::link("inside", "far", LINK_PACKETS, LINK_MTU);
        let mut worker = |config: &Config, inside: Memory, outside: Memory| {
            worker(config, costs, resources(), Box::new(inside), Box::new(outside))
        };
        let [first, second] = self.configs()?;
        let workers =
            [worker(&first, inside_first, outside_first)?, worker(&second, inside_second, outside_second)?];
        Ok((workers, [near, far]))
    }

    fn tester(&self, [near, far]: [Memory; 2], time: Time) -> Result<Tester, MeasureError> {
        let flow = flow(self.families.inner, self.tunnels);
        Ok(Tester::new([End::new(Box::new(near))?, End::new(Box::new(far))?], flow, time))
    }
}

/// Gateways under test.
pub struct Gateways {
    tester: Tester,
    running: Vec<Running>,
    /// The tester's core, which the tester's thread is pinned to during a trial.
    tester_core: usize,
    /// The thread of packet I/O, if separate; declared last, since it must end after the gateway.
    relay: Option<Relay>,
    /// The thread of cryptography, if separate.
    crypto: Option<Pid>,
}

impl Gateways {
    fn new(tester: Tester, running: Vec<Running>, tester_core: usize) -> Self {
        Self { tester, running, tester_core, relay: None, crypto: None }
    }

    /// Runs gateways on the tester's thread, in turns with the tester.
    fn with_turns(self, mut workers: Vec<Worker>) -> Self {
        let drive = move || {
            for worker in &mut workers {
                worker.round(true)?;
            }
            Ok(())
        };
        Self { tester: self.tester.driving(drive), ..self }
    }

    /// How busy the first gateway was since the last call, if it has a thread of its own.
    pub fn utilisation(&mut self) -> Option<Utilisation> {
        self.running.first_mut().map(Running::utilisation)
    }

    /// The threads of the first gateway, of which each has a role.
    fn threads(&self) -> impl Iterator<Item = (Role, Pid)> {
        let worker = self.running.first().map(|running| (Role::Worker, running.id()));
        let io = self.relay.as_ref().map(|relay| (Role::PacketIo, relay.id()));
        let crypto = self.crypto.map(|thread| (Role::Cryptography, thread));
        [worker, io, crypto].into_iter().flatten()
    }

    /// Runs a trial, and returns the CPU time of each thread of the first gateway for a packet that
    /// arrived, and for how long it waited for a core; nothing if no packet arrived, or if the
    /// kernel does not count these times. The CPU time is that of the packets only where the
    /// threads [sleep](Waiting::Sleeps).
    ///
    /// # Errors
    /// [`MeasureError`] if the trial could not be run.
    pub fn cost(&mut self, trial: &DeviceTrial) -> Result<Vec<ThreadCost>, MeasureError> {
        let threads: Vec<(Role, Pid)> = self.threads().collect();
        let so_far = || threads.iter().map(|(_, id)| CoreTime::of(*id)).collect::<Option<Vec<_>>>();
        let before = so_far();
        let received = self.trial(trial)?.received;
        let (Some(before), Some(after)) = (before, so_far()) else { return Ok(Vec::new()) };
        if received == 0 {
            return Ok(Vec::new());
        }
        let taken = before.into_iter().zip(after).map(|(before, after)| after.since(before));
        let costs = threads.iter().zip(taken).map(|((role, _), taken)| taken.cost(*role, received));
        Ok(costs.collect())
    }

    /// Kernel thread ID of the first gateway, if it has a thread of its own.
    pub(crate) fn thread_id(&self) -> Option<Pid> {
        self.running.first().map(Running::id)
    }
}

impl DeviceUnderTest for Gateways {
    fn trial(&mut self, trial: &DeviceTrial) -> Result<DeviceOutcome, MeasureError> {
        let _pinned = (!self.running.is_empty()).then(|| Pinned::to(self.tester_core));
        let outcome = self.tester.trial(trial)?;
        self.running.iter().try_for_each(Running::check)?;
        if self.relay.as_ref().is_some_and(Relay::has_ended) {
            return Err(MeasureError::Gateway("its packet I/O has ended".to_owned()));
        }
        Ok(outcome)
    }

    fn packet_bytes(&self) -> RangeInclusive<u16> {
        self.tester.packet_bytes()
    }
}
