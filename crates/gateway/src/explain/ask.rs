//! What workers know about a packet that might come.

use convoy_dataplane::pipeline::Health;
use convoy_ipsec::{DropReason, Fit, FlowKey, Miss, PolicyView, SaDirection, SaView, Supposed, TunnelId};

use crate::worker_handles::WorkerHandles;
use crate::worker_thread::WorkerThread;

/// Similar policies that are named when none selects a packet.
const NEAR: usize = 3;

/// The policies of a packet.
pub(super) struct PacketPolicies {
    /// Those that select it, in order; the first decides.
    pub(super) selecting: Vec<PolicyView>,
    /// Without any: those that nearly do.
    pub(super) near: Vec<(PolicyView, Miss)>,
}

/// The tunnel of a packet at the worker that serves it.
pub(super) struct Serving {
    /// charon's name of the tunnel; empty if it has none.
    pub(super) child: String,
    pub(super) worker: u16,
    /// The outbound SA in use.
    pub(super) sa: Option<SaView>,
    /// Whether there is none because the peer's address is not known yet.
    pub(super) has_no_peer: bool,
    /// How the packet fits it.
    pub(super) fit: Option<Result<Fit, DropReason>>,
    pub(super) inbound: Vec<SaView>,
    /// Packets lost for lack of an SA.
    pub(super) lost: u64,
    pub(super) engines: Vec<EngineView>,
    /// The outside port of its outer packets.
    pub(super) port: Option<String>,
    /// The engine, if the device of a port seals the packets in flight.
    pub(super) inline_by: Option<String>,
}

/// An engine that could seal the packet.
pub(super) struct EngineView {
    pub(super) name: String,
    /// Why it is not in use, if so.
    pub(super) down: Option<String>,
    pub(super) wait_ns: u64,
    pub(super) processing_ns: u64,
    pub(super) is_chosen: bool,
}

/// Asks for the policies of a packet; all workers have the same.
pub(super) fn decision(handles: &WorkerHandles, supposed: Supposed) -> Result<PacketPolicies, String> {
    let ask = move |thread: &mut WorkerThread| decide(thread, &supposed.flow);
    handles.ask_or_undo(0, ask, |_, _| ()).ok_or_else(silent)
}

/// Asks the worker that serves a tunnel.
pub(super) fn serving(
    handles: &WorkerHandles,
    tunnel: TunnelId,
    supposed: Supposed,
) -> Result<Serving, String> {
    let ask = move |thread: &mut WorkerThread| serve(thread, tunnel, &supposed);
    handles.ask_or_undo(handles.owner_of(tunnel), ask, |_, _| ()).ok_or_else(silent)
}

fn silent() -> String {
    "the worker did not answer in time".to_owned()
}

fn decide(thread: &mut WorkerThread, flow: &FlowKey) -> PacketPolicies {
    let tables = &thread.worker_mut().pipeline().ipsec().tables;
    let mut selecting = tables.policies_of(flow);
    let mut near = if selecting.is_empty() { tables.near_misses(flow, NEAR) } else { Vec::new() };
    for view in selecting.iter_mut().chain(near.iter_mut().map(|(view, _)| view)) {
        thread.call_by_tunnel(view);
    }
    PacketPolicies { selecting, near }
}

fn serve(thread: &mut WorkerThread, tunnel: TunnelId, supposed: &Supposed) -> Serving {
    let child = thread.child_of(tunnel);
    let worker = thread.worker_mut();
    let tables = &worker.pipeline().ipsec().tables;
    let sas: Vec<SaView> = tables.sas_of(tunnel).collect();
    let (outbound, inbound): (Vec<SaView>, Vec<SaView>) =
        sas.into_iter().partition(|view| view.name.direction == SaDirection::Outbound);
    let has_no_peer = outbound.iter().any(|view| view.name.remote.is_unspecified());
    let sa = outbound.into_iter().find(|view| view.is_current);
    let fit = sa.as_ref().map(|sa| tables.fit(sa.index, supposed));
    let (number, lost) = (tables.worker(), tables.dropped_without_sa_by(tunnel));
    let in_udp = sa.as_ref().is_some_and(|sa| sa.encap.is_some());
    let port = worker.outside_port(in_udp).map(|port| port.name.clone());
    let stage = worker.pipeline_mut().stage_mut();
    let forecast = sa.as_ref().map_or_else(Vec::new, |sa| stage.forecast(sa.index, supposed.len));
    let engines = forecast.into_iter().map(|forecast| EngineView {
        name: stage.engines().description(forecast.engine).name.clone(),
        down: match stage.engines().health(forecast.engine) {
            Health::Up => None,
            Health::Down { reason, .. } => Some(reason.clone()),
        },
        wait_ns: forecast.wait,
        processing_ns: forecast.processing,
        is_chosen: forecast.is_chosen,
    });
    let engines: Vec<EngineView> = engines.collect();
    let bound = sa.as_ref().and_then(|sa| stage.bound_to(sa.index));
    let inline_by = bound.map(|engine| stage.engines().description(engine).name.clone());
    Serving { child, worker: number, sa, has_no_peer, fit, inbound, lost, engines, port, inline_by }
}
