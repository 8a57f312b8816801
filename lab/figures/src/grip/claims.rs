//! The claims of the GRIP papers, and whether the runs reproduce them. Section numbers are those of
//! HDTV and of FPGAs.

use super::runs::{
    Busy, FUNCTIONS, IMPROVEMENTS, JUMBO, MTUS, PROFILES, Profile, Runs, USUAL, What, video_bytes,
};
use crate::basis::Basis;
use crate::finding::{Finding, bounds};
use crate::paper::PaperClaim;

type Claim = PaperClaim<Runs>;

fn finding(holds: bool, measured: String) -> Finding {
    Finding::new(holds, measured)
}

/// All claims: the demonstration, the profile, the bottleneck and the improvements.
pub(super) fn all() -> Vec<Claim> {
    [demonstration(), profile(), bottleneck(), improvements()].into_iter().flatten().collect()
}

fn demonstration() -> Vec<Claim> {
    vec![
        Claim {
            source: "HDTV 1, FPGAs 1",
            text: "850 (HDTV) and 890 Mbit/s (FPGAs) of video are sent under AES, and no packet is dropped",
            basis: Basis::MODEL,
            compared: "the highest rate of video without loss with 890 Mbit/s, and packets lost at 893",
            check: |runs| {
                let most = runs.video_mbps("", JUMBO);
                let lost = runs.of("", JUMBO, What::Video(893)).report.dropped.packets;
                finding(most >= 890.0 && lost == 0, format!("up to {most:.0} Mbit/s; {lost} lost at 893"))
            },
        },
        Claim {
            source: "HDTV 7.1, figure 3",
            text: "iperf reaches 989 Mbit/s, with two CPUs and with one: within 1 %",
            basis: Basis::fitted("what SMP costs, for one CPU"),
            compared: "iperf's highest rate without loss with the paper's 989 Mbit/s, within 1 %",
            check: |runs| {
                let both = ["iperf", "iperf-uniprocessor"].map(|variant| runs.video_mbps(variant, JUMBO));
                let shown = both.iter().all(|mbps| (mbps / 989.0 - 1.0).abs() <= 0.01);
                finding(shown, format!("{:.0} and {:.0} Mbit/s", both[0], both[1]))
            },
        },
        Claim {
            source: "FPGAs 2.3, figure 1",
            text: "A larger MTU than the usual 1500 bytes is needed for the full rate of 890 Mbit/s",
            basis: Basis::chosen("interrupts of 17.7 us with a standard card; 15.0 to 23.1 would do"),
            compared: "the highest rates of video with MTUs of 1500 and 9000 bytes with 890 Mbit/s",
            check: |runs| {
                let (usual, jumbo) =
                    (runs.video_mbps("standard-card", USUAL), runs.video_mbps("standard-card", JUMBO));
                finding(
                    usual < 890.0 && jumbo >= 890.0,
                    format!("1500 bytes {usual:.0}, 9000 bytes {jumbo:.0} Mbit/s"),
                )
            },
        },
        Claim {
            source: "FPGAs 2.3, figure 1",
            text: "Throughput grows linearly with the MTU, within 5 % a byte, until the line bounds it",
            basis: Basis::put_in(
                "all of the host's time is by the packet, and X1 and PCI are no limit below the line: an interval as long for each packet",
            ),
            compared: "Mbit/s for each byte of the MTU, of all MTUs whose rate is below 90 % of the highest",
            check: |runs| {
                let line = bounds(MTUS.map(|mtu| runs.video_mbps("standard-card", mtu))).1;
                let below =
                    MTUS.into_iter().filter(|mtu| runs.video_mbps("standard-card", *mtu) < line * 0.9);
                let slope = |mtu| runs.video_mbps("standard-card", mtu) / f64::from(video_bytes(mtu));
                let rates: Vec<f64> = below.map(slope).collect();
                let (least, most) = bounds(rates.iter().copied());
                let measured = format!("{:.3} to {:.3} Mbit/s a byte over {} MTUs", least, most, rates.len());
                finding(rates.len() >= 2 && most / least <= 1.05, measured)
            },
        },
        Claim {
            source: "FPGAs 2.3, figure 1",
            text: "… up to 9000 bytes",
            basis: Basis::fitted("interrupts of 17.7 us with a standard card; 15.0 to 23.1 would do")
                .read_as("the system of the figure: without GRIP, at 1.2 GHz, one packet at a time"),
            compared: "Mbit/s for each byte of the MTU, of all MTUs",
            check: |runs| {
                let slope = |mtu| runs.video_mbps("standard-card", mtu) / f64::from(video_bytes(mtu));
                let (least, most) = bounds(MTUS.map(slope));
                let knee = MTUS.into_iter().find(|mtu| slope(*mtu) < most * 0.95);
                let knee = knee.map_or(String::new(), |mtu| format!("; less from {mtu} bytes on"));
                finding(most / least <= 1.05, format!("{least:.3} to {most:.3} Mbit/s a byte{knee}"))
            },
        },
    ]
}

/// The largest difference between a simulated profile and the paper's in percentage points, and
/// both profiles.
fn off(runs: &Runs, profile: &Profile, functions: std::ops::Range<usize>) -> Finding {
    let simulated = runs.profile(profile);
    let each = functions.map(|at| {
        let (ours, papers) = (simulated[at], profile.3[at]);
        ((ours - papers).abs(), format!("{} {ours:.0} ({papers:.0})", FUNCTIONS[at]))
    });
    let (points, words): (Vec<f64>, Vec<String>) = each.unzip();
    finding(bounds(points).1 <= 5.0, format!("{} %", words.join(", ")))
}

fn profile() -> Vec<Claim> {
    vec![
        Claim {
            source: "HDTV 7.1, FPGAs 4.1",
            text: "Over 60 % of the CPUs' time is idle with HDTV",
            basis: Basis::fitted("the times of all other functions"),
            compared: "idle time at 893 Mbit/s with the paper's 60 %",
            check: |runs| {
                let idle = runs.profile(&PROFILES[0])[0];
                finding(idle > 60.0, format!("{idle:.1} %"))
            },
        },
        Claim {
            source: "HDTV 7.1, figure 3",
            text: "47 % is idle with iperf-SMP: within 5 points",
            basis: Basis::fitted("iperf's times of kernel, application and libc"),
            compared: "idle time at 989 Mbit/s with the paper's 47 %, within 5 points",
            check: |runs| off(runs, &PROFILES[1], 0..1),
        },
        Claim {
            source: "HDTV 7.1, figure 3",
            text: "Nothing is idle with iperf-UP: within 5 points",
            basis: Basis::fitted("what SMP costs"),
            compared: "idle time at 989 Mbit/s with the paper's 0 %, within 5 points",
            check: |runs| off(runs, &PROFILES[2], 0..1),
        },
        Claim {
            source: "HDTV 7.1, figure 3",
            text: "Kernel, IPsec and driver have the paper's shares with iperf-SMP: each within 5 points (the paper's in brackets)",
            basis: Basis::fitted("iperf's time of the kernel"),
            compared: "shares of CPU time with figure 3's, each within 5 points",
            check: |runs| off(runs, &PROFILES[1], 1..4),
        },
        Claim {
            source: "HDTV 7.1, figure 3",
            text: "… with iperf-UP, and so have application and libc",
            basis: Basis::fitted("iperf's time of the kernel, and what SMP costs"),
            compared: "shares of CPU time with figure 3's, each within 5 points",
            check: |runs| off(runs, &PROFILES[2], 1..6),
        },
        Claim {
            source: "HDTV 7.1",
            text: "Between iperf-SMP and iperf-UP only idle time changes, after the 2X factor of CPU time: each function within 5 points",
            basis: Basis::fitted("what SMP costs").read_as(
                "twice the shares of iperf-SMP are those of iperf-UP, as near as the other profiles",
            ),
            compared: "twice the shares with two CPUs with those with one, each within 5 points",
            check: |runs| {
                let [smp, up] = [&PROFILES[1], &PROFILES[2]].map(|profile| runs.profile(profile));
                let off = (1..6).map(|at| (2.0 * smp[at] - up[at]).abs());
                let each = (1..6).map(|at| format!("{} {:.0} ({:.0})", FUNCTIONS[at], 2.0 * smp[at], up[at]));
                let measured = format!("{} %", each.collect::<Vec<_>>().join(", "));
                finding(bounds(off).1 <= 5.0, measured)
            },
        },
    ]
}

fn bottleneck() -> Vec<Claim> {
    vec![
        Claim {
            source: "HDTV 1, FPGAs 6",
            text: "A packet crosses the PCI bus once, which has room to spare at 893 Mbit/s: it is below 50 %",
            basis: Basis::put_in(
                "the platform has one stage on PCI, and 893 Mbit/s with headers are 43 % of its 2.11 Gbit/s",
            ),
            compared: "transfers of a packet over PCI with one, and the bus's utilisation with 50 %",
            check: |runs| {
                let report = &runs.of("", JUMBO, What::Video(893)).report;
                let bus = &report.buses[0];
                let once = bus.requests == report.packets;
                finding(once && bus.utilisation < 0.5, format!("{:.0} % busy", bus.utilisation * 100.0))
            },
        },
        Claim {
            source: "HDTV 7.1, FPGAs 4.1",
            text: "A stream of 1 Gbit/s takes 6 Gbit/s of the memory: within 3 %",
            basis: Basis::put_in("the platform has six stages on memory, as the paper counts them"),
            compared: "transfers to and from memory by the bytes in each with 6 times the video, within 3 %",
            check: |runs| {
                let outcome = runs.of("", JUMBO, What::Video(893));
                let memory = outcome.report.stages.iter().filter(|stage| stage.service_us > 0.0);
                let transfers =
                    memory.filter(|stage| TRANSFERS.contains(&stage.name.as_str())).count() as f64;
                let frame = f64::from(JUMBO - 36 + 24) / f64::from(video_bytes(JUMBO));
                let times = transfers * frame;
                finding((times / 6.0 - 1.0).abs() <= 0.03, format!("{times:.2} times the video"))
            },
        },
        Claim {
            source: "HDTV 7.1, FPGAs 4.1",
            text: "Main memory is the bottleneck of the system as it was: the busiest at its highest rate",
            basis: Basis::MODEL.read_as(
                "of CPUs, system bus and memory, which FPGAs 4.1 compares; line and X1 are made for 1 Gbit/s",
            ),
            compared: "utilisation of memory with that of CPUs and PCI at the highest rate",
            check: |runs| busiest_is_memory(runs, "", false),
        },
        Claim {
            source: "FPGAs 4.1",
            text: "… as rates grow: with a line of ten gigabits and pipelines to match",
            basis: Basis::MODEL,
            compared: "utilisation of memory with that of CPUs, PCI and X1 at the highest rate",
            check: |runs| busiest_is_memory(runs, "ten-gigabit", true),
        },
    ]
}

/// Number of transfers to and from memory.
const TRANSFERS: [&str; 9] = [
    "capture-write",
    "copy1-read",
    "copy1-write",
    "copy2-read",
    "copy2-write",
    "copy3-read",
    "copy3-write",
    "flush",
    "card-read",
];

/// Whether memory is busier than CPUs and PCI, and than X1 if that is counted.
fn busiest_is_memory(runs: &Runs, variant: &'static str, is_x1_counted: bool) -> Finding {
    let report = &runs.of(variant, JUMBO, What::Ndr).report;
    let Busy { host, memory, pci, x1 } = Busy::of(report);
    let shown = memory >= host.max(pci).max(if is_x1_counted { x1 } else { 0.0 });
    let [memory, host, pci, x1] = [memory, host, pci, x1].map(|part| part * 100.0);
    let mbps = runs.video_mbps(variant, JUMBO);
    finding(
        shown,
        format!("at {mbps:.0} Mbit/s memory {memory:.0} %, CPUs {host:.0} %, PCI {pci:.0} %, X1 {x1:.0} %"),
    )
}

/// The gain of an improvement in percent, by its index in [`IMPROVEMENTS`].
fn gain(runs: &Runs, place: usize) -> f64 {
    let of = |place: usize| runs.video_mbps(IMPROVEMENTS[place].1, JUMBO);
    // The results of searches differ slightly, and a result of 0 must have no sign.
    (of(place) / of(0) * 100.0 - 100.0).round() + 0.0
}

fn brings(runs: &Runs, place: usize) -> Finding {
    let mbps = runs.video_mbps(IMPROVEMENTS[place].1, JUMBO);
    let gain = gain(runs, place);
    finding(gain > 5.0, format!("{gain:+.0} %, to {mbps:.0} Mbit/s"))
}

fn improvements() -> Vec<Claim> {
    vec![
        Claim {
            source: "FPGAs 4.1",
            text: "Direct DMA from the grabber to the card is a significant improvement (over 5 %), and the most beneficial one",
            basis: Basis::MODEL,
            compared: "the highest rate with direct DMA with that without, and with those of the other improvements",
            check: |runs| {
                let all: Vec<f64> = (1..4).map(|place| gain(runs, place)).collect();
                let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                finding(all[0] > 5.0 && all[0] >= most, brings(runs, 1).measured)
            },
        },
        Claim {
            source: "FPGAs 4.1",
            text: "Doing without the copy that IPsec adds is a significant improvement",
            basis: Basis::MODEL,
            compared: "the highest rate without IPsec's copy with that with it: over 5 % more",
            check: |runs| brings(runs, 2),
        },
        Claim {
            source: "FPGAs 4.1",
            text: "A zero-copy socket is a significant improvement",
            basis: Basis::MODEL,
            compared: "the highest rate with a zero-copy socket with that without: over 5 % more",
            check: |runs| brings(runs, 3),
        },
        Claim {
            source: "FPGAs 4.1",
            text: "Both together are",
            basis: Basis::put_in(
                "the variant removes two of six transfers, and memory is the limit (row 15)",
            ),
            compared: "the highest rate without both copies with that with them: over 5 % more",
            check: |runs| brings(runs, 4),
        },
    ]
}
