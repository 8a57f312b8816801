//! Which sequence numbers an SA may use, so that none is used twice.
//!
//! Two packets with one nonce under one key give both away (RFC 4106 section 2, RFC 3686 section
//! 2.1), a number that is sent twice is dropped by the peer, and one that is accepted twice is a
//! replay (RFC 4303 section 3.4.3). While a process has an SA, its counters see to that. This crate
//! is about what follows: the same gateway after a restart, with static keys, or another gateway of
//! a cluster after a failover. Four rules keep numbers apart, whatever the store is:
//!
//! 1. **Reserve, then use.** The store has a [`Reservation`] of each SA: the last number that it
//!    may send and the last that it may accept. No number above them is used. An [`SaLedger`] hands
//!    out [`Limits`] only after the store has answered that they are written. (An SA that no store
//!    has yet may begin at once with its first reservation, since nothing else can know it.)
//! 2. **Begin behind the reservation.** At the next start everything up to it counts as used
//!    ([`ReserveRules::used`]), whether it was or not, and nothing may be used before more is
//!    reserved.
//! 3. **Other IVs at each start.** The IVs of a counter cipher do not continue those of the start
//!    before: they begin at the wall clock and behind all that is known of ([`IvClock`]). So a
//!    store that goes back to an older state repeats numbers, but no nonce.
//! 4. **One user at a time.** This is the store's part: a process locks the state file, and in a
//!    cluster a lease and a fence let one gateway lead (`docs/internals/cluster.md`).
//!
//! The stores are a file (the gateway's `state`) and etcd (`convoy-cluster`). Both keep a ledger,
//! report to it what was used, write what [`SaLedger::next_write`] returns, and say what came of it
//! ([`SaLedger::written`], [`SaLedger::failed`]). How many numbers are reserved at once follows the
//! rate ([`ReserveSize`]): a restart leaves the rest of a reservation unused.
//!
//! This crate knows no file, socket, thread or clock. Its simulation restarts SAs over a store that
//! is slow, fails and loses what it has not written, and breaks each rule on purpose.

mod iv_clock;
mod ledger;
mod numbers;
mod reserve;
#[cfg(test)]
mod simulation;

pub use iv_clock::IvClock;
pub use ledger::{LedgerSummary, ReserveRules, Resume, SaLedger, Write};
pub use numbers::{Limits, Reservation, SaStart, Used};
pub use reserve::{ReserveSize, is_half_used};
