//! The setups to compare: sets of engines, and what chooses among them.

use convoy_dataplane::costs::Costs;
use convoy_engine::CryptodevSettings;
use convoy_workbench::{Platform, Rule, TunnelSet};

/// Modes of DPDK's scheduler device. None of them takes the devices' costs into account.
const MODES: [&str; 4] = ["round-robin", "packet-size-distr", "fail-over", "multi-core"];
/// DPDK's own cores, for multi-core mode. Once started, its threads poll for the life of the
/// process, so no other engine uses these cores.
const CORES: [usize; 2] = [3, 4];
/// The peer's engine, which is the same in all setups.
const PEER: &str = "[[engine]]\nkind = \"multibuffer\"\nname = \"peer\"\n";

/// A set of engines, and the rules to measure it under.
pub(crate) struct Setup {
    pub(crate) engines: &'static str,
    pub(crate) platform: Platform,
    pub(crate) rules: Vec<Rule>,
    /// What chooses among the engines, if it is not a rule.
    pub(crate) by: Option<String>,
}

/// The devices below DPDK's scheduler in this mode.
fn workers(mode: &str) -> [String; 2] {
    ["aesni_mb", "openssl"].map(|driver| format!("crypto_{driver}_{mode}"))
}

/// Starts DPDK with the devices below its schedulers, and with cores of its own for multi-core
/// mode.
pub(crate) fn start_dpdk(cores: usize) {
    let mut arguments = convoy_engine::dpdk_arguments(&[]);
    if has_cores(cores) {
        let [one, other] = CORES;
        arguments.extend(["--lcores".to_owned(), format!("0@0,{one}@{one},{other}@{other}")]);
    }
    for worker in MODES.iter().flat_map(|mode| workers(mode)) {
        arguments.extend(["--vdev".to_owned(), worker]);
    }
    convoy_engine::start_dpdk(Some(&arguments), &[]).expect("DPDK starts");
}

/// Whether the machine has cores for DPDK besides those of the gateways and the engines.
pub(crate) fn has_cores(cores: usize) -> bool {
    CORES.iter().all(|core| *core < cores)
}

fn cryptodev(name: &str, device: &str, core: Option<usize>) -> String {
    let core = core.map_or_else(String::new, |core| format!("core = {core}\n"));
    format!("[[engine]]\nkind = \"cryptodev\"\nname = \"{name}\"\ndevice = \"{device}\"\n{core}")
}

/// Whether DPDK's scheduler in this mode is available and supports the proposal.
fn has(device: &str, proposal: &str) -> bool {
    let settings = CryptodevSettings::of(device);
    let transform = proposal.parse::<convoy_ipsec::Proposal>().expect("one of the bench's own").transform;
    match convoy_engine::Cryptodev::new("trial", &settings) {
        Ok(engine) => convoy_engine::EngineControl::description(&engine).transforms.contains(&transform),
        Err(error) => {
            eprintln!("left out: {error}");
            false
        }
    }
}

/// All setups for one proposal and number of SAs.
pub(crate) fn setups(tunnels: TunnelSet, cores: usize, costs: &mut Costs) -> Vec<Setup> {
    let inline = "[[engine]]\nkind = \"multibuffer\"\n";
    let beside = (cores > 1).then_some(1);
    let last = (cores > 2).then_some(2);
    let mut several = inline.to_owned();
    for (name, device, core) in
        [("aesni_mb", "crypto_aesni_mb_beside", beside), ("openssl", "crypto_openssl_beside", last)]
    {
        // A device without the algorithm would never be chosen.
        if has(device, tunnels.proposal) {
            several += &cryptodev(name, device, core);
        }
    }
    let mut platform =
        |site: &str| Platform::of("", tunnels, site, PEER, costs).expect("the bench's own engines");
    let alone =
        |engines, platform| Setup { engines, platform, rules: vec![Rule::DEFAULT], by: Some("-".to_owned()) };
    let mut all = vec![
        Setup {
            engines: "multibuffer, aesni_mb, openssl",
            platform: platform(&several),
            rules: Rule::compared(),
            by: None,
        },
        alone("multibuffer alone", platform(inline)),
    ];
    for (engines, device) in
        [("aesni_mb alone", "crypto_aesni_mb_alone"), ("openssl alone", "crypto_openssl_alone")]
    {
        if has(device, tunnels.proposal) {
            all.push(alone(engines, platform(&cryptodev("alone", device, None))));
        }
    }
    for mode in MODES.into_iter().filter(|mode| *mode != "multi-core" || has_cores(cores)) {
        let [first, second] = workers(mode);
        let [one, other] = CORES;
        let cores = if mode == "multi-core" { format!(",corelist={one};{other}") } else { String::new() };
        // Without DPDK's ordering: the gateway restores the order itself, and DPDK's scheduler may
        // return ordered operations before they are complete.
        let device = format!("crypto_scheduler_{mode},worker={first},worker={second},mode={mode}{cores}");
        if has(&device, tunnels.proposal) {
            let by = Some(format!("DPDK's scheduler, {mode}"));
            all.push(Setup {
                by,
                ..alone("aesni_mb, openssl", platform(&cryptodev("scheduler", &device, None)))
            });
        }
    }
    all
}
