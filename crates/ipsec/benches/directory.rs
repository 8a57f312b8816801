//! Cost of the directory of SAs with few and with many SAs: a rekeying, done by the owner alone,
//! and a burst of packets that another worker received and hands over. For comparison, a burst
//! whose SAs no worker has.

use std::net::IpAddr;
use std::sync::Arc;

use convoy_ipsec::{
    Directory, InboundBurst, Ipsec, IpsecConfig, KeyMaterial, Proposal, SaConfig, SaDirection, TunnelId,
};
use convoy_packet::protocol::ESP;
use convoy_packet::{Frame, FramePool, IpHeader};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const BURST: u32 = 64;
const FIRST_SPI: u32 = 0x1000;
const OURS: [u8; 4] = [192, 0, 2, 1];
const PEER: [u8; 4] = [192, 0, 2, 2];

/// An inbound SA of worker 1.
fn sa(spi: u32) -> SaConfig {
    let proposal: Proposal = "aes128gcm16".parse().expect("known words");
    let keys = vec![7; proposal.transform.key_material_len()];
    let keys = KeyMaterial::new(proposal.transform, keys).expect("its own length");
    let ends: [IpAddr; 2] = [OURS.into(), PEER.into()];
    SaConfig { tunnel: TunnelId(1), ..SaConfig::new(spi, SaDirection::Inbound, ends[0], ends[1], keys) }
}

/// Two workers, of which the second has this many SAs.
fn workers(sas: u32) -> [Ipsec; 2] {
    let directory = Arc::new(Directory::new(2));
    let mut workers = [0, 1].map(|worker| {
        let config = IpsecConfig { worker, outside: vec![OURS.into()], ..IpsecConfig::default() };
        Ipsec::among(config, Arc::clone(&directory))
    });
    for spi in FIRST_SPI..FIRST_SPI + sas {
        workers[1].install(sa(spi)).expect("its SPI is free");
    }
    workers
}

fn packet(spi: u32) -> Vec<u8> {
    let header = IpHeader::new(ESP, PEER.into(), OURS.into());
    let mut packet = vec![0; 104];
    header.write(&mut packet);
    packet[20..24].copy_from_slice(&spi.to_be_bytes());
    packet
}

fn directory(criterion: &mut Criterion) {
    for sas in [100, 10_000, 100_000] {
        let mut group = criterion.benchmark_group(format!("directory, {sas} SAs"));
        let [mut other, mut owner] = workers(sas);
        let mut spi = FIRST_SPI + sas;
        group.bench_function("rekeying", |bencher| {
            let config = sa(0xf000_0000);
            bencher.iter(|| {
                spi = spi.wrapping_add(1).max(FIRST_SPI + sas);
                let index = owner.install(SaConfig { spi, ..config.clone() }).expect("its SPI is free");
                owner.remove(index);
            });
        });
        let mut pool = FramePool::new(2 * BURST as usize, 0);
        let (mut frames, mut burst) = (Vec::<Frame>::new(), InboundBurst::default());
        group.throughput(Throughput::Elements(BURST.into()));
        for (what, first) in [("handed over", FIRST_SPI), ("of no SA", 0xf000_0000)] {
            let mut next = 0;
            group.bench_function(format!("packet {what}"), |bencher| {
                bencher.iter(|| {
                    frames.extend((0..BURST).map(|_| {
                        next = (next + 7_919) % sas;
                        pool.take_filled(&packet(first + next), 0).expect("a frame")
                    }));
                    other.inbound.classify(&mut other.tables, 1, &mut pool, &mut frames, &mut burst);
                    burst.for_others.drain(..).for_each(|(_, frame)| pool.give_back(frame));
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, directory);
criterion_main!(benches);
