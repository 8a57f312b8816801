//! The models of the card in this program, which differ in their functions (build.rs).

use crate::clock::routed_mhz;
use crate::error::CardError;
use crate::functions::FUNCTIONS;

// `MODELS`: for each model, the mask of its functions by id.
include!(concat!(env!("OUT_DIR"), "/models.rs"));

/// A choice of a model, and of the functions that its driver may load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    /// Its number in the shim.
    pub(crate) number: u32,
    /// Mask of the functions by id.
    pub(crate) functions: u16,
}

impl Model {
    /// The model with this function alone, or if none is given, with all functions of the first
    /// model.
    pub(crate) fn with(function: Option<u8>) -> Result<Self, CardError> {
        let Some(id) = function else { return Ok(Self { number: 0, functions: MODELS[0] }) };
        let known = FUNCTIONS.iter().find(|function| function.id == id).ok_or(CardError::NoFunction(id))?;
        let functions = 1 << known.id;
        let number = (0..).zip(MODELS).find(|(_, built)| built & functions != 0).map(|(number, _)| number);
        number.map(|number| Self { number, functions }).ok_or(CardError::NotBuilt(id))
    }

    /// The routed clock with the first of its functions, in MHz.
    pub(crate) fn routed_mhz(self) -> u32 {
        routed_mhz(self.functions.trailing_zeros() as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "all-functions")]
    fn each_function_is_in_one_model() {
        for function in FUNCTIONS {
            let model = Model::with(Some(function.id)).expect("it is built");
            assert_eq!(model.functions, 1 << function.id);
            assert_eq!(MODELS.iter().filter(|built| **built & model.functions != 0).count(), 1);
        }
    }

    #[test]
    #[cfg(not(feature = "all-functions"))]
    fn functions_beyond_the_first_model_are_not_in_this_build() {
        let with = |id| Model::with(Some(id));
        assert!(with(1).is_ok() && with(2).is_ok());
        for id in 3..=FUNCTIONS.len() as u8 {
            assert_eq!(with(id), Err(CardError::NotBuilt(id)));
        }
    }

    #[test]
    fn a_number_of_no_function_is_an_error() {
        for other in [0, FUNCTIONS.len() as u8 + 1, 16, 255] {
            assert_eq!(Model::with(Some(other)), Err(CardError::NoFunction(other)));
        }
        assert_eq!(Model::with(None), Ok(Model { number: 0, functions: 0b110 }));
    }
}
