//! SAs that leave while packets for them still come.

use std::net::{IpAddr, Ipv4Addr};

use convoy_ipsec::{Action, DropReason, IpsecConfig, Policy, PolicyDirection, Selector, TunnelId};
use convoy_packet::IpHeader;

use super::*;

const WINDOW: u32 = 8;
/// As many as stay in the window until more arrive or the input ends.
const WAITING: u32 = WINDOW - 1;

fn outer(end: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, end).into()
}

fn inner(end: u8) -> IpAddr {
    Ipv4Addr::new(10, end, 0, 1).into()
}

/// One end of a tunnel, with the SA of packets from end 1 to end 2.
fn end(number: u8, direction: SaDirection) -> (Pipeline, SaIndex) {
    // Without faults, but with a queue, so that packets stay in the window.
    let queued = Faulty::new(Box::new(Software::new("good")), FaultPlan::none());
    end_with(number, direction, vec![Box::new(queued)], WINDOW as usize)
}

/// One end of a tunnel with these engines and this window.
pub(super) fn end_with(
    number: u8,
    direction: SaDirection,
    engines: Vec<Box<dyn Engine>>,
    window: usize,
) -> (Pipeline, SaIndex) {
    end_at(Clock::start(), number, direction, engines, window)
}

/// One end of a tunnel by this clock.
pub(super) fn end_at(
    clock: Clock,
    number: u8,
    direction: SaDirection,
    engines: Vec<Box<dyn Engine>>,
    window: usize,
) -> (Pipeline, SaIndex) {
    let scheduler = SchedulerConfig { window, ..SchedulerConfig::default() };
    let stage = CryptoStage::new(StageConfig::new(scheduler), EngineSet::new(engines), clock.clone())
        .expect("in range");
    let pool = FramePool::new(FRAMES, 0);
    let mut pipeline = Pipeline::new(Ipsec::new(IpsecConfig::default()), stage, pool, clock);
    let prefix = |end| format!("10.{end}.0.0/16").parse().expect("a selector");
    pipeline.ipsec_mut().set_policies(vec![Policy {
        name: "all".to_owned(),
        priority: 1,
        direction: PolicyDirection::Both,
        interface: 0,
        selector: Selector { local: prefix(number), remote: prefix(3 - number) },
        action: Action::Protect(TunnelId(0)),
    }]);
    let sa = install(&mut pipeline, number, direction);
    (pipeline, sa)
}

fn install(pipeline: &mut Pipeline, number: u8, direction: SaDirection) -> SaIndex {
    let sa = SaConfig::new(0x1001, direction, outer(number), outer(3 - number), keys(0));
    pipeline.install(&sa, &|_, _| CostModel { t_init: 1.0, t_block: 1.0 }.into()).expect("its SPI is free")
}

pub(super) fn packets(pipeline: &mut Pipeline, count: u32) -> Vec<Frame> {
    let mut packet = vec![0; 100];
    IpHeader::new(253, inner(1), inner(2)).write(&mut packet);
    (0..count).map(|_| pipeline.pool_mut().take_filled(&packet, 64).expect("enough frames")).collect()
}

/// Everything that arrived is gone, and more may arrive.
fn assert_idle(pipeline: &mut Pipeline) {
    pipeline.pump(Input::Ended);
    assert!(pipeline.has_room(), "packets wait for an SA that has left, and nothing is read any more");
    assert!(pipeline.is_empty() && !pipeline.is_retiring());
    assert_eq!(pipeline.ipsec().tables.sas().count(), 0);
}

#[test]
fn packets_that_a_policy_sends_to_an_outbound_sa_that_leaves_hold_nothing_up() {
    let (mut pipeline, sa) = end(1, SaDirection::Outbound);
    let mut burst = packets(&mut pipeline, WAITING);
    pipeline.outbound(&mut burst);
    pipeline.retire(sa);
    let mut burst = packets(&mut pipeline, 4);
    pipeline.outbound(&mut burst);
    assert_idle(&mut pipeline);
    assert_eq!(pipeline.departures.to_outside.len(), WAITING as usize, "what came before it left");
    assert_eq!(pipeline.ipsec().tables.drops().get(DropReason::OutboundNoSa), 4);
}

#[test]
fn packets_that_come_to_an_inbound_sa_that_leaves_hold_nothing_up() {
    let (mut sender, _) = end(1, SaDirection::Outbound);
    let mut burst = packets(&mut sender, WAITING + 4);
    sender.outbound(&mut burst);
    sender.pump(Input::Ended);
    let mut sealed = std::mem::take(&mut sender.departures.to_outside);
    let (mut receiver, sa) = end(2, SaDirection::Inbound);
    let mut late = sealed.split_off(WAITING as usize);
    receiver.inbound(&mut sealed);
    receiver.retire(sa);
    receiver.inbound(&mut late);
    assert_idle(&mut receiver);
    assert_eq!(receiver.departures.to_inside.len(), WAITING as usize, "what came before it left");
    assert_eq!(receiver.ipsec().tables.drops().get(DropReason::UnknownSpi), 4);
}

#[test]
fn a_successor_may_have_the_spi_of_an_sa_that_still_has_packets_under_way() {
    let (mut pipeline, old) = end(1, SaDirection::Outbound);
    let mut burst = packets(&mut pipeline, 3);
    pipeline.outbound(&mut burst);
    pipeline.retire(old);
    let new = install(&mut pipeline, 1, SaDirection::Outbound);
    let leaving: Vec<_> = pipeline.ipsec().tables.sas().map(|view| (view.index, view.is_withdrawn)).collect();
    assert_eq!(leaving, vec![(old, true), (new, false)]);
    let mut burst = packets(&mut pipeline, 2);
    pipeline.outbound(&mut burst);
    pipeline.pump(Input::Ended);
    assert_eq!(pipeline.departures.to_outside.len(), 5);
    let left: Vec<_> = pipeline.ipsec().tables.sas().map(|view| (view.index, view.sequence)).collect();
    assert_eq!(left, vec![(new, 2)]);
}

#[test]
fn packets_that_were_done_in_place_leave_though_their_sa_is_let_go_at_once() {
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("in place"))];
    let (mut pipeline, sa) = end_with(1, SaDirection::Outbound, engines, WINDOW as usize);
    let mut burst = packets(&mut pipeline, 5);
    pipeline.outbound(&mut burst);
    pipeline.retire(sa);
    pipeline.pump(Input::Paused);
    assert_eq!(pipeline.departures.to_outside.len(), 5);
    assert_eq!(pipeline.ipsec().counters().drops.total(), 0);
}
