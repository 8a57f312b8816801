//! Data of the figures.

use super::published::{
    BLUEFIELD, FLOWER, Point, QAT_BATCHED_GBS, QAT_EMERALD_RAPIDS_MBS, QAT_SYNCHRONOUS_MBS, XDP,
};
use super::runs::{
    ALONE, BATCHED, BLUEFIELD_TUNNELS, CARD, CONTENDERS, CORES, CORES_SWEEP, Contender, Device, Key,
    REQUESTS, Runs, SWEEP_TUNNELS, TUNNELS,
};
use crate::chart::{Body, Chart, Curve, Plot, PlotForm};

const LENGTH: &str = "tunnels";
const GOODPUT: &str = "carried / Gbit/s";

/// All figures.
pub(super) fn all(runs: &Runs) -> Vec<Chart> {
    vec![hybrid(runs), by_cores(runs), connectx(runs), bluefield(runs), qat(runs)]
}

fn chart(number: u32, title: &str, note: &str, plot: Plot) -> Chart {
    let (title, note) = (title.to_owned(), note.to_owned());
    Chart { number, title, reading: reading(number), note, body: Body::Plot(plot) }
}

/// How what was published is read for a figure.
fn reading(number: u32) -> &'static str {
    match number {
        1 | 2 => "the host chooses for each packet, as with inline crypto offload; SAs are equally likely",
        3 => {
            "rates on the line without loss; SAs are equally likely, where the tests went through them in turn"
        }
        4 => {
            "rates on the line; the published ones lose 1.6 to 4.9 % of the packets, the simulated ones none"
        }
        _ => "bytes of requests of 4096 bytes; a batched caller has 256 requests on their way",
    }
}

fn published(points: &[Point]) -> Curve {
    let points = points.iter().map(|point| (f64::from(point.tunnels), point.gbps));
    Curve { name: "published".to_owned(), ..Curve::papers(points) }
}

fn hybrid(runs: &Runs) -> Chart {
    let curve = |way: &Contender| {
        let points = TUNNELS.map(|tunnels| (f64::from(tunnels), runs.gbps(way.key(tunnels, CORES))));
        Curve::new(way.name, points)
    };
    let mut series: Vec<Curve> = CONTENDERS.iter().map(curve).collect();
    series.push(published(&FLOWER));
    let note = "ConnectX-7 with flow steering, and eight cores of its host. Published is the card alone; three of its points are fitted. The cores' cost is convoy's own, and \
                no hybrid was measured. \"Cache known\": the scheduler counts a miss as part of a packet's time.";
    let plot = Plot { x: LENGTH, y: GOODPUT, form: PlotForm::Curves(2100.0), series };
    chart(1, "Card, cores, and both by finishing time", note, plot)
}

fn by_cores(runs: &Runs) -> Chart {
    let gbps = |way: &Contender, cores| match cores {
        0 if way.variant == ALONE.variant => 0.0,
        // Without cores there is no choice of a processor.
        0 => runs.gbps(CARD.key(SWEEP_TUNNELS, 0)),
        _ => runs.gbps(way.key(SWEEP_TUNNELS, cores)),
    };
    let curve =
        |way: &Contender| Curve::new(way.name, CORES_SWEEP.map(|cores| (cores as f64, gbps(way, cores))));
    let series = CONTENDERS.iter().map(curve).collect();
    let note = "ConnectX-7 with flow steering and 1,600 tunnels, where 80.4 Gbit/s were published for the card alone.";
    let form = PlotForm::Curves(17.0);
    let plot = Plot { x: "cores of the host that do IPsec", y: GOODPUT, form, series };
    chart(2, "What cores add with 1,600 tunnels", note, plot)
}

fn connectx(runs: &Runs) -> Chart {
    let curve = |name: &str, variant: &'static str| {
        let of = |tunnels| runs.card(Device::ConnectX, variant, tunnels);
        Curve::new(name, TUNNELS.map(|tunnels| (f64::from(tunnels), of(tunnels))))
    };
    let series = vec![
        curve("forwarding by XDP", "xdp"),
        curve("forwarding by flow steering", ""),
        published(&[&XDP[..], &FLOWER[..]].concat()),
    ];
    let note = "Fitted: flow steering with 1,000, 1,200 and 1,500 tunnels, XDP with 1,200 and 1,500, and the line. The rest is predicted.";
    let plot = Plot { x: LENGTH, y: GOODPUT, form: PlotForm::Curves(2100.0), series };
    chart(3, "ConnectX-7 by tunnels", note, plot)
}

fn bluefield(runs: &Runs) -> Chart {
    let of = |tunnels| runs.card(Device::BlueField, "", tunnels);
    let points = BLUEFIELD_TUNNELS.map(|tunnels| (f64::from(tunnels), of(tunnels)));
    let series = vec![Curve::new("simulated", points), published(&BLUEFIELD)];
    let note = "Fitted: 500, 2,000 and 4,000 tunnels. The published rates are where 1.6 to 4.9 % of the packets are lost.";
    let plot = Plot { x: LENGTH, y: GOODPUT, form: PlotForm::Curves(8500.0), series };
    chart(4, "BlueField-3 by tunnels", note, plot)
}

fn qat(runs: &Runs) -> Chart {
    let of = |variant, load| runs.gbps(Key { device: Device::Qat, variant, cores: 0, load }) / 8.0;
    let curve = |name: &str, variant: &'static str| {
        Curve::new(name, REQUESTS.map(|requests| (f64::from(requests), of(variant, requests))))
    };
    let core = of("core-alone", BATCHED);
    let last = f64::from(REQUESTS[REQUESTS.len() - 1]);
    let series = vec![
        curve("with 65 us to the result", "synchronous"),
        curve("with 14 us", "synchronous-emerald-rapids"),
        Curve::new("a core with VAES", REQUESTS.map(|requests| (f64::from(requests), core))),
        Curve {
            name: "published".to_owned(),
            ..Curve::papers([
                (1.0, QAT_SYNCHRONOUS_MBS * 1e-3),
                (1.0, QAT_EMERALD_RAPIDS_MBS * 1e-3),
                (last, QAT_BATCHED_GBS),
            ])
        },
    ];
    let note = "AES-XTS, 4096 bytes. Fitted: all published points; what is between is predicted. How many requests were on their way in the batched test was not published: its point \
                stands at the right end.";
    let form = PlotForm::Curves(last + 4.0);
    let plot = Plot { x: "requests on their way at once", y: "GB/s", form, series };
    chart(5, "QAT by requests on their way", note, plot)
}
