//! A model of etcd: one linearizable store with revisions, and leases by the clock of whichever of
//! its servers leads.

use std::collections::BTreeMap;

use crate::store::{Call, Condition, KeyValue, LeaseId, Revision, StoreAnswer, StoreChange};

/// The shortest lease that it grants, as etcd with its usual election time has it.
const LEAST_TTL_S: u32 = 2;

#[derive(Clone)]
struct Lease {
    ttl_s: u32,
    expires_ns: u64,
}

/// The store.
#[derive(Clone)]
pub(crate) struct Etcd {
    pub(crate) revision: Revision,
    keys: BTreeMap<String, (KeyValue, Option<LeaseId>)>,
    leases: BTreeMap<LeaseId, Lease>,
    last_lease: LeaseId,
    /// Everything that has changed, in order.
    pub(crate) history: Vec<(Revision, StoreChange)>,
    /// The rate of the leading server's clock, in millionths.
    pub(crate) rate_ppm: u64,
    pub(crate) no_quorum_until_ns: u64,
    pub(crate) no_room_until_ns: u64,
    /// Sabotage: a guard holds if the key is the same, whatever was put since.
    pub(crate) guards_by_creation: bool,
}

impl Etcd {
    pub(crate) fn new(rate_ppm: u64) -> Self {
        Self {
            revision: 1,
            keys: BTreeMap::new(),
            leases: BTreeMap::new(),
            last_lease: 0x1000,
            history: Vec::new(),
            rate_ppm,
            no_quorum_until_ns: 0,
            no_room_until_ns: 0,
            guards_by_creation: false,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&KeyValue> {
        self.keys.get(key).map(|(entry, _)| entry)
    }

    pub(crate) fn execute(&mut self, call: Call, now_ns: u64) -> StoreAnswer {
        match call {
            Call::Grant { ttl_s } => {
                let ttl_s = ttl_s.max(LEAST_TTL_S);
                self.last_lease += 1;
                let expires_ns = self.expiry_ns(ttl_s, now_ns);
                self.leases.insert(self.last_lease, Lease { ttl_s, expires_ns });
                StoreAnswer::Granted { lease: self.last_lease, ttl_s }
            }
            Call::KeepAlive { lease } => StoreAnswer::KeptAlive { ttl_s: self.keep_alive(lease, now_ns) },
            Call::Revoke { lease } => {
                self.end(lease);
                StoreAnswer::Revoked
            }
            Call::Transact { guard, deletes, puts, read } => {
                self.transact(guard, deletes, puts, read, now_ns)
            }
            Call::Watch { .. } => StoreAnswer::Watching,
        }
    }

    /// When a lease ends that is renewed now.
    fn expiry_ns(&self, ttl_s: u32, now_ns: u64) -> u64 {
        now_ns + u64::from(ttl_s) * 1_000_000_000 * 1_000_000 / self.rate_ppm
    }

    /// Renews a lease, unless it has expired and is only not revoked yet.
    fn keep_alive(&mut self, lease: LeaseId, now_ns: u64) -> u32 {
        let Some(ttl_s) =
            self.leases.get(&lease).filter(|held| now_ns < held.expires_ns).map(|held| held.ttl_s)
        else {
            return 0;
        };
        let expires_ns = self.expiry_ns(ttl_s, now_ns);
        self.leases.insert(lease, Lease { ttl_s, expires_ns });
        ttl_s
    }

    fn transact(
        &mut self,
        guard: Option<Condition>,
        deletes: Vec<String>,
        puts: Vec<(String, Vec<u8>, Option<LeaseId>)>,
        read: Option<String>,
        now_ns: u64,
    ) -> StoreAnswer {
        assert!(deletes.len() + puts.len() <= 128, "too many operations");
        if !guard.is_none_or(|guard| self.holds(&guard)) {
            return StoreAnswer::Transacted { is_done: false, revision: self.revision, read: Vec::new() };
        }
        let leases = puts.iter().filter_map(|(_, _, lease)| *lease);
        if leases.into_iter().any(|lease| !self.leases.contains_key(&lease)) {
            return StoreAnswer::Refused { reason: "requested lease not found".into() };
        }
        if !puts.is_empty() && now_ns < self.no_room_until_ns {
            return StoreAnswer::Refused { reason: "database space exceeded".into() };
        }
        let is_change = !puts.is_empty() || deletes.iter().any(|key| self.keys.contains_key(key));
        self.revision += u64::from(is_change);
        deletes.into_iter().for_each(|key| self.delete(key));
        puts.into_iter().for_each(|(key, value, lease)| self.put(key, value, lease));
        let is_read = |key: &String| read.as_ref().is_some_and(|prefix| key.starts_with(prefix));
        let read =
            self.keys.iter().filter(|(key, _)| is_read(key)).map(|(_, (entry, _))| entry.clone()).collect();
        StoreAnswer::Transacted { is_done: true, revision: self.revision, read }
    }

    fn holds(&self, guard: &Condition) -> bool {
        match self.get(&guard.key) {
            None => guard.modified == 0,
            Some(entry) if self.guards_by_creation && guard.modified > 0 => entry.created <= guard.modified,
            Some(entry) => entry.modified == guard.modified,
        }
    }

    fn put(&mut self, key: String, value: Vec<u8>, lease: Option<LeaseId>) {
        let created = self.get(&key).map_or(self.revision, |entry| entry.created);
        let entry = KeyValue { key: key.clone(), value, created, modified: self.revision };
        self.history.push((self.revision, StoreChange::Put(entry.clone())));
        self.keys.insert(key, (entry, lease));
    }

    fn delete(&mut self, key: String) {
        if self.keys.remove(&key).is_some() {
            self.history.push((self.revision, StoreChange::Delete { key, revision: self.revision }));
        }
    }

    fn end(&mut self, lease: LeaseId) {
        if self.leases.remove(&lease).is_none() {
            return;
        }
        let of_lease = self.keys.iter().filter(|(_, (_, held))| *held == Some(lease));
        let keys: Vec<String> = of_lease.map(|(key, _)| key.clone()).collect();
        self.revision += u64::from(!keys.is_empty());
        keys.into_iter().for_each(|key| self.delete(key));
    }

    /// Ends the leases that have expired, which takes a quorum.
    pub(crate) fn expire(&mut self, now_ns: u64) {
        if now_ns < self.no_quorum_until_ns {
            return;
        }
        let expired = self.leases.iter().filter(|(_, held)| held.expires_ns <= now_ns);
        let leases: Vec<LeaseId> = expired.map(|(lease, _)| *lease).collect();
        leases.into_iter().for_each(|lease| self.end(lease));
    }

    /// Another server leads, with another clock: every lease begins again.
    pub(crate) fn change_leader(&mut self, rate_ppm: u64, now_ns: u64) {
        self.rate_ppm = rate_ppm;
        for lease in self.leases.values_mut() {
            lease.expires_ns = now_ns + u64::from(lease.ttl_s) * 1_000_000_000 * 1_000_000 / rate_ppm;
        }
    }

    /// Sabotage: somebody removes a key.
    pub(crate) fn tamper(&mut self, key: &str) {
        self.revision += 1;
        self.delete(key.to_owned());
    }
}
