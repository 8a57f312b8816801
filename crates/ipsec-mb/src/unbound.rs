//! Placeholders for a build without the library; none of these types can be constructed.

use std::convert::Infallible;
use std::marker::PhantomData;

use crate::{AeadResult, Hash, Job, LibraryCipher, Results, Unavailable};

/// Cannot be constructed.
#[derive(Debug)]
pub struct Manager(Infallible);

/// Cannot be constructed.
#[derive(Debug)]
pub struct Key(Infallible);

/// Cannot be constructed.
#[derive(Debug)]
pub struct JobBurst<'m, 'p>(Infallible, PhantomData<(&'m (), &'p mut [u8])>);

impl Manager {
    /// Reports why the library is missing and how to get it.
    ///
    /// # Errors
    /// Always.
    pub fn new() -> Result<Self, Unavailable> {
        let (reason, remedy) = match env!("CONVOY_IPSEC_MB_ABSENT") {
            "off" => ("convoy was built with CONVOY_IPSEC_MB=off", "build it again without this variable"),
            "processor" => ("Intel's ipsec-mb only supports x86-64", "use the software engine"),
            _ => (
                "Intel's ipsec-mb 1.3 or later was not installed when convoy was built",
                "install it (Debian: apt-get install libipsec-mb-dev; elsewhere set CONVOY_IPSEC_MB=DIR), \
                 run `cargo clean -p convoy-ipsec-mb`, and build convoy again",
            ),
        };
        Err(Unavailable { reason: reason.to_owned(), remedy: remedy.to_owned() })
    }

    /// Cannot be called.
    pub fn version(&self) -> String {
        match self.0 {}
    }

    /// Cannot be called.
    pub fn has_vector_code(&self, _: LibraryCipher) -> bool {
        match self.0 {}
    }

    /// Cannot be called.
    pub fn key(&mut self, _: LibraryCipher, _: Hash, _: usize, _: &[u8], _: &[u8]) -> Option<Key> {
        match self.0 {}
    }

    /// Cannot be called.
    pub fn burst<'p>(&mut self) -> JobBurst<'_, 'p> {
        match self.0 {}
    }

    #[doc(hidden)]
    pub fn floor(&mut self, key: &Key, _: &mut [u8], _: usize, _: usize, _: usize) {
        match key.0 {}
    }
}

impl Key {
    /// Cannot be called.
    pub fn prefetch(&self, _: usize) {
        match self.0 {}
    }
}

impl<'m, 'p> JobBurst<'m, 'p> {
    /// Cannot be called.
    pub fn aead(&mut self, _: Job<'_>, _: &Key, _: bool) -> Option<AeadResult> {
        match self.0 {}
    }

    /// Cannot be called.
    pub fn push(&mut self, _: Job<'p>, _: &'p Key, _: bool) -> bool {
        match self.0 {}
    }

    /// Cannot be called.
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
