//! What a calibration depends on: the processor and the engines' versions.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The processor's model, its cores, its flags (hashed), and the version of each engine that is
/// present. Measurements with another fingerprint are invalid.
pub fn fingerprint(engine_versions: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    describe(&cpuinfo, cores) + engine_versions
}

fn describe(cpuinfo: &str, cores: usize) -> String {
    let field = |names: &[&str]| {
        let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let mut fields = fields.map(|(name, value)| (name.trim(), value.trim()));
        fields.find(|(name, _)| names.contains(name)).map(|(_, value)| value)
    };
    let model = field(&["model name", "CPU part"]).unwrap_or(std::env::consts::ARCH);
    let flags = Sha256::digest(field(&["flags", "Features"]).unwrap_or_default());
    let mut text = format!("{model}; {cores} cores; flags ");
    for byte in &flags[..4] {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: &str =
        "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: aes avx\n\nprocessor\t: 1\n";

    #[test]
    fn fingerprint_names_processor_cores_and_engines() {
        let text = describe(CPU, 2);
        assert!(text.starts_with("Some CPU @ 2 GHz; 2 cores; flags "), "{text}");
        let whole = fingerprint("; software 1");
        assert!(whole.ends_with("; software 1"), "{whole}");
        assert_eq!(whole, fingerprint("; software 1"));
    }

    #[test]
    fn another_flag_or_core_is_another_machine() {
        assert_ne!(describe(CPU, 2), describe(CPU, 4));
        assert_ne!(describe(CPU, 2), describe(&CPU.replace("avx", "avx2"), 2));
    }
}
