//! Records of SAs, from which another gateway goes on with them.
//!
//! An SA's record changes with its ends, and with its tunnel's name and regular policies. It is
//! passed on at the end of the request that changed it. Another gateway restores the SAs as those
//! of a former charon: the one that connects there negotiates its own.

use std::cmp::Reverse;
use std::collections::HashMap;

use convoy_ipsec::{SaDirection, SaNumber, TunnelId};

use super::backend::{Refusal, SaBackend};
use super::sas::{SaKey, lifetime};
use super::tunnels::{ChildName, Reqid};
use super::{CharonState, SpiPool};
use crate::protocol::{AddSa, DecodeError, Lifetimes, PolicySpec, SaRecord};

/// The bit of a session that tells restored SAs from those of a charon that was connected here,
/// even if it is the same charon.
pub(super) const RESTORED: u64 = 1 << 63;

/// What an SA's record needs beside what the state has anyway.
pub(super) struct SharedSa {
    /// As charon installed it; its ends may have changed.
    pub(super) sa: AddSa,
    pub(super) installed_ms: u64,
}

/// An SA to be restored.
#[derive(Clone, Copy, Debug)]
pub struct TakenSa<'a> {
    /// Its record.
    pub record: &'a [u8],
    /// The last outbound number that may have been used.
    pub sent: u64,
    /// The last inbound number that may have been accepted.
    pub accepted: u64,
    /// Where its IVs of counter ciphers begin now: the IV of a packet is this plus its number,
    /// modulo 2^64.
    pub iv_start: u64,
}

/// Why an SA is not restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreError {
    /// Its lifetime has ended.
    Expired,
    /// Another version wrote its record.
    Unreadable(DecodeError),
    /// The gateway cannot have it.
    Refused(Refusal),
}

impl CharonState {
    pub(super) fn set_shared(&mut self, number: SaNumber, shared: SharedSa) {
        if let Some(sa) = self.by_number.get(&number).and_then(|key| self.sas.get_mut(key)) {
            sa.shared = Some(Box::new(shared));
            self.touched.insert(number);
        }
    }

    /// The records of a tunnel's SAs may have changed.
    pub(super) fn touch_records(&mut self, tunnel: TunnelId) {
        let Some(tunnel) = self.tunnels.get(tunnel) else { return };
        self.touched.extend(tunnel.inbound_sas.iter().chain(&tunnel.outbound_sas));
    }

    /// The records of all SAs that serve these policies may have changed.
    pub(super) fn touch_served(&mut self, policies: &[(u64, PolicySpec)]) {
        for (session, spec) in policies {
            let reqid = Reqid { session: *session, number: spec.reqid };
            if let Some(tunnel) = self.tunnels.find(reqid) {
                self.touch_records(tunnel);
            }
        }
    }

    /// Passes on the records that may have changed.
    pub(super) fn share_touched(&mut self, backend: &mut dyn SaBackend) {
        let touched = std::mem::take(&mut self.touched);
        for number in touched {
            if let Some(record) = self.record(number) {
                backend.share(number, record.encode());
            }
        }
    }

    /// An SA's record; `None` if it is not shared.
    fn record(&self, number: SaNumber) -> Option<SaRecord> {
        let installed = self.sas.get(self.by_number.get(&number)?)?;
        let SharedSa { sa, installed_ms } = &**installed.shared.as_ref()?;
        let tunnel = self.tunnels.get(installed.tunnel)?;
        let ChildName { connection, child } = tunnel.name.clone();
        Some(SaRecord {
            session: tunnel.reqid.session,
            installed_ms: *installed_ms,
            sa: AddSa {
                id: installed.id,
                is_encapsulated: installed.is_encapsulated,
                reqid: tunnel.reqid.number,
                ..sa.clone()
            },
            connection,
            child,
            policies: self.policies.regular(installed.tunnel),
        })
    }

    /// Goes on with SAs of another gateway's, behind the numbers that it may have used, and returns
    /// what became of each. They may use and accept nothing until they are allowed to.
    pub fn restore(
        &mut self,
        taken: &[TakenSa<'_>],
        backend: &mut dyn SaBackend,
    ) -> Vec<Result<SaNumber, RestoreError>> {
        let now_ms = backend.wall_ms();
        let (mut policies, mut names, mut latest) = (Vec::new(), HashMap::new(), HashMap::new());
        let restored = taken.iter().map(|taken| {
            let record = SaRecord::decode(taken.record).map_err(RestoreError::Unreadable)?;
            let record = SaRecord { session: record.session | RESTORED, ..record };
            let done = self.restore_sa(&record, taken, now_ms, backend)?;
            let SaRecord { session, installed_ms, sa, connection, child, .. } = record;
            let latest = latest.entry(session).or_insert(installed_ms);
            *latest = installed_ms.max(*latest);
            policies.extend(record.policies.into_iter().map(|(order, spec)| (order, session, spec)));
            names.insert(Reqid { session, number: sa.reqid }, ChildName { connection, child });
            Ok(done)
        });
        let restored: Vec<_> = restored.collect();
        // The charon that came last negotiated what the peers certainly still have.
        policies.sort_by_key(|(order, session, spec)| (Reverse(latest.get(session)), *order, spec.reqid));
        for (_, session, spec) in policies {
            self.restore_policy(session, spec);
        }
        for (reqid, name) in names {
            if let Some(id) = self.tunnels.find(reqid) {
                self.tunnels.rename(id, name);
                self.policies.touch_tunnel(id);
            }
        }
        self.touched.clear();
        self.tell_policies(backend);
        restored
    }

    fn restore_sa(
        &mut self,
        record: &SaRecord,
        taken: &TakenSa<'_>,
        now_ms: u64,
        backend: &mut dyn SaBackend,
    ) -> Result<SaNumber, RestoreError> {
        let SaRecord { session, installed_ms, ref sa, .. } = *record;
        let left = left_of(&sa.lifetimes, now_ms.saturating_sub(installed_ms) / 1000)
            .ok_or(RestoreError::Expired)?;
        let mut config = self.admitted(sa).map_err(RestoreError::Refused)?;
        if self.sas.contains_key(&SaKey::of(&sa.id)) || sa.is_inbound && !self.spis.take(sa.id.spi) {
            let what = format!("the SPI {:#010x} belongs to another SA", sa.id.spi);
            return Err(RestoreError::Refused(Refusal(what)));
        }
        config.lifetime = lifetime(&left);
        config.sequence_start = match config.direction {
            SaDirection::Outbound => taken.sent,
            SaDirection::Inbound => taken.accepted,
        };
        config.sequence_reserved = config.sequence_start;
        config.iv_start = taken.iv_start;
        config.tunnel = self.tunnels.of(Reqid { session, number: sa.reqid });
        let number = self.install(sa, config, backend).map_err(RestoreError::Refused)?;
        self.set_shared(number, SharedSa { sa: sa.clone(), installed_ms });
        if let Some(sa) = self.by_number.get(&number).and_then(|key| self.sas.get_mut(key)) {
            // It has not come: its tunnel was up before.
            sa.is_reported = true;
        }
        Ok(number)
    }

    /// Adds a policy of a restored SA, unless this gateway lacks its interface.
    fn restore_policy(&mut self, session: u64, spec: PolicySpec) {
        let tunnel = self.tunnels.find(Reqid { session, number: spec.reqid });
        let Some((id, interface)) = tunnel.zip(self.interface(spec.id.if_id).ok()) else { return };
        if self.policies.is_known(session, &spec) {
            return;
        }
        if self.policies.add(session, spec, Some(id), interface) == Ok(true)
            && let Some(tunnel) = self.tunnels.get_mut(id)
        {
            tunnel.interface = Some(interface);
            self.tunnels.count_policy(id, spec.is_per_resource, true);
        }
    }

    /// Forgets everything, because another gateway goes on with it. The policies are removed from
    /// the backend; the SAs are not, whose packets may still be on their way: who calls this
    /// removes them.
    pub fn abandon(&mut self, backend: &mut dyn SaBackend) {
        let gone = self.policies.retain(|_, _| false);
        self.release_policies(&gone);
        for (_, sa) in self.sas.drain() {
            if let Some(tunnel) = self.tunnels.get_mut(sa.tunnel) {
                tunnel.sas_mut(sa.direction).retain(|number| *number != sa.number);
            }
            self.tunnels.release(sa.tunnel);
        }
        self.by_number.clear();
        self.touched.clear();
        (self.spis, self.session) = (SpiPool::default(), 0);
        self.tell_policies(backend);
    }
}

/// What is left of lifetimes after `age_s`; `None` if they have ended.
fn left_of(given: &Lifetimes, age_s: u64) -> Option<Lifetimes> {
    if given.hard_s != 0 && age_s >= given.hard_s {
        return None;
    }
    let left = |limit: u64| if limit == 0 { 0 } else { limit.saturating_sub(age_s).max(1) };
    Some(Lifetimes { soft_s: left(given.soft_s), hard_s: left(given.hard_s), ..*given })
}
