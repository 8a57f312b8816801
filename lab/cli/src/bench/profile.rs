//! The table of shares of a worker's time, in the terminal and on the page.

use convoy_measure::{Profile, ProfilePart, Shares};

use super::page::PageTable;
use convoy_cli::table::{Column, number, table_of, word};

const CAPTION: &str = "Shares of the worker's time, in %";

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1}", share * 100.0))
}

fn columns<'a>() -> Vec<Column<'a, Shares>> {
    let mut columns = vec![
        word("bytes", |shares: &Shares| shares.lengths.to_string()),
        number("kpps", |shares: &Shares| format!("{:.0}", shares.packets_per_second / 1e3)),
        number("idle", |shares: &Shares| percent(Some(shares.idle))),
    ];
    columns.extend(
        ProfilePart::ALL.map(|part| number(part.words(), move |shares: &Shares| percent(shares.of(part)))),
    );
    columns.push(number("samples", |shares: &Shares| samples(shares.samples)));
    columns
}

fn samples(samples: Option<(u64, u64)>) -> String {
    samples.map_or_else(|| "–".to_owned(), |(under_load, idle)| format!("{under_load}, {idle} idle"))
}

/// Prints the table; `lengths` is the number of lengths that were to be measured.
pub(super) fn print(profile: &Profile, lengths: usize) {
    println!("\n{CAPTION}:");
    println!("{}", table_of(&columns(), &profile.shares, None));
    let measured = profile.shares.len();
    if measured < lengths {
        println!("The time limit was reached after {measured} of {lengths} lengths.");
    }
    println!("{}", profile.source.sentence());
}

/// The table for the page, with the name of the service.
pub(super) fn table(name: &str, profile: &Profile) -> PageTable {
    PageTable::new(format!("{CAPTION}: {name}"), &columns(), &profile.shares, profile.source.sentence())
}

#[cfg(test)]
mod tests {
    use convoy_measure::{Lengths, ProfileSource};

    use super::*;

    fn profile(
        source: ProfileSource,
        parts: Vec<(ProfilePart, f64)>,
        samples: Option<(u64, u64)>,
    ) -> Profile {
        let lengths = Lengths::All(64);
        Profile {
            source,
            shares: vec![Shares { lengths, packets_per_second: 123_456.0, idle: 0.25, parts, samples }],
        }
    }

    #[test]
    fn a_table_has_the_five_shares_and_how_many_samples_they_are_of() {
        let parts = ProfilePart::ALL.into_iter().zip([0.4, 0.2, 0.05, 0.1]).collect();
        let found = profile(ProfileSource::Perf, parts, Some((4500, 1999)));
        let text = table_of(&columns(), &found.shares, None);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["bytes", "kpps", "idle", "kernel", "IPsec", "port", "application", "samples"]);
        assert_eq!(rows[1], ["64", "123", "25.0", "40.0", "20.0", "5.0", "10.0", "4500,", "1999", "idle"]);
    }

    #[test]
    fn what_a_source_does_not_tell_is_a_dash_and_the_page_says_why() {
        let parts =
            vec![(ProfilePart::Kernel, 0.5), (ProfilePart::Ipsec, 0.15), (ProfilePart::Application, 0.1)];
        let source = ProfileSource::Proc("perf <is> not there".to_owned());
        let html = table("aes128gcm16", &profile(source, parts, None)).html();
        assert!(html.contains("<td>15.0</td><td>–</td><td>10.0</td><td>–</td>"), "{html}");
        assert!(html.contains("because perf &lt;is&gt; not there."), "{html}");
    }
}
