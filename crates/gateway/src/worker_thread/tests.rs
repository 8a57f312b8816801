//! A worker of a cluster: packets that come before their numbers are reserved.

use convoy_assembly::assemble;
use convoy_dataplane::clock::VirtualTime;
use convoy_dataplane::pipeline::PipelineResources;
use convoy_ipsec::DropReason;
use convoy_packet::{Frame, FrameSize, IpHeader};
use convoy_port::Port;
use convoy_port::memory::{Memory, link};
use convoy_reservation::{Limits, SaStart};
use convoy_scheduler::{CostModel, Input};
use convoy_state::{Note, StartId, Started, Starts};
use data_encoding::HEXLOWER;

use super::*;

const MS: u64 = 1_000_000;
const START: StartId = StartId(7);

/// A gateway with one tunnel; that of site 2 is its peer.
fn config(site: u8) -> Config {
    let peer = 3 - site;
    let key = |site: u8| HEXLOWER.encode(&[site; 20]);
    let text = format!(
        "[gateway]\nworkers = 1\n[[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.{site}\"\n\
         remote = \"192.0.2.{peer}\"\nlocal_ts = [\"10.{site}.0.0/24\"]\nremote_ts = [\"10.{peer}.0.0/24\"]\n\
         esp_proposal = \"aes128gcm16\"\n[tunnel.manual]\nspi_in = 409{site}\nspi_out = 409{peer}\n\
         key_in = \"{}\"\nkey_out = \"{}\"\n",
        key(site),
        key(peer)
    );
    Config::parse("test.toml", &text).expect("good")
}

struct ThreadBench {
    time: VirtualTime,
    thread: WorkerThread,
    notes: Receiver<Note>,
    inside: Memory,
    outside: Memory,
    peer: convoy_dataplane::pipeline::Pipeline,
}

/// A worker that may accept the numbers up to `acceptable`.
fn bench(acceptable: u64) -> ThreadBench {
    let time = VirtualTime::new();
    let assembled = |site: u8, starts: &Starts| {
        let (config, mut costs) = (config(site), assemble::costs());
        costs.set_fixed("software0", CostModel { t_init: 1_000.0, t_block: 10.0 });
        let engines = assemble::engines(&config, &mut costs).expect("software").remove(0);
        let resources = PipelineResources::from(time.clock());
        let (pipeline, installed) =
            assemble::pipeline(&config, 0, engines, &costs, resources, starts).expect("good");
        (pipeline, installed, config, costs)
    };
    let limits = Limits { accept: acceptable, ..Limits::NONE };
    let started = Started::kept(SaStart { limits, ..SaStart::unlimited(1) }, START);
    let noted = Starts::Kept([("t".to_owned(), vec![started])].into());
    let (pipeline, installed, config, costs) = assembled(1, &noted);
    let ((in_port, inside), (out_port, outside)) =
        (link("inside", "hosts", 256, 1_500), link("outside", "network", 256, 1_500));
    let worker = Worker::new(pipeline, vec![Box::new(in_port)], vec![Box::new(out_port)]);
    let mut thread = WorkerThread::new(worker, Arc::new(config), installed, costs.models());
    let (reporter, notes) = Reporter::for_cluster();
    thread.report_to(reporter);
    let (peer, ..) = assembled(2, &Starts::Unlimited);
    ThreadBench { time, thread, notes, inside, outside, peer }
}

impl ThreadBench {
    /// The peer sends this many packets, and the worker has a round.
    fn receive(&mut self, packets: usize) {
        let mut plain = [0; 60];
        IpHeader::new(253, [10, 2, 0, 1].into(), [10, 1, 0, 1].into()).write(&mut plain);
        let take = |_| self.peer.pool_mut().take_filled(&plain, 64).expect("a frame");
        let mut burst: Vec<Frame> = (0..packets).map(take).collect();
        self.peer.outbound(&mut burst);
        while self.peer.pump(Input::Ended) || !self.peer.is_empty() {}
        let mut sealed = std::mem::take(&mut self.peer.departures.to_outside);
        assert_eq!(sealed.len(), packets);
        self.outside.send(self.peer.pool_mut(), &mut sealed).expect("memory does not fail");
        self.round();
    }

    fn round(&mut self) {
        self.thread.worker.round(true).expect("memory does not fail");
    }

    fn delivered(&mut self) -> usize {
        let mut burst = Vec::new();
        let count = self.inside.receive(self.peer.pool_mut(), 256, &mut burst).expect("it is there");
        self.peer.pool_mut().give_back_burst(&mut burst);
        count
    }

    /// The highest numbers of the peer that were reported.
    fn asked(&mut self) -> Vec<u64> {
        let received = |note| match note {
            Note::Report(report) => report.progress().iter().map(|progress| progress.used.received).collect(),
            Note::End => Vec::new(),
        };
        self.notes.try_iter().flat_map(received).collect()
    }

    fn grant(&mut self, accept: u64) {
        self.thread.extend_numbers(&[(START, Limits { send: u64::MAX, accept })].into());
        self.round();
    }

    fn unreserved(&self) -> u64 {
        self.thread.tables().drops().get(DropReason::InboundUnreserved)
    }

    fn assert_no_leak(&mut self) {
        let pool = self.thread.worker.pipeline_mut().pool_mut();
        for size in FrameSize::ALL {
            assert_eq!(pool.available(size), pool.total(size), "no frame is lost");
        }
    }
}

#[test]
fn packets_above_the_reserve_are_asked_for_at_once_and_delivered_when_it_grows() {
    let mut bench = bench(4);
    bench.thread.ask_for_held();
    assert!(bench.asked().is_empty(), "none waits");
    bench.receive(6);
    assert_eq!(bench.delivered(), 4);
    bench.thread.ask_for_held();
    assert_eq!(bench.asked(), [6]);
    bench.time.advance_to(MS);
    bench.receive(1);
    bench.thread.ask_for_held();
    assert_eq!(bench.asked(), [7], "another one asks again, although no answer has come");
    bench.grant(6);
    assert_eq!(bench.delivered(), 2);
    bench.thread.ask_for_held();
    assert_eq!(bench.asked(), [7], "what was granted was too little");
    bench.grant(11);
    assert_eq!((bench.delivered(), bench.unreserved()), (1, 0));
    bench.assert_no_leak();
}

#[test]
fn a_pair_that_begins_without_numbers_asks_for_some_although_it_never_moves() {
    let mut bench = bench(0);
    bench.thread.report_numbers();
    assert_eq!(bench.asked(), [0]);
    // What it asked may have been lost.
    bench.time.advance_to(10_000 * MS);
    bench.thread.report_numbers();
    assert_eq!(bench.asked(), [0]);
    bench.receive(3);
    assert_eq!(bench.delivered(), 0);
    bench.grant(8);
    assert_eq!((bench.delivered(), bench.unreserved()), (3, 0));
}

#[test]
fn a_small_reserve_is_asked_for_when_half_of_it_is_used() {
    let mut bench = bench(16);
    bench.thread.report_numbers();
    bench.asked();
    for (packets, now_ns, asked) in [(7, 11, &[][..]), (1, 22, &[8])] {
        bench.receive(packets);
        bench.time.advance_to(now_ns * MS);
        bench.thread.report_numbers();
        assert_eq!(bench.asked(), asked);
    }
    bench.grant(12);
    for (now_ns, asked) in [(33, &[][..]), (44, &[10])] {
        bench.receive(1);
        bench.time.advance_to(now_ns * MS);
        bench.thread.report_numbers();
        assert_eq!(bench.asked(), asked, "of four numbers, two are left");
    }
    assert_eq!((bench.delivered(), bench.unreserved()), (10, 0));
}

#[test]
fn a_worker_that_stands_by_gives_up_the_packets_that_wait() {
    let mut bench = bench(4);
    bench.receive(6);
    assert!(bench.thread.worker.is_drained(), "what waits does not delay it");
    bench.thread.stand_by(convoy_config::GROUP);
    assert_eq!((bench.delivered(), bench.unreserved()), (4, 2));
    bench.assert_no_leak();
}
