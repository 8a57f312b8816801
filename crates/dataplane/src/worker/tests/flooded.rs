//! A worker whose engine does not keep up with a flood that the kernel puts into its own queue.

use convoy_ipsec::Directory;
use convoy_port::Memory;

use super::fixture::SPI_IN;
use super::*;
use crate::pipeline::PipelineResources;

/// Packets of the flood; more than window, engine and pipeline take in.
const FLOOD: u32 = 3_000;
const OTHERS: u32 = 30;

fn slow_engine() -> Box<dyn Engine> {
    let plan = FaultPlan::once(InjectedFault::Slow { polls: u32::MAX }, 0);
    Box::new(Faulty::new(Box::new(Software::new("engine")), plan))
}

/// Both workers, the first with an engine that is slower than any flood, and the far end of its
/// port outside.
fn workers(time: &VirtualTime) -> ([Worker; 2], Memory) {
    let directory = Arc::new(Directory::new(2));
    let mut costs = Costs::without_cache();
    costs.set_fixed("engine", CostModel { t_init: 1_000.0, t_block: 10.0 });
    let (outside, network) = memory::link("outside", "network", 2 * FLOOD as usize, 1_500);
    let mut ports: Vec<Vec<Box<dyn Port>>> = vec![Vec::new(), vec![Box::new(outside)]];
    let handoffs = Handoff::between(2).expect("event files");
    let workers: Vec<Worker> = handoffs
        .into_iter()
        .zip(0_u16..)
        .map(|(handoff, number)| {
            let engine: Box<dyn Engine> =
                if number == 0 { slow_engine() } else { Box::new(Software::new("engine")) };
            let clock = time.clock();
            let resources = PipelineResources { directory: Arc::clone(&directory), ..clock.into() };
            let fixture = Fixture { tunnels: 2, worker: number, ..Fixture::default() };
            let pipeline = fixture.pipeline(vec![engine], &costs, resources);
            let outside = ports.pop().expect("one for each");
            Worker::new(pipeline, Vec::new(), outside).among(handoff)
        })
        .collect();
    (workers.try_into().ok().expect("two"), network)
}

/// Sends packets with this SPI to the first worker's port.
fn send(network: &mut Memory, pool: &mut FramePool, spi: u32, count: u32) {
    let mut packet = vec![0xa5; 100];
    IpHeader::new(ESP, [192, 0, 2, 2].into(), [192, 0, 2, 1].into()).write(&mut packet);
    packet[20..24].copy_from_slice(&spi.to_be_bytes());
    let numbered = (1..=count).map(|sequence| {
        packet[24..28].copy_from_slice(&sequence.to_be_bytes());
        pool.take_filled(&packet, 64).expect("a frame")
    });
    let mut burst: Vec<Frame> = numbered.collect();
    assert_eq!(network.send(pool, &mut burst).expect("memory does not fail"), count as usize);
}

#[test]
fn a_worker_that_is_flooded_itself_hands_the_packets_of_others_over() {
    let time = VirtualTime::new();
    let ([mut flooded, mut other], mut network) = workers(&time);
    let mut pool = FramePool::new(2 * FLOOD as usize, 0);
    send(&mut network, &mut pool, SPI_IN, FLOOD);
    send(&mut network, &mut pool, SPI_IN + 1, OTHERS);
    for _ in 0..1_000 {
        time.advance_to(time.now_ns() + 100_000);
        flooded.round(true).expect("no port fails");
        other.round(true).expect("no port fails");
    }
    assert_eq!(flooded.handed_over(), u64::from(OTHERS));
    let reasons = |worker: &Worker| -> Vec<_> { worker.pipeline().ipsec().tables.drops().met().collect() };
    let dropped = reasons(&flooded);
    assert!(matches!(dropped[..], [(DropReason::Overloaded, count)] if count > 1_000), "{dropped:?}");
    assert_eq!(reasons(&other), [(DropReason::IntegrityFailed, u64::from(OTHERS))], "they have come there");
}

#[test]
fn worker_that_is_alone_reads_on_where_packets_have_classes() {
    for (classes, reads_on) in [(1, false), (2, true)] {
        let time = VirtualTime::new();
        let mut costs = Costs::without_cache();
        costs.set_fixed("engine", CostModel { t_init: 1_000.0, t_block: 10.0 });
        let (outside, mut network) = memory::link("outside", "network", 2 * FLOOD as usize, 1_500);
        let scheduler = SchedulerConfig { classes, ..Fixture::default().scheduler };
        let fixture = Fixture { scheduler, ..Fixture::default() };
        let pipeline = fixture.pipeline(vec![slow_engine()], &costs, time.clock());
        let mut worker = Worker::new(pipeline, Vec::new(), vec![Box::new(outside)]);
        let mut pool = FramePool::new(2 * FLOOD as usize, 0);
        send(&mut network, &mut pool, SPI_IN, FLOOD);
        for _ in 0..1_000 {
            time.advance_to(time.now_ns() + 100_000);
            worker.round(true).expect("no port fails");
        }
        let dropped: u64 = worker.pipeline().ipsec().tables.drops().met().map(|(_, count)| count).sum();
        assert_eq!(dropped > 1_000, reads_on, "{classes} classes: {dropped} dropped");
    }
}
