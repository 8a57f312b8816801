//! Ethernet devices over `net_ring`, which receives from a ring what was sent to it.
//!
//! A process can start EAL once, so all tests share it; each test has its own devices.

use convoy_dpdk::{ETHERNET_BURST, Eal, EthernetConfig, EthernetCounters, EthernetQueue, default_arguments};
use convoy_packet::MacAddress;

const HEADER: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
/// Frames that a ring of `net_ring` holds.
const RING: usize = 1023;

fn eal() -> &'static Eal {
    Eal::start(&default_arguments([])).expect("DPDK starts without huge pages, PCI and privileges")
}

fn config() -> EthernetConfig {
    EthernetConfig { queues: 1, descriptors: 1024, mtu: 1500, mac: None, all_groups: false }
}

fn loopback(name: &str) -> EthernetQueue {
    eal().ethernet(name, &config()).expect("net_ring is linked").queues.pop().expect("one was asked for")
}

fn received(queue: &mut EthernetQueue, limit: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let count = queue.receive(limit, |frame| frames.push(frame.to_vec()));
    assert_eq!(count, frames.len());
    frames
}

#[test]
fn what_is_sent_comes_out_behind_its_header_and_in_order() {
    let mut queue = loopback("net_ring_order");
    let packets: Vec<Vec<u8>> = (1..=40_u8).map(|at| vec![at; usize::from(at) * 37]).collect();
    assert_eq!(queue.send(packets.iter().map(|packet| (HEADER, &packet[..]))), 40);
    let frames = [received(&mut queue, 7), received(&mut queue, 64), received(&mut queue, 64)];
    assert_eq!(frames.each_ref().map(Vec::len), [7, 33, 0]);
    for (frame, packet) in frames.iter().flatten().zip(&packets) {
        assert_eq!(frame[..], [&HEADER[..], packet].concat());
    }
}

#[test]
fn a_burst_has_a_limit_and_no_packets_are_no_burst() {
    let mut queue = loopback("net_ring_burst");
    assert_eq!(queue.send(std::iter::repeat_n((HEADER, &[1_u8; 60][..]), 100)), ETHERNET_BURST);
    assert_eq!(received(&mut queue, 1_000).len(), ETHERNET_BURST);
    assert_eq!(queue.send([]), 0);
    assert_eq!(received(&mut queue, 0).len(), 0);
}

#[test]
fn what_a_full_ring_has_no_room_for_stays_with_the_sender() {
    let mut queue = loopback("net_ring_full");
    let packet = [7; 100];
    let send =
        |queue: &mut EthernetQueue| queue.send(std::iter::repeat_n((HEADER, &packet[..]), ETHERNET_BURST));
    let mut sent = 0;
    loop {
        let more = send(&mut queue);
        sent += more;
        if more < ETHERNET_BURST {
            break;
        }
    }
    assert_eq!(sent, RING);
    assert_eq!(send(&mut queue), 0);
    assert_eq!(received(&mut queue, 5).len(), 5);
    assert_eq!(send(&mut queue), 5, "there is room for as many as were taken");
    // Sends more frames than there are buffers, so that a leaked buffer would be noticed.
    for _ in 0..200 {
        while !received(&mut queue, ETHERNET_BURST).is_empty() {}
        assert_eq!(send(&mut queue), ETHERNET_BURST);
    }
    let EthernetCounters { missed, receive_errors, no_buffer, .. } = queue.device_counters();
    assert_eq!([missed, receive_errors, no_buffer], [0; 3]);
}

#[test]
fn queues_of_one_device_have_frames_of_their_own() {
    let name = "net_ring_queues";
    let two = EthernetConfig { queues: 2, ..config() };
    let mut queues = eal().ethernet(name, &two).expect("16 rings").queues;
    let [first, second] = &mut queues[..] else { panic!("two were asked for") };
    assert_eq!(first.send([(HEADER, &[1_u8; 60][..])]), 1);
    assert_eq!(second.send([(HEADER, &[2_u8; 60][..]); 2]), 2);
    assert_eq!(received(second, 64).len(), 2);
    let frames = std::thread::scope(|scope| scope.spawn(|| received(first, 64)).join().expect("no panic"));
    assert_eq!(frames.len(), 1);
}

#[test]
fn a_device_has_one_owner_and_is_listed() {
    let name = "net_ring_owner";
    let _owner = loopback(name);
    let error = eal().ethernet(name, &config()).expect_err("it is taken").to_string();
    assert_eq!(
        error,
        "DPDK's device net_ring_owner is already used by another port; each port needs a device of its own"
    );
    let listed = eal().ethernet_devices();
    let device = listed.iter().find(|device| device.name == name).expect("it is there");
    assert_eq!(device.driver, "net_ring");
    assert!(device.max_queue_pairs >= 2, "{device:?}");
}

#[test]
fn what_a_device_cannot_be_is_said_with_what_to_do() {
    let refused = |name: &str, config| {
        let error = eal().ethernet(name, &config).expect_err("it cannot be").to_string();
        println!("{error}");
        error
    };
    let many = refused("net_ring_many", EthernetConfig { queues: 1_000, ..config() });
    assert!(many.contains("queue pairs for 16 of 1000 workers; set workers lower"), "{many}");
    let long = refused("net_ring_long", EthernetConfig { mtu: 100_000, ..config() });
    assert!(long.starts_with("DPDK's device net_ring_long does not start: "), "{long}");
    // The longest name that a port's configuration accepts, and one that is too long.
    let _longest = loopback("net_ring_of_17_ch");
    let named = refused("net_ring_of_18_let", config());
    assert!(named.starts_with("DPDK has no device \"net_ring_of_18_let\": "), "{named}");
    let _one = loopback("net_ring_seen");
    let unknown = refused("net_no_such_driver0", config());
    assert!(unknown.starts_with("DPDK has no device \"net_no_such_driver0\": "), "{unknown}");
    assert!(unknown.contains("net_ring_seen (driver net_ring)"), "{unknown}");
}

#[test]
fn a_device_has_the_address_that_it_is_given() {
    let mac = MacAddress([2, 0, 0, 0, 0, 9]);
    let device =
        eal().ethernet("net_ring_mac", &EthernetConfig { mac: Some(mac), ..config() }).expect("a device");
    assert_eq!(device.mac, mac);
}
