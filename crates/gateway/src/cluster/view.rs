//! What a gateway knows of its cluster, for `convoy show cluster` and the metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};

use convoy_cluster::{ClusterStatus, GroupStatus, LedStatus};
use convoy_config::ClusterConfig;
use convoy_process::monotonic_ns;
use convoy_report::snapshot::{ClusterRow, GroupRow, MemberRow};

use super::etcd_version;

/// The latest that the agent has said.
#[derive(Debug)]
pub(super) struct ClusterView {
    config: ClusterConfig,
    member: String,
    latest: Mutex<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    status: ClusterStatus,
    /// The version of the store if it can be reached, or why it cannot; `None` before it was tried.
    store: Option<Result<String, String>>,
    deadline_ns: u64,
}

impl ClusterView {
    pub(super) fn new(config: ClusterConfig, member: String) -> Self {
        Self { config, member, latest: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a state; returns the one before.
    pub(super) fn learn(&self, status: ClusterStatus) -> ClusterStatus {
        std::mem::replace(&mut self.lock().status, status)
    }

    /// What an operator can do about a store that went back.
    pub(super) fn remedy(&self) -> String {
        let forget = match self.config.memory_of(&self.member) {
            Some(file) => format!("remove {} and restart convoy", file.display()),
            None => "restart convoy".to_owned(),
        };
        format!(
            "It may have forgotten sequence numbers that were used. Give all tunnels with static keys new keys at both \
             ends, or put the store back as it was; then {forget}, on each member"
        )
    }

    pub(super) fn reached(&self, reached: Result<String, String>) {
        self.lock().store = Some(reached);
    }

    pub(super) fn may_lead_until(&self, deadline_ns: u64) {
        self.lock().deadline_ns = deadline_ns;
    }

    /// Whether there is another member that may lead.
    pub(super) fn has_another(&self) -> bool {
        let latest = self.lock();
        latest.status.members.iter().any(|member| member.name != self.member && !member.is_draining)
    }

    /// The cluster now.
    pub(super) fn row(&self) -> ClusterRow {
        let latest = self.lock();
        let status = &latest.status;
        let store_version = latest.store.as_ref().and_then(|store| store.as_deref().ok());
        let member = |member: &convoy_cluster::MemberStatus| {
            let is_led = |group: &&GroupStatus| group.leader.as_ref() == Some(&member.name);
            MemberRow {
                name: member.name.clone(),
                priority: member.priority,
                is_draining: member.is_draining,
                leads: status.groups.iter().filter(is_led).map(|group| group.name.clone()).collect(),
            }
        };
        ClusterRow {
            name: self.config.name.clone(),
            member: self.member.clone(),
            is_draining: status.is_draining,
            is_store_reached: matches!(latest.store, Some(Ok(_))),
            store_error: latest.store.as_ref().and_then(|store| store.clone().err()),
            store_fault: status.store_fault.map(|fault| format!("{fault}. {}", self.remedy())),
            store_warning: store_version.and_then(etcd_version::warning),
            is_alive: status.is_alive,
            lease_left_s: latest.deadline_ns.saturating_sub(monotonic_ns()) as f64 * 1e-9,
            members: status.members.iter().map(member).collect(),
            groups: status.groups.iter().map(|group| self.group(group)).collect(),
        }
    }

    fn group(&self, group: &GroupStatus) -> GroupRow {
        let addresses = self.config.addresses_of(&group.name).iter().map(ToString::to_string).collect();
        let is_led = group.led.is_some();
        let LedStatus { term, sas, waiting, least_to_send, least_to_accept } =
            group.led.clone().unwrap_or_default();
        GroupRow {
            name: group.name.clone(),
            leader: group.leader.clone(),
            is_led,
            term,
            sas: sas as u64,
            waiting: waiting as u64,
            least_to_send,
            least_to_accept,
            addresses,
            locked: group.locked as u64,
        }
    }
}
