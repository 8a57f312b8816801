//! Translates charon's SAs and policies into the gateway's.
//!
//! [`CharonState`] has no socket, clock or random source. It takes [`CharonRequest`]s, keeps track
//! of what charon installed, and applies the consequences to its [`SaBackend`]; the gateway reports
//! events of SAs, and gets the [`SaEvent`](crate::protocol::SaEvent)s for charon.

mod algorithm;
mod backend;
mod events;
mod news;
mod policies;
mod record;
mod sas;
mod spi;
mod succession;
mod tunnels;

use std::collections::{HashMap, HashSet};
use std::fmt;

use convoy_ipsec::{AdmittedAlgorithms, SaDirection, SaNumber, TunnelId};

pub use backend::{
    ChildChange, ChildNews, ChildSa, NegotiatedEnds, PolicyStep, PolicyUpdate, Refusal, SaBackend, SaUsage,
};
pub use record::{RestoreError, TakenSa};
pub use tunnels::ChildName;

use crate::protocol::{
    CharonReply, CharonRequest, EncapMode, IkePeer, PolicyClass, PolicyKind, PolicyRef, PolicySpec,
    ReplyBody, ReplyStatus, WirePolicyDirection,
};
use policies::PolicyTable;
use sas::{CharonSa, SaKey};
use spi::SpiPool;
use tunnels::{Reqid, TunnelTable};

/// Settings of [`CharonState`].
#[derive(Clone, Copy, Debug)]
pub struct StateConfig {
    /// The lowest [`TunnelId`] that is charon's; those below are the configuration's.
    pub first_tunnel: u32,
    /// Which algorithms are admitted.
    pub admitted: AdmittedAlgorithms,
    /// Most SAs at a time.
    pub max_sas: usize,
    /// Most policies at a time.
    pub max_policies: usize,
    /// Whether other gateways may go on with the SAs, which therefore have records.
    pub is_shared: bool,
}

impl Default for StateConfig {
    fn default() -> Self {
        let (max_sas, max_policies) = (1 << 17, 1 << 17);
        Self {
            first_tunnel: 0,
            admitted: AdmittedAlgorithms::Strong,
            max_sas,
            max_policies,
            is_shared: false,
        }
    }
}

/// What charon has installed.
pub struct CharonState {
    config: StateConfig,
    /// The charon that is, or was last, connected.
    session: u64,
    spis: SpiPool,
    sas: HashMap<SaKey, CharonSa>,
    by_number: HashMap<SaNumber, SaKey>,
    tunnels: TunnelTable,
    policies: PolicyTable,
    /// The inside interface of each `if_id`.
    interfaces: HashMap<u32, u16>,
    /// SAs whose records may have changed.
    touched: HashSet<SaNumber>,
}

impl CharonState {
    /// An empty one.
    pub fn new(config: StateConfig) -> Self {
        Self {
            config,
            session: 0,
            spis: SpiPool::default(),
            sas: HashMap::new(),
            by_number: HashMap::new(),
            tunnels: TunnelTable::new(config.first_tunnel),
            policies: PolicyTable::default(),
            interfaces: HashMap::new(),
            touched: HashSet::new(),
        }
    }

    /// This state with the inside interfaces of these `if_id`s; others are refused.
    pub fn with_interfaces(self, interfaces: HashMap<u32, u16>) -> Self {
        Self { interfaces, ..self }
    }

    /// A charon has connected. If it is another one than before, it knows nothing of what is
    /// installed: SAs and the policies that they serve live on until the SAs' lifetimes end; traps,
    /// bypasses and reserved SPIs are removed.
    pub fn connect(&mut self, session: u64, backend: &mut dyn SaBackend) {
        let session = session & !record::RESTORED;
        if session == self.session {
            return;
        }
        self.session = session;
        self.spis.cancel_all();
        let tunnels = &self.tunnels;
        let has_sas = |session: u64, number: u32| {
            let id = tunnels.find(Reqid { session, number });
            let tunnel = id.and_then(|id| tunnels.get(id));
            tunnel.is_some_and(|tunnel| !tunnel.is_bare())
        };
        let gone = self.policies.retain(|session, spec| {
            spec.kind == PolicyKind::Protect
                && spec.class == PolicyClass::Regular
                && has_sas(session, spec.reqid)
        });
        self.release_policies(&gone);
        // The newest charon is part of their order.
        self.policies.touch_all();
        self.tell_policies(backend);
    }

    /// Executes a request of charon's.
    pub fn handle(
        &mut self,
        request: CharonRequest,
        backend: &mut dyn SaBackend,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> CharonReply {
        let outcome = match request {
            CharonRequest::GetSpi { .. } => self.spis.reserve(random).map(ReplyBody::Spi).map_err(failed),
            CharonRequest::AddSa(sa) => self.add_sa(&sa, backend).map_err(failed),
            CharonRequest::UpdateSa(update) => self.update_sa(&update, backend),
            CharonRequest::QuerySa(id) => self.query_sa(&id, backend),
            CharonRequest::DelSa(id) => self.del_sa(&id, backend),
            CharonRequest::FlushSas => {
                self.flush_sas(backend);
                Ok(ReplyBody::Done)
            }
            CharonRequest::AddPolicy(spec) => self.add_policy(spec, backend).map_err(failed),
            CharonRequest::QueryPolicy(policy) => self.query_policy(&policy, backend),
            CharonRequest::DelPolicy(spec) => self.del_policy(&spec, backend),
            CharonRequest::FlushPolicies => {
                let gone = self.policies.retain(|_, _| false);
                self.release_policies(&gone);
                self.touch_served(&gone);
                self.tell_policies(backend);
                Ok(ReplyBody::Done)
            }
            CharonRequest::Name { reqid, mode, connection, child } => {
                self.name_tunnel(reqid, mode, ChildName { connection, child }, backend)
            }
            CharonRequest::Peer { reqid, peer } => {
                if let Some(id) = self.tunnels.find(self.reqid_now(reqid)) {
                    self.tunnels.set_peer(id, peer);
                }
                Ok(ReplyBody::Done)
            }
            CharonRequest::VirtualIp { address, is_held } => {
                backend.virtual_ip(address, is_held);
                Ok(ReplyBody::Done)
            }
            CharonRequest::IkeReport(report) => {
                backend.report_ike(report);
                Ok(ReplyBody::Done)
            }
        };
        self.share_touched(backend);
        outcome.map_or_else(
            |(status, Refusal(reason))| CharonReply::Refused { status, reason },
            CharonReply::Good,
        )
    }

    /// The names behind a tunnel of charon's, for `convoy show`.
    pub fn name(&self, tunnel: TunnelId) -> Option<&ChildName> {
        self.tunnels.get(tunnel).map(|tunnel| &tunnel.name)
    }

    /// The peers of all tunnels that have SAs, as far as charon has said who they are.
    pub fn peers(&self) -> impl Iterator<Item = (TunnelId, &IkePeer)> {
        let known = self.tunnels.iter().filter(|(_, tunnel)| !tunnel.is_bare() && tunnel.peer.is_known());
        known.map(|(id, tunnel)| (id, &tunnel.peer))
    }

    /// charon's number for a tunnel's SAs and policies.
    pub fn reqid(&self, tunnel: TunnelId) -> Option<u32> {
        self.tunnels.get(tunnel).map(|tunnel| tunnel.reqid.number)
    }

    /// How many SAs charon has installed.
    pub fn sa_count(&self) -> usize {
        self.sas.len()
    }

    fn reqid_now(&self, number: u32) -> Reqid {
        Reqid { session: self.session, number }
    }

    fn add_policy(&mut self, spec: PolicySpec, backend: &mut dyn SaBackend) -> Result<ReplyBody, Refusal> {
        if self.policies.len() >= self.config.max_policies {
            return Err(Refusal(format!("the gateway holds at most {} policies", self.config.max_policies)));
        }
        let interface = self.interface(spec.id.if_id)?;
        let is_served = spec.kind == PolicyKind::Protect && spec.reqid != 0;
        let tunnel = is_served.then(|| self.tunnels.of(self.reqid_now(spec.reqid)));
        let other = tunnel.and_then(|id| self.tunnels.get(id)?.interface).filter(|other| *other != interface);
        if other.is_some() {
            return Err(Refusal(
                "a child has one interface here; set if_id_in and if_id_out to the same number".to_owned(),
            ));
        }
        let added = self.policies.add(self.session, spec, tunnel, interface);
        if let Some(id) = tunnel {
            match self.tunnels.get_mut(id) {
                Some(tunnel) if added == Ok(true) => {
                    tunnel.interface = Some(interface);
                    self.tunnels.count_policy(id, spec.is_per_resource, true);
                    self.touch_records(id);
                }
                _ => self.tunnels.release(id),
            }
        }
        added?;
        self.tell_policies(backend);
        Ok(ReplyBody::Done)
    }

    /// The inside interface of charon's number for it; 0 is the shared one to both.
    fn interface(&self, if_id: u32) -> Result<u16, Refusal> {
        match (if_id, self.interfaces.get(&if_id)) {
            (0, _) => Ok(0),
            (_, Some(interface)) => Ok(*interface),
            (_, None) => Err(Refusal(format!(
                "no [[interface]] of the gateway has if_id = {if_id}; add one, or remove if_id_in and if_id_out"
            ))),
        }
    }

    fn del_policy(
        &mut self,
        spec: &PolicySpec,
        backend: &mut dyn SaBackend,
    ) -> Result<ReplyBody, (ReplyStatus, Refusal)> {
        let is_last = self
            .policies
            .remove(self.session, spec)
            .ok_or_else(|| (ReplyStatus::NotFound, Refusal("no such policy".to_owned())))?;
        if is_last {
            self.release_policies(&[(self.session, *spec)]);
            self.touch_served(&[(self.session, *spec)]);
            self.tell_policies(backend);
        }
        Ok(ReplyBody::Done)
    }

    /// The most recent use of the SAs that serve the policy's reqid, in its direction.
    fn query_policy(
        &self,
        policy: &PolicyRef,
        backend: &mut dyn SaBackend,
    ) -> Result<ReplyBody, (ReplyStatus, Refusal)> {
        let tunnels = self.policies.tunnels_of(policy);
        if tunnels.is_empty() {
            return Err((ReplyStatus::NotFound, Refusal("no such policy".to_owned())));
        }
        let direction = match policy.direction {
            WirePolicyDirection::Out => SaDirection::Outbound,
            WirePolicyDirection::In | WirePolicyDirection::Forward => SaDirection::Inbound,
        };
        let tunnels = tunnels.into_iter().filter_map(|id| self.tunnels.get(id));
        let sas = tunnels.flat_map(|tunnel| tunnel.sas(direction));
        let idle_s = sas.filter_map(|number| backend.usage(*number)?.idle_s).min();
        Ok(ReplyBody::PolicyUse { idle_s })
    }

    fn name_tunnel(
        &mut self,
        reqid: u32,
        configured: EncapMode,
        name: ChildName,
        backend: &mut dyn SaBackend,
    ) -> Result<ReplyBody, (ReplyStatus, Refusal)> {
        let unknown = || (ReplyStatus::NotFound, Refusal(format!("no SA or policy has the reqid {reqid}")));
        let id = self.tunnels.find(self.reqid_now(reqid)).ok_or_else(unknown)?;
        if let Some(mode) = self.tunnels.get(id).and_then(|tunnel| tunnel.mode)
            && mode != configured
        {
            backend.warn_of_mode(&name, configured, mode);
        }
        if self.tunnels.rename(id, name) {
            self.policies.touch_tunnel(id);
            self.touch_records(id);
        }
        self.tell_policies(backend);
        self.tell_come(id, backend);
        Ok(ReplyBody::Done)
    }

    fn release_policies(&mut self, gone: &[(u64, PolicySpec)]) {
        for (session, spec) in gone {
            let Some(id) = self.tunnels.find(Reqid { session: *session, number: spec.reqid }) else {
                continue;
            };
            if spec.kind != PolicyKind::Protect || spec.reqid == 0 {
                continue;
            }
            self.tunnels.count_policy(id, spec.is_per_resource, false);
            self.tunnels.release(id);
        }
    }

    /// Passes changes of policies and names since the last call on to the backend.
    fn tell_policies(&mut self, backend: &mut dyn SaBackend) {
        let steps = self.policies.take_steps(self.session, &self.tunnels);
        let (names, own_sas) = (self.tunnels.take_renamed(), self.tunnels.take_own_sas());
        let update = PolicyUpdate { names, own_sas, steps };
        if !update.is_empty() {
            backend.change_policies(update);
        }
    }
}

fn failed(refusal: Refusal) -> (ReplyStatus, Refusal) {
    (ReplyStatus::Failed, refusal)
}

impl fmt::Display for ChildName {
    /// `connection/child`, or the child alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.connection.is_empty() {
            f.write_str(&self.child)
        } else {
            write!(f, "{}/{}", self.connection, self.child)
        }
    }
}

#[cfg(test)]
mod tests;
