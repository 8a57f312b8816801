//! With the feature `verilated`: translates the card's RTL to C++ with Verilator, compiles it, and
//! links it with the shim.
//!
//! The models take minutes to compile and no profile changes them, so each is a static library that
//! is built once, and is kept in the target folder for the builds of all profiles.
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
    use std::collections::hash_map::DefaultHasher;
    use std::env;
    use std::ffi::{OsStr, OsString};
    use std::fs::{self, File};
    use std::hash::{Hash, Hasher};
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::SystemTime;

    /// The models, each with the mask of the functions in its pipelines (card/functions.toml). The
    /// first is that of a card for which no function is named. Functions that share a model make
    /// one another slower (docs/lab/card.md, "Driver").
    const MODELS: [u16; 5] = [0b000_0110, 0b000_1000, 0b001_0000, 0b010_0000, 0b100_0000];
    /// How many of them this build has.
    const BUILT: usize = if cfg!(feature = "all-functions") { MODELS.len() } else { 1 };
    const RTL: &str = "../../card/rtl";
    /// How many builds of a library are kept: this one, and those of a few other branches.
    const KEPT: usize = 3;

    pub(super) fn build() {
        println!("cargo::rerun-if-env-changed=VERILATOR");
        println!("cargo::rerun-if-changed=shim");
        println!("cargo::rerun-if-changed={RTL}");
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
        let tools = Tools::find(&out);
        let mut libraries: Vec<Library> = (0..)
            .zip(MODELS)
            .map(|(number, functions)| Library::model(number, functions))
            .take(BUILT)
            .collect();
        libraries.push(Library::runtime(&tools));
        let store = target_folder(&out).join("card-models");
        fs::create_dir_all(&store).expect("cargo's folder can be written");
        in_parallel(&libraries, |library| library.provide(&tools, &store, &out));
        name_models(&out);
        compile_shim(&tools, &out);
        // The linker wants a library behind those that use it.
        for library in &libraries {
            println!("cargo::rustc-link-lib=static={}", library.name);
        }
        println!("cargo::rustc-link-lib=dylib=atomic");
    }

    /// A static library that is the same for every profile.
    struct Library {
        name: String,
        source: LibrarySource,
    }

    enum LibrarySource {
        /// The card with these functions. The library's name is that of its C++ class.
        Card(u16),
        /// Files that come with Verilator.
        Files(Vec<PathBuf>),
    }

    impl Library {
        fn model(number: usize, functions: u16) -> Self {
            Self { name: class(number), source: LibrarySource::Card(functions) }
        }

        /// What all models use.
        fn runtime(tools: &Tools) -> Self {
            let files = ["verilated.cpp", "verilated_threads.cpp"].map(|file| tools.include.join(file));
            Self { name: "verilated".to_owned(), source: LibrarySource::Files(files.into()) }
        }

        /// Puts the library, and a model's header, into `out`: from the store if they are there,
        /// and otherwise by building them. They are copied since the store only keeps the newest.
        fn provide(&self, tools: &Tools, store: &Path, out: &Path) {
            // Another cargo that needs the same library waits for this one.
            let lock =
                File::create(store.join(format!("{}.lock", self.name))).expect("the store can be written");
            lock.lock().expect("files of the store can be locked");
            let kept = store.join(format!("{}-{:016x}", self.name, self.key(tools)));
            if !kept.exists() {
                self.build(tools, &kept, &out.join(&self.name));
            }
            for file in files_of(&kept) {
                fs::copy(&file, out.join(file.file_name().expect("a file")))
                    .expect("there is room for a copy");
            }
            let used = File::open(&kept).and_then(|folder| folder.set_modified(SystemTime::now()));
            used.expect("the store can be written");
            self.remove_oldest(store);
        }

        /// Everything that the library is made from, and what makes it.
        fn key(&self, tools: &Tools) -> u64 {
            let mut key = DefaultHasher::new();
            tools.version.hash(&mut key);
            if let LibrarySource::Card(functions) = self.source {
                self.translation(functions).hash(&mut key);
                for file in files_of(Path::new(RTL)) {
                    file.file_name().hash(&mut key);
                    fs::read(&file).expect("the card's RTL can be read").hash(&mut key);
                }
            }
            key.finish()
        }

        /// Builds in `scratch`, and renames what is to be kept into its place when it is complete.
        fn build(&self, tools: &Tools, kept: &Path, scratch: &Path) {
            // Files that an older RTL or an interrupted build left must not be compiled.
            let _ = fs::remove_dir_all(scratch);
            fs::create_dir_all(scratch).expect("cargo's folder can be written");
            let files = match &self.source {
                LibrarySource::Card(functions) => {
                    let folder = ["-Mdir".into(), scratch.into()];
                    tools.run_verilator(self.translation(*functions).into_iter().chain(folder));
                    files_of(scratch)
                        .into_iter()
                        .filter(|file| file.extension() == Some("cpp".as_ref()))
                        .collect()
                }
                LibrarySource::Files(files) => files.clone(),
            };
            // Verilator has put what only runs when a card is made into files of their own. They
            // are a third of the code, and not optimised they compile in a third of the time.
            let (once, often): (Vec<_>, Vec<_>) =
                files.into_iter().partition(|file| file.to_string_lossy().ends_with("__Slow.cpp"));
            let once = tools.compiler(0).out_dir(scratch).files(once).compile_intermediates();
            tools.compiler(2).out_dir(scratch).files(often).objects(once).compile(&self.name);

            let complete = kept.with_extension("new");
            let _ = fs::remove_dir_all(&complete);
            fs::create_dir_all(&complete).expect("the store can be written");
            for file in [format!("lib{}.a", self.name), format!("{}.h", self.name)] {
                if scratch.join(&file).exists() {
                    fs::copy(scratch.join(&file), complete.join(&file)).expect("there is room for a copy");
                }
            }
            fs::rename(&complete, kept).expect("the store can be written");
            let _ = fs::remove_dir_all(scratch);
        }

        /// Verilator's arguments.
        fn translation(&self, functions: u16) -> Vec<OsString> {
            let options =
                "--cc -O3 --x-assign fast --x-initial fast --no-timing -Wno-fatal --output-split 20000";
            let card = format!(
                "--top-module card_top --prefix {} -GX1_FUNCTIONS={functions} -GX2_FUNCTIONS={functions} \
                 -y {RTL} {RTL}/card_top.sv",
                self.name
            );
            options.split(' ').chain(card.split(' ')).map(OsString::from).collect()
        }

        /// Removes all builds but the [`KEPT`] that were used last. The caller has the lock.
        fn remove_oldest(&self, store: &Path) {
            let prefix = format!("{}-", self.name);
            let mut builds: Vec<(SystemTime, PathBuf)> = files_of(store)
                .into_iter()
                .filter(|path| {
                    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
                })
                .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
                .collect();
            builds.sort();
            for (_, path) in builds.iter().rev().skip(KEPT) {
                let _ = fs::remove_dir_all(path);
            }
        }
    }

    /// Verilator and the C++ compiler.
    struct Tools {
        verilator: OsString,
        /// Folder of Verilator's own C++.
        include: PathBuf,
        /// The versions of both, and the compiler's options.
        version: String,
    }

    impl Tools {
        fn find(out: &Path) -> Self {
            let verilator = find_verilator(out);
            let mut tools = Self { verilator, include: PathBuf::new(), version: String::new() };
            let root = tools.run_verilator(["--getenv", "VERILATOR_ROOT"]);
            tools.include = Path::new(root.trim()).join("include");
            tools.version = tools.run_verilator(["--version"]);
            for level in [0, 2] {
                let compiler = tools.compiler(level).get_compiler();
                let version = Command::new(compiler.path()).arg("--version").output();
                let version = version.map(|output| output.stdout).unwrap_or_default();
                // Its environment is left out: cargo gives each profile another one.
                tools.version += &format!("{:?}{:?}", compiler.path(), compiler.args());
                tools.version += &String::from_utf8_lossy(&version);
            }
            tools
        }

        /// Runs Verilator and returns its output, or ends the build with advice.
        fn run_verilator(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
            let output = Command::new(&self.verilator).args(arguments).output();
            let name = self.verilator.display();
            let output = output.unwrap_or_else(|error| {
                panic!(
                    "the card needs Verilator: {name}: {error}; run scripts/card-venv.sh, or name one in VERILATOR"
                )
            });
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{name} failed on the card's RTL:\n{errors}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        }

        /// Without optimisation the models are too slow to be of use, so the level does not depend
        /// on the profile.
        fn compiler(&self, level: u32) -> cc::Build {
            let mut compiler = cc::Build::new();
            compiler
                .cpp(true)
                .std("c++17")
                .opt_level(level)
                .debug(false)
                .warnings(false)
                .cargo_metadata(false)
                .define("VM_TRACE", "0")
                .define("VM_COVERAGE", "0")
                .define("VL_TIME_CONTEXT", None)
                .include(&self.include)
                .include(self.include.join("vltstd"));
            compiler
        }
    }

    /// The C++ class of a model.
    fn class(number: usize) -> String {
        format!("Vcard{number}")
    }

    /// The target folder, whose `<profile>/build` has the `out` of every package.
    fn target_folder(out: &Path) -> &Path {
        let builds = out.ancestors().find(|folder| folder.ends_with("build"));
        builds.and_then(|builds| builds.ancestors().nth(2)).unwrap_or(out)
    }

    fn find_verilator(out: &Path) -> OsString {
        if let Some(named) = env::var_os("VERILATOR") {
            return named;
        }
        let places = [target_folder(out), Path::new("../../target")];
        let found = places
            .map(|target| target.join("card-venv/bin/verilator"))
            .into_iter()
            .find(|place| place.exists());
        found.map_or_else(|| OsString::from("verilator"), PathBuf::into_os_string)
    }

    /// What is in a folder, sorted.
    fn files_of(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
        files
    }

    /// Does `work` on all libraries, on as many threads as cargo runs jobs.
    fn in_parallel(libraries: &[Library], work: impl Fn(&Library) + Sync) {
        let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..libraries.len().min(jobs) {
                scope.spawn(|| {
                    while let Some(library) = libraries.get(next.fetch_add(1, Ordering::Relaxed)) {
                        work(library);
                    }
                });
            }
        });
    }

    /// Writes what the shim and the crate need to know of the models.
    fn name_models(out: &Path) {
        let includes: String =
            (0..BUILT).map(|number| format!("#include \"{}.h\"\n", class(number))).collect();
        let names: String = (0..BUILT).map(|number| format!(" X({number}, {})", class(number))).collect();
        let header = format!("#pragma once\n{includes}#define MODELS(X){names}\n");
        fs::write(out.join("models.h"), header).expect("cargo made the folder");
        let table = format!("pub(crate) const MODELS: [u16; {BUILT}] = {:?};\n", &MODELS[..BUILT]);
        fs::write(out.join("models.rs"), table).expect("cargo made the folder");
    }

    fn compile_shim(tools: &Tools, out: &Path) {
        tools.compiler(2).cargo_metadata(true).include(out).file("shim/card.cpp").compile("convoy_card");
    }
}
