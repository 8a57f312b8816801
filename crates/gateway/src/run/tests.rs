//! A gateway of two workers over ports in memory, with workers that hang or panic.

use convoy_config::PortEngine;
use convoy_config::TunnelConfig;
use convoy_dataplane::pipeline::Pipeline;
use convoy_engine::{FaultPlan, Faulty, InjectedFault, Software};
use convoy_ike::state::{NegotiatedEnds, PolicyStep, PolicyUpdate, Refusal, SaBackend as _};
use convoy_ipsec::{KeyMaterial, Policy, Proposal, SaConfig, SaDirection, TunnelId, UdpEncap};
use convoy_packet::{Frame, FramePool};
use convoy_port::Port;
use convoy_port::memory::{Memory, link};
use convoy_process::supervise;
use convoy_report::events::What;
use convoy_reservation::{SaStart, Used};
use convoy_scheduler::{CostModel, Input};
use convoy_state::{StartId, Started};
use data_encoding::HEXLOWER;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::Sender;
use std::time::Instant;

use super::*;
use crate::charon::Workers as CharonsWorkers;
use crate::worker_thread::DRAIN;

mod many;
mod reloads;
mod surveys;

const WORKERS: u16 = 2;
/// Packets that a link can hold.
const LINK: usize = 256;
/// Time limit for anything, on a loaded machine.
const SLACK: Duration = Duration::from_secs(20);

/// Tunnels that are assigned to the workers in turn.
fn config(tunnels: u32, site: u8, workers: u16) -> Config {
    let peer = 3 - site;
    let mut text = format!("[gateway]\nworkers = {workers}\n");
    for tunnel in 0..tunnels {
        let spi = |site: u8| u32::from(site) << 20 | tunnel;
        let key = |site: u8| HEXLOWER.encode(&[&tunnel.to_be_bytes()[..], &[site; 16]].concat());
        let network = |site: u8| format!("{}/24", host(site, tunnel, 0));
        text += &format!(
            "[[tunnel]]\nname = \"t{tunnel}\"\nlocal = \"192.0.2.{site}\"\nremote = \"192.0.2.{peer}\"\n\
             local_ts = [\"{}\"]\nremote_ts = [\"{}\"]\n\
             esp_proposal = \"aes128gcm16\"\nencap = \"udp\"\n[tunnel.manual]\nspi_in = {}\nspi_out = {}\n\
             key_in = \"{}\"\nkey_out = \"{}\"\n",
            network(site),
            network(peer),
            spi(site),
            spi(peer),
            key(site),
            key(peer)
        );
    }
    Config::parse("test.toml", &text).expect("good")
}

/// A host of a tunnel's network at a site.
fn host(site: u8, tunnel: u32, number: u8) -> Ipv4Addr {
    let [_, _, high, low] = tunnel.to_be_bytes();
    Ipv4Addr::new(10 + site, high, low, number)
}

/// Costs without measurement, so that no cache on this machine is read.
fn costs() -> Costs {
    let mut costs = assemble::costs();
    costs.set_fixed("software0", CostModel { t_init: 1_000.0, t_block: 10.0 });
    costs
}

struct GatewayBench {
    gateway: Gateway,
    orders: Sender<Order>,
    received: Receiver<Order>,
    /// The test's ends of each worker's ports.
    inside: Vec<Memory>,
    outside: Vec<Memory>,
    peer: Pipeline,
}

/// A gateway with two tunnels: the first belongs to worker 0, the second to worker 1.
fn bench() -> GatewayBench {
    bench_of(2)
}

fn bench_of(tunnels: u32) -> GatewayBench {
    bench_with(tunnels, Vec::new())
}

/// A gateway with so many tunnels, and with further engines of worker 0.
fn bench_with(tunnels: u32, engines: Vec<PortEngine>) -> GatewayBench {
    let (mut inside, mut outside, mut queues) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..WORKERS {
        let ((in_port, in_end), (out_port, out_end)) =
            (link("inside", "hosts", LINK, 1_500), link("outside", "network", LINK, 1_500));
        queues.push([vec![Box::new(in_port) as Box<dyn Port>], vec![Box::new(out_port) as _]]);
        inside.push(in_end);
        outside.push(out_end);
    }
    let ports = OpenPorts { queues, engines, watched: Vec::new() };
    let ours = config(tunnels, 1, WORKERS);
    let engines = OpenEngines::configured(&ours).expect("software is everywhere");
    let opened = OpenedDevices { ports, engines, charon: None, state: None, cluster: None, costs: costs() };
    let gateway = Gateway::over(ours, opened, Events::default(), Faults::default()).expect("good");
    let (peers, mut costs) = (config(tunnels, 2, 1), costs());
    let engines = assemble::engines(&peers, &mut costs).expect("software is everywhere").remove(0);
    let (peer, _) =
        assemble::pipeline(&peers, 0, engines, &costs, Clock::start(), &Starts::Unlimited).expect("good");
    let (orders, received) = channel();
    GatewayBench { gateway, orders, received, inside, outside, peer }
}

/// A UDP packet from a host behind the peer to a host behind the gateway.
fn inner(tunnel: u32, mark: u8) -> Vec<u8> {
    let mut packet = vec![0; 64];
    let header = convoy_packet::IpHeader::new(17, host(2, tunnel, 9).into(), host(1, tunnel, 9).into());
    header.write(&mut packet);
    convoy_packet::udp::write(&mut packet[header.header_len()..], 7, 7);
    packet[63] = mark;
    packet
}

impl GatewayBench {
    /// Has the peer seal an inner packet, into frames of the peer's.
    fn sealed(&mut self, inner: &[u8]) -> Vec<Frame> {
        let frame = self.peer.pool_mut().take_filled(inner, 64).expect("a frame");
        self.peer.outbound(&mut vec![frame]);
        while self.peer.pump(Input::Ended) || !self.peer.is_empty() {}
        std::mem::take(&mut self.peer.departures.to_outside)
    }

    /// Puts packets into the queue of a worker's outside port.
    fn arrive(&mut self, worker: usize, mut frames: Vec<Frame>) {
        let until = Instant::now() + SLACK;
        while !frames.is_empty() {
            self.outside[worker].send(self.peer.pool_mut(), &mut frames).expect("memory does not fail");
            assert!(Instant::now() < until, "worker {worker} reads no more");
            std::thread::yield_now();
        }
    }

    /// Whether the packet with this mark is delivered inside, by any worker.
    fn delivered(&mut self, mark: u8) -> bool {
        let (until, mut burst) = (Instant::now() + SLACK, Vec::new());
        while Instant::now() < until {
            for port in &mut self.inside {
                port.receive(self.peer.pool_mut(), 64, &mut burst).expect("memory does not fail");
            }
            if burst.iter().any(|frame| frame.len() == 64 && frame[63] == mark) {
                self.peer.pool_mut().give_back_burst(&mut burst);
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// Makes a worker hang until the returned sender is dropped.
    fn hang(&self, worker: usize) -> Sender<()> {
        let (entered, is_there) = channel();
        let (release, released) = channel::<()>();
        self.gateway.handles.send(worker, move |_| {
            entered.send(()).expect("the test waits");
            let _ = released.recv();
        });
        is_there.recv_timeout(SLACK).expect("the worker works");
        release
    }

    /// The number of SAs of each worker.
    fn sas(&self) -> Vec<usize> {
        let count = |thread: &mut WorkerThread| thread.worker_mut().pipeline().ipsec().tables.sas().count();
        self.gateway.handles.ask(count).into_iter().map(|count| count.expect("it works")).collect()
    }
}

/// An SA negotiated by charon, which this worker serves.
fn sa(spi: u32, worker: u16) -> SaConfig {
    let proposal: Proposal = "aes128gcm16".parse().expect("a proposal");
    let keys = KeyMaterial::new(proposal.transform, vec![1; 20]).expect("its length");
    let ends = [[192, 0, 2, 1], [192, 0, 2, 2]].map(Into::into);
    SaConfig {
        tunnel: TunnelId(1 << 30 | u32::from(worker)),
        ..SaConfig::new(spi, SaDirection::Inbound, ends[0], ends[1], keys)
    }
}

#[test]
fn an_overloaded_tunnel_stops_no_tunnel_of_another_worker() {
    let mut bench = bench();
    let hung = bench.hang(1);
    let [junk] = &bench.sealed(&inner(1, 0))[..] else { panic!("one packet") };
    let mut junk = junk.to_vec();
    *junk.last_mut().expect("an ICV") ^= 1;
    let mut pool = FramePool::new(3_100, 0);
    for _ in 0..3_000 {
        let until = Instant::now() + SLACK;
        let frame = loop {
            match pool.take_filled(&junk, 0) {
                Some(frame) => break frame,
                None => assert!(Instant::now() < until, "the flooded queue is read no more"),
            }
            std::thread::yield_now();
        };
        bench.arrive(0, vec![frame]);
    }
    let answered = (1..=30).filter(|mark| {
        let sealed = bench.sealed(&inner(0, *mark));
        bench.arrive(0, sealed);
        bench.delivered(*mark)
    });
    assert_eq!(answered.count(), 30);
    let drops = bench.gateway.snapshot(None).drops;
    assert!(drops.iter().any(|(reason, count)| reason == "handoff_full" && *count > 1_000), "{drops:?}");
    drop(hung);
    let until = Instant::now() + SLACK;
    while bench.gateway.handles.ask(|thread| thread.worker_mut().is_drained()).contains(&Some(false)) {
        assert!(Instant::now() < until, "the overloaded worker does not catch up");
    }
    let sealed = bench.sealed(&inner(1, 77));
    bench.arrive(0, sealed);
    assert!(bench.delivered(77), "the overloaded tunnel works again");
    bench.orders.send(Order::Stop).expect("received");
    bench.gateway.work(&bench.received).expect("all workers end");
}

#[test]
fn a_worker_that_panics_ends_the_gateway_with_its_number_and_what_it_said() {
    let mut bench = bench();
    bench.gateway.handles.send(1, |_| panic!("provoked by a test"));
    let began = Instant::now();
    let error = bench.gateway.work(&bench.received).expect_err("a worker is gone");
    assert!(began.elapsed() < DRAIN, "the others do not wait for it");
    assert_eq!(
        error.to_string(),
        "worker 1 ended because of a fault in convoy, please report it: provoked by a test"
    );
}

#[test]
fn a_thread_that_ended_by_a_fault_ends_the_gateway() {
    let mut bench = bench();
    bench.gateway.faults.sender().send(supervise::Fault::Thread("signals".to_owned())).expect("received");
    let error = bench.gateway.work(&bench.received).expect_err("no thread receives signals");
    assert!(matches!(error, RunError::Thread(name) if name == "signals"));
}

#[test]
fn a_hung_worker_is_shown_and_does_not_keep_the_gateway_from_ending() {
    let mut bench = bench();
    let hung = bench.hang(1);
    let snapshot = bench.gateway.snapshot(None);
    assert_eq!((snapshot.silent_workers, snapshot.sas.len()), (vec![1], 2));
    bench.orders.send(Order::Stop).expect("received");
    let error = bench.gateway.work(&bench.received).expect_err("a worker does not end");
    // On a busy machine the other may not end in time either.
    assert!(matches!(&error, RunError::Hung(workers) if workers.contains(&1)), "{error}");
    assert!(error.to_string().contains("did not end in time"), "{error}");
    drop(hung);
}

#[test]
fn a_second_order_to_stop_ends_the_gateway_at_once() {
    let mut bench = bench();
    let hung = bench.hang(0);
    bench.orders.send(Order::Stop).expect("received");
    bench.orders.send(Order::Stop).expect("received");
    let began = Instant::now();
    let error = bench.gateway.work(&bench.received).expect_err("a worker does not end");
    assert!(began.elapsed() < DRAIN, "{:?}", began.elapsed());
    assert!(matches!(&error, RunError::Hurried(workers) if workers.contains(&0)), "{error}");
    drop(hung);
}

#[test]
fn an_sa_that_its_worker_did_not_install_in_time_stands_nowhere_and_others_are_not_held_up() {
    let bench = bench();
    let mut workers =
        CharonsWorkers::new(bench.gateway.handles.clone(), &bench.gateway.config, Events::default(), None);
    for worker in 0..WORKERS {
        let hung = bench.hang(worker.into());
        let refusal = workers.install(sa(0x7001, worker), None).expect_err("its worker does not answer");
        assert_eq!(refusal.0, format!("worker {worker} did not answer in time"));
        let others = workers.install(sa(0x7002, 1 - worker), None).expect("the other worker works");
        workers.remove(others);
        drop(hung);
        assert_eq!(bench.sas(), [2, 2], "not even late");
        let index = workers.install(sa(0x7001, worker), None).expect("it answers");
        assert_eq!(index.owner, worker);
        let mut expected = [2, 2];
        expected[usize::from(worker)] += 1;
        assert_eq!(bench.sas(), expected);
        workers.remove(index);
        assert_eq!(bench.sas(), [2, 2]);
    }
}

#[test]
fn an_sa_of_charons_in_a_cluster_tells_its_numbers_until_another_gateway_goes_on_with_it() {
    fn received(report: &convoy_state::WorkerReport, start: u64) -> Option<u64> {
        report.progress().iter().find(|one| one.id == StartId(start)).map(|one| one.used.received)
    }
    let bench = bench();
    let work = |thread: &mut WorkerThread| {
        let start = SaStart::behind(Used { sent: 0, received: 9 }, 0);
        let taken = SaConfig { sequence_start: 9, sequence_reserved: 9, ..sa(0x7001, 0) };
        let number = thread.install(&taken, Some(&Started::kept(start, StartId(77)))).expect("good");
        assert_eq!(received(&thread.numbers(), 77), Some(9));
        thread.retire(number);
        assert_eq!(received(&thread.numbers(), 77), None);
        let other = SaConfig { spi: 0x7002, ..taken };
        thread.install(&other, Some(&Started::kept(start, StartId(78)))).expect("good");
        assert_eq!(received(&thread.stand_by("tunnels"), 78), Some(9));
        assert_eq!(received(&thread.numbers(), 78), None, "it is gone");
    };
    let done = bench.gateway.handles.ask_or_undo(0, work, |_, ()| ());
    assert_eq!(done, Some(()));
}

#[test]
fn an_sa_whose_install_is_given_up_half_way_is_taken_out_again() {
    let bench = bench();
    let ((done, is_done), (give_up, given_up)) = (channel(), channel::<()>());
    let install = move |thread: &mut WorkerThread| {
        let installed = thread.install(&sa(0x7001, 1), None).expect("good");
        given_up.recv().expect_err("the test drops its end");
        done.send(()).expect("the test waits");
        installed
    };
    let answer = bench.gateway.handles.ask_or_undo(1, install, |thread, sa| thread.retire(sa));
    assert_eq!(answer, None);
    drop(give_up);
    is_done.recv_timeout(SLACK).expect("it was done");
    assert_eq!(bench.sas(), [2, 2]);
}

#[test]
fn an_sa_is_moved_and_counted_at_its_worker_and_a_late_move_is_undone() {
    let bench = bench();
    let mut workers =
        CharonsWorkers::new(bench.gateway.handles.clone(), &bench.gateway.config, Events::default(), None);
    let number = workers.install(sa(0x7001, 1), None).expect("good");
    let ends =
        |host| NegotiatedEnds { local: [192, 0, 2, 1].into(), remote: [192, 0, 2, host].into(), encap: None };
    workers.move_sa(number, ends(9)).expect("it can go there");
    let hung = bench.hang(1);
    let refusal = workers.move_sa(number, ends(10)).expect_err("its worker does not answer");
    assert_eq!(refusal.0, "worker 1 did not answer in time");
    assert_eq!(workers.usage(number), None);
    drop(hung);
    let view = bench.gateway.handles.ask_or_undo(1, move |thread| thread.view(number), |_, _| ());
    let view = view.flatten().expect("installed");
    assert_eq!(view.name.remote, std::net::IpAddr::from([192, 0, 2, 9]));
    assert_eq!(workers.usage(number).expect("installed").packets, 0);
    workers.remove(number);
    assert_eq!(workers.usage(number), None);
    assert_eq!(
        workers.move_sa(number, ends(11)),
        Err(Refusal(
            "the gateway cannot move the SA to these \
        addresses"
                .to_owned()
        ))
    );
}

#[test]
fn sas_of_a_resource_are_at_its_worker_and_leave_from_that_workers_udp_port() {
    const CHARON: &str = "[gateway]\nworkers = 2\ncharon = \"/run/convoy/charon.sock\"\n\
                          [[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"10.1.0.1/24\"]\n\
                          [[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n";
    let bench = bench();
    let config = Config::parse("charon.toml", CHARON).expect("good");
    let mut workers = CharonsWorkers::new(bench.gateway.handles.clone(), &config, Events::default(), None);
    let installed_at = |resource: Option<u32>| resource.map_or(1, |resource| (1 + resource as u16) % WORKERS);
    for (spi, resource, chosen, used) in [
        (1, None, 4500, 4500),
        (2, None, 50_000, 4502),
        (3, Some(1), 50_001, 4501),
        (4, Some(15), 50_002, 4501),
        (5, Some(0), 50_003, 4502),
    ] {
        let encap = Some(UdpEncap { local_port: chosen, remote_port: 4500 });
        let outbound = SaConfig { direction: SaDirection::Outbound, encap, ..sa(0x7000 + spi, 1) };
        let number = workers.install(outbound, resource).expect("good");
        assert_eq!(number.owner, installed_at(resource));
        let view =
            bench.gateway.handles.ask_or_undo(number.owner, move |thread| thread.view(number), |_, _| ());
        let encap = view.flatten().expect("installed").encap.expect("in UDP");
        assert_eq!(encap.local_port, used, "SPI {spi}");
        if let Some(resource) = resource.filter(|resource| *resource < 2) {
            assert_eq!(workers.resource_of(TunnelId(1), number.owner), resource);
        }
    }
}

#[test]
fn an_spi_may_go_from_a_tunnel_of_one_worker_to_a_tunnel_of_another_by_a_reload() {
    let mut bench = bench();
    let mut swapped = config(2, 1, WORKERS);
    let [one, other] = &mut swapped.tunnels[..] else { panic!("two tunnels") };
    std::mem::swap(&mut one.manual, &mut other.manual);
    let report = bench.gateway.reload(&swapped).expect("its ports serve them");
    assert_eq!((report.stayed, report.came, report.went), (0, 2, 2), "{report:?}");
    assert_eq!(report.refused, Vec::<String>::new());
    assert_eq!(bench.sas(), [2, 2]);
}

#[test]
fn a_reload_tells_what_became_of_each_tunnel_and_what_was_wrong() {
    let mut bench = bench();
    let mut wanted = config(4, 1, WORKERS);
    wanted.tunnels.remove(0);
    wanted.tunnels[0].remote_port = 4501;
    // The last one is invalid.
    wanted.tunnels[2].replay_window = 7;
    bench.gateway.reload(&wanted).expect("its ports serve them");
    let reported: Vec<String> =
        bench.gateway.events.after(0).events.into_iter().map(|event| event.message).collect();
    let [_, refused, reload, rekeyed, up, down] = &reported[..] else { panic!("{reported:?}") };
    assert!(refused.starts_with("reload: ") && refused.contains("t3"), "{reported:?}");
    assert_eq!(
        reload,
        &format!(
            "reload of tunnels: {}",
            ReloadReport { stayed: 0, came: 2, went: 2, ..ReloadReport::default() }
        )
    );
    assert!(
        rekeyed.starts_with("tunnel t1 was rekeyed: peer 192.0.2.2:4501, SPI out 0x00200001"),
        "{reported:?}"
    );
    assert!(up.starts_with("tunnel t2 is up: peer 192.0.2.2:4500"), "{reported:?}");
    assert!(down.starts_with("tunnel t0 is down: "), "{reported:?}");
}

#[test]
fn an_engine_that_disappears_and_comes_back_is_reported() {
    let flaky = Faulty::new(Box::new(Software::new("flaky")), FaultPlan::once(InjectedFault::Vanish, 2));
    let mut bench = bench_with(2, vec![(Box::new(flaky), CostModel { t_init: 1.0, t_block: 0.01 })]);
    let what = |bench: &GatewayBench| -> Vec<What> {
        bench.gateway.events.after(0).events.into_iter().map(|event| event.what).collect()
    };
    let until = Instant::now() + SLACK;
    for mark in (1..=255).cycle() {
        let sealed = bench.sealed(&inner(0, mark));
        bench.arrive(0, sealed);
        assert!(bench.delivered(mark), "packet {mark} is lost");
        if what(&bench).len() == 2 {
            break;
        }
        assert!(Instant::now() < until, "{:?}", what(&bench));
    }
    let [What::EngineOut { engine, worker: 0, .. }, What::EngineBack { engine: back, worker: 0 }] =
        &what(&bench)[..]
    else {
        panic!("{:?}", what(&bench))
    };
    assert_eq!((engine.as_str(), back.as_str()), ("flaky", "flaky"));
}

#[test]
fn a_reload_to_tunnels_that_the_running_ports_cannot_serve_changes_nothing() {
    const PORTS: &str = "[[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"10.1.0.1/24\"]\n\
                         [[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n";
    let mut bench = bench();
    bench.gateway.config.ports = Config::parse("ports.toml", PORTS).expect("good").ports;
    // The file may have other ports that serve its tunnels; these wait for a restart.
    let refused = |bench: &mut GatewayBench, change: &dyn Fn(&mut TunnelConfig)| {
        let mut wanted = config(3, 1, WORKERS);
        change(&mut wanted.tunnels[2]);
        bench.gateway.reload(&wanted).expect_err("it cannot be served")
    };
    let elsewhere = refused(&mut bench, &|tunnel| tunnel.local = [198, 51, 100, 1].into());
    let expected = "the configuration is unchanged:\n\
                    tunnel \"t2\": local: port \"outside\" has no address 198.51.100.1; it has 192.0.2.1\n\
                    a running gateway keeps its ports and interfaces; a change of [[port]] or a new interface needs a restart";
    assert_eq!(elsewhere, expected);
    let event = bench.gateway.events.after(0).events.pop().expect("it was reported");
    assert_eq!((event.what, event.message), (What::ReloadRefused, format!("reload: {expected}")));
    let v6 = refused(&mut bench, &|tunnel| tunnel.local = Ipv6Addr::LOCALHOST.into());
    assert!(v6.contains("has no address ::1; it has 192.0.2.1"), "{v6}");
    let native = refused(&mut bench, &|tunnel| tunnel.is_encapsulated = false);
    assert!(native.contains("native ESP and AH need an outside port of kind \"raw\""), "{native}");
    assert_eq!((bench.sas(), bench.gateway.config.tunnels.len()), (vec![2, 2], 2));
    let report = bench.gateway.reload(&config(3, 1, WORKERS)).expect("its ports serve them");
    assert_eq!((report.stayed, report.came), (2, 1), "{report:?}");
}

#[test]
fn a_tunnel_that_its_worker_could_not_install_is_in_no_workers_policies() {
    let mut bench = bench();
    let mut workers =
        CharonsWorkers::new(bench.gateway.handles.clone(), &bench.gateway.config, Events::default(), None);
    let mut wanted = config(4, 1, WORKERS);
    // charon uses the SPI of the fourth tunnel, and the third tunnel is invalid.
    let taken = wanted.tunnels[3].manual[0].spi_in;
    let number = workers.install(sa(taken, 0), None).expect("free");
    wanted.tunnels[2].replay_window = 7;
    let report = bench.gateway.reload(&wanted).expect("its ports serve them");
    assert_eq!((report.stayed, report.came), (2, 0), "{report:?}");
    assert_eq!(report.refused.len(), 2, "{report:?}");
    let policies = |bench: &GatewayBench| {
        bench.gateway.handles.ask(|thread| thread.worker_mut().pipeline().ipsec().tables.policies().count())
    };
    assert_eq!(policies(&bench), [Some(2), Some(2)]);
    workers.remove(number);
    wanted.tunnels.remove(2);
    let report = bench.gateway.reload(&wanted).expect("its ports serve them");
    assert_eq!((report.came, policies(&bench)), (1, vec![Some(3), Some(3)]), "{report:?}");
}

#[test]
fn a_reload_gives_a_tunnel_sas_of_both_workers_or_of_none() {
    let mut bench = bench();
    let mut workers =
        CharonsWorkers::new(bench.gateway.handles.clone(), &bench.gateway.config, Events::default(), None);
    let mut wanted = config(2, 1, WORKERS);
    let mut second = wanted.tunnels[0].manual[0].clone();
    (second.spi_in, second.spi_out) = (0x9001, 0x9002);
    second.keys_out = wanted.tunnels[0].manual[0].keys_in.clone();
    wanted.tunnels[0].manual.push(second);
    let report = bench.gateway.reload(&wanted).expect("its ports serve them");
    assert_eq!((report.stayed, report.came, report.refused), (1, 1, Vec::new()));
    assert_eq!(bench.sas(), [2, 4]);
    bench.gateway.reload(&config(2, 1, WORKERS)).expect("its ports serve them");
    assert_eq!(bench.sas().iter().sum::<usize>(), 4, "a pair for each tunnel, wherever");
    // charon uses the SPI of the second pair.
    let number = workers.install(sa(0x9001, 0), None).expect("free");
    let report = bench.gateway.reload(&wanted).expect("its ports serve them");
    assert_eq!((report.stayed, report.refused.len()), (1, 1), "{report:?}");
    workers.remove(number);
    assert_eq!(bench.sas(), [0, 2], "the first pair is gone as well");
}

#[test]
fn policies_reach_a_worker_however_late_it_is() {
    let bench = bench();
    let mut workers =
        CharonsWorkers::new(bench.gateway.handles.clone(), &bench.gateway.config, Events::default(), None);
    let hung = bench.hang(1);
    let policy = Policy {
        name: "charon's".to_owned(),
        priority: 1,
        interface: 0,
        direction: convoy_ipsec::PolicyDirection::Both,
        selector: convoy_ipsec::Selector {
            local: "10.1.9.0/24".parse().expect("a selector"),
            remote: "10.2.9.0/24".parse().expect("a selector"),
        },
        action: convoy_ipsec::Action::Discard,
    };
    let came = Some((convoy_ipsec::PolicyRank::of_daemon(1), policy));
    let step = PolicyStep { change: convoy_ipsec::PolicyChange { gone: None, came }, is_tunnel_mode: true };
    workers.change_policies(PolicyUpdate { steps: vec![step], ..PolicyUpdate::default() });
    drop(hung);
    let counts =
        bench.gateway.handles.ask(|thread| thread.worker_mut().pipeline().ipsec().tables.policies().count());
    assert_eq!(counts, [Some(3), Some(3)]);
}
