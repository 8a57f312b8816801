//! From a configuration to its runtime parts: engines, SAs, policies, pipelines.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use convoy_config::inner_mtu::{inner_mtu, interface_mtu};
use convoy_config::{Config, EngineConfig, ManualKeys, MssLimit, TunnelConfig};
use convoy_dataplane::costs::{CostModels, Costs};
use convoy_dataplane::pipeline::{
    CryptoStage, EngineSet, Pipeline, PipelineResources, SaInstallError, StageConfig,
};
use convoy_engine::{CalibrationCache, Cost, Engine, EngineContext, EngineStart, ask_known, engine_versions};
use convoy_ipsec::{
    Action, Ipsec, IpsecConfig, MssClamp, Policy, PolicyDirection, PolicyRank, SaConfig, SaDirection,
    SaIndex, Selector, TunnelId, UdpEncap,
};
use convoy_packet::{FramePool, RegionError};
use convoy_reservation::SaStart;
use convoy_state::{Numbers, Pair, Started, Starts};
use rand::Rng;

use crate::change::{NewTunnel, Ranked};
use crate::choice::{self, choose, transforms};
use crate::ranks;

/// Why a gateway cannot be assembled.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// A requested engine is unavailable.
    #[error("engine {name}: {reason}")]
    Engine {
        /// Its name.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Every engine of a worker computed something wrongly.
    #[error("no engine of a worker passes its known answers; the messages above name what each got wrong")]
    NoEngine,
    /// DPDK does not start.
    #[error("{0}")]
    Dpdk(String),
    /// The scheduler or an engine refused.
    #[error(transparent)]
    Stage(#[from] convoy_dataplane::pipeline::StageError),
    /// An SA was refused.
    #[error("tunnel {tunnel}: {source}")]
    Tunnel {
        /// Its name.
        tunnel: String,
        /// Why.
        source: convoy_dataplane::pipeline::SaInstallError,
    },
    /// There is no packet memory for a worker's frames.
    #[error("no packet memory for worker {worker}: {source}")]
    Frames {
        /// Its number.
        worker: u16,
        /// Why.
        source: RegionError,
    },
}

/// The SAs of one tunnel, and their origin.
pub struct InstalledTunnel {
    /// The tunnel's configuration.
    pub config: TunnelConfig,
    /// The id by which policies refer to it.
    pub id: TunnelId,
    /// The rank of the first of its policies; the others follow.
    pub rank: u64,
    /// Its SAs with static keys at this worker: one pair of them if this worker serves it, and one
    /// for each of its other resources that is this worker's.
    pub pairs: Vec<Pair>,
}

impl InstalledTunnel {
    /// Its SAs with static keys at this worker.
    pub fn sas(&self) -> impl Iterator<Item = SaIndex> + '_ {
        self.pairs.iter().flat_map(|pair| pair.sas.iter().copied())
    }
}

/// An engine of the configuration, with everything open that needs privileges.
struct OpenEngine {
    name: String,
    /// The workers that it serves.
    workers: Range<u16>,
    start: EngineStart,
}

/// Engines with everything open that needs privileges.
pub struct OpenEngines(Vec<OpenEngine>);

impl OpenEngines {
    /// The engines that a configuration names. If it names none, nothing is open: engines chosen by
    /// the gateway need no privileges.
    ///
    /// # Errors
    /// [`AssembleError::Engine`] if one is unavailable.
    pub fn configured(config: &Config) -> Result<Self, AssembleError> {
        start_dpdk(config)?;
        Self::of(&config.engines, config.workers)
    }

    fn of(engines: &[EngineConfig], workers: u16) -> Result<Self, AssembleError> {
        let mut all = Vec::new();
        for engine in engines {
            let name = &engine.name;
            let start = engine.settings.open(name).map_err(|reason| missing(name, reason))?;
            all.push(OpenEngine { name: name.clone(), workers: engine.workers(workers), start });
        }
        Ok(Self(all))
    }
}

/// Starts DPDK while the process has its privileges, if the configuration uses it.
///
/// # Errors
/// [`AssembleError::Dpdk`] if it does not start.
pub fn start_dpdk(config: &Config) -> Result<(), AssembleError> {
    let engines = config.engines.iter().filter_map(|engine| engine.settings.dpdk_device());
    let ports = config.ports.iter().filter_map(|port| port.settings.dpdk_device());
    let devices: Vec<&str> = engines.chain(ports).collect();
    convoy_engine::start_dpdk(config.dpdk.as_deref(), &devices).map_err(AssembleError::Dpdk)
}

fn missing(name: &str, reason: String) -> AssembleError {
    AssembleError::Engine { name: name.to_owned(), reason }
}

/// The costs of engines on this machine, as far as its calibration cache has them.
pub fn costs() -> Costs {
    Costs::new(calibration_cache())
}

/// Opens the machine's calibration cache. Why a file is not used is only logged: what it lacks is
/// measured again.
pub fn calibration_cache() -> CalibrationCache {
    let (cache, warning) = CalibrationCache::open(CalibrationCache::default_path(), &engine_versions());
    if let Some(warning) = warning {
        tracing::warn!("{warning}");
    }
    cache
}

/// Creates the engines of each worker; if none is named, those that are useful here. An engine that
/// works on its caller's core is created for every worker. One with a thread or a device of its own
/// serves one worker, whose scheduler then knows the finishing time of its queue exactly, or has a
/// queue for each of several. The timing of modelled engines is fixed in `costs`; other costs for
/// the tunnels' transforms are measured on separate instances, unless known.
///
/// # Errors
/// [`AssembleError::Engine`] if one is unavailable.
pub fn engines(config: &Config, costs: &mut Costs) -> Result<Vec<Vec<Box<dyn Engine>>>, AssembleError> {
    start_engines(OpenEngines::configured(config)?, config, costs)
}

/// Like [`engines`], from those opened before.
///
/// # Errors
/// Those of [`engines`].
pub fn start_engines(
    open: OpenEngines,
    config: &Config,
    costs: &mut Costs,
) -> Result<Vec<Vec<Box<dyn Engine>>>, AssembleError> {
    let open = if config.engines.is_empty() {
        OpenEngines::of(&choose(config, costs), config.workers)?
    } else {
        open
    };
    let buses = config.buses.iter().map(|(name, bus)| (name.clone(), bus.timing()));
    let mut shared = EngineContext { buses: buses.collect(), ..EngineContext::default() };
    let mut engines: Vec<Vec<Box<dyn Engine>>> = (0..config.workers).map(|_| Vec::new()).collect();
    for OpenEngine { name, workers, start } in open.0 {
        let made = start(&mut shared, workers.len()).map_err(|reason| missing(&name, reason))?;
        let Some(description) = made.engines.first().map(|engine| engine.description()) else { continue };
        match made.cost {
            Cost::Stated(model, make) => {
                costs.set_fixed(&description.name, model);
                costs.measure_by(description, make);
            }
            Cost::Measured(make) => costs.measure_by(description, make),
        }
        for (worker, engine) in workers.zip(made.engines) {
            engines[usize::from(worker)].extend(trusted(engine));
        }
    }
    if engines.iter().any(Vec::is_empty) {
        return Err(AssembleError::NoEngine);
    }
    if config.verify_one_in > 0 {
        warn_of_unverified(&mut engines);
    }
    for transform in transforms(config) {
        costs.measure(transform);
    }
    Ok(engines)
}

/// An engine, unless it computes something wrongly: then nothing else that it computes is used.
fn trusted(mut engine: Box<dyn Engine>) -> Option<Box<dyn Engine>> {
    let supported = engine.description().transforms.clone();
    let asked = ask_known(engine.as_mut(), supported);
    asked.inspect_err(|error| tracing::error!("{error}: it is not used")).ok().map(|()| engine)
}

/// Warns if an engine computes packets that no other can compute again.
fn warn_of_unverified(engines: &mut [Vec<Box<dyn Engine>>]) {
    let is_here = |engine: &mut Box<dyn Engine>| engine.in_place().is_some();
    let here = engines
        .iter_mut()
        .map(|of_worker| of_worker.iter_mut().filter_map(|it| is_here(it).then_some(())).count());
    if here.min().is_some_and(|fewest| fewest < 2) {
        tracing::warn!(
            "verify_one_in: a worker has fewer than two engines on its core, so what its own engine computes is not computed again; \
             configure two, such as `software` and `multibuffer`"
        );
    }
}

/// One worker's pipeline, with these engines, all tunnels of the configuration, and the SAs of
/// those that it serves, each with its start.
///
/// # Errors
/// [`AssembleError`] names the engine or tunnel.
pub fn pipeline(
    config: &Config,
    worker: u16,
    engines: Vec<Box<dyn Engine>>,
    costs: &Costs,
    resources: impl Into<PipelineResources>,
    starts: &Starts,
) -> Result<(Pipeline, Vec<InstalledTunnel>), AssembleError> {
    let stage_config = StageConfig {
        ordered: config.ordered,
        window_ns: costs.window_ns(),
        verify_one_in: config.verify_one_in,
        ..StageConfig::new(config.scheduler.clone())
    };
    let mut resources = resources.into();
    let stage = CryptoStage::new(stage_config, EngineSet::new(engines), resources.clock.clone())?;
    let settings = ipsec_config(config, worker, resources.random.next_u64());
    let ipsec = Ipsec::among(settings, Arc::clone(&resources.directory));
    let (small, jumbo, huge) = resources.frames;
    let pool = FramePool::in_region(small, jumbo, huge)
        .map_err(|source| AssembleError::Frames { worker, source })?;
    let mut pipeline = Pipeline::new(ipsec, stage, pool, resources);
    let (mut installed, models) = (Vec::new(), costs.models());
    let mut policies = bypasses(config);
    let ranks = ranks::of(&config.tunnels);
    for (at, tunnel) in (0..).zip(Ranked { tunnels: &config.tunnels, ranks: &ranks }.new_tunnels()) {
        let (id, starts) = (TunnelId(at), starts.of(&tunnel.config));
        let tunnel = install(&mut pipeline, &tunnel, id, config, &models, starts)?;
        policies.extend(policies_of(config, &tunnel));
        installed.push(tunnel);
    }
    pipeline.ipsec_mut().change_own_policies(&[], policies);
    Ok((pipeline, installed))
}

fn ipsec_config(config: &Config, worker: u16, seed: u64) -> IpsecConfig {
    let inside = || config.ports.iter().filter(|port| !port.is_outside).flat_map(|port| &port.addresses);
    let outside = config.ports.iter().filter(|port| port.is_outside).flat_map(|port| &port.addresses);
    IpsecConfig {
        mtu: config.mtu,
        worker,
        inside_v4: inside().find_map(|(address, _)| match address {
            IpAddr::V4(v4) => Some(*v4),
            IpAddr::V6(_) => None,
        }),
        inside_v6: inside().find_map(|(address, _)| match address {
            IpAddr::V6(v6) => Some(*v6),
            IpAddr::V4(_) => None,
        }),
        outside: outside.map(|(address, _)| *address).collect(),
        natt_port: config.natt_port(),
        classes: config.classes,
        seed,
        acquire: config.charon.is_some(),
        check_icmp: config.check_icmp,
        mss_clamp: match config.mss_clamp {
            MssLimit::Off => MssClamp::Off,
            MssLimit::Auto => MssClamp::Auto(inside_mtus(config)),
            MssLimit::To(bytes) => MssClamp::To(bytes),
        },
        flow_cache: config.flow_cache,
        decrement_ttl: config.ports.iter().any(|port| !port.is_outside && port.settings.forwards()),
        ..IpsecConfig::default()
    }
}

/// The MTU of each inside interface, the shared one first.
fn inside_mtus(config: &Config) -> Vec<u16> {
    let own = config.interfaces.iter().map(|interface| interface_mtu(config, interface).bytes);
    std::iter::once(inner_mtu(config).bytes).chain(own).collect()
}

/// Installs a tunnel's SAs, if it has static keys and may start: the first pair at the worker that
/// serves it, each further one at the next worker. Its policies are not set.
///
/// # Errors
/// [`AssembleError::Tunnel`]; none of them is installed then.
pub fn install(
    pipeline: &mut Pipeline,
    tunnel: &NewTunnel,
    id: TunnelId,
    config: &Config,
    costs: &CostModels,
    started: Option<Vec<Started>>,
) -> Result<InstalledTunnel, AssembleError> {
    let NewTunnel { rank, config: tunnel } = tunnel;
    let mut installed = InstalledTunnel { config: tunnel.clone(), id, rank: *rank, pairs: Vec::new() };
    let worker = pipeline.ipsec().tables.worker();
    let pairs = tunnel.manual.iter().zip(started.unwrap_or_default()).enumerate();
    // In reverse, since the outbound SA that is installed last protects a worker's packets: of
    // several at one worker this is the first.
    for (resource, (keys, started)) in pairs.rev() {
        if worker_of(id, resource, config.workers) != worker {
            continue;
        }
        match install_pair(pipeline, tunnel, id, config, costs, keys, &started) {
            Ok(pair) => installed.pairs.push(pair),
            Err(source) => {
                installed.sas().for_each(|sa| pipeline.retire(sa));
                return Err(AssembleError::Tunnel { tunnel: tunnel.name.clone(), source });
            }
        }
    }
    Ok(installed)
}

/// The worker of a tunnel's resource.
fn worker_of(id: TunnelId, resource: usize, workers: u16) -> u16 {
    ((usize::from(id.owner(workers)) + resource) % usize::from(workers)) as u16
}

fn install_pair(
    pipeline: &mut Pipeline,
    tunnel: &TunnelConfig,
    id: TunnelId,
    config: &Config,
    costs: &CostModels,
    keys: &ManualKeys,
    started: &Started,
) -> Result<Pair, SaInstallError> {
    let mut sas = Vec::new();
    // Packets of several SAs to one peer are different flows to whatever spreads them on the way.
    let worker = pipeline.ipsec().tables.worker();
    let is_spread = config.workers > 1 && tunnel.manual.len() > 1;
    let sent_from = if is_spread { config.own_port(worker) } else { config.natt_port() };
    let ports = EspPorts { received_at: config.natt_port(), sent_from };
    for sa in pair_of(tunnel, id, keys, started, &ports) {
        match pipeline.install(&sa, &|engine, transform| costs.of(engine, transform)) {
            Ok(index) => sas.push(index),
            Err(error) => {
                sas.iter().for_each(|sa| pipeline.retire(*sa));
                return Err(error);
            }
        }
    }
    Ok(Pair { sas, numbers: Numbers::new(started) })
}

/// Our UDP ports of ESP in UDP.
#[derive(Clone, Copy, Debug)]
pub struct EspPorts {
    /// To which the peer sends.
    pub received_at: u16,
    /// From which packets leave.
    pub sent_from: u16,
}

/// The SAs of a tunnel's static keys, inbound first, so that the peer's first packet finds its SA.
pub fn pair_of(
    tunnel: &TunnelConfig,
    id: TunnelId,
    keys: &ManualKeys,
    started: &Started,
    ports: &EspPorts,
) -> [SaConfig; 2] {
    let SaStart { used, limits, iv_start } = started.start;
    let ways = [
        (SaDirection::Inbound, keys.spi_in, &keys.keys_in),
        (SaDirection::Outbound, keys.spi_out, &keys.keys_out),
    ];
    ways.map(|(direction, spi, material)| {
        let (sequence_start, sequence_reserved) = match direction {
            SaDirection::Inbound => (used.received, limits.accept),
            SaDirection::Outbound => (used.sent, limits.send),
        };
        let local_port = if direction == SaDirection::Outbound { ports.sent_from } else { ports.received_at };
        let encap = UdpEncap { local_port, remote_port: tunnel.remote_port };
        let base = SaConfig::new(spi, direction, tunnel.local, tunnel.remote, material.clone());
        SaConfig {
            protocol: tunnel.protocol,
            mode: tunnel.mode,
            roams: tunnel.roams,
            iptfs: tunnel.iptfs,
            encap: tunnel.is_encapsulated.then_some(encap),
            nat_keepalive: tunnel.nat_keepalive,
            esn: tunnel.esn,
            iv_start,
            sequence_start,
            sequence_reserved,
            replay_window: tunnel.replay_window,
            lifetime: tunnel.lifetime,
            dscp: tunnel.dscp,
            ecn: tunnel.ecn,
            df: tunnel.df,
            tfc_bytes: tunnel.tfc_bytes,
            tunnel: id,
            ..base
        }
    })
}

/// The policies of the bypasses, which come before those of all tunnels.
pub fn bypasses(config: &Config) -> Vec<(PolicyRank, Policy)> {
    let policy = |selector| Policy {
        name: "bypass".to_owned(),
        priority: 0,
        direction: PolicyDirection::Both,
        interface: 0,
        selector,
        action: Action::Bypass,
    };
    let selectors = config.bypass.iter().map(|(local, remote)| Selector { local: *local, remote: *remote });
    let can_match = selectors.filter(Selector::can_match);
    (0..).map(PolicyRank::own).zip(can_match.map(policy)).collect()
}

/// The policies of a tunnel. One with keys from charon has charon's.
pub fn policies_of(config: &Config, tunnel: &InstalledTunnel) -> Vec<(PolicyRank, Policy)> {
    let TunnelConfig { name, priority, interface, .. } = &tunnel.config;
    if !tunnel.config.has_static_keys() && config.charon.is_some() {
        return Vec::new();
    }
    // A reload has refused tunnels of interfaces that are not there.
    let Some(interface) = config.interface_number(interface.as_deref()) else { return Vec::new() };
    let policy = |selector| Policy {
        name: name.clone(),
        priority: *priority,
        direction: PolicyDirection::Both,
        interface,
        selector,
        action: Action::Protect(tunnel.id),
    };
    (tunnel.rank..).map(PolicyRank::own).zip(tunnel.config.selectors().map(policy)).collect()
}

/// The engines and costs of a gateway that is not running, in a line.
///
/// # Errors
/// [`AssembleError::Engine`] if an engine that the configuration names is unavailable.
pub fn overview(config: &Config) -> Result<String, AssembleError> {
    let mut costs = costs();
    let engines = engines(config, &mut costs)?;
    Ok(choice::summary(config, &engines, &costs))
}

#[cfg(test)]
mod tests {
    use convoy_engine::{FaultPlan, Faulty, InjectedFault, Software};

    use super::*;

    #[test]
    fn engine_that_flips_a_bit_is_left_out_before_its_first_packet() {
        let faulty = |plan| Box::new(Faulty::new(Box::new(Software::new("faulty")), plan));
        assert!(trusted(faulty(FaultPlan::none())).is_some());
        for good_trains in [0, 1, 100] {
            assert!(trusted(faulty(FaultPlan::once(InjectedFault::Wrong, good_trains))).is_none());
        }
        assert!(trusted(faulty(FaultPlan::once(InjectedFault::Hang, 0))).is_none());
    }
}
