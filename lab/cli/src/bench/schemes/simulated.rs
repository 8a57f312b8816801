//! The simulated gateway of the IXP425 paper, and its agreement with the measured one.

use std::collections::BTreeMap;

use convoy_measure::{Lengths, Service};
use convoy_sim::{NdrSearch, Platform, Setting};

use super::super::shape::{Compared, ShapeBasis, sentence};
use super::measured::MeasuredScheme;
use convoy_cli::Failure;

/// Variants of the platform `ixp425` for each scheme, with 3DES.
pub(super) const SIMULATED: [(&str, &str); 4] = [
    ("none", "software-io+software-crypto"),
    ("packet I/O", "software-crypto"),
    ("cryptography", "software-io"),
    ("both", ""),
];
/// Packets per simulated trial.
const PACKETS: u64 = 2_000;

/// Packet length and Mbit/s, by scheme.
pub(super) type ByScheme = BTreeMap<&'static str, Vec<(u16, f64)>>;
pub(super) type Simulated = BTreeMap<&'static str, ByScheme>;

/// Simulates the paper's platform at the same lengths and for those services that it has.
pub(super) fn simulated(lengths: &[Lengths], services: &[(String, Service)]) -> Result<Simulated, Failure> {
    const LONGEST: u16 = 1518;
    let platform = Platform::open("ixp425").map_err(|error| Failure::Failed(error.to_string()))?;
    let ndr = |variant: &str, length: u16| {
        let setting = Setting {
            variant: (!variant.is_empty()).then(|| variant.to_owned()),
            pattern: Some(length.to_string()),
            packets: Some(PACKETS),
            ..Setting::default()
        };
        let found = NdrSearch::default().run(&platform, &setting);
        found.map(|found| found.throughput.mbps).map_err(|error| Failure::Failed(error.to_string()))
    };
    let mut all = Simulated::new();
    let triple = SIMULATED.map(|(scheme, variant)| ("3des-sha1", scheme, variant.to_owned()));
    let single = SIMULATED.map(|(scheme, variant)| {
        ("des-sha1", scheme, if variant.is_empty() { "des".to_owned() } else { format!("{variant}+des") })
    });
    let forwarding = [("none", "forwarding+software-io"), ("packet I/O", "forwarding")]
        .map(|(scheme, variant)| ("forwarding", scheme, variant.to_owned()));
    let is_wanted = |service: &str| services.iter().any(|(name, _)| name == service);
    let all_variants = triple.into_iter().chain(single).chain(forwarding);
    for (service, scheme, variant) in all_variants.filter(|(service, ..)| is_wanted(service)) {
        for lengths in lengths {
            let Lengths::All(length) = *lengths else { continue };
            if length <= LONGEST {
                let points = all.entry(service).or_default().entry(scheme).or_default();
                points.push((length, ndr(&variant, length)?));
            }
        }
    }
    Ok(all)
}

/// Derived rates that differ by less count as equal: CPU times of the same threads differ by as
/// much from round to round.
const DERIVED_TOLERANCE: f64 = 0.1;

/// Compares the gains of the schemes on both gateways, where both have results.
pub(super) fn shapes(
    real: &BTreeMap<String, Vec<MeasuredScheme>>,
    simulated: &Simulated,
    basis: ShapeBasis,
    resolution: f64,
) -> BTreeMap<&'static str, String> {
    let tolerance = match basis {
        // Each of two rates is known within the resolution.
        ShapeBasis::Measured => 2.0 * resolution,
        ShapeBasis::Derived => DERIVED_TOLERANCE,
    };
    let of = |service: &'static str, by_scheme: &ByScheme| {
        let schemes = real.get(service)?;
        let rate_of = |scheme: &str, length: u16| {
            let lengths = Lengths::All(length);
            let measured = schemes.iter().find(|measured| measured.off == scheme)?;
            if basis == ShapeBasis::Derived {
                return Some(measured.derived(lengths)?.mbps.median);
            }
            measured.final_mbps(lengths)
        };
        let base = by_scheme.get("none")?;
        let elsewhere = SIMULATED.iter().map(|(scheme, _)| *scheme).filter(|scheme| *scheme != "none");
        let points = elsewhere.filter_map(|scheme| Some((scheme, by_scheme.get(scheme)?)));
        let compared = points.flat_map(|(scheme, points)| {
            points.iter().zip(base).filter(|(_, (_, without))| *without > 0.0).map(
                move |((length, mbps), (_, without))| {
                    let here = rate_of(scheme, *length)
                        .and_then(|rate| Some(rate / rate_of("none", *length).filter(|base| *base > 0.0)?));
                    Compared { scheme, length: *length, here, there: mbps / without }
                },
            )
        });
        Some((service, sentence(&compared.collect::<Vec<_>>(), tolerance, basis)))
    };
    simulated.iter().filter_map(|(&service, by_scheme)| of(service, by_scheme)).collect()
}
