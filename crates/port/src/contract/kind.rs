//! Kinds of port, of which a program passes in a table. Everything else about a kind is in the file
//! of its [`Backend`].

use std::any::Any;
use std::fmt;

use convoy_settings::{At, Checker, Entries, Kind, KindTable, Table};

use super::backend::{Backend, CheckedPort, Opened, PortContext, PortTraits};
use super::config::PortConfig;
use super::interface::PortError;

/// The kind of a port.
#[derive(Clone, Copy, Debug)]
pub struct PortKind {
    word: &'static str,
    traits: &'static PortTraits,
}

impl PortKind {
    /// A kind that no configuration names.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) const fn unnamed(word: &'static str, traits: &'static PortTraits) -> Self {
        Self { word, traits }
    }

    /// The kind with these settings.
    pub const fn of<S: Backend>() -> Self {
        Self { word: S::WORD, traits: &S::TRAITS }
    }

    /// Its word in the configuration.
    pub const fn word(self) -> &'static str {
        self.word
    }

    /// The properties of the kind.
    pub const fn traits(self) -> &'static PortTraits {
        self.traits
    }
}

impl PartialEq for PortKind {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl Eq for PortKind {}

impl fmt::Display for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}

/// A kind of port that a program has: a row of its [`PortTable`].
#[derive(Clone, Copy, Debug)]
pub struct PortKindRow {
    kind: PortKind,
    keys: &'static [&'static str],
    notes: &'static [(&'static str, &'static str)],
    take: fn(&mut Entries<'_, '_, '_>) -> PortKeys,
}

/// The kinds of port of a program.
pub type PortTable = KindTable<PortKindRow>;

impl PortKindRow {
    /// The kind with these settings.
    pub const fn of<S: Backend>() -> Self {
        Self {
            kind: PortKind::of::<S>(),
            keys: S::Keys::KEYS,
            notes: S::Keys::NOTES,
            take: |entries| PortKeys {
                kind: PortKind::of::<S>(),
                of_kind: Box::new(PortKeysOf::<S>(S::Keys::take(entries))),
            },
        }
    }
}

impl Kind for PortKindRow {
    type Keys = PortKeys;

    fn word(self) -> &'static str {
        self.kind.word
    }

    fn keys(self) -> &'static [&'static str] {
        self.keys
    }

    fn notes(self) -> &'static [(&'static str, &'static str)] {
        self.notes
    }

    fn take(self, entries: &mut Entries<'_, '_, '_>) -> PortKeys {
        (self.take)(entries)
    }

    fn set_at(keys: &mut PortKeys, at: At) {
        keys.of_kind.set_at(at);
    }
}

/// The keys of a port as configured, of some kind.
pub struct PortKeys {
    kind: PortKind,
    of_kind: Box<dyn AnyPortKeys>,
}

impl PortKeys {
    /// The properties of its kind.
    pub const fn traits(&self) -> &'static PortTraits {
        self.kind.traits
    }

    /// The keys of their own type; `None` if they are of another kind.
    pub fn of<S: Backend>(&self) -> Option<&S::Keys> {
        self.of_kind.as_any().downcast_ref::<PortKeysOf<S>>().map(|keys| &keys.0)
    }

    pub(crate) fn check(&self, entry: &CheckedPort<'_>, c: &mut Checker<'_>) -> PortSettings {
        self.of_kind.check(entry, c)
    }
}

/// Keys of a kind that is known only to its table.
trait AnyPortKeys {
    fn as_any(&self) -> &dyn Any;
    fn check(&self, entry: &CheckedPort<'_>, c: &mut Checker<'_>) -> PortSettings;
    fn set_at(&mut self, at: At);
}

struct PortKeysOf<S: Backend>(S::Keys);

impl<S: Backend> AnyPortKeys for PortKeysOf<S> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn check(&self, entry: &CheckedPort<'_>, c: &mut Checker<'_>) -> PortSettings {
        S::check(&self.0, entry, c).into()
    }

    fn set_at(&mut self, at: At) {
        self.0.set_at(at);
    }
}

/// The settings of a port, of some kind.
pub struct PortSettings {
    kind: PortKind,
    of_kind: Box<dyn AnyPortSettings>,
}

impl<S: Backend> From<S> for PortSettings {
    fn from(settings: S) -> Self {
        Self { kind: PortKind::of::<S>(), of_kind: Box::new(settings) }
    }
}

impl PortSettings {
    /// The kind.
    pub const fn kind(&self) -> PortKind {
        self.kind
    }

    /// The properties of its kind.
    pub const fn traits(&self) -> &'static PortTraits {
        self.kind.traits
    }

    /// The settings of their own type; `None` if they are of another kind.
    pub fn of<S: Backend>(&self) -> Option<&S> {
        self.of_kind.as_any().downcast_ref()
    }

    /// The kernel's interface that it creates or uses.
    pub fn interface(&self) -> Option<&str> {
        self.of_kind.interface()
    }

    /// These settings with those of `new` that a running port takes over.
    pub fn reloaded(&self, new: &Self) -> Self {
        Self { kind: self.kind, of_kind: self.of_kind.reloaded(new.of_kind.as_any()) }
    }

    /// The device for which DPDK has to be started.
    pub fn dpdk_device(&self) -> Option<&str> {
        self.of_kind.dpdk_device()
    }

    /// The kernel's interface into which the networks behind the tunnels are routed.
    pub fn routed_interface(&self) -> Option<&str> {
        self.of_kind.routed_interface()
    }

    /// Whether it carries packets that the kernel does not forward, so that the gateway counts
    /// their hops.
    pub fn forwards(&self) -> bool {
        self.of_kind.forwards()
    }

    /// Its MTU in bytes, where it has one of its own.
    pub fn mtu(&self) -> Option<u16> {
        self.of_kind.mtu()
    }

    /// What it takes of the process's packet memory for frames of its own, in chunks, with packets
    /// of up to `mtu` bytes.
    pub fn packet_chunks(&self, mtu: u16) -> usize {
        self.of_kind.packet_chunks(mtu)
    }

    /// Its UDP port of ESP in UDP, where it has one of its own.
    pub fn udp_port(&self) -> Option<u16> {
        self.of_kind.udp_port()
    }

    pub(crate) fn open(&self, port: &PortConfig, context: &PortContext) -> Result<Opened, PortError> {
        self.of_kind.open(port, context)
    }
}

impl Clone for PortSettings {
    fn clone(&self) -> Self {
        Self { kind: self.kind, of_kind: self.of_kind.copied() }
    }
}

impl PartialEq for PortSettings {
    fn eq(&self, other: &Self) -> bool {
        self.of_kind.is_same(other.of_kind.as_any())
    }
}

impl Eq for PortSettings {}

impl fmt::Debug for PortSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.of_kind.fmt(f)
    }
}

/// Settings of a kind that is known only to its table.
trait AnyPortSettings: fmt::Debug + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn copied(&self) -> Box<dyn AnyPortSettings>;
    fn is_same(&self, other: &dyn Any) -> bool;
    fn reloaded(&self, new: &dyn Any) -> Box<dyn AnyPortSettings>;
    fn interface(&self) -> Option<&str>;
    fn dpdk_device(&self) -> Option<&str>;
    fn routed_interface(&self) -> Option<&str>;
    fn forwards(&self) -> bool;
    fn mtu(&self) -> Option<u16>;
    fn packet_chunks(&self, mtu: u16) -> usize;
    fn udp_port(&self) -> Option<u16>;
    fn open(&self, port: &PortConfig, context: &PortContext) -> Result<Opened, PortError>;
}

impl<S: Backend> AnyPortSettings for S {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn copied(&self) -> Box<dyn AnyPortSettings> {
        Box::new(self.clone())
    }

    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn reloaded(&self, new: &dyn Any) -> Box<dyn AnyPortSettings> {
        let mut settings = self.clone();
        if let Some(new) = new.downcast_ref() {
            settings.take_over(new);
        }
        Box::new(settings)
    }

    fn interface(&self) -> Option<&str> {
        Backend::interface(self)
    }

    fn dpdk_device(&self) -> Option<&str> {
        Backend::dpdk_device(self)
    }

    fn routed_interface(&self) -> Option<&str> {
        Backend::routed_interface(self)
    }

    fn forwards(&self) -> bool {
        Backend::forwards(self)
    }

    fn mtu(&self) -> Option<u16> {
        Backend::mtu(self)
    }

    fn packet_chunks(&self, mtu: u16) -> usize {
        Backend::packet_chunks(self, mtu)
    }

    fn udp_port(&self) -> Option<u16> {
        Backend::udp_port(self)
    }

    fn open(&self, port: &PortConfig, context: &PortContext) -> Result<Opened, PortError> {
        Backend::open(self, port, context)
    }
}
