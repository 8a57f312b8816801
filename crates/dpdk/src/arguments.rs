//! Default arguments of EAL.

use std::path::Path;

/// EAL's memory without huge pages, in MiB, for sessions, operations and the rings of some devices.
/// Untouched pages take no physical memory.
const MIB_WITHOUT_HUGE_PAGES: &str = "512";

/// Whether a device's name is a PCI address (`0000:1a:01.0`).
pub fn is_pci_address(name: &str) -> bool {
    let mut parts = name.split([':', '.']);
    let is_hex = |part: Option<&str>, len: usize| {
        part.is_some_and(|part| part.len() == len && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let has_places = name.len() == "0000:1a:01.0".len() && name.ends_with(|last: char| last.is_ascii_digit());
    has_places
        && is_hex(parts.next(), 4)
        && is_hex(parts.next(), 2)
        && is_hex(parts.next(), 2)
        && is_hex(parts.next(), 1)
        && parts.next().is_none()
}

/// EAL's default arguments for these devices: no core reserved, no files shared with other
/// processes, huge pages if any are free, and only the named PCI devices.
pub fn default_arguments<'a>(devices: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    arguments(devices, has_huge_pages(Path::new("/sys/kernel/mm/hugepages")))
}

fn arguments<'a>(devices: impl IntoIterator<Item = &'a str>, has_huge_pages: bool) -> Vec<String> {
    let mut arguments = vec!["--no-telemetry".to_owned(), "--iova-mode=va".to_owned()];
    if has_huge_pages {
        arguments.push("--in-memory".to_owned());
    } else {
        arguments.extend(["--no-shconf", "--no-huge", "-m", MIB_WITHOUT_HUGE_PAGES].map(str::to_owned));
    }
    let mut on_pci: Vec<&str> = devices.into_iter().filter(|name| is_pci_address(name)).collect();
    on_pci.sort_unstable();
    on_pci.dedup();
    if on_pci.is_empty() {
        arguments.push("--no-pci".to_owned());
    }
    arguments.extend(on_pci.into_iter().flat_map(|address| ["-a".to_owned(), address.to_owned()]));
    arguments
}

/// Whether free huge pages are reserved.
fn has_huge_pages(folder: &Path) -> bool {
    let Ok(sizes) = std::fs::read_dir(folder) else { return false };
    sizes.flatten().any(|size| {
        let free = std::fs::read_to_string(size.path().join("free_hugepages")).unwrap_or_default();
        free.trim().parse::<u64>().is_ok_and(|free| free > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pci_address_is_distinguished_from_a_vdev() {
        for name in ["0000:1a:01.0", "0001:ff:1F.7"] {
            assert!(is_pci_address(name), "{name}");
        }
        for name in [
            "crypto_aesni_mb0",
            "",
            "0000:1a:01",
            "000:1a:01.00",
            "0000.1a.01.0.",
            "0000:1g:01.0",
            "abcd:ef:ab.cd",
        ] {
            assert!(!is_pci_address(name), "{name}");
        }
    }

    #[test]
    fn pci_is_looked_at_only_for_what_is_named() {
        let with_vdevs = arguments(["crypto_null0"], true);
        assert!(
            with_vdevs.contains(&"--no-pci".to_owned()) && with_vdevs.contains(&"--in-memory".to_owned())
        );
        let with_pci = arguments(["0000:1a:01.0", "crypto_null0", "0000:1a:01.0"], false).join(" ");
        assert!(with_pci.ends_with("--no-huge -m 512 -a 0000:1a:01.0"), "{with_pci}");
    }
}
