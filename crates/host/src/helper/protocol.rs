//! The protocol between gateway and helper; an answer may carry an open file.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use convoy_kernel::service::ServiceAddress;
use convoy_kernel::{GuardCounts, GuardPlan, RoutePlan};
use convoy_port::TunDevice;
use convoy_process::framing::{Framing, LENGTH};
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest message is the routes of some 100,000 tunnels.
const FRAMING: Framing = Framing { limit: 16 << 20 };

/// Files with one message, at most: the kernel's limit (`SCM_MAX_FD`). A TUN interface has one for
/// each worker.
const MOST_FILES: usize = 253;

/// A request to the helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum HelperRequest {
    /// Set the kernel's routes to this plan, and keep them so.
    Route(Box<RoutePlan>),
    /// Set the table that guards the tunnels' networks to this plan, or remove it; `number` is in
    /// its name.
    Guard {
        /// The routing table's number.
        number: u32,
        /// What it is to drop.
        plan: Option<Box<GuardPlan>>,
    },
    /// The counters of that table.
    GuardCounts,
    /// Hold these service addresses for this long; they are among those of the start.
    HoldAddresses {
        /// The addresses.
        addresses: Vec<ServiceAddress>,
        /// In seconds.
        lifetime_s: u32,
        /// Whether hosts on their links are to be notified.
        announce: bool,
    },
    /// Hold these no longer.
    ReleaseAddresses {
        /// The addresses.
        addresses: Vec<ServiceAddress>,
    },
    /// These are the TUN interfaces of the gateway's ports. It is sent once, before the gateway
    /// reads packets.
    Devices(Vec<TunDevice>),
    /// Attach the files that come with it, one for each queue, to the interface of this name among
    /// them, and create that if it was deleted.
    Attach {
        /// The interface.
        name: String,
        /// Whether it is to have a carrier.
        has_link: bool,
    },
    /// What drops packets that the kernel forwards from and to an interface.
    ForwardChains {
        /// The interface.
        interface: String,
    },
    /// The interfaces of service addresses that have no carrier.
    WithoutCarrier,
    /// Answer, to show that the helper works.
    Beat,
    /// The configuration, opened for reading.
    Configuration,
    /// The gateway stops: remove the sockets' files, and leave the blackhole routes and the guard.
    Block,
    /// The gateway stops: remove the sockets' files, all routes and the guard.
    Undo,
}

/// The helper's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HelperAnswer {
    Done,
    Dropped(GuardCounts),
    ForwardChains(Vec<String>),
    WithoutCarrier(Vec<String>),
    Refused(String),
}

/// Sends a request or an answer, and files with it.
pub(super) fn send(
    mut socket: &UnixStream,
    message: &impl Serialize,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let text = FRAMING.frame(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many files for one message"));
    }
    // The files are sent with the first byte.
    let parts = [IoSlice::new(&text)];
    let sent = retry_on_intr(|| sendmsg(socket.as_fd(), &parts, &mut beside, SendFlags::NOSIGNAL))?;
    socket.write_all(&text[sent..])
}

/// Receives a request or an answer, and the files that came with it; `None` once the other end is
/// closed.
pub(super) fn receive<T: DeserializeOwned>(mut socket: &UnixStream) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut len = [0; LENGTH];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::WAITALL | RecvFlags::CMSG_CLOEXEC;
    // A signal interrupts a wait with a time limit, such as the gateway's.
    let came =
        retry_on_intr(|| recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut len)], &mut beside, flags))?
            .bytes;
    if came < LENGTH {
        return if came == 0 { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
    }
    let files = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let files = files.flatten().collect();
    Ok(Some((FRAMING.receive_rest(&mut socket, len)?, files)))
}

/// Receives the answer to a request.
pub(super) fn receive_answer(socket: &UnixStream) -> io::Result<(HelperAnswer, Vec<OwnedFd>)> {
    receive(socket)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn requests_and_answers_come_as_they_were_sent_and_a_file_with_them() {
        let (gateway, helper) = UnixStream::pair().expect("a pair");
        let attach = HelperRequest::Attach { name: "convoy0".to_owned(), has_link: true };
        for request in [attach, HelperRequest::Configuration, HelperRequest::Block, HelperRequest::Undo] {
            send(&gateway, &request, &[]).expect("room");
            let (received, _) = receive::<HelperRequest>(&helper).expect("whole").expect("open");
            assert_eq!(received, request);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "content").expect("written");
        let file = std::fs::File::open(&path).expect("there");
        send(&helper, &HelperAnswer::Done, &[file.as_fd()]).expect("room");
        send(&helper, &HelperAnswer::Refused("no".to_owned()), &[]).expect("room");
        let (answer, mut came) = receive_answer(&gateway).expect("whole");
        let mut text = String::new();
        std::fs::File::from(came.pop().expect("a file")).read_to_string(&mut text).expect("readable");
        assert_eq!((answer, text.as_str()), (HelperAnswer::Done, "content"));
        let (answer, came) = receive_answer(&gateway).expect("whole");
        assert_eq!((answer, came.is_empty()), (HelperAnswer::Refused("no".to_owned()), true));
        drop(gateway);
        assert!(receive::<HelperRequest>(&helper).expect("an end").is_none());
    }

    #[test]
    fn signals_do_not_end_the_wait_for_an_answer() {
        use std::os::unix::thread::JoinHandleExt;
        use std::sync::Arc;
        use std::time::Duration;

        let is_heard = Arc::new(std::sync::atomic::AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, is_heard).expect("a handler");
        let (gateway, helper) = UnixStream::pair().expect("a pair");
        gateway.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        let waiting = std::thread::spawn(move || receive_answer(&gateway).map(|(answer, _)| answer));
        for _ in 0..50 {
            let thread = waiting.as_pthread_t();
            nix::sys::pthread::pthread_kill(thread, nix::sys::signal::Signal::SIGUSR1).expect("it waits");
            std::thread::sleep(Duration::from_millis(2));
        }
        send(&helper, &HelperAnswer::Done, &[]).expect("room");
        assert_eq!(waiting.join().expect("no panic").expect("an answer"), HelperAnswer::Done);
    }

    #[test]
    fn what_is_no_request_is_an_error() {
        for bytes in
            [&b"\x02\0\0\0{}"[..], b"\x03\0\0\0\xff\xff\xff", b"\xff\xff\xff\xff", b"\x09\0\0\0\"unknown\""]
        {
            let (mut gateway, helper) = UnixStream::pair().expect("a pair");
            gateway.write_all(bytes).expect("room");
            drop(gateway);
            let error = receive::<HelperRequest>(&helper).expect_err("no request");
            assert!(
                matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof),
                "{error}"
            );
        }
    }
}
