//! Calls to the store that an agent makes for a command.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use convoy_cluster::StoreEvent;
use convoy_cluster::messages::{StoreAccess, StoreCall};

use crate::etcd::{Store, StoreConfig};
use crate::serve::{FRAMING, receive};

/// Makes the calls until the command ends.
///
/// # Errors
/// The line's.
pub(crate) fn serve(access: StoreAccess, mut socket: UnixStream) -> io::Result<()> {
    let (events, happened) = channel();
    let store = Store::start(
        StoreConfig {
            endpoints: access.endpoints,
            tls: access.tls.map(Into::into),
            request_timeout: Duration::from_millis(access.request_timeout_ms),
        },
        events,
    );
    let started = store.as_ref().map(drop).map_err(ToString::to_string);
    let sent = FRAMING.send(&mut socket, &started);
    // The command reports why there is no store, unless it has ended.
    let (Ok(store), Ok(())) = (store, sent) else { return Ok(()) };
    report(socket.try_clone()?, happened)?;
    while let Some(StoreCall { id, call }) = receive(&mut socket)? {
        store.ask(id, call);
    }
    Ok(())
}

/// Reports what becomes of the calls on a thread of its own, since this one waits for calls.
fn report(mut socket: UnixStream, happened: Receiver<StoreEvent<u64>>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("store's events".to_owned());
    thread.spawn(move || {
        for event in happened {
            if FRAMING.send(&mut socket, &event).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
