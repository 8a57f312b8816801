//! Attributes samples of `perf` to parts of the system.

use serde::Serialize;

/// Parts of the system in which a worker spends its busy time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfilePart {
    /// The kernel.
    Kernel,
    /// IPsec: lookups, headers and engines with their ciphers.
    Ipsec,
    /// Code outside the kernel that sends and receives packets.
    Port,
    /// The rest of the gateway: worker, scheduler, frames, clock and libraries that these use.
    Application,
}

impl ProfilePart {
    /// In the order of tables.
    pub const ALL: [Self; 4] = [Self::Kernel, Self::Ipsec, Self::Port, Self::Application];

    /// Name for reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Ipsec => "IPsec",
            Self::Port => "port",
            Self::Application => "application",
        }
    }

    /// The part that an instruction belongs to, by its address, function and file.
    fn of(address: u64, function: &str, file: &str) -> Self {
        let bare = function.trim_start_matches(['<', '&', '_']);
        // Addresses in the upper half are the kernel's, even where symbol names are hidden.
        if address >> 63 == 1 {
            Self::Kernel
        } else if file.contains("libIPSec_MB") || CIPHERS.iter().any(|start| bare.starts_with(start)) {
            Self::Ipsec
        } else if let Some(at) = function.find("convoy_") {
            of_crate(&function[at..])
        } else if bare.starts_with("nix::sys::socket::") || PORT_CALLS.contains(&bare) {
            Self::Port
        } else {
            Self::Application
        }
    }
}

/// C library functions that only ports call.
const PORT_CALLS: [&str; 11] = [
    "recvmmsg", "sendmmsg", "recvmsg", "sendmsg", "recvfrom", "recv", "sendto", "send", "poll", "read",
    "write",
];
/// Name prefixes of cipher and hash functions, in crates and in libraries linked into the program.
const CIPHERS: [&str; 20] = [
    "aes",
    "cbc::",
    "chacha20",
    "cipher::",
    "cmac",
    "ctr::",
    "des::",
    "digest::",
    "gcm_",
    "ghash",
    "hmac",
    "md5",
    "poly1305",
    "polyval",
    "ring::",
    "ring_core",
    "sha1",
    "sha2",
    "submit_",
    "flush_",
];

/// The part of a function of this workspace, by its path.
fn of_crate(path: &str) -> ProfilePart {
    let starts = |all: &[&str]| all.iter().any(|start| path.starts_with(start));
    if starts(&["convoy_ipsec", "convoy_engine"]) {
        ProfilePart::Ipsec
    } else if starts(&["convoy_port", "convoy_measure::sockets"]) {
        ProfilePart::Port
    } else {
        ProfilePart::Application
    }
}

/// Number of samples of each part, in the order of [`ProfilePart::ALL`].
pub(super) type Samples = [u64; ProfilePart::ALL.len()];

/// Counts the samples in the output of `perf script -F ip,sym,dso`.
pub(super) fn count(script: &str) -> Samples {
    let mut samples = Samples::default();
    for part in script.lines().filter_map(part_of_line) {
        samples[part as usize] += 1;
    }
    samples
}

/// Parses a line of address, function and file in parentheses; `None` if it is not a sample.
fn part_of_line(line: &str) -> Option<ProfilePart> {
    let (address, rest) = line.trim().split_once(' ')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let (function, file) = rest.trim_end().strip_suffix(')')?.rsplit_once(" (")?;
    Some(ProfilePart::of(address, function.trim(), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of different functions from recordings of `convoy-lab bench inside`, each after the
    /// part that it belongs to.
    const RECORDED: &str = include_str!("recorded.txt");

    #[test]
    fn each_sample_of_a_real_recording_belongs_to_the_part_that_is_written_beside_it() {
        let mut seen = Vec::new();
        for line in RECORDED.lines() {
            let (part, sample) = line.split_once(": ").expect("a part and a sample");
            let found = part_of_line(sample).unwrap_or_else(|| panic!("{sample}"));
            assert_eq!(found.words(), part, "{sample}");
            seen.push(found);
        }
        assert!(ProfilePart::ALL.iter().all(|part| seen.contains(part)), "{seen:?}");
    }

    #[test]
    fn samples_are_counted_and_other_lines_are_not() {
        let samples: Vec<&str> = RECORDED.lines().filter_map(|line| Some(line.split_once(": ")?.1)).collect();
        let text = format!("# captured\n\n{}\n[cpu] lost 3\n", samples.join("\n"));
        assert_eq!(count(&text).iter().sum::<u64>(), samples.len() as u64);
        assert_eq!(count("no samples (at all)\n"), [0; 4]);
    }

    #[test]
    fn a_kernel_that_hides_its_names_is_still_the_kernel() {
        assert_eq!(count("ffffffff8100a0b0 [unknown] ([unknown])\n"), [1, 0, 0, 0]);
        assert_eq!(count("7ffd2e5f1a2b [unknown] ([unknown])\n"), [0, 0, 0, 1]);
    }
}
