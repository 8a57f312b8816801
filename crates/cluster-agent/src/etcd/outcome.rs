//! What an error of etcd says about a call: that it was surely not executed, or nothing.
//!
//! etcd's own errors begin with `etcdserver: `. In etcd 3.4 and 3.5 these come before a request is
//! proposed, or from checks while it is applied that leave the store as it was:
//!
//! | code | for example |
//! | --- | --- |
//! | `INVALID_ARGUMENT` | too many operations in a transaction, request is too large |
//! | `NOT_FOUND` | requested lease not found |
//! | `OUT_OF_RANGE` | too large lease TTL |
//! | `FAILED_PRECONDITION` | lease already exists |
//! | `PERMISSION_DENIED`, `UNAUTHENTICATED` | a user without the right |
//! | `RESOURCE_EXHAUSTED` | too many requests; **not** database space exceeded |
//!
//! `RESOURCE_EXHAUSTED` with "database space exceeded" says nothing: if the space ends between the
//! check of a request and its turn, etcd applies the request and then answers with this error.
//! Whether it did can often be seen by the store's revision (`transaction.rs`).
//!
//! All else says nothing either: `UNAVAILABLE` (no leader, leader changed, request timed out,
//! server stopped, a broken connection), `DEADLINE_EXCEEDED`, `CANCELLED`, `UNKNOWN`, `INTERNAL`,
//! `DATA_LOSS`, and what the library finds on its own, as an answer that is longer than it may be,
//! which it gives the code `OUT_OF_RANGE`. "No leader" is mostly sure, but a member of etcd that
//! has none is a reason to go to another one.

use std::error::Error as _;

use etcd_client::Error;
use tonic::Code;

/// What is known of a call that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallFailure {
    /// It was not executed and never will be.
    Refused(String),
    /// It was not executed, as the lease does not exist.
    NoLease(String),
    /// There is no space in the store. It will not be executed later, but may have been.
    NoSpace(String),
    /// Nothing is known.
    Unknown(String),
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::GRpcStatus(status) => status,
            // The library's words when it was to begin a stream that keeps a lease alive.
            Error::LeaseKeepAliveError(reason) if reason == "lease not found" => {
                return Self::NoLease(reason.clone());
            }
            _ => return Self::Unknown(describe(&error)),
        };
        let Some(reason) = status.message().strip_prefix("etcdserver: ").map(str::to_owned) else {
            return Self::Unknown(describe(&error));
        };
        match status.code() {
            Code::NotFound if reason == "requested lease not found" => Self::NoLease(reason),
            Code::ResourceExhausted if reason == "too many requests" => Self::Refused(reason),
            Code::ResourceExhausted => Self::NoSpace(reason),
            Code::InvalidArgument
            | Code::NotFound
            | Code::OutOfRange
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unauthenticated => Self::Refused(reason),
            _ => Self::Unknown(reason),
        }
    }
}

impl CallFailure {
    /// The reason alone.
    pub(super) fn reason(self) -> String {
        match self {
            Self::Refused(reason) | Self::NoLease(reason) | Self::NoSpace(reason) | Self::Unknown(reason) => {
                reason
            }
        }
    }
}

/// An error with its causes: what broke is the last of them.
pub(super) fn describe(error: &Error) -> String {
    let (first, mut cause) = match error {
        Error::GRpcStatus(status) => (status.message().to_owned(), status.source()),
        Error::TransportError(error) => (error.to_string(), error.source()),
        error => (error.to_string(), error.source()),
    };
    let mut parts = vec![first];
    while let Some(error) = cause {
        parts.push(error.to_string());
        cause = error.source();
    }
    // Wrappers repeat what they wrap, or say no more than this.
    parts.retain(|part| part != "transport error");
    parts.dedup_by(|next, part| part.ends_with(next.as_str()));
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    fn failure(code: Code, message: &str) -> CallFailure {
        Error::GRpcStatus(Status::new(code, message)).into()
    }

    #[test]
    fn only_what_etcd_itself_refuses_is_refused() {
        let refused = failure(Code::InvalidArgument, "etcdserver: request is too large");
        assert_eq!(refused, CallFailure::Refused("request is too large".into()));
        let denied = failure(Code::PermissionDenied, "etcdserver: permission denied");
        assert_eq!(denied, CallFailure::Refused("permission denied".into()));
        let gone = failure(Code::NotFound, "etcdserver: requested lease not found");
        assert_eq!(gone, CallFailure::NoLease("requested lease not found".into()));
        for (code, message) in [
            (Code::Unavailable, "etcdserver: no leader"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unknown, "etcdserver: something new"),
            // The library's own: the answer came, so the request was executed.
            (
                Code::OutOfRange,
                "Error, decoded message length too large: found 9 bytes, the limit is: 8 bytes",
            ),
            (Code::PermissionDenied, "a proxy's"),
        ] {
            let unknown = failure(code, message);
            assert!(matches!(unknown, CallFailure::Unknown(_)), "{code:?} {message}: {unknown:?}");
        }
    }

    #[test]
    fn no_space_is_no_refusal() {
        let full = failure(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded");
        assert_eq!(full, CallFailure::NoSpace("mvcc: database space exceeded".into()));
        let busy = failure(Code::ResourceExhausted, "etcdserver: too many requests");
        assert_eq!(busy, CallFailure::Refused("too many requests".into()));
    }
}
