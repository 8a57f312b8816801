//! The path MTU of one outbound SA (RFC 4301 section 8.2, RFC 1191, RFC 8201).

/// What an IPv4 path always carries in one piece for us; less is not believed (RFC 4301 section 8.2.1).
pub(crate) const LEAST_V4: u16 = 576;
/// IPv6's least MTU.
pub(crate) const LEAST_V6: u16 = 1280;
/// How long a smaller MTU that was learned is kept before a larger is tried, in ns (RFC 1191 section 6.3).
const AGE_NS: u64 = 600_000_000_000;

/// The largest outer packet that the path is believed to carry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathMtu {
    /// Set by the gateway; bounds what is learned.
    configured: Option<u16>,
    /// Learned from the path, and when it is forgotten.
    learned: Option<(u16, u64)>,
}

impl PathMtu {
    /// The MTU now, in bytes; never more than the port's, `link`.
    pub(crate) fn current(&self, now_ns: u64, link: u16) -> u16 {
        let configured = self.configured.map_or(link, |mtu| mtu.min(link));
        match self.learned {
            Some((mtu, forgotten_ns)) if now_ns < forgotten_ns => configured.min(mtu),
            _ => configured,
        }
    }

    /// Sets it by hand; what was learned is forgotten.
    pub(crate) fn configure(&mut self, mtu: Option<u16>) {
        *self = Self { configured: mtu, learned: None };
    }

    /// Takes in what a router said. Values below the family's least are raised to it; values that are no
    /// smaller than the present one are ignored. Returns whether the MTU changed.
    pub(crate) fn learn(&mut self, now_ns: u64, link: u16, mtu: u16, is_v6: bool) -> bool {
        let mtu = mtu.max(if is_v6 { LEAST_V6 } else { LEAST_V4 });
        if mtu >= self.current(now_ns, link) {
            return false;
        }
        self.learned = Some((mtu, now_ns.saturating_add(AGE_NS)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_mtu_is_learned_and_forgotten_and_a_larger_ignored() {
        let mut path = PathMtu::default();
        assert!(path.learn(10, 1_500, 1_400, false));
        assert!(!path.learn(11, 1_500, 1_450, false));
        assert_eq!(path.current(12, 1_500), 1_400);
        assert_eq!(path.current(10 + AGE_NS, 1_500), 1_500);
    }

    #[test]
    fn an_absurd_mtu_does_no_more_harm_than_the_least() {
        let mut path = PathMtu::default();
        assert!(path.learn(0, 1_500, 68, false));
        assert_eq!(path.current(1, 1_500), LEAST_V4);
        let mut path = PathMtu::default();
        assert!(path.learn(0, 1_500, 1_000, true));
        assert_eq!(path.current(1, 1_500), LEAST_V6);
    }

    #[test]
    fn what_is_configured_bounds_what_is_learned() {
        let mut path = PathMtu::default();
        path.configure(Some(1_300));
        assert_eq!(path.current(0, 1_500), 1_300);
        assert!(!path.learn(0, 1_500, 1_400, false));
        path.configure(None);
        assert_eq!(path.current(0, 1_500), 1_500);
    }
}
