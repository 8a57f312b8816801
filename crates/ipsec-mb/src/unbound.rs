//! What stands in where the library was not there at build time: nothing of it can be made.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::{Cipher, Ended, Hash, Job, Results, Unavailable};

/// Never made.
#[derive(Debug)]
pub struct Manager(Infallible);

/// Never made.
#[derive(Debug)]
pub struct Key(Infallible);

/// Never made.
#[derive(Debug)]
pub struct Burst<'m, 'p>(Infallible, PhantomData<(&'m (), &'p mut [u8])>);

impl Manager {
    /// Says why there is none, and how to get it.
    ///
    /// # Errors
    /// Always.
    pub fn new() -> Result<Self, Unavailable> {
        let (reason, remedy) = match env!("CONVOY_IPSEC_MB_ABSENT") {
            "off" => ("convoy was built with CONVOY_IPSEC_MB=off", "build it again without that"),
            "processor" => ("Intel's ipsec-mb is for x86-64 alone", "use the software engine"),
            _ => (
                "Intel's ipsec-mb 1.3 or later was not there when convoy was built",
                "install it (Debian: apt-get install libipsec-mb-dev; elsewhere say CONVOY_IPSEC_MB=DIR), \
                 run `cargo clean -p convoy-ipsec-mb`, and build convoy again",
            ),
        };
        Err(Unavailable { reason: reason.to_owned(), remedy: remedy.to_owned() })
    }

    /// Never called.
    pub fn version(&self) -> String {
        match self.0 {}
    }

    /// Never called.
    pub fn has_vector_code(&self, _: Cipher) -> bool {
        match self.0 {}
    }

    /// Never called.
    pub fn key(&mut self, _: Cipher, _: Hash, _: usize, _: &[u8], _: &[u8]) -> Option<Key> {
        match self.0 {}
    }

    /// Never called.
    pub fn burst<'p>(&mut self) -> Burst<'_, 'p> {
        match self.0 {}
    }

    #[doc(hidden)]
    pub fn floor(&mut self, key: &Key, _: &mut [u8], _: usize, _: usize, _: usize) {
        match key.0 {}
    }
}

impl Key {
    /// Never called.
    pub fn prefetch(&self, _: usize) {
        match self.0 {}
    }
}

impl<'m, 'p> Burst<'m, 'p> {
    /// Never called.
    pub fn aead(&mut self, _: Job<'_>, _: &Key, _: bool) -> Option<Ended> {
        match self.0 {}
    }

    /// Never called.
    pub fn push(&mut self, _: Job<'p>, _: &'p Key, _: bool) -> bool {
        match self.0 {}
    }

    /// Never called.
    pub fn run(self) -> Results<'m> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_says_why_and_what_to_do() {
        let absent = Manager::new().expect_err("it was built without");
        assert!(!absent.reason.is_empty() && !absent.remedy.is_empty());
        assert_eq!(absent.to_string(), format!("{}; {}", absent.reason, absent.remedy));
    }
}
