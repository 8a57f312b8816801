//! The kinds of engine: one row each. Everything else about a kind is in the file of its
//! [`EngineBackend`].

use std::fmt;

use convoy_ipsec::Transform;
use convoy_settings::Checker;

use crate::backend::{AutoSelect, EngineBackend, EngineContext, EngineStart, EngineTraits, Found, Missing};
use crate::card::CardEngineSettings;
use crate::cryptodev::CryptodevSettings;
use crate::model::ModelSettings;
use crate::multibuffer::MultibufferSettings;
use crate::software::SoftwareSettings;
use crate::{Cost, IdleEngine, Placement};

/// Declares the kinds, each with its word in the configuration and the type of its settings.
macro_rules! registry {
    ($($(#[$doc:meta])* $kind:ident $word:literal => $settings:ident,)*) => {
        /// The kind of an engine, as the configuration names it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EngineKind { $($(#[$doc])* $kind,)* }

        impl EngineKind {
            /// All of them, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Its word in the configuration.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$kind => $word,)* }
            }

            /// The properties of its kind.
            pub const fn traits(self) -> &'static EngineTraits {
                match self { $(Self::$kind => &$settings::TRAITS,)* }
            }

            /// Its default settings.
            pub fn default_settings(self) -> EngineSettings {
                match self { $(Self::$kind => EngineSettings::$kind($settings::default()),)* }
            }

            fn settings_on_core(self, core: usize) -> Option<EngineSettings> {
                match self { $(Self::$kind => $settings::on_core(core).map(EngineSettings::$kind),)* }
            }

            /// The version of the library or device behind it, if available.
            pub(crate) fn version(self) -> Option<String> {
                match self { $(Self::$kind => $settings::version(),)* }
            }

            fn search(self) -> Result<Found, Missing> {
                match self { $(Self::$kind => $settings::find(),)* }
            }
        }

        /// The settings of an engine, by its kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum EngineSettings { $($(#[$doc])* $kind($settings),)* }

        impl EngineSettings {
            /// The kind.
            pub const fn kind(&self) -> EngineKind {
                match self { $(Self::$kind(_) => EngineKind::$kind,)* }
            }

            /// Where such an engine works.
            pub fn placement(&self) -> Placement {
                match self { $(Self::$kind(settings) => settings.placement(),)* }
            }

            /// Whether one such engine, which works elsewhere, can serve several workers.
            pub fn is_shareable(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.is_shareable(),)* }
            }

            /// Opens what needs privileges, such as a device, and returns how to create engines of
            /// this name, one for each worker.
            ///
            /// # Errors
            /// Why there is none, and what to do.
            pub fn open(&self, name: &str) -> Result<EngineStart, String> {
                match self { $(Self::$kind(settings) => settings.open(name),)* }
            }
        }

        convoy_settings::kinds! {
            /// The keys of an engine as configured, by its kind.
            pub enum EngineKeys like "multibuffer" {
                $($(#[$doc])* $kind $word => <$settings as EngineBackend>::Keys,)*
            }
        }

        impl EngineKeys {
            /// The settings; problems are reported to `c`.
            pub fn check(&self, c: &mut Checker<'_>) -> EngineSettings {
                match self { $(Self::$kind(keys) => EngineSettings::$kind($settings::check(keys, c)),)* }
            }
        }
    };
}

registry! {
    /// One packet at a time with a vetted library; the reference.
    Software "software" => SoftwareSettings,
    /// Intel ipsec-mb bursts.
    Multibuffer "multibuffer" => MultibufferSettings,
    /// Real ciphers with the modelled timing of an accelerator on a shared bus.
    Model "model" => ModelSettings,
    /// A crypto device of DPDK's.
    Cryptodev "cryptodev" => CryptodevSettings,
    /// The verilated model of the GRIP card; real RTL, the card's cycles as its time.
    Card "card" => CardEngineSettings,
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl EngineSettings {
    /// DPDK's name of the device that it uses, if it uses one.
    pub fn dpdk_device(&self) -> Option<&str> {
        match self {
            Self::Cryptodev(settings) => Some(&settings.device),
            _ => None,
        }
    }

    /// Whether such an engine works on its caller's core.
    pub fn is_inline(&self) -> bool {
        self.placement() == Placement::Inline
    }
}

/// What was found of one kind of engine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineFinding {
    /// The kind.
    pub kind: EngineKind,
    /// What is available of it here.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub found: Result<Found, Missing>,
}

impl EngineFinding {
    /// The transforms it supports; empty if it is unavailable.
    pub fn transforms(&self) -> &[Transform] {
        self.found.as_ref().map_or(&[], |found| &found.transforms)
    }
}

/// All kinds of engine: what this build and this machine have of each, or why not.
pub fn available() -> Vec<EngineFinding> {
    EngineKind::ALL.iter().map(|kind| EngineFinding { kind: *kind, found: kind.search() }).collect()
}

impl EngineKind {
    /// An engine of this kind with default settings, to be measured; `None` if its timing is a
    /// model's.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub fn idle(self) -> Result<Option<IdleEngine>, String> {
        if self.traits().is_model {
            return Ok(None);
        }
        let made = self.default_settings().open(self.word())?(&mut EngineContext::default(), 1)?;
        match made.cost {
            Cost::Stated(..) => Ok(None),
            Cost::Measured(_) => Ok(made.engines.into_iter().next().map(IdleEngine::from)),
        }
    }

    /// The same as with `core` in the configuration, on a thread that runs on any free core; `None`
    /// for a kind that has no `core`.
    ///
    /// # Errors
    /// Why there is none, and what to do.
    pub fn idle_on_core(self) -> Result<Option<IdleEngine>, String> {
        let Some(settings) = self.settings_on_core(0) else { return Ok(None) };
        match settings.open(self.word())?(&mut EngineContext::default(), 1)?.cost {
            Cost::Stated(..) => Ok(None),
            Cost::Measured(make) => make().map(Some).map_err(|error| error.to_string()),
        }
    }

    /// The kinds that a gateway uses by default, by when it does.
    pub fn selected(when: AutoSelect) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |kind| kind.traits().auto_select == when)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transforms;

    #[test]
    fn the_card_is_there_in_a_build_with_it_and_else_says_how_to_get_one() {
        let card = available().pop().expect("the last one");
        assert_eq!((card.kind, card.found.is_ok()), (EngineKind::Card, cfg!(feature = "card")));
        if let Err(missing) = card.found {
            assert!(missing.remedy.contains("--features card"), "{}", missing.remedy);
        }
    }

    #[test]
    fn each_kind_that_is_there_does_something_and_says_what_it_leaves_out() {
        for finding in available() {
            let Ok(found) = &finding.found else { continue };
            assert!(!found.version.is_empty() && !found.transforms.is_empty(), "{}", finding.kind);
            assert_eq!(found.transforms != transforms(), found.left_out.is_some(), "{}", finding.kind);
        }
    }

    #[test]
    fn what_can_be_opened_is_what_was_found() {
        for finding in available() {
            let name = format!("{}0", finding.kind);
            let opened = finding.kind.default_settings().open(&name);
            let made = opened.and_then(|start| start(&mut EngineContext::default(), 1));
            assert_eq!(made.is_ok(), finding.found.is_ok(), "{}: {:?}", finding.kind, made.err());
            if let Ok(made) = made {
                let description = made.engines[0].description();
                assert_eq!(description.kind, finding.kind);
                assert_eq!(description.placement, finding.kind.default_settings().placement());
                assert_eq!(description.is_model, finding.kind.traits().is_model);
            }
        }
    }
}
