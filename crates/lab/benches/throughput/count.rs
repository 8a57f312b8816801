//! The whole path under callgrind: a fixed count of packets each way, in a dump of its own for each
//! case. `bench/instructions` runs this and reads the dumps.

use std::ffi::CString;

use convoy_engine::{Engine, Multibuffer, Software};

use crate::callgrind;
use crate::path::{Rig, Setting};
use crate::report;

/// How many packets are counted of each case.
const COUNTED: usize = 2_560;
/// Packets at hand in a steady load: whole bursts, and more of them than the largest window holds.
const STEADY: usize = 2_560;
/// Windows of a steady load, in packets.
const WINDOWS: [usize; 3] = [1, 32, 256];
/// The window of packets that come one at a time.
const USUAL_WINDOW: usize = 32;

/// Counts the cases of one engine, proposal, size and number of SAs.
///
/// # Panics
/// Without callgrind, and if packets are lost.
pub(crate) fn run(engine: &str, proposal: &str, bytes: usize, sas: usize) {
    assert!(callgrind::is_there(), "`count` is for bench/instructions, which runs it under callgrind");
    println!("{}", report::library());
    let mut cases: Vec<(usize, usize)> = WINDOWS.map(|window| (window, STEADY)).to_vec();
    if sas == 1 {
        cases.push((USUAL_WINDOW, 1));
    }
    for (window, at_hand) in cases {
        let setting = Setting { proposal, bytes, sas, window, link: STEADY, simulated: true };
        let mut rig = Rig::new(&setting, &mut || self::engine(engine));
        // All memory, tables and branches that a packet of any SA needs.
        for _ in 0..sas.max(2 * STEADY).div_ceil(at_hand) {
            rig.pass(at_hand, [false, false]);
        }
        callgrind::start_instrumentation();
        for way in ["out", "in"] {
            for _ in 0..COUNTED / at_hand {
                rig.pass(at_hand, [way == "out", way == "in"]);
            }
            let name = format!("{engine} {proposal} {bytes} {sas} {window} {at_hand} {way} {COUNTED}");
            callgrind::dump(&CString::new(name).expect("no NUL"));
        }
        callgrind::stop_instrumentation();
    }
}

fn engine(kind: &str) -> Box<dyn Engine> {
    match kind {
        "software" => Box::new(Software::new("engine")),
        "multibuffer" => Box::new(Multibuffer::inline("engine").expect("ipsec-mb, see scripts/install.sh")),
        // What the worker alone does for it; how its packets are bundled depends on the thread's
        // pace, so it is in no baseline.
        "elsewhere" => {
            Box::new(Multibuffer::on_core("engine", None).expect("ipsec-mb, see scripts/install.sh"))
        }
        other => panic!("{other}: software, multibuffer and elsewhere are counted"),
    }
}
