//! Transactions.

use convoy_cluster::{Condition, KeyValue, LeaseId, Revision, StoreAnswer};
use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};

use super::outcome::CallFailure;
use super::session::{PendingCall, Shared};

/// The longest answer, in bytes. 100,000 records of 500 bytes are 60 MB; etcd has no limit.
const LONGEST_ANSWER: usize = 256 << 20;

pub(super) async fn transact<Id>(
    shared: Shared<Id>,
    id: Id,
    guard: Option<Condition>,
    deletes: Vec<String>,
    puts: Vec<(String, Vec<u8>, Option<LeaseId>)>,
    read: Option<String>,
) -> PendingCall {
    let before = shared.revision();
    let witness = puts.first().map(|(key, ..)| key.clone());
    let transaction = transaction(guard, deletes, puts, read);
    let mut client = shared.client.kv_client().max_decoding_message_size(LONGEST_ANSWER);
    let answer = match shared.within("a transaction", client.txn(transaction)).await {
        Ok(done) => answer(&shared, &done)?,
        Err(CallFailure::NoSpace(reason)) => {
            if !is_unchanged(&shared, before, witness).await {
                return Err(reason);
            }
            StoreAnswer::Refused { reason }
        }
        Err(CallFailure::Refused(reason) | CallFailure::NoLease(reason)) => StoreAnswer::Refused { reason },
        Err(CallFailure::Unknown(reason)) => return Err(reason),
    };
    shared.answer(id, answer)
}

fn transaction(
    guard: Option<Condition>,
    deletes: Vec<String>,
    puts: Vec<(String, Vec<u8>, Option<LeaseId>)>,
    read: Option<String>,
) -> Txn {
    let guards = guard.map(|Condition { key, modified }| {
        // etcd compares with the revision 0 if there is no key.
        Compare::mod_revision(key, CompareOp::Equal, i64::try_from(modified).unwrap_or(i64::MAX))
    });
    let deletes = deletes.into_iter().map(|key| TxnOp::delete(key, None));
    let puts = puts.into_iter().map(|(key, value, lease)| {
        TxnOp::put(key, value, lease.map(|lease| PutOptions::new().with_lease(lease)))
    });
    let read = read.map(|prefix| TxnOp::get(prefix, Some(GetOptions::new().with_prefix())));
    Txn::new()
        .when(guards.into_iter().collect::<Vec<_>>())
        .and_then(deletes.chain(puts).chain(read).collect::<Vec<_>>())
}

fn answer<Id>(shared: &Shared<Id>, done: &TxnResponse) -> Result<StoreAnswer, String> {
    let revision = shared.note(done.header());
    let mut read = Vec::new();
    for response in done.op_responses() {
        if let TxnOpResponse::Get(mut found) = response {
            read = found.take_kvs().into_iter().map(key_value).collect::<Result<_, _>>()?;
        }
    }
    Ok(StoreAnswer::Transacted { is_done: done.succeeded(), revision, read })
}

/// One of etcd's keys in the member's terms.
pub(super) fn key_value(found: etcd_client::KeyValue) -> Result<KeyValue, String> {
    let (created, modified) = (revision(found.create_revision()), revision(found.mod_revision()));
    let (key, value) = found.into_key_value();
    let key = String::from_utf8(key).map_err(|error| format!("a key that is no text: {error}"))?;
    Ok(KeyValue { key, value, created, modified })
}

/// A revision; etcd's are signed, and above 0 where there is one.
pub(super) fn revision(revision: i64) -> Revision {
    u64::try_from(revision).unwrap_or(0)
}

/// Whether the store has surely not changed since a revision that was seen before a request was
/// sent. A put that was executed would have changed it, and a read that follows etcd's answer would
/// see that.
async fn is_unchanged<Id>(shared: &Shared<Id>, before: Revision, witness: Option<String>) -> bool {
    let Some(key) = witness else { return false };
    let mut client = shared.client.kv_client();
    let reading = client.get(key, Some(GetOptions::new().with_count_only()));
    let found = shared.within("a read", reading).await;
    found.is_ok_and(|found| (1..=before).contains(&shared.note(found.header())))
}
