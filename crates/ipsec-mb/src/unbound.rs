//! What stands in where the library was not there at build time: nothing of it can be made.

use std::convert::Infallible;

use crate::{Cipher, Hash, Job, Unavailable};

/// Never made.
#[derive(Debug)]
pub struct Manager(Infallible);

/// Never made.
#[derive(Debug)]
pub struct Key(Infallible);

impl Manager {
    /// Says why there is none, and how to get it.
    ///
    /// # Errors
    /// Always.
    pub fn new() -> Result<Self, Unavailable> {
        let why = if cfg!(target_arch = "x86_64") {
            "Intel's ipsec-mb was not there when convoy was built"
        } else {
            "Intel's ipsec-mb is for x86-64 alone"
        };
        Err(Unavailable(why.to_owned()))
    }

    /// Never called.
    pub fn key(&mut self, _: Cipher, _: Hash, _: usize, _: &[u8], _: &[u8]) -> Option<Key> {
        match self.0 {}
    }

    /// Never called.
    pub fn process(&mut self, key: &Key, _: bool, _: &mut [Job<'_>]) {
        match key.0 {}
    }

    /// Never called.
    pub fn version(&self) -> String {
        match self.0 {}
    }
}
