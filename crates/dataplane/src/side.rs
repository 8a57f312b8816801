//! The two sides of a gateway.

/// Which side of the gateway a port is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Plaintext.
    Inside,
    /// Protected.
    Outside,
}
