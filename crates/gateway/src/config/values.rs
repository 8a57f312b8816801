//! From what the file says to what it means: every value checked, every error kept.

use std::path::PathBuf;

use convoy_port::PortKind;

use super::checker::Checker;
use super::engine::{buses, buses_are_used, engines};
use super::error::{ConfigErrors, Problem, Source};
use super::file::File;
use super::port::{names_are_no_engine_s, others_have_one_queue, port, ports_fit};
use super::scheduler::scheduler;
use super::tunnel::{spis_differ, tunnel};
use super::{Config, PortConfig};
use crate::handover::MAX_WORKERS;

/// Checks a whole file. `problems` are those that its reader had.
pub(super) fn check(file: File, problems: Vec<Problem>, source: &Source<'_>) -> Result<Config, ConfigErrors> {
    let is_whole = problems.is_empty();
    let mut checker = Checker::new(source, problems);
    let c = &mut checker;
    c.unique(file.tunnel.iter().map(|tunnel| &tunnel.name), "tunnel.name");
    c.unique(file.port.iter().map(|port| &port.name), "port.name");
    c.unique(file.bus.iter().map(|bus| &bus.name), "bus.name");
    spis_differ(c, &file.tunnel);
    let ports: Vec<PortConfig> = file.port.iter().filter_map(|entry| port(c, entry)).collect();
    if is_whole && ports.len() == file.port.len() {
        ports_fit(c, &file.port, &ports);
    }
    let buses = buses(c, &file.bus);
    if is_whole {
        buses_are_used(c, &file);
    }
    let (scheduler, classes) = scheduler(c, &file.scheduler);
    let allow_weak = file.gateway.allow_weak;
    let workers = c.in_range(file.gateway.workers.as_ref(), "gateway.workers", 1, (1, MAX_WORKERS));
    others_have_one_queue(c, &file, workers);
    let engines = engines(c, &file.engine, &buses, workers);
    names_are_no_engine_s(c, &file.port, &engines);
    let config = Config {
        charon: charon(c, &file, &ports),
        control: file.gateway.control.into(),
        allow_weak,
        check_icmp: file.gateway.check_icmp,
        metrics: file.gateway.metrics.as_ref().and_then(|text| c.read(text, "gateway.metrics")),
        workers,
        mtu: c.in_range(file.gateway.mtu.as_ref(), "gateway.mtu", 1500, (576, 9400)),
        scheduler,
        classes,
        ordered: c.one_of(
            file.scheduler.order.as_ref(),
            "scheduler.order",
            &[("per-sa", true), ("none", false)],
        ),
        engines,
        buses,
        tunnels: file.tunnel.into_iter().filter_map(|entry| tunnel(c, entry, &ports, allow_weak)).collect(),
        ports,
        bypass: file
            .bypass
            .iter()
            .filter_map(|entry| {
                let local = c.read(&entry.local_ts, "bypass.local_ts");
                local.zip(c.read(&entry.remote_ts, "bypass.remote_ts"))
            })
            .collect(),
    };
    if checker.problems.is_empty() { Ok(config) } else { Err(ConfigErrors(checker.problems)) }
}

/// IKE travels in UDP.
fn charon(c: &mut Checker<'_>, file: &File, ports: &[PortConfig]) -> Option<PathBuf> {
    let text = file.gateway.charon.as_ref()?;
    let has_udp = ports.iter().any(|port| port.is_outside && port.kind == PortKind::Udp);
    if !has_udp {
        let what = "IKE needs a port of kind \"udp\" outside, and there is none";
        c.add(&text.span(), "gateway.charon", what);
    }
    Some(text.get_ref().into())
}
