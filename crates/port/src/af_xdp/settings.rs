//! The `af_xdp` port in the configuration.

use super::AfXdp;
use crate::PortError;
use crate::contract::Opened;
use crate::link::{By, LinkConfig, LinkSettings};

/// The settings of an `af_xdp` port.
pub type AfXdpSettings = LinkSettings<Rings>;

/// The transport of its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings;

impl By for Rings {
    const WORD: &'static str = "af_xdp";

    fn open(config: &LinkConfig) -> Result<Opened, PortError> {
        let (queues, reopening) = AfXdp::open(config)?;
        Ok(Opened { reopening: Some(reopening), ..Opened::of(queues) })
    }
}
