//! Ten thousand tunnels in one gateway.

use std::collections::HashSet;

use convoy_report::snapshot::{Drops, TunnelSelection};

use super::*;

const TUNNELS: u32 = 10_000;
/// Packets under way. The rings between workers have room for more, so none is lost even if a
/// worker's thread rarely gets a core.
const UNDER_WAY: usize = 256;

/// Collects the tunnels whose packets were delivered inside, by any worker.
fn arrived(bench: &mut GatewayBench, seen: &mut HashSet<Vec<u8>>) {
    let mut burst = Vec::new();
    for port in &mut bench.inside {
        port.receive(bench.peer.pool_mut(), LINK, &mut burst).expect("memory does not fail");
    }
    seen.extend(burst.iter().map(|frame| frame.to_vec()));
    bench.peer.pool_mut().give_back_burst(&mut burst);
}

#[test]
fn packets_flow_in_each_of_ten_thousand_tunnels_and_a_reload_leaves_all_but_the_one_that_changed() {
    let mut bench = bench_of(TUNNELS);
    let began = Instant::now();
    let mut seen = HashSet::new();
    for tunnel in 0..TUNNELS {
        let sealed = bench.sealed(&inner(tunnel, 0));
        bench.arrive(0, sealed);
        arrived(&mut bench, &mut seen);
        while tunnel as usize >= seen.len() + UNDER_WAY && began.elapsed() < 5 * SLACK {
            std::thread::yield_now();
            arrived(&mut bench, &mut seen);
        }
    }
    while seen.len() < TUNNELS as usize && began.elapsed() < 5 * SLACK {
        std::thread::sleep(Duration::from_millis(1));
        arrived(&mut bench, &mut seen);
    }
    let snapshot = bench.gateway.snapshot(None);
    assert_eq!((seen.len(), &snapshot.drops), (TUNNELS as usize, &Drops::new()));
    assert_eq!(snapshot.silent_workers, Vec::<u16>::new());
    let tunnels = TUNNELS as usize;
    let rows = (snapshot.sas.len(), snapshot.tunnels.len(), snapshot.policies.len());
    assert_eq!(rows, (2 * tunnels, 2 * tunnels, tunnels), "outbound and inbound, and a policy for both");
    println!("one packet in each of {TUNNELS} tunnels: {:?}", began.elapsed());
    let began = Instant::now();
    let one = bench.gateway.snapshot(Some(&TunnelSelection { name: Some("t7".to_owned()) }));
    println!("a snapshot of one of them: {:?}", began.elapsed());
    assert_eq!((one.sas.len(), one.tunnels.len(), one.policies.len()), (2, 2, 1));
    let peers = one.peers();
    assert_eq!((peers.len(), one.configured.len()), (1, 1), "{peers:?}");
    let none = bench.gateway.snapshot(Some(&TunnelSelection::NONE));
    assert_eq!(
        (none.sas.len(), none.tunnels.len(), none.policies.len(), none.configured.len()),
        (0, 0, 0, 0)
    );
    assert_eq!((none.engines.len(), none.protected), (snapshot.engines.len(), snapshot.protected));
    let all = snapshot.peers();
    let same = all.iter().find(|peer| peer.tunnel == "t7").expect("it is among all");
    assert_eq!(
        (&peers[0].tunnel, peers[0].state, &peers[0].remote),
        (&same.tunnel, same.state, &same.remote)
    );

    let mut changed = config(TUNNELS, 1, WORKERS);
    changed.tunnels[7].replay_window = 64;
    let began = Instant::now();
    let report = bench.gateway.reload(&changed).expect("its ports serve them");
    println!("reload: {:?}", began.elapsed());
    assert_eq!((report.stayed, report.came, report.went), (TUNNELS as usize - 1, 1, 1), "{report:?}");
    assert_eq!(report.refused, Vec::<String>::new());
    assert_eq!(bench.sas().iter().sum::<usize>(), 2 * TUNNELS as usize, "each stands at one worker");
    let sealed = bench.sealed(&inner(TUNNELS - 1, 99));
    bench.arrive(1, sealed);
    assert!(bench.delivered(99), "a tunnel that stayed goes on");
}
