//! The check that admits most inner packets to their tunnel by a few comparisons.

#[cfg(doc)]
use crate::ip::flow::address_number;
use crate::spd::selector::{Ports, Selector};

/// The part of a tunnel's selectors that admits most packets of one family: one with any ports. Two
/// of IPv4 are a cache line.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(crate) struct FastAdmission<A> {
    /// First and last.
    local: [A; 2],
    remote: [A; 2],
    /// The protocols of each side; [`ANY_PROTOCOL`] is any.
    protocols: [u16; 2],
    /// The tunnel's inside interface.
    pub(crate) interface: u16,
}

const ANY_PROTOCOL: u16 = 256;

/// The addresses of a packet, as numbers of its family.
#[derive(Clone, Copy)]
pub(crate) struct Ends<A> {
    pub(crate) source: A,
    pub(crate) destination: A,
}

/// An address of one family as a number.
pub(crate) trait FamilyAddress: Copy + PartialOrd {
    const IS_V6: bool;
    /// First and last of no addresses: none is above 1 and below 0.
    const NO_RANGE: [Self; 2];

    /// From the number of an address of this family, as [`address_number`] has it.
    fn of(number: u128) -> Self;
}

impl FamilyAddress for u32 {
    const IS_V6: bool = false;
    const NO_RANGE: [Self; 2] = [1, 0];

    fn of(number: u128) -> Self {
        number as Self
    }
}

impl FamilyAddress for u128 {
    const IS_V6: bool = true;
    const NO_RANGE: [Self; 2] = [1, 0];

    fn of(number: u128) -> Self {
        number
    }
}

impl<A: FamilyAddress> FastAdmission<A> {
    /// Admits nothing.
    pub(crate) const NOTHING: Self =
        Self { local: A::NO_RANGE, remote: A::NO_RANGE, protocols: [ANY_PROTOCOL; 2], interface: 0 };

    /// That of a selector; `None` if it is of another family or asks for ports.
    pub(crate) fn of(selector: &Selector) -> Option<Self> {
        let Selector { local, remote } = selector;
        let is_simple = local.addresses.is_v6() == A::IS_V6
            && remote.addresses.is_v6() == A::IS_V6
            && (local.ports, remote.ports) == (Ports::Any, Ports::Any);
        let protocol = |number: Option<u8>| number.map_or(ANY_PROTOCOL, u16::from);
        is_simple.then(|| Self {
            local: local.addresses.bounds().map(A::of),
            remote: remote.addresses.bounds().map(A::of),
            protocols: [protocol(local.protocol), protocol(remote.protocol)],
            interface: 0,
        })
    }

    /// That of the first of these selectors that has one, on an inside interface; `None` if none
    /// has.
    pub(crate) fn first_of(selectors: &[Selector], interface: u16) -> Option<Self> {
        selectors.iter().find_map(Self::of).map(|simple| simple.on(interface))
    }

    /// With this inside interface.
    pub(crate) fn on(self, interface: u16) -> Self {
        Self { interface, ..self }
    }

    /// Whether an inbound packet is admitted, by its addresses and its protocol, and the inside
    /// interface by which it leaves; if not, another selector may still admit it.
    #[inline]
    pub(crate) fn admits_inbound(&self, ends: Ends<A>, protocol: u8) -> Option<u16> {
        let holds = |[first, last]: [A; 2], address: A| first <= address && address <= last;
        let number = u16::from(protocol);
        let is_admitted = holds(self.local, ends.destination)
            && holds(self.remote, ends.source)
            && self.protocols.iter().all(|asked| *asked == ANY_PROTOCOL || *asked == number);
        is_admitted.then_some(self.interface)
    }
}
