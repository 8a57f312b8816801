//! The claims of sections 4.4 to 5: what bounds the gateway, the coprocessor, and the time of each
//! part.

use super::super::charts::{CONFIGURATIONS, blocks_us};
use super::super::runs::{
    IPSEC_PPS, LINE_PERCENT, LONGEST, REQUESTS, Runs, System, What, cpu, line_pps, npe_b, service_us,
};
use super::{ALIKE, Claim, finding, listed, near};
use crate::basis::Basis;
use crate::finding::{Finding, bounds};

pub(super) fn bottlenecks() -> Vec<Claim> {
    vec![
        Claim {
            source: "4.4.1, figure 12",
            text: "The XScale's utilisation grows in direct ratio to the number of packets: within 2 % up to 95 %",
            basis: Basis::put_in(
                "each packet of a length takes the XScale the same time: the model has neither caches nor interrupts that several packets share",
            ),
            compared: "the XScale's time for a packet at all loads below 95 % of utilisation, at each length",
            check: |runs| {
                let spread = |length: u32| {
                    let of = |percent: &u32| {
                        let load = What::Load(line_pps(length, *percent));
                        &runs.of(System::Ixp425, "forwarding", length, load).report
                    };
                    let below = LINE_PERCENT.iter().map(of).filter(|report| cpu(report) < 0.95);
                    let (least, most) = bounds(below.map(|report| cpu(report) / report.offered.pps));
                    most / least - 1.0
                };
                let worst = bounds([64, 512, 1024, 1518].map(spread)).1;
                finding(worst <= 0.02, format!("time of a packet varies by {:.1} %", worst * 100.0))
            },
        },
        Claim {
            source: "4.4.1, figure 12",
            text: "A shorter packet takes a little less: 64 bytes at least 3 % and at most a third less than 1518",
            basis: Basis::chosen("2.5 ns a byte in each direction"),
            compared: "the XScale's time for a packet of 64 bytes with that of 1518",
            check: |runs| {
                let busy = |length| {
                    let outcome =
                        runs.of(System::Ixp425, "forwarding", length, What::Load(line_pps(length, 10)));
                    cpu(&outcome.report) / outcome.report.offered.pps * 1e6
                };
                let (short, long) = (busy(64), busy(1518));
                let part = 1.0 - short / long;
                finding((0.03..=0.34).contains(&part), format!("{short:.1} us and {long:.1} us"))
            },
        },
        Claim {
            source: "4.4.1",
            text: "The XScale is the bottleneck of packet Rx/Tx; the bus and the NPEs are not: they are below 70 % where it is busy",
            basis: Basis::put_in(
                "all of a forwarded packet's time was fitted as the XScale's (row 1), and an NPE's is below 6.72 us, since it loses no packet at wire speed",
            ),
            compared: "utilisation of the XScale, the AHB and the NPEs at the highest rate with 64 bytes",
            check: |runs| {
                let report = &runs.of(System::Ixp425, "forwarding", 64, What::Ndr).report;
                let (bus, npe) = (report.buses[0].utilisation, report.cores[0].utilisation);
                let shown = cpu(report) > 0.97 && bus < 0.7 && npe < 0.7 && npe_b(report) < 0.7;
                let [xscale, bus, npe, b] = [cpu(report), bus, npe, npe_b(report)].map(|part| part * 100.0);
                finding(
                    shown,
                    format!("XScale {xscale:.0} %, AHB {bus:.0} %, NPE A {npe:.0} %, NPE B {b:.0} %"),
                )
            },
        },
        Claim {
            source: "4.2.2, 4.4.2",
            text: "The XScale is the bottleneck of IPsec with DES and with 3DES: NPE B is below 70 % where it is busy",
            basis: Basis::put_in(
                "all of the time that 45 Mbit/s leave was fitted as the XScale's (row 6), and NPE B carries 101 and 153.6 Mbit/s (rows 21, 22)",
            ),
            compared: "utilisation of the XScale and NPE B at the highest rate with 1450 bytes",
            check: |runs| {
                let of = |variant| {
                    let report = &runs.of(System::Ixp425, variant, LONGEST, What::Ndr).report;
                    (cpu(report), npe_b(report))
                };
                let (triple, single) = (of(""), of("des"));
                let shown = [triple, single].iter().all(|(xscale, npe)| *xscale > 0.97 && *npe < 0.7);
                let words = |(xscale, npe): (f64, f64)| {
                    format!("XScale {:.0} %, NPE B {:.0} %", xscale * 100.0, npe * 100.0)
                };
                finding(shown, format!("3DES: {}; DES: {}", words(triple), words(single)))
            },
        },
        Claim {
            source: "4.4.2, figure 13",
            text: "Packets are lost only as the XScale's utilisation approaches 100 %, and then many: none below 95 %, over half at twice its rate",
            basis: Basis::put_in(
                "arrivals are evenly spaced, so that no packet is lost below 100 %, and an overloaded XScale works as fast as before, so that 8400 packets/s are over twice its rate of row 6",
            ),
            compared: "packets lost at loads below 95 % of utilisation with none, and at 8400 packets/s with half",
            check: |runs| {
                let of = |pps: u32| &runs.of(System::Ixp425, "", LONGEST, What::Load(pps)).report;
                let mut below = IPSEC_PPS.into_iter().map(of).filter(|report| cpu(report) < 0.95);
                let last = of(IPSEC_PPS[IPSEC_PPS.len() - 1]);
                let shown = below.all(|report| report.dropped.packets == 0) && last.success_ratio < 0.5;
                let part = last.success_ratio * 100.0;
                finding(shown, format!("{part:.0} % get through at {:.0} packets/s", last.offered.pps))
            },
        },
    ]
}

/// The rate in Mbit/s according to the slope of figure 14 between the two longest requests.
fn slope_mbps(runs: &Runs, variant: &'static str) -> f64 {
    let bits = f64::from(REQUESTS[3] - REQUESTS[2]) * 8.0;
    bits / (runs.turnaround_us(variant, REQUESTS[3]) - runs.turnaround_us(variant, REQUESTS[2]))
}

/// Throughput of a coprocessor that is never idle, in Mbit/s of requests.
fn alone_mbps(runs: &Runs, variant: &'static str) -> f64 {
    runs.of(System::Ixp425, variant, REQUESTS[3], What::Alone).report.throughput_mbps
}

pub(super) fn coprocessor() -> Vec<Claim> {
    vec![
        Claim {
            source: "4.4.2",
            text: "A DES request of 1458 bytes takes 117 us",
            basis: Basis::fitted("the constant part of a request"),
            compared: "turnaround of a request of 1458 bytes with the paper's 117 us, within 1 %",
            check: |runs| near(runs.turnaround_us("des", REQUESTS[3]), 117.0, 0.01, "us"),
        },
        Claim {
            source: "4.4.2",
            text: "… one of 1052 bytes 97 us",
            basis: Basis::MODEL,
            compared: "turnaround of a request of 1052 bytes with the paper's 97 us, within 2 %",
            check: |runs| near(runs.turnaround_us("des", REQUESTS[2]), 97.0, 0.02, "us"),
        },
        Claim {
            source: "4.4.2, figure 14",
            text: "The coprocessor scales to 153.6 Mbit/s with DES, by the slope (the formula's own numbers give 162.4)",
            basis: Basis::fitted("the coprocessor's rate with DES"),
            compared: "the slope between the two longest requests with the paper's 153.6 Mbit/s, within 2 %",
            check: |runs| near(slope_mbps(runs, "des"), 153.6, 0.02, "Mbit/s"),
        },
        Claim {
            source: "4.4.2, figure 14",
            text: "… to 101 Mbit/s with 3DES",
            basis: Basis::fitted("the coprocessor's rate with 3DES"),
            compared: "the slope between the two longest requests with the paper's 101 Mbit/s, within 2 %",
            check: |runs| near(slope_mbps(runs, ""), 101.0, 0.02, "Mbit/s"),
        },
        Claim {
            source: "4.4.2, figure 14",
            text: "Turnarounds of DES and 3DES differ: by over 10 % at every length",
            basis: Basis::put_in(
                "the coprocessor's rates with DES and with 3DES were fitted to the two slopes (rows 21, 22)",
            ),
            compared: "turnaround with 3DES with that with DES, at each length",
            check: |runs| {
                let ratio = |length| runs.turnaround_us("", length) / runs.turnaround_us("des", length);
                let each = listed(&REQUESTS, 2, ratio);
                finding(REQUESTS.iter().all(|length| ratio(*length) > 1.1), format!("3DES over DES: {each}"))
            },
        },
        Claim {
            source: "4.4.2",
            text: "The coprocessor carries these rates, 153.6 and 101 Mbit/s, with requests of 1458 bytes if it is never idle: at least 95 % of them",
            basis: Basis::chosen("the constant part of a request is a latency"),
            compared: "the rate of a coprocessor that is never idle with the paper's, at least 95 %",
            check: |runs| {
                let (single, triple) = (alone_mbps(runs, "des"), alone_mbps(runs, ""));
                let shown = single > 153.6 * (1.0 - ALIKE) && triple > 101.0 * (1.0 - ALIKE);
                finding(shown, format!("DES {single:.1} Mbit/s, 3DES {triple:.1} Mbit/s"))
            },
        },
    ]
}

fn longest_is_cryptography(runs: &Runs, configurations: &[(&str, System, &'static str)]) -> Finding {
    let blocks = |(name, system, variant): &(&str, System, &'static str)| {
        let [ip, ipsec, framework, calculation] = blocks_us(runs, *system, variant);
        let with_framework = if framework > 0.0 {
            format!("{framework:.0} + {calculation:.0}")
        } else {
            format!("{calculation:.0}")
        };
        let shown = framework + calculation > ip.max(ipsec);
        (shown, format!("{name}: {ip:.0}, {ipsec:.0}, {with_framework} us"))
    };
    let each: Vec<(bool, String)> = configurations.iter().map(blocks).collect();
    let measured: Vec<String> = each.iter().map(|(_, words)| words.clone()).collect();
    finding(each.iter().all(|(shown, _)| *shown), measured.join("; "))
}

/// Gain of a variant at the longest packet, in percent.
fn gain(runs: &Runs, variant: &'static str) -> f64 {
    runs.mbps(variant, LONGEST) / runs.mbps("", LONGEST) * 100.0 - 100.0
}

pub(super) fn blocks_and_future() -> Vec<Claim> {
    vec![
        Claim {
            source: "4.5, figure 15",
            text: "Cryptography takes the longest of IP, IPsec and cryptography, in software",
            basis: Basis::chosen("DES in 80 clocks a byte on the Pentium III"),
            compared: "the time of cryptography with that of IP and of IPsec, on XScale and Pentium III",
            check: |runs| longest_is_cryptography(runs, &CONFIGURATIONS[2..]),
        },
        Claim {
            source: "4.5, figure 15",
            text: "… and with NPE B",
            basis: Basis::chosen("a framework of a quarter of IPsec's time")
                .read_as("what the framework takes is cryptography, not IPsec"),
            compared: "the time of framework and cryptography with that of IP and of IPsec",
            check: |runs| longest_is_cryptography(runs, &CONFIGURATIONS[..2]),
        },
        Claim {
            source: "4.5",
            text: "With NPE B the XScale takes the same time for DES and 3DES",
            basis: Basis::put_in(
                "the variant changes the time of NPE B and of the XScale's cipher, and nothing else of the XScale",
            ),
            compared: "the XScale's time for a packet with DES and with 3DES",
            check: |runs| {
                let busy = |variant| {
                    let report = &runs.of(System::Ixp425, variant, LONGEST, What::Idle).report;
                    let names = report.stages.iter().filter(|stage| ON_XSCALE.contains(&stage.name.as_str()));
                    names.map(|stage| service_us(report, &stage.name)).sum::<f64>()
                };
                let (triple, single) = (busy(""), busy("des"));
                finding((triple / single - 1.0).abs() < 0.001, format!("{single:.1} us and {triple:.1} us"))
            },
        },
        Claim {
            source: "5, future work",
            text: "The look-up by an NPE brings throughput: over 5 %, as fast as the XScale and at the ratio of the clocks",
            basis: Basis::MODEL,
            compared: "the highest rate with the look-up by NPE A with that by the XScale: over 5 % more in both cases",
            check: |runs| {
                let (fast, slow) = (gain(runs, "npe-lookup-fast"), gain(runs, "npe-lookup"));
                let npe =
                    runs.of(System::Ixp425, "npe-lookup", LONGEST, What::Ndr).report.cores[0].utilisation;
                let npe = npe * 100.0;
                let measured = format!(
                    "as fast as the XScale +{fast:.0} %; at the clocks' ratio {slow:+.0} %, NPE A at {npe:.0} %"
                );
                finding(fast > 5.0 && slow > 5.0, measured)
            },
        },
        Claim {
            source: "5, future work",
            text: "Calling the AccessLibrary directly brings throughput: over 5 % (what the framework takes is open)",
            basis: Basis::put_in(
                "the gain is the framework's part of the XScale's time, and that is an open value, 52.6 of 257.8 us",
            ),
            compared: "the highest rate without the framework with that with it: over 5 % more",
            check: |runs| {
                let (alone, both) =
                    (gain(runs, "direct-access"), gain(runs, "npe-lookup-fast+direct-access"));
                finding(
                    alone > 5.0,
                    format!("+{alone:.0} % at most; with the look-up by an NPE +{both:.0} %"),
                )
            },
        },
    ]
}

/// The stages of an IPsec packet on the XScale.
const ON_XSCALE: [&str; 6] =
    ["receive", "sa-lookup", "ipsec-headers", "crypto-request", "crypto-callback", "transmit"];
