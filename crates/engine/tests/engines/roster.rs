//! All engines of this build; the reference comes first.

use convoy_engine::{Engine, FaultPlan, Faulty, Multibuffer, Software};

/// Multi-packets of each transform on which all engines must agree.
pub(crate) const ROUNDS: u32 = 6;

/// On x86-64 the library is required, so that its tests do not pass by being skipped. A build
/// without it is requested by the same variable as in its build script.
pub(crate) fn has_multibuffer() -> bool {
    option_env!("CONVOY_IPSEC_MB") != Some("off") && cfg!(target_arch = "x86_64")
}

fn multibuffers() -> Vec<Box<dyn Engine>> {
    if !has_multibuffer() {
        return Vec::new();
    }
    let inline = Multibuffer::inline("multibuffer-inline").expect("make test installs libipsec-mb-dev");
    let pinned = Multibuffer::on_core("multibuffer-pinned", 0).expect("make test installs libipsec-mb-dev");
    vec![Box::new(inline), Box::new(pinned)]
}

/// DPDK's software devices, which are available everywhere, without the NULL device: it does
/// nothing that an SA needs (`crates/dpdk` tests its queues). Tests that run in parallel take queue
/// pairs of the same devices.
#[cfg(feature = "dpdk")]
fn cryptodevs() -> Vec<Box<dyn Engine>> {
    use convoy_engine::{Cryptodev, CryptodevSettings};
    let over = |name: &str, settings: CryptodevSettings| -> Box<dyn Engine> {
        Box::new(Cryptodev::new(name, &settings).expect("make test installs libdpdk-dev"))
    };
    // The scheduler needs sessions on all its devices.
    let of = |device: &str| CryptodevSettings { sas: 64, ..CryptodevSettings::of(device) };
    vec![
        over("dpdk-aesni-mb", of("crypto_aesni_mb_suite,max_nb_queue_pairs=32")),
        Box::new(
            Cryptodev::on_core("dpdk-aesni-mb-pinned", &of("crypto_aesni_mb_suite"), 0)
                .expect("a thread can be had"),
        ),
        over("dpdk-aesni-gcm", of("crypto_aesni_gcm_suite,max_nb_queue_pairs=32")),
        over("dpdk-openssl", of("crypto_openssl_suite,max_nb_queue_pairs=32")),
        over("dpdk-scheduler", of(&scheduler())),
    ]
}

/// DPDK's scheduler in fail-over mode, over two devices.
#[cfg(feature = "dpdk")]
fn scheduler() -> String {
    static WORKERS: std::sync::Once = std::sync::Once::new();
    let workers = ["crypto_aesni_mb_below", "crypto_openssl_below"];
    WORKERS.call_once(|| {
        let eal = convoy_dpdk::Eal::start(&convoy_dpdk::default_arguments([])).expect("DPDK starts");
        for worker in workers {
            eal.probe(&format!("{worker},max_nb_queue_pairs=32")).expect("a software device can be made");
        }
    });
    let [first, second] = workers;
    format!("crypto_scheduler_suite,worker={first},worker={second},mode=fail-over,max_nb_queue_pairs=32")
}

#[cfg(not(feature = "dpdk"))]
fn cryptodevs() -> Vec<Box<dyn Engine>> {
    Vec::new()
}

pub(crate) fn every_engine() -> Vec<Box<dyn Engine>> {
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("software"))];
    engines.push(Box::new(Software::on_core("software-pinned", 0).expect("a thread can be had")));
    engines.extend(multibuffers());
    engines.extend(cryptodevs());
    engines.push(Box::new(Faulty::new(Box::new(Software::new("never-faulty")), FaultPlan::none())));
    engines
}

/// Whether one of them works on a thread of its own.
pub(crate) fn has_threads() -> bool {
    true
}
