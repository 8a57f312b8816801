//! Data of figures 6 and 8 to 15.

use convoy_sim::Report;

use super::runs::{
    FIGURE_11, FORWARDING, IPSEC_PPS, LENGTHS, LINE_PERCENT, LONGEST, REQUESTS, Runs, SCHEMES, System, What,
    cpu, line_pps, service_us,
};
use crate::chart::{Body, Boxes, Chart, Curve, Plot, PlotForm};

const LENGTH: &str = "packet length / bytes";
const THROUGHPUT: &str = "throughput without loss / Mbit/s";

/// All figures.
pub(super) fn all(runs: &Runs) -> Vec<Chart> {
    vec![
        schemes(),
        forwarding(runs),
        ipsec(runs, 9, "DES", "des", |(_, _, single)| single, Vec::new()),
        ipsec(runs, 10, "3DES", "", |(_, triple, _)| triple, vec![(1450.0, 45.0), (1450.0, 10.0)]),
        receiving(runs),
        utilisation(runs),
        success(runs),
        turnaround(runs),
        blocks(runs),
    ]
}

fn chart(number: u32, title: &str, note: &str, plot: Plot) -> Chart {
    let (title, note) = (title.to_owned(), note.to_owned());
    Chart { number, title, reading: reading(number), note, body: Body::Plot(plot) }
}

/// How the paper is read for a figure.
fn reading(number: u32) -> &'static str {
    match number {
        6 => "what is not off-loaded is the XScale's, with network cards on PCI for packets",
        8 => "throughput without loss, to 0.1 %, of frames with their FCS, without preamble and gap",
        9 => "as figure 8; DES takes software a third of 3DES's time",
        10 => "as figure 8; both of the text's numbers are at 1450 bytes",
        11 => "3DES; the other NPE sends",
        12 => {
            "busy time of the XScale in a run, with evenly spaced packets; NetBSD's own utilities counted it in the paper"
        }
        13 => "packets that leave over those that arrive, evenly spaced, with room for 32 in all",
        14 => {
            "from the request by the XScale to its notice, with one packet at a time, both transfers over the AHB in it"
        }
        _ => {
            "turnaround: the time from a block's begin to its end with one packet at a time, NPE B's time as well"
        }
    }
}

fn over_lengths(of: impl Fn(u32) -> f64) -> impl Iterator<Item = (f64, f64)> {
    LENGTHS.into_iter().map(move |length| (f64::from(length), of(length)))
}

fn schemes() -> Chart {
    let (xscale, npes, coprocessor) =
        ("XScale,\nnetwork cards", "NPE A in,\nNPE B out", "NPE B's\ncoprocessor");
    let row = |name: &str, cells: [(&str, bool); 4]| {
        (name.to_owned(), cells.map(|(cell, is_off)| (cell.to_owned(), is_off)).to_vec())
    };
    let boxes = Boxes {
        columns: ["none", "packet I/O", "cryptography", "both"].map(str::to_owned).to_vec(),
        rows: vec![
            row("packet I/O", [(xscale, false), (npes, true), (xscale, false), (npes, true)]),
            row("IP and IPsec", [("XScale", false); 4]),
            row(
                "cryptography",
                [("XScale", false), ("XScale", false), (coprocessor, true), (coprocessor, true)],
            ),
        ],
    };
    let note =
        "The variants of platforms/ixp425.toml: software-io and software-crypto, one of them, or none.";
    let title = "Four schemes, by what is off-loaded".to_owned();
    Chart { number: 6, title, reading: reading(6), note: note.to_owned(), body: Body::Boxes(boxes) }
}

fn forwarding(runs: &Runs) -> Chart {
    let mut series: Vec<Curve> = FORWARDING
        .into_iter()
        .map(|(name, variant)| Curve::new(name, over_lengths(|length| runs.mbps(variant, length))))
        .collect();
    series.push(Curve::new("Pentium III", over_lengths(|length| runs.pentium3_mbps("forwarding", length))));
    let line = |length| runs.of(System::Ixp425, "forwarding", length, What::Ndr).line.mbps;
    series.push(Curve::new("the line", over_lengths(line)));
    let note = "Fitted: wire speed from 512 bytes on with two NPEs, 60 % over none at 64 bytes, and that the Pentium III is their equal. \
                The paper's text has no other number of this figure.";
    let plot = Plot { x: LENGTH, y: THROUGHPUT, form: PlotForm::Curves(1600.0), series };
    chart(8, "Packet forwarding, by the number of NPEs", note, plot)
}

/// Variant names of a scheme.
type Scheme = (&'static str, &'static str, &'static str);

fn ipsec(
    runs: &Runs,
    number: u32,
    algorithm: &str,
    pentium3: &'static str,
    variant: fn(Scheme) -> &'static str,
    papers: Vec<(f64, f64)>,
) -> Chart {
    let scheme = |scheme: Scheme| {
        let name =
            if scheme.0 == "none" { "all by the XScale".to_owned() } else { format!("off: {}", scheme.0) };
        Curve::new(name, over_lengths(|length| runs.mbps(variant(scheme), length)))
    };
    let mut series: Vec<Curve> = SCHEMES.into_iter().map(scheme).collect();
    series.push(Curve::new("Pentium III", over_lengths(|length| runs.pentium3_mbps(pentium3, length))));
    let note = if papers.is_empty() {
        "None of these numbers is fitted to DES but that it takes software a third of 3DES. The paper's text has none of this figure."
    } else {
        "Fitted: both of the paper's numbers."
    };
    if !papers.is_empty() {
        series.push(Curve::papers(papers));
    }
    let plot = Plot { x: LENGTH, y: THROUGHPUT, form: PlotForm::Curves(1600.0), series };
    chart(number, &format!("IPsec with {algorithm}, by scheme"), note, plot)
}

fn receiving(runs: &Runs) -> Chart {
    let places = || (0..).map(f64::from).zip(FIGURE_11.into_iter().rev());
    let series = [("NPE A", ""), ("NPE B", "npe-b-receives")]
        .map(|(name, variant)| Curve::new(name, places().map(|(x, length)| (x, runs.mbps(variant, length)))));
    let names = FIGURE_11.iter().rev().map(u32::to_string).collect();
    let note = "3DES. The bars of the paper have no numbers.";
    let plot = Plot { x: LENGTH, y: THROUGHPUT, form: PlotForm::Groups(names), series: series.to_vec() };
    chart(11, "IPsec, by the NPE that receives", note, plot)
}

fn utilisation(runs: &Runs) -> Chart {
    let curve = |length: u32| {
        let points = LINE_PERCENT.map(|percent| {
            let of = runs.of(System::Ixp425, "forwarding", length, What::Load(line_pps(length, percent)));
            (of.report.offered.mbps, cpu(&of.report) * 100.0)
        });
        Curve::new(format!("{length} bytes"), points)
    };
    let series = [64, 512, 1024, 1518].map(curve).to_vec();
    let note = "Forwarding with two NPEs. The paper's text has no number of this figure.";
    let plot = Plot {
        x: "offered load / Mbit/s of frames",
        y: "utilisation of the XScale / %",
        form: PlotForm::Curves(100.0),
        series,
    };
    chart(12, "XScale utilisation against load", note, plot)
}

fn success(runs: &Runs) -> Chart {
    let curve = |length: u32| {
        let points = IPSEC_PPS.map(|pps| {
            let report = &runs.of(System::Ixp425, "", length, What::Load(pps)).report;
            (cpu(report) * 100.0, report.success_ratio * 100.0)
        });
        Curve::new(format!("{length} bytes"), points)
    };
    let series = [64, 512, LONGEST].map(curve).to_vec();
    let note = "3DES with both off-loaded, 400 to 8400 packets a second. The paper's text has no number of this figure.";
    let plot = Plot {
        x: "utilisation of the XScale / %",
        y: "packets that get through / %",
        form: PlotForm::Curves(105.0),
        series,
    };
    chart(13, "IPsec packets that get through against XScale utilisation", note, plot)
}

fn turnaround(runs: &Runs) -> Chart {
    let places = || (0..).map(f64::from).zip(REQUESTS.into_iter().rev());
    let curve = |name: &str, variant: &'static str| {
        Curve::new(name, places().map(|(x, length)| (x, runs.turnaround_us(variant, length))))
    };
    // Placed above the bars of DES.
    let papers = Curve::papers([(-0.21, 117.0), (0.79, 97.0)]);
    let series = vec![curve("DES", "des"), curve("3DES", ""), papers];
    let names = REQUESTS.iter().rev().map(|length| (length + 28).to_string()).collect();
    let note =
        "One packet at a time. Fitted: 117 us, and the slopes that give 153.6 and 101 Mbit/s. 97 us is not.";
    let plot = Plot {
        x: "length of the request / bytes",
        y: "turnaround / us",
        form: PlotForm::Groups(names),
        series,
    };
    chart(14, "Turnaround of a request to the coprocessor", note, plot)
}

/// The assignment of tasks in figure 15.
pub(super) const CONFIGURATIONS: [(&str, System, &str); 6] = [
    ("NPE B, DES", System::Ixp425, "des"),
    ("NPE B, 3DES", System::Ixp425, ""),
    ("XScale, DES", System::Ixp425, "software-crypto+des"),
    ("XScale, 3DES", System::Ixp425, "software-crypto"),
    ("Pentium III, DES", System::Pentium3, "des"),
    ("Pentium III, 3DES", System::Pentium3, ""),
];

/// Times of IP, IPsec, the framework and cryptography, in us per packet.
pub(super) fn blocks_us(runs: &Runs, system: System, variant: &'static str) -> [f64; 4] {
    let report: &Report = &runs.of(system, variant, LONGEST, What::Idle).report;
    let sum = |names: &[&str]| names.iter().map(|name| service_us(report, name)).sum::<f64>();
    let is_off = report.stages.iter().any(|stage| stage.name == "crypto-in");
    let cryptography = if is_off { runs.turnaround_us(variant, LONGEST) } else { report.latency_ms * 1e3 };
    let ipsec = ["sa-lookup", "ipsec-headers", "ipsec"];
    let framework = ["crypto-request", "crypto-callback"];
    [sum(&["receive", "transmit"]), sum(&ipsec), sum(&framework), cryptography]
}

fn blocks(runs: &Runs) -> Chart {
    let all = CONFIGURATIONS.map(|(_, system, variant)| blocks_us(runs, system, variant));
    let names = ["IP", "IPsec", "framework", "cryptography"];
    let series = names
        .iter()
        .enumerate()
        .map(|(block, name)| Curve::new(*name, all.iter().enumerate().map(|(x, us)| (x as f64, us[block]))));
    let series = series.collect();
    let form = PlotForm::Stacks(CONFIGURATIONS.iter().map(|(name, ..)| (*name).to_owned()).collect());
    let note = "1450 bytes, one packet at a time. With NPE B cryptography takes no time of the XScale; the framework that requests it does. The paper's text has no number of this figure.";
    chart(
        15,
        "Time of a packet by functional block",
        note,
        Plot { x: "who does cryptography", y: "time / us", form, series },
    )
}
