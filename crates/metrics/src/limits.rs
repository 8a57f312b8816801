//! What clients may cost.

use std::time::Duration;

/// The limits of clients, and of what they get.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientLimits {
    /// Connections at once; the oldest gives way to a new one, so that idle ones keep no client
    /// out.
    pub(super) connections: usize,
    /// For request line and headers.
    pub(super) request: Duration,
    /// For a whole connection, so that a client which does not read its answer is cut off too.
    pub(super) connection: Duration,
    /// For how long a page is served after it was made.
    pub(super) fresh: Duration,
    /// For how long what a browser shows is served after it was made: shorter, so that a tunnel's
    /// failure is on the screen within 2 s, although the page asks once a second.
    pub(super) fresh_status: Duration,
}

/// Those of a gateway.
pub(super) const LIMITS: ClientLimits = ClientLimits {
    connections: 16,
    request: Duration::from_secs(5),
    connection: Duration::from_secs(15),
    fresh: Duration::from_secs(1),
    fresh_status: Duration::from_millis(250),
};
