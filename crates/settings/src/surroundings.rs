//! What a configuration is checked against besides its own text.

use std::io;
use std::net::IpAddr;

use ipnet::IpNet;

/// The machine that a configuration is for: its interfaces, and what names resolve to.
pub trait Surroundings {
    /// The addresses of a name, the best first.
    ///
    /// # Errors
    /// The resolver's.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    /// The networks that interfaces are on, with the interface's name.
    fn networks(&self) -> Vec<(String, IpNet)>;
}

/// No machine at all: no interfaces, and no name resolves.
#[derive(Clone, Copy, Debug)]
pub struct Nowhere;

impl Surroundings for Nowhere {
    fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::Error::other("there is no resolver"))
    }

    fn networks(&self) -> Vec<(String, IpNet)> {
        Vec::new()
    }
}
