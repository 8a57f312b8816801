//! charon's SAs.

use std::net::IpAddr;

use convoy_ipsec::{
    EcnMode, IptfsConfig, Lifetime, LifetimeLimits, Mode, OuterDf, OuterDscp, SaConfig, SaDirection,
    SaNumber, SaProtocol, Transform, TunnelId, UdpEncap,
};

use super::CharonState;
use super::algorithm::key_material;
use super::backend::{NegotiatedEnds, Refusal, SaBackend};
use super::news::Moved;
use super::record::SharedSa;
use super::tunnels::CharonTunnel;
use crate::protocol::{
    AddSa, Dscp, EncapMode, IptfsOptions, Lifetimes, ReplyBody, ReplyStatus, SaProtocolId, UpdateSa, WireSaId,
};

/// The smallest and the largest replay window, in packets.
const REPLAY_WINDOW: (u32, u32) = (32, 65_536);

/// The identity of an SA (RFC 4301 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SaKey {
    pub(super) spi: u32,
    pub(super) protocol: SaProtocolId,
    pub(super) destination: IpAddr,
}

impl SaKey {
    pub(super) fn of(id: &WireSaId) -> Self {
        Self { spi: id.spi, protocol: id.protocol, destination: id.destination.ip() }
    }
}

/// An installed SA.
pub(super) struct CharonSa {
    pub(super) number: SaNumber,
    pub(super) tunnel: TunnelId,
    pub(super) direction: SaDirection,
    pub(super) id: WireSaId,
    pub(super) resource: Option<u32>,
    pub(super) transform: Transform,
    pub(super) is_encapsulated: bool,
    /// Whether the gateway was notified that it has come.
    pub(super) is_reported: bool,
    /// What its record needs beside that, where SAs are shared.
    pub(super) shared: Option<Box<SharedSa>>,
}

impl CharonState {
    pub(super) fn add_sa(&mut self, sa: &AddSa, backend: &mut dyn SaBackend) -> Result<ReplyBody, Refusal> {
        let key = SaKey::of(&sa.id);
        if self.sas.len() >= self.config.max_sas {
            return Err(Refusal(format!("the gateway holds at most {} SAs", self.config.max_sas)));
        }
        if self.sas.contains_key(&key) {
            return Err(Refusal(format!("an SA with the SPI {:#010x} is already installed", sa.id.spi)));
        }
        let mut config = self.admitted(sa)?;
        if sa.is_inbound && !self.spis.take(sa.id.spi) {
            return Err(Refusal(format!("the SPI {:#010x} belongs to another SA", sa.id.spi)));
        }
        let tunnel = self.tunnels.of(self.reqid_now(sa.reqid));
        config.tunnel = tunnel;
        let number = self.install(sa, config, backend)?;
        if self.config.is_shared {
            let shared = SharedSa { sa: sa.clone(), installed_ms: backend.wall_ms() };
            self.set_shared(number, shared);
        }
        self.tell_policies(backend);
        // A trap's tunnel has the whole name only once its connection is up.
        if self.name(tunnel).is_some_and(|name| !name.connection.is_empty()) {
            self.tell_come(tunnel, backend);
        }
        Ok(ReplyBody::Done)
    }

    /// The configuration of an SA that the gateway can have, without a tunnel.
    pub(super) fn admitted(&self, sa: &AddSa) -> Result<SaConfig, Refusal> {
        let config = sa_config(sa)?;
        let transform = config.keys.transform();
        if let Some(fault) = self.config.admitted.refusal(transform, config.protocol) {
            return Err(Refusal(format!("{transform} {fault}")));
        }
        Ok(config)
    }

    /// Installs an SA of a tunnel, whose SPI is taken.
    pub(super) fn install(
        &mut self,
        sa: &AddSa,
        config: SaConfig,
        backend: &mut dyn SaBackend,
    ) -> Result<SaNumber, Refusal> {
        let (tunnel, direction) = (config.tunnel, config.direction);
        let (key, transform) = (SaKey::of(&sa.id), config.keys.transform());
        let number = backend.install(config, sa.resource).inspect_err(|_| {
            self.tunnels.release(tunnel);
            if sa.is_inbound {
                self.spis.give_back(sa.id.spi);
            }
        })?;
        self.by_number.insert(number, key);
        let installed = CharonSa {
            number,
            tunnel,
            direction,
            id: sa.id,
            resource: sa.resource,
            transform,
            is_encapsulated: sa.is_encapsulated,
            is_reported: false,
            shared: None,
        };
        self.sas.insert(key, installed);
        if let Some(tunnel) = self.tunnels.get_mut(tunnel) {
            tunnel.mode = Some(sa.mode);
            tunnel.sas_mut(direction).push(number);
        }
        self.note_way_out(tunnel, direction, 1);
        Ok(number)
    }

    pub(super) fn update_sa(
        &mut self,
        update: &UpdateSa,
        backend: &mut dyn SaBackend,
    ) -> Result<ReplyBody, (ReplyStatus, Refusal)> {
        let old = SaKey::of(&update.id);
        let tunnel = self.sas.get(&old).ok_or_else(|| not_found(&update.id))?.tunnel;
        if update.reqid != 0 {
            self.renumber(tunnel, update).map_err(|refusal| (ReplyStatus::NotSupported, refusal))?;
        }
        let sa = self.sas.get_mut(&old).ok_or_else(|| not_found(&update.id))?;
        let id = WireSaId { source: update.source, destination: update.destination, ..update.id };
        let new = SaKey::of(&id);
        let ends = ends(&id, sa.direction, update.is_encapsulated);
        backend.move_sa(sa.number, ends).map_err(|refusal| (ReplyStatus::NotSupported, refusal))?;
        let moved = Moved { tunnel: sa.tunnel, direction: sa.direction, old: sa.id, new: id };
        sa.id = id;
        sa.is_encapsulated = update.is_encapsulated;
        let number = sa.number;
        self.tell_moved(&moved, backend);
        if new != old
            && let Some(sa) = self.sas.remove(&old)
        {
            self.by_number.insert(sa.number, new);
            self.sas.insert(new, sa);
        }
        self.touched.insert(number);
        Ok(ReplyBody::Done)
    }

    /// Gives the tunnel of an SA that moves the reqid that charon has for it then: another one if
    /// the peer's address is the selector, as with a client without a virtual IP (MOBIKE, RFC
    /// 4555). charon has removed the child's policies by then, and updates its SAs one by one.
    fn renumber(&mut self, tunnel: TunnelId, update: &UpdateSa) -> Result<(), Refusal> {
        let Some(known) = self.tunnels.get(tunnel).filter(|known| known.reqid.number != update.reqid) else {
            return Ok(());
        };
        let hosts = |id: &WireSaId| {
            let (one, other) = (id.source.ip(), id.destination.ip());
            (one.min(other), one.max(other))
        };
        let of_child = |number: &SaNumber| {
            let sa = self.by_number.get(number).and_then(|key| self.sas.get(key));
            sa.is_none_or(|sa| hosts(&sa.id) == hosts(&update.id))
        };
        let has_others = !known.inbound_sas.iter().chain(&known.outbound_sas).all(of_child);
        if has_others || !self.tunnels.renumber(tunnel, update.reqid) {
            let what = "the reqid of an SA cannot be changed while other SAs or policies have it";
            return Err(Refusal(what.to_owned()));
        }
        self.touch_records(tunnel);
        Ok(())
    }

    pub(super) fn query_sa(
        &mut self,
        id: &WireSaId,
        backend: &mut dyn SaBackend,
    ) -> Result<ReplyBody, (ReplyStatus, Refusal)> {
        let sa = self.sas.get(&SaKey::of(id));
        let usage = sa.and_then(|sa| backend.usage(sa.number)).ok_or_else(|| not_found(id))?;
        Ok(ReplyBody::SaUse { bytes: usage.bytes, packets: usage.packets, idle_s: usage.idle_s })
    }

    pub(super) fn del_sa(
        &mut self,
        id: &WireSaId,
        backend: &mut dyn SaBackend,
    ) -> Result<ReplyBody, (ReplyStatus, Refusal)> {
        let key = SaKey::of(id);
        if self.sas.contains_key(&key) {
            self.remove_sa(key, backend);
            self.tell_policies(backend);
            return Ok(ReplyBody::Done);
        }
        if self.spis.cancel(id.spi) { Ok(ReplyBody::Done) } else { Err(not_found(id)) }
    }

    pub(super) fn flush_sas(&mut self, backend: &mut dyn SaBackend) {
        let keys: Vec<SaKey> = self.sas.keys().copied().collect();
        for key in keys {
            self.remove_sa(key, backend);
        }
        self.spis.cancel_all();
        self.tell_policies(backend);
    }

    /// Policies with an outbound SA come first: the first outbound SA that a tunnel gets, and the
    /// last that it loses, change its policies' ranks. `of` is the current number of such SAs.
    fn note_way_out(&mut self, tunnel: TunnelId, direction: SaDirection, of: usize) {
        let has_changed = |tunnel: &CharonTunnel| tunnel.outbound_sas.len() == of;
        if direction == SaDirection::Outbound && self.tunnels.get(tunnel).is_some_and(has_changed) {
            self.policies.touch_tunnel(tunnel);
        }
    }

    /// Removes an SA. A former charon's policies are removed with its last SA.
    pub(super) fn remove_sa(&mut self, key: SaKey, backend: &mut dyn SaBackend) {
        let Some(sa) = self.sas.remove(&key) else { return };
        backend.remove(sa.number);
        self.touched.remove(&sa.number);
        self.by_number.remove(&sa.number);
        if sa.direction == SaDirection::Inbound {
            self.spis.give_back(key.spi);
        }
        self.tell_gone(&sa, backend);
        let Some(tunnel) = self.tunnels.get_mut(sa.tunnel) else { return };
        tunnel.sas_mut(sa.direction).retain(|number| *number != sa.number);
        let (reqid, is_bare) = (tunnel.reqid, tunnel.is_bare());
        self.note_way_out(sa.tunnel, sa.direction, 0);
        if reqid.session != self.session && is_bare {
            let gone = self.policies.remove_regular(sa.tunnel);
            self.release_policies(&gone);
        }
        self.tunnels.release(sa.tunnel);
    }
}

fn not_found(id: &WireSaId) -> (ReplyStatus, Refusal) {
    (ReplyStatus::NotFound, Refusal(format!("no SA has the SPI {:#010x} to {}", id.spi, id.destination.ip())))
}

/// The configuration without a tunnel.
fn sa_config(sa: &AddSa) -> Result<SaConfig, Refusal> {
    if sa.ipcomp != 0 || sa.cpi != 0 {
        return Err(Refusal("the gateway does not support IPComp".to_owned()));
    }
    let mode = match sa.mode {
        EncapMode::Tunnel => Mode::Tunnel,
        EncapMode::Transport => Mode::Transport,
        EncapMode::Aggfrag => Mode::Iptfs,
        EncapMode::Beet => return Err(Refusal("the gateway does not support BEET mode".to_owned())),
    };
    let dscp = match sa.dscp {
        Dscp::Out => OuterDscp::Copy,
        Dscp::Neither => OuterDscp::Set(0),
        Dscp::In | Dscp::Both => {
            return Err(Refusal(
                "the gateway does not copy the DSCP inwards; set copy_dscp = out".to_owned(),
            ));
        }
    };
    let direction = if sa.is_inbound { SaDirection::Inbound } else { SaDirection::Outbound };
    let NegotiatedEnds { local, remote, encap } = ends(&sa.id, direction, sa.is_encapsulated);
    let base = SaConfig::new(sa.id.spi, direction, local, remote, key_material(sa.id.protocol, &sa.keys)?);
    Ok(SaConfig {
        protocol: match sa.id.protocol {
            SaProtocolId::Esp => SaProtocol::Esp,
            SaProtocolId::Ah => SaProtocol::Ah,
        },
        mode,
        iptfs: sa.iptfs.as_ref().map_or_else(IptfsConfig::default, iptfs),
        encap,
        esn: sa.esn,
        replay_window: match sa.replay_window {
            0 => 0,
            packets => packets.clamp(REPLAY_WINDOW.0, REPLAY_WINDOW.1),
        },
        lifetime: lifetime(&sa.lifetimes),
        dscp,
        ecn: if sa.copy_ecn { EcnMode::Normal } else { EcnMode::Compatibility },
        df: if sa.copy_df { OuterDf::Copy } else { OuterDf::Clear },
        tfc_bytes: u16::try_from(sa.tfc_bytes).unwrap_or(u16::MAX),
        ..base
    })
}

/// Packets behind a missing one that may wait for it, at most: each has a frame of the worker's.
const MOST_REORDERED: u16 = 256;

fn iptfs(options: &IptfsOptions) -> IptfsConfig {
    IptfsConfig {
        drop_time_ns: u64::from(options.drop_time_us) * 1_000,
        reorder_window: options.reorder_window.min(MOST_REORDERED.into()) as u16,
        init_delay_ns: u64::from(options.init_delay_us) * 1_000,
        max_queue_size: options.max_queue_size,
        dont_frag: options.dont_frag,
        pkt_size: u16::try_from(options.packet_size).unwrap_or(0),
        packet_rate: 0,
    }
}

fn ends(id: &WireSaId, direction: SaDirection, is_encapsulated: bool) -> NegotiatedEnds {
    let (local, remote) = match direction {
        SaDirection::Outbound => (id.source, id.destination),
        SaDirection::Inbound => (id.destination, id.source),
    };
    let ports = UdpEncap { local_port: local.port(), remote_port: remote.port() };
    NegotiatedEnds { local: local.ip(), remote: remote.ip(), encap: is_encapsulated.then_some(ports) }
}

pub(super) fn lifetime(given: &Lifetimes) -> Lifetime {
    let limit = |value: u64| (value != 0).then_some(value);
    let limits = |seconds: u64, bytes, packets| LifetimeLimits {
        bytes: limit(bytes),
        packets: limit(packets),
        time_ns: limit(seconds.saturating_mul(1_000_000_000)),
    };
    Lifetime {
        soft: limits(given.soft_s, given.soft_bytes, given.soft_packets),
        hard: limits(given.hard_s, given.hard_bytes, given.hard_packets),
    }
}
