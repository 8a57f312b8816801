//! Workers that change their own SAs' entries while others look, in every order of their steps.

use std::sync::Arc;

use loom::thread;

use super::*;
use crate::sa::id::SaIndex;

const SPI: u32 = 0x1001;

fn address(host: u8) -> IpAddr {
    [192, 0, 2, host].into()
}

/// An SA of a worker under the SPI `SPI`, with the address `local` of ours.
fn inbound(owner: u16, local: u8) -> DirectoryEntry {
    let (direction, protocol) = (SaDirection::Inbound, SaProtocol::Esp);
    let name = SaName { spi: SPI, direction, protocol, local: address(local), remote: address(2) };
    DirectoryEntry { number: SaNumber { owner, index: SaIndex(7), generation: 1 }, name }
}

fn owner(directory: &Directory) -> Option<u16> {
    directory.other_owner(9, SPI, SaProtocol::Esp)
}

fn entered(entry: &DirectoryEntry) -> Arc<Directory> {
    let directory = Arc::new(Directory::new(3));
    directory.enter(*entry).expect("its SPI is free");
    directory
}

#[test]
fn one_of_two_workers_gets_an_spi_and_only_its_address_counts() {
    loom::model(|| {
        let directory = Arc::new(Directory::new(3));
        let other = thread::spawn({
            let directory = Arc::clone(&directory);
            move || directory.enter(inbound(1, 11)).is_ok()
        });
        let is_ours = directory.enter(inbound(0, 10)).is_ok();
        let is_others = other.join().expect("it enters or not");
        assert!(is_ours != is_others);
        assert_eq!(owner(&directory), Some(u16::from(is_others)));
        assert_eq!([10, 11].map(|host| directory.has_local(address(host))), [is_ours, is_others]);
    });
}

#[test]
fn successor_of_an_sa_stays_when_the_removal_comes_again() {
    loom::model(|| {
        let (old, successor) = (inbound(0, 10), inbound(1, 10));
        let directory = entered(&old);
        let late = thread::spawn({
            let directory = Arc::clone(&directory);
            move || directory.delete(&old)
        });
        directory.delete(&old);
        let is_entered = directory.enter(successor).is_ok();
        late.join().expect("it deletes or not");
        assert!(is_entered, "its SPI is free");
        assert_eq!(owner(&directory), Some(1));
        assert!(directory.has_local(address(10)));
    });
}

#[test]
fn worker_that_looks_at_an_sa_that_moves_finds_it_and_one_of_its_addresses() {
    loom::model(|| {
        let (old, new) = (inbound(0, 10), inbound(0, 11));
        let directory = entered(&old);
        let reader = thread::spawn({
            let directory = Arc::clone(&directory);
            move || {
                assert_eq!(owner(&directory), Some(0));
                assert!(directory.has_local(address(10)) || directory.has_local(address(11)));
            }
        });
        directory.rename(&old, new.name).expect("its own SPI");
        reader.join().expect("it is found");
        assert_eq!([10, 11].map(|host| directory.has_local(address(host))), [false, true]);
    });
}

#[test]
fn outbound_sa_that_moves_is_at_its_new_peer_once_it_is_not_at_the_old_one() {
    loom::model(|| {
        let mut old = inbound(0, 1);
        old.name.direction = SaDirection::Outbound;
        let directory = entered(&old);
        let reader = thread::spawn({
            let directory = Arc::clone(&directory);
            let at = move |host| directory.outbound(SPI, SaProtocol::Esp, address(host)).is_some();
            move || assert!(at(2) || at(3))
        });
        directory.rename(&old, SaName { remote: address(3), ..old.name }).expect("free");
        reader.join().expect("it is found");
        assert_eq!(directory.len(), 1);
    });
}

#[test]
fn address_of_two_workers_is_known_until_both_have_removed_their_sas() {
    loom::model(|| {
        let (ours, mut others) = (inbound(0, 10), inbound(1, 10));
        others.name.spi += 1;
        let directory = entered(&ours);
        let other = thread::spawn({
            let directory = Arc::clone(&directory);
            move || {
                directory.enter(others).expect("free");
                assert!(directory.has_local(address(10)));
                directory.delete(&others);
            }
        });
        directory.delete(&ours);
        other.join().expect("its address is known");
        assert!(!directory.has_local(address(10)) && directory.is_empty());
    });
}
