//! Watches, each with a stream of its own.

use convoy_cluster::{Revision, StoreAnswer, StoreChange};
use etcd_client::{Event, EventType, WatchOptions, WatchResponse};

use super::StoreEvent;
use super::outcome::CallFailure;
use super::session::{PendingCall, Shared};
use super::transaction::{key_value, revision};

/// The longest message, in bytes. It has all changes of up to 1000 revisions.
const LONGEST_MESSAGE: usize = 256 << 20;

/// Reports changes until the session ends.
pub(super) async fn watch<Id>(shared: Shared<Id>, id: Id, prefix: String, from: Revision) -> PendingCall {
    // etcd takes 0 for "from now on".
    let from = i64::try_from(from.max(1)).unwrap_or(i64::MAX);
    let options = WatchOptions::new().with_prefix().with_start_revision(from);
    let mut client = shared.client.watch_client().max_decoding_message_size(LONGEST_MESSAGE);
    let beginning = async {
        let mut stream = client.watch(prefix, Some(options)).await?;
        let first = stream.message().await?;
        Ok((stream, first))
    };
    let (mut stream, first) = match shared.within("a watch", beginning).await {
        Ok(begun) => begun,
        Err(CallFailure::Refused(reason)) => return shared.answer(id, StoreAnswer::Refused { reason }),
        Err(failure) => return Err(failure.reason()),
    };
    let first = first.ok_or("a watch has ended before it began")?;
    if first.canceled() && first.compact_revision() == 0 {
        return shared.answer(id, StoreAnswer::Refused { reason: first.cancel_reason().to_owned() });
    }
    shared.answer(id, StoreAnswer::Watching)?;
    report(&shared, &first)?;
    while let Some(response) = stream.message().await.map_err(|error| CallFailure::from(error).reason())? {
        report(&shared, &response)?;
    }
    Err("a watch has ended".into())
}

fn report<Id>(shared: &Shared<Id>, response: &WatchResponse) -> PendingCall {
    shared.note(response.header());
    if response.compact_revision() > 0 {
        let kept = response.compact_revision();
        return Err(format!("a watch has ended: the store has forgotten what was before revision {kept}"));
    }
    if response.canceled() {
        return Err(format!("a watch has ended: {}", response.cancel_reason()));
    }
    let changes = response.events().iter().filter_map(change).collect::<Result<Vec<_>, _>>()?;
    if changes.is_empty() { Ok(()) } else { shared.report(StoreEvent::Changed(changes)) }
}

fn change(event: &Event) -> Option<Result<StoreChange, String>> {
    let found = event.kv()?.clone();
    let modified = revision(found.mod_revision());
    Some(key_value(found).map(|found| match event.event_type() {
        EventType::Put => StoreChange::Put(found),
        EventType::Delete => StoreChange::Delete { key: found.key, revision: modified },
    }))
}
