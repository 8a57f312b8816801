//! With the feature `linked`: compiles the C shim and links DPDK statically, with the drivers in
//! [`linked::DRIVERS`].
//!
//! A DPDK driver registers itself when it is linked into the program. With dynamic linking, EAL
//! loads every driver of the distribution, some 150 libraries; with static linking, a program
//! contains only the chosen drivers and needs no DPDK on the machine where it runs.
//! `CONVOY_DPDK_DRIVERS` adds drivers by the names of their archives:
//! `CONVOY_DPDK_DRIVERS="crypto_octeontx common_iavf net_ice"`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "linked")]
    linked::build();
}

#[cfg(feature = "linked")]
mod linked {
    use std::env;
    use std::path::Path;
    use std::process::Command;

    /// The session API changed in this release.
    const OLDEST: &str = "22.11";

    /// A driver, and the system libraries that it needs.
    struct Driver(&'static str, &'static [&'static str]);

    /// Drivers, linked as whole archives because only EAL calls them. Of the network drivers, only
    /// virtual ones that work on every machine are here. An operator adds the driver of a card,
    /// since some drivers do harm where they are not needed: that of virtio calls iopl(2) as root
    /// before `main`, which a systemd sandbox forbids. Drivers that the distribution lacks, such as
    /// those for another processor, are left out.
    const DRIVERS: &[Driver] = &[
        Driver("bus_pci", &[]),
        Driver("bus_vdev", &[]),
        Driver("mempool_ring", &[]),
        Driver("crypto_ipsec_mb", &["IPSec_MB"]),
        Driver("crypto_openssl", &["crypto"]),
        Driver("crypto_null", &[]),
        Driver("crypto_scheduler", &[]),
        Driver("crypto_virtio", &[]),
        Driver("crypto_ccp", &["crypto"]),
        Driver("crypto_armv8", &["AArch64crypto"]),
        Driver("crypto_caam_jr", &[]),
        Driver("common_qat", &["crypto", "IPSec_MB"]),
        Driver("net_af_packet", &[]),
        Driver("net_ring", &[]),
        Driver("net_tap", &[]),
    ];
    /// Libraries that drivers and the shim call, each before its own dependencies.
    const LIBRARIES: &[&str] = &[
        "common_dpaax",
        "bus_dpaa",
        "vhost",
        "gso",
        "reorder",
        "compressdev",
        "cryptodev",
        "security",
        "dmadev",
        "ethdev",
        "hash",
        "net",
        "timer",
        "pci",
        "mbuf",
        "mempool",
        "rcu",
        "ring",
        "meter",
        "telemetry",
        "eal",
        "kvargs",
        "log",
    ];
    /// System libraries that EAL needs. Not every distribution links `bsd`.
    const OF_EAL: &[&str] = &["numa", "bsd"];

    pub(super) fn build() {
        println!("cargo::rerun-if-env-changed=CONVOY_DPDK_DRIVERS");
        println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
        println!("cargo::rerun-if-changed=shim");
        let cflags = ask(&["--cflags", "libdpdk"]);
        let folder = ask(&["--variable=libdir", "libdpdk"]);
        compile(&cflags);
        link(Path::new(folder.trim()));
    }

    /// Queries pkg-config about DPDK, or ends the build with advice.
    fn ask(question: &[&str]) -> String {
        let remedy = format!(
            "the feature `dpdk` needs DPDK {OLDEST} or later with its static libraries; run scripts/install.sh build (Debian: apt-get install libdpdk-dev), or build \
             without the feature (make FEATURES=card)"
        );
        let mut command = Command::new(env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into()));
        let is_old = !command
            .args(["--atleast-version", OLDEST, "libdpdk"])
            .status()
            .is_ok_and(|status| status.success());
        assert!(!is_old, "{remedy}");
        let mut command = Command::new(env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into()));
        let output = command.args(question).output().unwrap_or_else(|error| panic!("{remedy}: {error}"));
        assert!(output.status.success(), "{remedy}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn compile(cflags: &str) {
        let mut shim = cc::Build::new();
        // Includes DPDK's headers as system headers, so that their warnings are not reported.
        for flag in cflags.split_whitespace() {
            match flag.strip_prefix("-I") {
                Some(folder) => shim.flag("-isystem").flag(folder),
                None => shim.flag(flag),
            };
        }
        shim.files(["eal", "device", "queue", "eth"].map(|part| format!("shim/{part}.c")))
            // The session pool API was experimental before 23.11.
            .define("ALLOW_EXPERIMENTAL_API", None)
            .opt_level(2)
            .warnings(true)
            .compile("convoy_dpdk_shim");
    }

    fn link(folder: &Path) {
        println!("cargo::rustc-link-search=native={}", folder.display());
        let is_there = |name: &str| folder.join(format!("librte_{name}.a")).exists();
        let more = env::var("CONVOY_DPDK_DRIVERS").unwrap_or_default();
        let mut needed = Vec::new();
        for Driver(name, libraries) in DRIVERS.iter().filter(|driver| is_there(driver.0)) {
            println!("cargo::rustc-link-lib=static:+whole-archive,-bundle=rte_{name}");
            needed.extend_from_slice(libraries);
        }
        for name in more.split_whitespace() {
            assert!(
                is_there(name),
                "CONVOY_DPDK_DRIVERS: there is no librte_{name}.a in {}",
                folder.display()
            );
            println!("cargo::rustc-link-lib=static:+whole-archive,-bundle=rte_{name}");
        }
        for name in LIBRARIES.iter().filter(|name| is_there(name)) {
            println!("cargo::rustc-link-lib=static:-bundle=rte_{name}");
        }
        needed.extend_from_slice(OF_EAL);
        needed.sort_unstable();
        needed.dedup();
        for library in needed {
            println!("cargo::rustc-link-lib=dylib={library}");
        }
    }
}
