//! Leases: granted and revoked by one request each, kept alive by a stream for each of them.

use convoy_cluster::{LeaseId, StoreAnswer};
use etcd_client::{LeaseKeepAliveStream, LeaseKeeper};
use tokio::sync::mpsc::UnboundedReceiver;

use super::outcome::CallFailure;
use super::session::{PendingCall, Shared};

pub(super) async fn grant<Id>(shared: Shared<Id>, id: Id, ttl_s: u32) -> PendingCall {
    let mut client = shared.client.clone();
    let answer = match shared.within("a grant", client.lease_grant(i64::from(ttl_s), None)).await {
        Ok(granted) => StoreAnswer::Granted { lease: granted.id(), ttl_s: seconds(granted.ttl()) },
        // A lease whose number is lost ends without having meant anything.
        Err(CallFailure::Refused(reason) | CallFailure::NoLease(reason) | CallFailure::NoSpace(reason)) => {
            StoreAnswer::Refused { reason }
        }
        Err(CallFailure::Unknown(reason)) => return Err(reason),
    };
    shared.answer(id, answer)
}

pub(super) async fn revoke<Id>(shared: Shared<Id>, id: Id, lease: LeaseId) -> PendingCall {
    let mut client = shared.client.clone();
    let answer = match shared.within("a revocation", client.lease_revoke(lease)).await {
        Ok(_) | Err(CallFailure::NoLease(_)) => StoreAnswer::Revoked,
        Err(CallFailure::Refused(reason)) => StoreAnswer::Refused { reason },
        Err(failure) => return Err(failure.reason()),
    };
    shared.answer(id, answer)
}

/// Keeps a lease alive once for each call, one after the other, until it has ended or there are no
/// more calls.
pub(super) async fn keep_alive<Id>(
    shared: Shared<Id>,
    lease: LeaseId,
    mut asked: UnboundedReceiver<Id>,
) -> PendingCall {
    let mut stream = None;
    while let Some(id) = asked.recv().await {
        let ttl_s = renew(&shared, lease, &mut stream).await.map_err(CallFailure::reason)?;
        shared.answer(id, StoreAnswer::KeptAlive { ttl_s })?;
        if ttl_s == 0 {
            // The lease's number is never used again, so that this holds for the others as well.
            asked.close();
            while let Some(id) = asked.recv().await {
                shared.answer(id, StoreAnswer::KeptAlive { ttl_s })?;
            }
        }
    }
    Ok(())
}

type LeaseStream = (LeaseKeeper, LeaseKeepAliveStream);

/// Renews a lease, and returns its time to live from a moment after this was called.
async fn renew<Id>(
    shared: &Shared<Id>,
    lease: LeaseId,
    stream: &mut Option<LeaseStream>,
) -> Result<u32, CallFailure> {
    let what = "keeping a lease alive";
    if stream.is_none() {
        let mut client = shared.client.clone();
        // The library renews the lease to begin the stream, and does not tell its time to live.
        match shared.within(what, client.lease_keep_alive(lease)).await {
            Ok(begun) => *stream = Some(begun),
            Err(CallFailure::NoLease(_)) => return Ok(0),
            Err(failure) => return Err(failure),
        }
    }
    let Some((keeper, answers)) = stream else { return Ok(0) };
    let asking = async {
        keeper.keep_alive().await?;
        answers.message().await
    };
    match shared.within(what, asking).await? {
        Some(answer) => Ok(seconds(answer.ttl())),
        None => Err(CallFailure::Unknown("the stream that kept a lease alive has ended".into())),
    }
}

/// A time to live, which is 0 or less if the lease does not exist.
fn seconds(ttl_s: i64) -> u32 {
    u32::try_from(ttl_s.max(0)).unwrap_or(u32::MAX)
}
