//! Cost of classification: a burst of bypassed packets through `Ipsec::outbound` whose flows are in
//! the cache, or never are, with one policy and with 4,000.

use convoy_ipsec::{Action, Ipsec, IpsecConfig, OutboundBurst, Policy, PolicyDirection, Selector};
use convoy_packet::{Frame, FramePool};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

const BURST: u32 = 64;

fn policies(count: u32) -> Vec<Policy> {
    let policy = |n: u32| Policy {
        interface: 0,
        name: format!("network {n}"),
        priority: 10,
        direction: PolicyDirection::Both,
        selector: Selector {
            local: "192.168.0.0/16".parse().expect("a prefix"),
            remote: format!("10.{}.{}.0/24", n >> 8, n & 255).parse().expect("a prefix"),
        },
        action: Action::Bypass,
    };
    (0..count).map(policy).collect()
}

/// A UDP packet to the `network`-th network whose ports are `flow`.
fn packet(network: u32, flow: u32) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 64, 0, 0, 0, 0, 64, 17, 0, 0, 192, 168, 0, 1];
    packet.extend([10, (network >> 8) as u8, network as u8, 9]);
    packet.extend(flow.to_be_bytes());
    packet.resize(64, 0);
    packet
}

fn classify(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("classify");
    group.throughput(Throughput::Elements(BURST.into()));
    for count in [1, 4_000] {
        for cached in [true, false] {
            let mut ipsec = Ipsec::new(IpsecConfig { seed: 7, ..IpsecConfig::default() });
            ipsec.set_policies(policies(count));
            let mut pool = FramePool::new(2 * BURST as usize, 0);
            let mut out = OutboundBurst::default();
            let mut flow = 0;
            let name = format!("{count} policies, {}", if cached { "cached" } else { "searched" });
            group.bench_function(name, |bencher| {
                bencher.iter_batched(
                    || {
                        (0..BURST)
                            .map(|n| {
                                flow += u32::from(!cached);
                                packet(n * 31 % count, flow + n % 8)
                            })
                            .collect::<Vec<_>>()
                    },
                    |packets| {
                        let take = |packet: &Vec<u8>| pool.take_filled(packet, 0).expect("a frame");
                        let mut frames: Vec<Frame> = packets.iter().map(take).collect();
                        ipsec.outbound.classify(
                            &mut ipsec.tables,
                            1,
                            &mut |_| {},
                            &mut pool,
                            &mut frames,
                            &mut out,
                        );
                        assert_eq!(out.bypass.len(), BURST as usize);
                        pool.give_back_burst(&mut out.bypass);
                    },
                    BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, classify);
criterion_main!(benches);
