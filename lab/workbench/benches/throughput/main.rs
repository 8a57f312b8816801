//! Cycles per packet of each engine and of the whole path, compared with a lower bound ("floor"):
//! the cycles of ipsec-mb called by a program that does nothing else, measured in the same rounds.
//! Prints Markdown.
//!
//! - `-- engines`, `-- path` and `-- beside` run one part each.
//! - `-- path PROPOSAL BYTES SAS BURST SECONDS` runs one case, for a profiler.
//! - `-- count ENGINE PROPOSAL HEADERS BYTES SAS` is run by `make bench-instructions` under
//!   callgrind; HEADERS is ipv4, ipv6, ipv6-in-ipv4, ipv4-in-udp or ipv6-in-udp, with -iptfs
//!   behind it for AGGFRAG mode.
//! - `-- sample PROPOSAL BYTES SAS SECONDS` is run by `make bench-cycles` under perf.
//! - `-- choice` compares two engines on the worker's core, each alone and both.
//! - `-- workers` compares two workers with one.
//! - `-- iptfs` compares AGGFRAG mode with tunnel mode; `-- iptfs PROPOSAL BYTES SAS` in one case.

mod beside;
mod callgrind;
mod choice;
mod count;
mod engines;
mod headers;
mod iptfs;
mod path;
mod report;
mod sample;
mod time;
mod workers;

use std::time::{Duration, Instant};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["path", proposal, bytes, sas, burst, seconds] => {
            let setting = path::Setting::timed(proposal, number(bytes), number(sas));
            let rig = path::Rig::new(&setting, &mut path::usual_engine);
            profile(rig, number(burst), Duration::from_secs(number(seconds) as u64));
        }
        ["sample", proposal, bytes, sas, seconds] => {
            sample::run(proposal, number(bytes), number(sas), Duration::from_secs(number(seconds) as u64));
        }
        ["workers"] => {
            report::machine();
            workers::report();
        }
        ["choice"] => {
            report::machine();
            choice::report();
        }
        ["iptfs"] => {
            report::machine();
            iptfs::report();
        }
        ["iptfs", proposal, bytes, sas] => iptfs::case(proposal, number(bytes), number(sas)),
        ["beside"] => {
            report::machine();
            beside::report();
        }
        ["count", engine, proposal, headers, bytes, sas] => {
            count::run(engine, proposal, headers, [number(bytes), number(sas)]);
        }
        [part @ ("engines" | "path")] => {
            report::machine();
            if part == "engines" { engines::report() } else { path::report() }
        }
        _ => {
            report::machine();
            engines::report();
            path::report();
            beside::report();
        }
    }
}

fn number(text: &str) -> usize {
    text.parse().expect("a whole number")
}

fn profile(mut rig: path::Rig, burst: usize, length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        rig.run(burst);
    }
}
