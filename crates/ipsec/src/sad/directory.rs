//! The owner of each SA of a process: the only thing that all workers know of an SA.
//!
//! Everything else is known to its owner alone. Only the owner changes an entry, between two of its
//! rounds, when it is ordered to install, move or remove the SA; any worker may look at any time,
//! without a lock. The order of changes ensures that a packet is handed over only while its SA
//! exists:
//!
//! 1. A new SA is entered here first, which is where an overlapping SPI is refused, and is
//!    installed at its owner before that thread takes the next packet from another worker: what is
//!    handed over earlier waits until then.
//! 2. A moved SA is entered with its new ends before the entry with its old ones is deleted.
//! 3. A removed SA is deleted here before its owner releases its SPI. What was handed over earlier
//!    finds nothing and is dropped, as if it had arrived later.

#[cfg(convoy_loom)]
mod loom_map;
#[cfg(all(test, convoy_loom))]
mod models;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[cfg(not(convoy_loom))]
use papaya::{Compute, HashMap, Operation};

use crate::sa::facts::SaName;
use crate::sa::id::{SaDirection, SaNumber, SaProtocol, TunnelId};
#[cfg(convoy_loom)]
use loom_map::{Compute, HashMap, Operation};

/// The directory's record of an SA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryEntry {
    pub(crate) number: SaNumber,
    pub(crate) name: SaName,
}

/// All SAs of a process by SPI, with their owners; one for all workers.
///
/// A concurrent map: to add or delete one SA costs the same with ten thousand others as with none,
/// and a look-up never waits.
///
/// ```
/// use std::sync::Arc;
///
/// use convoy_ipsec::{Directory, Ipsec, IpsecConfig, TunnelId};
///
/// let directory = Arc::new(Directory::new(2));
/// let worker = |worker| Ipsec::among(IpsecConfig { worker, ..IpsecConfig::default() }, Arc::clone(&directory));
/// let workers = [worker(0), worker(1)];
/// assert_eq!(workers[1].tables.directory().owner_of(TunnelId(5)), workers[1].tables.worker());
/// ```
#[derive(Debug)]
pub struct Directory {
    workers: u16,
    sas: HashMap<SpiKey, DirectoryEntry>,
    /// Our outer addresses of inbound SAs, with the number of SAs of each.
    locals: HashMap<IpAddr, u32>,
}

/// The identity of an SA (RFC 4301 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SpiKey {
    spi: u32,
    protocol: SaProtocol,
    /// The peer of an outbound SA, whose SPI is the peer's choice; inbound SPIs are ours alone.
    peer: Option<IpAddr>,
}

impl SpiKey {
    fn of(name: &SaName) -> Self {
        let peer = (name.direction == SaDirection::Outbound).then_some(name.remote);
        Self { spi: name.spi, protocol: name.protocol, peer }
    }
}

impl Directory {
    /// How many workers it is of.
    pub(crate) fn workers(&self) -> u16 {
        self.workers
    }

    /// An empty directory of this many workers, at least one.
    pub fn new(workers: u16) -> Self {
        Self { workers: workers.max(1), sas: HashMap::new(), locals: HashMap::new() }
    }

    /// The worker that serves a tunnel: the one that owns its SAs, but for those of other resources
    /// (RFC 9611).
    #[inline]
    pub fn owner_of(&self, tunnel: TunnelId) -> u16 {
        tunnel.owner(self.workers)
    }

    /// The number of SAs.
    pub fn len(&self) -> usize {
        self.sas.len()
    }

    /// Whether there is no SA.
    pub fn is_empty(&self) -> bool {
        self.sas.is_empty()
    }

    /// Adds an SA.
    ///
    /// # Errors
    /// The name of the SA with the same SPI; nothing is added then.
    pub(crate) fn enter(&self, entry: DirectoryEntry) -> Result<(), SaName> {
        // Several peers whose addresses are not known yet may have chosen the same SPI.
        if is_nowhere(&entry.name) {
            return Ok(());
        }
        let sas = self.sas.pin();
        match sas.try_insert(SpiKey::of(&entry.name), entry) {
            Ok(_) => {
                self.count_local(&entry.name);
                Ok(())
            }
            Err(taken) => Err(taken.current.name),
        }
    }

    /// Deletes an SA's entry, unless the entry is another SA's by now.
    pub(crate) fn delete(&self, entry: &DirectoryEntry) {
        let is_its = |_: &SpiKey, present: &DirectoryEntry| present.number == entry.number;
        if let Ok(Some((_, gone))) = self.sas.pin().remove_if(&SpiKey::of(&entry.name), is_its) {
            self.discount_local(&gone.name);
        }
    }

    /// Gives an SA another name with the same SPI and direction.
    ///
    /// # Errors
    /// The name of the SA that has its SPI there; it keeps its old name then.
    pub(crate) fn rename(&self, old: &DirectoryEntry, name: SaName) -> Result<(), SaName> {
        let entry = DirectoryEntry { name, ..*old };
        if SpiKey::of(&old.name) != SpiKey::of(&name) {
            self.enter(entry)?;
            self.delete(old);
            return Ok(());
        }
        self.count_local(&name);
        self.sas.pin().update(SpiKey::of(&name), |_| entry);
        self.discount_local(&old.name);
        Ok(())
    }

    /// The other worker that owns the inbound SA of an SPI; `worker` is the one that asks, and has
    /// looked at its own.
    pub(crate) fn other_owner(&self, worker: u16, spi: u32, protocol: SaProtocol) -> Option<u16> {
        // A single worker owns all SAs.
        if self.workers == 1 {
            return None;
        }
        let owner = self.find(&SpiKey { spi, protocol, peer: None })?.owner;
        (owner != worker).then_some(owner)
    }

    /// The outbound SA to a peer under an SPI.
    pub(crate) fn outbound(&self, spi: u32, protocol: SaProtocol, peer: IpAddr) -> Option<SaNumber> {
        self.find(&SpiKey { spi, protocol, peer: Some(peer) })
    }

    fn find(&self, key: &SpiKey) -> Option<SaNumber> {
        self.sas.pin().get(key).map(|entry| entry.number)
    }

    /// Whether an inbound SA of another worker has this outer address of ours, or accepts any of
    /// its family.
    pub(crate) fn has_local(&self, address: IpAddr) -> bool {
        if self.workers == 1 {
            return false;
        }
        let any: IpAddr =
            if address.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let locals = self.locals.pin();
        locals.contains_key(&address) || locals.contains_key(&any)
    }

    fn count_local(&self, name: &SaName) {
        if name.direction == SaDirection::Inbound {
            self.locals.pin().update_or_insert(name.local, |count| count + 1, 1);
        }
    }

    fn discount_local(&self, name: &SaName) {
        if name.direction == SaDirection::Inbound {
            let locals = self.locals.pin();
            let _: Compute<'_, _, _, ()> = locals.compute(name.local, |present| match present {
                Some((_, count)) if *count > 1 => Operation::Insert(count - 1),
                Some(_) => Operation::Remove,
                None => Operation::Abort(()),
            });
        }
    }
}

/// Whether it is an outbound SA whose peer's address is not known yet, which is never looked up.
fn is_nowhere(name: &SaName) -> bool {
    name.direction == SaDirection::Outbound && name.remote.is_unspecified()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::sa::id::SaIndex;

    fn address(host: u8) -> IpAddr {
        [192, 0, 2, host].into()
    }

    fn entry(owner: u16, spi: u32, direction: SaDirection) -> DirectoryEntry {
        let name =
            SaName { spi, direction, protocol: SaProtocol::Esp, local: address(1), remote: address(2) };
        DirectoryEntry { number: SaNumber { owner, index: SaIndex(spi), generation: 1 }, name }
    }

    fn owner(directory: &Directory, asker: u16, spi: u32) -> Option<u16> {
        directory.other_owner(asker, spi, SaProtocol::Esp)
    }

    #[test]
    fn worker_learns_which_other_worker_has_an_sa() {
        let directory = Directory::new(3);
        directory.enter(entry(1, 0x1001, SaDirection::Inbound)).expect("its SPI is free");
        assert_eq!([0, 1, 2].map(|asker| owner(&directory, asker, 0x1001)), [Some(1), None, Some(1)]);
        assert_eq!(owner(&directory, 0, 0x1002), None);
        directory.delete(&entry(1, 0x1001, SaDirection::Inbound));
        assert_eq!((owner(&directory, 0, 0x1001), directory.len()), (None, 0));
    }

    #[test]
    fn an_inbound_spi_is_one_sas_and_an_outbound_one_each_peers_own() {
        let directory = Directory::new(2);
        let inbound = entry(0, 0x1001, SaDirection::Inbound);
        directory.enter(inbound).expect("its SPI is free");
        let from_another = SaName { remote: address(9), ..inbound.name };
        assert_eq!(directory.enter(DirectoryEntry { name: from_another, ..inbound }), Err(inbound.name));
        let outbound = entry(0, 0x1001, SaDirection::Outbound);
        directory.enter(outbound).expect("the other direction");
        assert_eq!(directory.enter(outbound), Err(outbound.name));
        directory
            .enter(DirectoryEntry { name: SaName { remote: address(9), ..outbound.name }, ..outbound })
            .expect("another peer");
        let ah = SaName { protocol: SaProtocol::Ah, ..inbound.name };
        directory.enter(DirectoryEntry { name: ah, ..inbound }).expect("another protocol");
    }

    #[test]
    fn what_comes_late_to_delete_an_sa_does_not_delete_its_successor() {
        let directory = Directory::new(2);
        let old = entry(0, 0x1001, SaDirection::Inbound);
        let successor = DirectoryEntry { number: SaNumber { owner: 1, ..old.number }, ..old };
        directory.enter(old).expect("free");
        directory.delete(&old);
        directory.enter(successor).expect("free again");
        directory.delete(&old);
        assert_eq!(owner(&directory, 0, 0x1001), Some(1));
        assert!(directory.has_local(address(1)));
    }

    #[test]
    fn an_sa_that_moves_is_found_under_its_new_ends_alone() {
        let directory = Directory::new(2);
        let sa = entry(1, 0x1001, SaDirection::Outbound);
        let rival = DirectoryEntry {
            name: SaName { remote: address(9), ..sa.name },
            ..entry(0, 7, sa.name.direction)
        };
        let at = |peer| {
            let found = directory.outbound(0x1001, SaProtocol::Esp, address(peer));
            found.map(|number| number.owner)
        };
        directory.enter(sa).expect("free");
        directory.enter(rival).expect("another peer");
        assert_eq!(directory.rename(&sa, rival.name), Err(rival.name));
        assert_eq!((at(2), at(9)), (Some(1), Some(0)), "it stays where it was");
        directory.rename(&sa, SaName { remote: address(3), ..sa.name }).expect("free");
        assert_eq!((at(2), at(3)), (None, Some(1)));
    }

    #[test]
    fn our_addresses_are_known_as_long_as_an_inbound_sa_has_them() {
        let directory = Directory::new(2);
        let [one, other] = [0x1001, 0x1002].map(|spi| entry(0, spi, SaDirection::Inbound));
        directory.enter(one).expect("free");
        directory.enter(other).expect("free");
        directory.enter(entry(0, 0x1003, SaDirection::Outbound)).expect("free");
        directory.delete(&one);
        assert!(directory.has_local(address(1)) && !directory.has_local(address(7)));
        directory.rename(&other, SaName { local: address(7), ..other.name }).expect("its own SPI");
        assert!(!directory.has_local(address(1)) && directory.has_local(address(7)));
        let any = Ipv4Addr::UNSPECIFIED.into();
        let moved = DirectoryEntry { name: SaName { local: address(7), ..other.name }, ..other };
        directory.rename(&moved, SaName { local: any, ..other.name }).expect("its own SPI");
        assert!(directory.has_local(address(200)) && !directory.has_local(Ipv6Addr::LOCALHOST.into()));
    }

    #[test]
    fn workers_that_look_while_sas_come_and_go_see_each_with_its_owner_or_not_at_all() {
        const STANDING: u32 = 64;
        let directory = Arc::new(Directory::new(2));
        (0..STANDING).for_each(|spi| directory.enter(entry(1, spi, SaDirection::Inbound)).expect("free"));
        let (started, is_started) = std::sync::mpsc::channel();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (directory, started) = (Arc::clone(&directory), started.clone());
                std::thread::spawn(move || {
                    started.send(()).expect("the test waits");
                    // The last SA that comes ends it.
                    while owner(&directory, 0, u32::MAX).is_none() {
                        assert!((0..STANDING).all(|spi| owner(&directory, 0, spi) == Some(1)));
                        let coming = (STANDING..STANDING + 2_000).map(|spi| owner(&directory, 0, spi));
                        assert!(coming.flatten().all(|owner| owner == 1));
                    }
                })
            })
            .collect();
        readers.iter().for_each(|_| is_started.recv().expect("it starts"));
        for round in 0..20 {
            for spi in STANDING..STANDING + 2_000 {
                let sa = entry(1, spi, SaDirection::Inbound);
                if round % 2 == 0 { directory.enter(sa).expect("free") } else { directory.delete(&sa) }
            }
        }
        directory.enter(entry(1, u32::MAX, SaDirection::Inbound)).expect("free");
        readers.into_iter().for_each(|reader| reader.join().expect("no worker saw what was not there"));
        assert_eq!(directory.len(), STANDING as usize + 1);
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_map(steps in proptest::collection::vec((0u8..3, 0u32..8, 0u16..3, 1u8..4), 0..100)) {
            let directory = Directory::new(4);
            let mut map: BTreeMap<u32, DirectoryEntry> = BTreeMap::new();
            for (what, spi, of, host) in steps {
                let mut sa = entry(of, spi, SaDirection::Inbound);
                sa.name.local = address(host);
                match what {
                    0 => {
                        prop_assert_eq!(directory.enter(sa).is_ok(), !map.contains_key(&spi));
                        map.entry(spi).or_insert(sa);
                    }
                    1 => {
                        directory.delete(&sa);
                        if map.get(&spi).is_some_and(|present| present.number == sa.number) {
                            map.remove(&spi);
                        }
                    }
                    _ => if let Some(present) = map.get_mut(&spi) {
                        directory.rename(present, sa.name).expect("its own SPI");
                        present.name = sa.name;
                    },
                }
                for spi in 0..8 {
                    prop_assert_eq!(owner(&directory, 3, spi), map.get(&spi).map(|sa| sa.number.owner));
                }
                for host in 1..4 {
                    let is_there = map.values().any(|sa| sa.name.local == address(host));
                    prop_assert_eq!(directory.has_local(address(host)), is_there);
                }
            }
        }
    }
}
