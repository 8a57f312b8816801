//! Counts the instructions of the whole path under callgrind: a fixed number of packets in each
//! direction, with a dump for each case. `bench/instructions` runs this and reads the dumps.

use std::ffi::CString;

use convoy_engine::{Engine, Multibuffer, Software};

use crate::callgrind;
use crate::headers::Headers;
use crate::path::{Rig, Setting};
use crate::report;

/// Packets counted in each case.
const COUNTED: usize = 2_560;
/// Packets available at once under steady load: whole bursts, and more than the largest window
/// holds.
const STEADY: usize = 2_560;
/// Windows under steady load, in packets.
const WINDOWS: [usize; 3] = [1, 32, 256];
/// The length of packets that are counted with several windows, in bytes.
const SHORT: usize = 64;
/// The window for packets that come one at a time, in packets.
const USUAL_WINDOW: usize = 32;

/// Counts the cases of one engine, proposal, kind of headers, packet length and number of SAs.
///
/// # Panics
/// Without callgrind, and if packets are lost.
pub(crate) fn run(engine: &str, proposal: &str, headers: &str, [bytes, sas]: [usize; 2]) {
    assert!(callgrind::is_there(), "`count` is for bench/instructions, which runs it under callgrind");
    println!("{}", report::library());
    let in_payloads = headers.strip_suffix("-iptfs");
    let (words, mode) = in_payloads.map_or((headers, "tunnel"), |words| (words, "iptfs"));
    let parsed: Headers = words.parse().unwrap_or_else(|error| panic!("{error}"));
    // Headers and mode change nothing in what the window does.
    let mut cases = vec![(USUAL_WINDOW, STEADY)];
    if headers == "ipv4" && bytes == SHORT {
        cases = WINDOWS.map(|window| (window, STEADY)).to_vec();
        if sas == 1 {
            cases.push((USUAL_WINDOW, 1));
        }
    }
    for (window, at_hand) in cases {
        let setting = Setting {
            headers: parsed,
            mode,
            window,
            link: STEADY,
            simulated: true,
            ..Setting::timed(proposal, bytes, sas)
        };
        let mut rig = Rig::new(&setting, &mut || self::engine(engine));
        // Warms up: allocates memory and fills tables for every SA.
        for _ in 0..sas.max(2 * STEADY).div_ceil(at_hand) {
            rig.pass(at_hand, [false, false]);
        }
        callgrind::start_instrumentation();
        for way in ["out", "in"] {
            for _ in 0..COUNTED / at_hand {
                rig.pass(at_hand, [way == "out", way == "in"]);
            }
            let name =
                format!("{engine} {proposal} {headers} {bytes} {sas} {window} {at_hand} {way} {COUNTED}");
            callgrind::dump(&CString::new(name).expect("no NUL"));
        }
        callgrind::stop_instrumentation();
    }
}

fn engine(kind: &str) -> Box<dyn Engine> {
    match kind {
        "software" => Box::new(Software::new("engine")),
        "multibuffer" => Box::new(Multibuffer::inline("engine").expect("ipsec-mb, see scripts/install.sh")),
        // Counts the worker's part only. How packets are bundled depends on the other thread's
        // speed, so this case is in no baseline.
        "elsewhere" => {
            Box::new(Multibuffer::on_core("engine", None).expect("ipsec-mb, see scripts/install.sh"))
        }
        other => panic!("{other}: software, multibuffer and elsewhere are counted"),
    }
}
