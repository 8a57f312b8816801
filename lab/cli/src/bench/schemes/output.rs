//! The report of `convoy-lab bench schemes`: tables, and the page with its figures.

use convoy_figures::{Drawing, DrawingForm};
use convoy_measure::{Lengths, Placement, Role, Scheme, Waiting};

use super::super::page::Page;
use super::super::print_machine;
use super::super::spread::Spread;
use super::SchemesOutput;
use super::derived::ThreadTime;
use super::measured::MeasuredScheme;
use super::simulated::{ByScheme, SIMULATED};
use convoy_cli::table::{Column, number, table_of, word};

const FEW_CORES: &str = "There are too few cores for the tester, the worker, packet I/O and cryptography: the \
    gateway's threads share cores and sleep while they have no work, so a scheme cannot gain by what is measured.";
/// What derived rates are.
const DERIVED: &str = "Derived rates are what the busiest thread could carry with a core to itself, by its CPU time \
    for a packet under overload; what it costs to move packets between cores is not in them.";

const WAITED_WORDS: &str = "*: a thread waited for its core for more than 5 % of the time in which it could run; \
    bursts are longer then, and its time for a packet may be another with a core to itself.";

fn has_waited(scheme: &MeasuredScheme, lengths: Lengths) -> bool {
    scheme.derived(lengths).is_some_and(|derived| derived.has_waited)
}

/// Explains medians and ranges, if there are several rounds.
fn spread_words(rounds: u32) -> String {
    if rounds < 2 {
        return String::new();
    }
    format!("; medians of n = {rounds} rounds, with the lowest and the highest in square brackets")
}

pub(super) fn print(output: &SchemesOutput, lengths: &[Lengths]) {
    print_machine(&output.machine);
    println!(
        "One gateway between two UDP links on loopback. Lengths: {}. In brackets: relative to the scheme `none`{}.",
        output.lengths_are,
        spread_words(output.rounds)
    );
    let Placement { tester, first, engine, io, .. } = &output.placement;
    println!("Cores: tester {tester}, worker {first}, separate engine {engine}, separate packet I/O {io}.");
    if output.waiting == Waiting::Sleeps {
        println!("{FEW_CORES} {DERIVED}");
    }
    for (service, schemes) in &output.real {
        println!("\n{service}: Mbit/s without loss, by packet length");
        print_service(schemes, lengths);
        if output.waiting == Waiting::Sleeps {
            println!(
                "\n{service}, derived and not measured: Mbit/s with a core for each thread, and the busiest"
            );
            print_derived(schemes, lengths);
            println!("\n{service}: CPU time for a packet by thread, in ns");
            print_threads(schemes, lengths);
            if schemes.iter().any(|scheme| lengths.iter().any(|of| has_waited(scheme, *of))) {
                println!("{WAITED_WORDS}");
            }
        }
        for scheme in schemes {
            if let Some(why) = &scheme.unavailable {
                println!("  {}: {why}", scheme.off);
            }
        }
        if let Some(simulated) = output.simulated.get(service.as_str()) {
            println!("\nOn the simulated IXP425:");
            print_simulated(simulated, lengths);
            if let Some(shape) = output.shapes.get(service.as_str()) {
                println!("{shape}");
            }
        }
    }
}

/// Marks a derived rate, and a time that it is derived from.
const WAITED: &str = "* ";

/// The rate of a scheme with its mark, and its ratio to that of the base if both are final.
fn measured_cell(measured: &MeasuredScheme, base: Option<&MeasuredScheme>, lengths: Lengths) -> String {
    let base = measured.final_mbps(lengths).and_then(|_| base?.final_mbps(lengths));
    measured.mark(lengths).to_owned() + &cell(measured.mbps(lengths), base)
}

/// A value with its range, and its ratio to the base.
fn cell(value: Option<Spread>, base: Option<f64>) -> String {
    let Some(value) = value else { return "none".to_owned() };
    let Spread { median, .. } = value;
    let factor = base.filter(|base| *base > 0.0).map(|base| format!(" ({:.2})", median / base));
    format!("{median:.1}{}{}", value.ends(1), factor.unwrap_or_default())
}

fn print_service(schemes: &[MeasuredScheme], lengths: &[Lengths]) {
    let (there, base) = available(schemes);
    let mut columns: Vec<Column<'_, &MeasuredScheme>> =
        vec![word("off the worker's core", |measured: &&MeasuredScheme| measured.off.to_owned())];
    columns.extend(lengths.iter().map(|lengths| {
        number(lengths.to_string(), move |measured: &&MeasuredScheme| measured_cell(measured, base, *lengths))
    }));
    println!("{}", table_of(&columns, &there, None));
    let has = |mark: &str| there.iter().any(|measured| lengths.iter().any(|of| measured.mark(*of) == mark));
    if has("~ ") {
        println!("~: the search was stopped by the time limit; use a longer --within.");
    }
    if has("≥ ") {
        println!("≥: the tester could not sustain a higher rate; the gateway may be faster.");
    }
}

/// The schemes that are available, and the one that moves nothing.
fn available(schemes: &[MeasuredScheme]) -> (Vec<&MeasuredScheme>, Option<&MeasuredScheme>) {
    let there: Vec<&MeasuredScheme> = schemes.iter().filter(|scheme| scheme.unavailable.is_none()).collect();
    let base = there.first().filter(|first| first.scheme == Scheme::ALL[0]).copied();
    (there, base)
}

fn print_derived(schemes: &[MeasuredScheme], lengths: &[Lengths]) {
    let (there, base) = available(schemes);
    let mut columns: Vec<Column<'_, &MeasuredScheme>> =
        vec![word("off the worker's core", |measured: &&MeasuredScheme| measured.off.to_owned())];
    columns.extend(lengths.iter().map(|lengths| {
        number(lengths.to_string(), move |measured: &&MeasuredScheme| {
            let base = base.and_then(|base| Some(base.derived(*lengths)?.mbps.median));
            let derived = measured.derived(*lengths);
            let busiest = derived.map_or_else(String::new, |derived| format!(" {}", derived.busiest.name()));
            let mark = if has_waited(measured, *lengths) { WAITED } else { "" };
            mark.to_owned() + &cell(derived.map(|derived| derived.mbps), base) + &busiest
        })
    }));
    println!("{}", table_of(&columns, &there, None));
}

fn print_threads(schemes: &[MeasuredScheme], lengths: &[Lengths]) {
    let (there, _) = available(schemes);
    let roles = |measured: &MeasuredScheme| -> Vec<Role> {
        let first = lengths.iter().map(|lengths| measured.threads(*lengths)).find(|times| !times.is_empty());
        first.unwrap_or_default().iter().map(|time| time.thread).collect()
    };
    let rows: Vec<(&MeasuredScheme, Role)> =
        there.iter().flat_map(|measured| roles(measured).into_iter().map(|role| (*measured, role))).collect();
    let mut columns: Vec<Column<'_, (&MeasuredScheme, Role)>> = vec![
        word("off the worker's core", |(measured, _): &(&MeasuredScheme, Role)| measured.off.to_owned()),
        word("thread", |(_, role): &(&MeasuredScheme, Role)| role.name().to_owned()),
    ];
    columns.extend(lengths.iter().map(|lengths| {
        number(lengths.to_string(), move |(measured, role): &(&MeasuredScheme, Role)| {
            let time = measured.threads(*lengths).iter().find(|time| time.thread == *role);
            let text = |time: &ThreadTime| {
                let mark = if time.has_waited() { WAITED } else { "" };
                format!("{mark}{:.0}{}", time.ns.median, time.ns.ends(0))
            };
            time.map_or_else(|| "–".to_owned(), text)
        })
    }));
    println!("{}", table_of(&columns, &rows, None));
}

fn print_simulated(schemes: &ByScheme, lengths: &[Lengths]) {
    let of = |scheme: &str, lengths: Lengths| {
        let points = schemes.get(scheme)?;
        points.iter().find(|(length, _)| Lengths::All(*length) == lengths).map(|(_, mbps)| *mbps)
    };
    let of = &of;
    let rows: Vec<&'static str> =
        SIMULATED.iter().map(|(scheme, _)| *scheme).filter(|scheme| schemes.contains_key(scheme)).collect();
    let mut columns: Vec<Column<'_, &'static str>> =
        vec![word("off the XScale", |scheme: &&'static str| (*scheme).to_owned())];
    columns.extend(lengths.iter().map(|lengths| {
        number(lengths.to_string(), move |scheme: &&'static str| {
            cell(Spread::of(of(scheme, *lengths)), of("none", *lengths))
        })
    }));
    println!("{}", table_of(&columns, &rows, None));
}

/// Number of the service's figure in the paper. The paper has no other ciphers. Its figure 11
/// compares two interfaces, of which only one is served by the coprocessor; the two links here are
/// alike.
fn figure_number(service: &str) -> Option<u32> {
    match service {
        "forwarding" => Some(8),
        "des-sha1" => Some(9),
        "3des-sha1" => Some(10),
        _ => None,
    }
}

/// Explains medians and whiskers, if there are several rounds.
fn whisker_words(rounds: u32) -> String {
    if rounds < 2 {
        return String::new();
    }
    format!("; medians of n = {rounds} rounds, whiskers from the lowest to the highest")
}

/// Figures 8 to 10 of the paper and, without a number, figures of other ciphers, each followed by
/// the simulated one.
pub(super) fn page<'a>(output: &'a SchemesOutput, lengths: &[Lengths]) -> Page<'a> {
    let mut figures = Vec::new();
    for (service, schemes) in &output.real {
        let names: Vec<String> = lengths.iter().map(ToString::to_string).collect();
        let drawing = |title: String, series, whiskers| Drawing {
            number: figure_number(service),
            title,
            x: "packet length / bytes",
            y: "throughput without loss / Mbit/s",
            form: DrawingForm::Groups(names.clone()),
            series,
            whiskers,
        };
        let there = schemes.iter().filter(|scheme| scheme.unavailable.is_none());
        let places = || (0..).map(f64::from).zip(lengths);
        let real = there.clone().map(|scheme| {
            // There is no bar where no rate was found, in general or in the available time.
            let points = places().filter_map(|(x, of)| Some((x, scheme.mbps(*of)?.median)));
            (format!("off: {}", scheme.off), points.collect())
        });
        let whiskers =
            there.map(|scheme| places().filter_map(|(x, of)| scheme.mbps(*of)?.whisker(x)).collect());
        let note = format!(
            "convoy on this machine, by what is moved off the worker's core{}.",
            whisker_words(output.rounds)
        );
        let title = format!("{service}, this machine");
        figures.push((drawing(title, real.collect(), whiskers.collect()), note));
        if output.waiting == Waiting::Sleeps {
            let derived =
                |scheme: &MeasuredScheme, of: Lengths| scheme.derived(of).map(|derived| derived.mbps);
            let (there, _) = available(schemes);
            let series = there.iter().map(|scheme| {
                let points = places().filter_map(|(x, of)| Some((x, derived(scheme, *of)?.median)));
                (format!("off: {}", scheme.off), points.collect())
            });
            let ends = |scheme: &&MeasuredScheme| {
                places().filter_map(|(x, of)| derived(scheme, *of)?.whisker(x)).collect()
            };
            let title = format!("{service}, derived for a core for each thread");
            let whiskers = there.iter().map(ends).collect();
            let has_waited = there.iter().any(|scheme| lengths.iter().any(|of| has_waited(scheme, *of)));
            let waited = if has_waited { " Some threads waited for a core." } else { "" };
            figures.push((drawing(title, series.collect(), whiskers), format!("{DERIVED}{waited}")));
        }
        if let Some(simulated) = output.simulated.get(service.as_str()) {
            // In the order of the schemes, so that a scheme has the same colour in both figures.
            let schemes = SIMULATED.iter().filter_map(|(scheme, _)| simulated.get_key_value(scheme));
            let series = schemes.map(|(scheme, points)| {
                let place = |length: u16| lengths.iter().position(|of| *of == Lengths::All(length));
                let points = points.iter().filter_map(|(length, mbps)| Some((place(*length)? as f64, *mbps)));
                (format!("off: {scheme}"), points.collect())
            });
            let note = "The paper's gateway as described by platforms/ixp425.toml.".to_owned();
            let title = format!("{service}, the simulated IXP425");
            figures.push((drawing(title, series.collect(), Vec::new()), note));
        }
    }
    let cores = match output.waiting {
        Waiting::Polls => "All separate parts have cores of their own.",
        Waiting::Sleeps => FEW_CORES,
    };
    Page {
        title: "Four schemes of a gateway",
        machine: &output.machine,
        facts: vec![
            format!("One gateway between two UDP links on loopback; lengths are {}.", output.lengths_are),
            format!(
                "Three trials of {} s judge a rate; resolution {} %.",
                output.trial_s,
                output.resolution * 100.0
            ),
            cores.to_owned(),
        ],
        figures,
        verdicts: output.shapes.iter().map(|(service, shape)| format!("{service}: {shape}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use convoy_measure::{Found, Goal};

    use super::super::measured::Round;
    use super::*;

    const LENGTH: Lengths = Lengths::All(1000);

    fn scheme(packets_per_second: f64, is_settled: bool, is_limited_by_tester: bool) -> MeasuredScheme {
        let mut scheme = MeasuredScheme::new(Scheme::ALL[0], &[LENGTH]);
        let goal = Goal { loss_ratio: 0.0, width: 0.01, trial_s: 1.0, sum_s: 1.0, exceed_ratio: 0.5 };
        let found = Found {
            goal,
            packets_per_second: Some(packets_per_second),
            fails_at: None,
            is_limited_by_tester,
            is_settled,
        };
        scheme.add(Ok(vec![Round { found, threads: Vec::new() }]));
        scheme
    }

    #[test]
    fn a_ratio_is_printed_only_between_two_searches_that_ended() {
        let (base, twice) = (scheme(1e5, true, false), scheme(2e5, true, false));
        assert_eq!(measured_cell(&twice, Some(&base), LENGTH), "1600.0 (2.00)");
        let unfinished = scheme(2e5, false, false);
        assert_eq!(measured_cell(&unfinished, Some(&base), LENGTH), "~ 1600.0");
        assert_eq!(measured_cell(&twice, Some(&unfinished), LENGTH), "1600.0");
        let bound = scheme(2e5, true, true);
        assert_eq!(measured_cell(&bound, Some(&base), LENGTH), "≥ 1600.0");
        assert_eq!(measured_cell(&twice, None, LENGTH), "1600.0");
    }
}
