//! Versions of etcd that break the promise on which a cluster's leases rest.

/// The first versions that keep it, of the lines that had to be mended: etcd-io/etcd#20616.
const MENDED: [(u64, u64, u64); 2] = [(3, 4, 38), (3, 5, 23)];

/// What is wrong with a version of etcd, as it says it is; `None` if nothing is, or if it says
/// nothing that can be read.
pub(super) fn warning(version: &str) -> Option<String> {
    let mut numbers = version.split(['.', '-', '+']).map(|number| number.parse::<u64>().ok());
    let found = (numbers.next()??, numbers.next()??, numbers.next()??);
    let is_mended = match MENDED.iter().find(|mended| (mended.0, mended.1) == (found.0, found.1)) {
        Some(mended) => found >= *mended,
        None => found > MENDED[1],
    };
    (!is_mended).then(|| {
        format!(
            "etcd {version} may renew a lease that it has revoked, so that two gateways lead at once; \
             use 3.4.38, 3.5.23 or later"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_from_before_the_mend_are_warned_of() {
        for bad in ["3.3.25", "3.4.23", "3.4.37", "3.5.0", "3.5.22", "3.5.22-rc.1", "2.3.8"] {
            assert!(warning(bad).is_some_and(|warning| warning.contains(bad)), "{bad}");
        }
        for good in ["3.4.38", "3.4.40", "3.5.23", "3.6.0", "3.6.5+git", "4.0.0", "", "unknown"] {
            assert_eq!(warning(good), None, "{good}");
        }
    }
}
