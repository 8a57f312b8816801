//! Faults put into a member or its gateway on purpose, one for each rule: a run must find each.

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sabotage {
    /// Nothing.
    None,
    /// Rule 1: the deadline counts from the answer.
    DeadlineFromAnswer,
    /// Rule 1: nothing is left for clocks that differ in rate.
    NoMargin,
    /// Rule 1: a lease that is gone counts as kept alive.
    IgnoresLostLease,
    /// Rule 2: the gateway does not look at the deadline.
    NoFence,
    /// Rule 5: a request to create the key whose answer was lost counts as done.
    LeadsUnread,
    /// Rule 3: the key is created although it exists.
    TakesTheKey,
    /// Rule 4: writes have no guard.
    NoGuard,
    /// Rule 5: after a lost answer, writes from before are not shut out.
    GuardsByCreation,
    /// Rule 6: a new leader sends before it has raised the limit.
    SendsBeforeRaise,
    /// Rule 6: the gateway is granted what the store has not answered yet.
    GrantsUnwritten,
    /// Rule 7: a new leader begins at the highest number that was known to be received.
    BeginsAtReceived,
    /// Rule 7: a new leader accepts before it has raised the limit.
    AcceptsBeforeRaise,
    /// Rule 8: a gateway says that it has stopped, and stops a little later.
    StopsLater,
    /// Rule 9: somebody else removes a leader's key.
    OthersRemove,
    /// Rule 10: a member leads by a store that has gone back.
    TrustsAnyStore,
    /// Rule 11: a term goes on with the IVs of the one before.
    KeepsIvs,
    /// Rules 10 and 11: both.
    TrustsAnyStoreAndKeepsIvs,
}

impl Sabotage {
    pub(super) const ALL: [Self; 16] = [
        Self::DeadlineFromAnswer,
        Self::NoMargin,
        Self::IgnoresLostLease,
        Self::NoFence,
        Self::LeadsUnread,
        Self::TakesTheKey,
        Self::NoGuard,
        Self::GuardsByCreation,
        Self::SendsBeforeRaise,
        Self::GrantsUnwritten,
        Self::BeginsAtReceived,
        Self::AcceptsBeforeRaise,
        Self::StopsLater,
        Self::OthersRemove,
        Self::TrustsAnyStore,
        Self::TrustsAnyStoreAndKeepsIvs,
    ];

    pub(super) fn trusts_any_store(self) -> bool {
        matches!(self, Self::TrustsAnyStore | Self::TrustsAnyStoreAndKeepsIvs)
    }

    pub(super) fn keeps_ivs(self) -> bool {
        matches!(self, Self::KeepsIvs | Self::TrustsAnyStoreAndKeepsIvs)
    }

    /// The seed from which it is searched for. The rarest is found once in some 1,600 seeds.
    pub(super) fn first_seed(self) -> u64 {
        if self == Self::DeadlineFromAnswer { 1600 } else { 0 }
    }

    /// The invariant that it breaks first.
    pub(super) fn breaks(self) -> &'static str {
        match self {
            Self::None | Self::KeepsIvs => "nothing",
            Self::TrustsAnyStore => "invariant 2",
            Self::TrustsAnyStoreAndKeepsIvs => "invariant 6",
            Self::DeadlineFromAnswer
            | Self::NoMargin
            | Self::IgnoresLostLease
            | Self::NoFence
            | Self::LeadsUnread
            | Self::TakesTheKey
            | Self::StopsLater
            | Self::OthersRemove => "invariant 1",
            Self::BeginsAtReceived => "invariant 3",
            Self::NoGuard | Self::GuardsByCreation | Self::SendsBeforeRaise => "invariant 4",
            Self::GrantsUnwritten | Self::AcceptsBeforeRaise => "invariant 5",
        }
    }
}
