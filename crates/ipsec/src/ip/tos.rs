//! DSCP and ECN across the tunnel (RFC 6040, RFC 4301 section 5.1.2.1).
//!
//! Functions take and return the whole byte: DSCP in the upper six bits, ECN in the lower two.

/// The ECN field (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not understand ECN.
    NotEct = 0,
    /// It does.
    Ect1 = 1,
    /// It does.
    Ect0 = 2,
    /// Congestion was met on the way.
    Ce = 3,
}

impl Ecn {
    /// The ECN field of a traffic class byte.
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// The source of the outer header's DSCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OuterDscp {
    /// From the inner header (RFC 2983, uniform).
    #[default]
    Copy,
    /// Always this value, 0 to 63: the inner packet's stays hidden.
    Set(u8),
}

/// Whether ECN crosses the tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// Outer ECN is a copy of the inner (RFC 6040 section 4.1, normal mode).
    #[default]
    Normal,
    /// Outer ECN is Not-ECT, for peers that do not understand it (compatibility mode).
    Compatibility,
}

/// The byte of the outer header.
pub(crate) const fn encapsulate(inner: u8, dscp: OuterDscp, ecn: EcnMode) -> u8 {
    let upper = match dscp {
        OuterDscp::Copy => inner & 0xfc,
        OuterDscp::Set(value) => value << 2,
    };
    match ecn {
        EcnMode::Normal => upper | inner & 3,
        EcnMode::Compatibility => upper,
    }
}

/// The traffic class byte of the inner header behind the tunnel, or `None` if the packet must be
/// dropped: congestion was met and the inner transport does not understand ECN (RFC 6040 section
/// 4.2, figure 4).
pub(crate) const fn decapsulate(outer: u8, inner: u8) -> Option<u8> {
    let ecn = match (Ecn::of(inner), Ecn::of(outer)) {
        (Ecn::NotEct, Ecn::Ce) => return None,
        (Ecn::NotEct, _) => Ecn::NotEct,
        (_, Ecn::Ce) | (Ecn::Ce, _) => Ecn::Ce,
        (Ecn::Ect0, Ecn::Ect1) => Ecn::Ect1,
        (kept, _) => kept,
    };
    Some(inner & 0xfc | ecn as u8)
}

/// DSCP values in all.
pub const DSCP_VALUES: usize = 64;

/// The class of packets that the gateway makes itself, the highest: they are few, and under load a
/// tunnel would look dead without them.
pub(crate) const OWN_CLASS: u8 = 0;

/// The scheduler's traffic class, 0 highest, for every DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassMap([u8; DSCP_VALUES]);

impl Default for ClassMap {
    /// One class for everything.
    fn default() -> Self {
        Self([0; DSCP_VALUES])
    }
}

impl ClassMap {
    /// All DSCPs in `class`.
    pub const fn uniform(class: u8) -> Self {
        Self([class; DSCP_VALUES])
    }

    /// Puts one DSCP (0 to 63; upper bits are ignored) in `class`.
    pub fn set(&mut self, dscp: u8, class: u8) {
        self.0[usize::from(dscp & 63)] = class;
    }

    /// The class of a packet with this traffic class byte.
    pub const fn class_of(&self, traffic_class: u8) -> u8 {
        self.0[(traffic_class >> 2) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT: u8 = 0;
    const ONE: u8 = 1;
    const ZERO: u8 = 2;
    const CE: u8 = 3;

    #[test]
    fn decapsulation_follows_figure_4_of_rfc_6040() {
        // Rows: inner; columns: outer Not-ECT, ECT(0), ECT(1), CE.
        let table = [
            (NOT, [Some(NOT), Some(NOT), Some(NOT), None]),
            (ZERO, [Some(ZERO), Some(ZERO), Some(ONE), Some(CE)]),
            (ONE, [Some(ONE), Some(ONE), Some(ONE), Some(CE)]),
            (CE, [Some(CE); 4]),
        ];
        for (inner, row) in table {
            for (outer, expected) in [NOT, ZERO, ONE, CE].into_iter().zip(row) {
                assert_eq!(decapsulate(outer, inner), expected, "inner {inner}, outer {outer}");
            }
        }
    }

    #[test]
    fn the_inner_dscp_survives_and_the_outer_one_is_forgotten() {
        assert_eq!(decapsulate(0xb8 | CE, 0x28 | ZERO), Some(0x28 | CE));
    }

    #[test]
    fn encapsulation_copies_or_hides() {
        let inner = 46 << 2 | ZERO;
        assert_eq!(encapsulate(inner, OuterDscp::Copy, EcnMode::Normal), inner);
        assert_eq!(encapsulate(inner, OuterDscp::Set(10), EcnMode::Normal), 10 << 2 | ZERO);
        assert_eq!(encapsulate(inner, OuterDscp::Set(10), EcnMode::Compatibility), 10 << 2);
    }

    #[test]
    fn classes_go_by_dscp_alone() {
        let mut map = ClassMap::uniform(2);
        map.set(46, 0);
        assert_eq!([map.class_of(46 << 2 | CE), map.class_of(0)], [0, 2]);
    }
}
