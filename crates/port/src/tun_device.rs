//! A TUN interface that was deleted under a running gateway, as the helper creates it again.
//!
//! The gateway's files of `/dev/net/tun` stay open, without an interface, and can be attached to a
//! new one. That needs CAP_NET_ADMIN, which the gateway has given up.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use convoy_kernel::route::to_io;
use futures_util::TryStreamExt;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::{Handle, LinkMessageBuilder, LinkUnspec};
use serde::{Deserialize, Serialize};

use crate::sys;

/// A TUN interface with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunDevice {
    /// The interface's name.
    pub name: String,
    /// Its addresses, with the length of their prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its MTU in bytes.
    pub mtu: u16,
    /// Packets that the kernel holds for each queue until they are read.
    pub kernel_queue_packets: Option<u32>,
    /// Whether it has several queues.
    pub has_more_queues: bool,
}

impl TunDevice {
    /// Attaches the files of its queues to an interface of its name, which is created with its
    /// settings. Files that are attached already stay so. It needs CAP_NET_ADMIN.
    ///
    /// # Errors
    /// What the system refused; another call does the rest.
    pub async fn attach(&self, handle: &Handle, queues: &[OwnedFd], has_link: bool) -> io::Result<()> {
        let Some((first, further)) = queues.split_first() else { return Ok(()) };
        self.attach_queue(first)?;
        sys::set_tun_offloads(first.as_fd())?;
        let index = self.index(handle).await?;
        let mut settings = LinkMessageBuilder::<LinkUnspec>::new().index(index).mtu(self.mtu.into());
        // Before there is another queue: the kernel then creates each with this length.
        if let Some(packets) = self.kernel_queue_packets {
            settings = settings.txqueuelen(packets);
        }
        set(handle, settings.build()).await?;
        further.iter().try_for_each(|queue| self.attach_queue(queue))?;
        for (address, bits) in &self.addresses {
            match convoy_kernel::route::add_address_by(handle, index, *address, *bits).await {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        // As at the start, this is best effort: a kernel may lack the setting.
        let _ = convoy_kernel::route::stop_redirects_by(handle, index).await;
        if !has_link {
            sys::set_carrier(first.as_fd(), false)?;
        }
        set(handle, LinkMessageBuilder::<LinkUnspec>::new().index(index).up().build()).await
    }

    fn attach_queue(&self, queue: &OwnedFd) -> io::Result<()> {
        match sys::attach_tun(queue.as_fd(), &self.name, self.has_more_queues) {
            // It has an interface.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            attached => attached,
        }
    }

    async fn index(&self, handle: &Handle) -> io::Result<u32> {
        let mut found = handle.link().get().match_name(self.name.clone()).execute();
        let link = found.try_next().await.map_err(to_io)?;
        link.map(|link| link.header.index).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

async fn set(handle: &Handle, message: LinkMessage) -> io::Result<()> {
    handle.link().set(message).execute().await.map_err(to_io)
}

/// The files of a running port's queues, for attaching them again.
#[derive(Clone, Debug)]
pub struct TunFiles {
    /// The interface.
    pub device: TunDevice,
    /// One for each queue of the kernel's.
    pub files: Vec<Arc<OwnedFd>>,
}

impl TunFiles {
    /// For each of these, whether a file has no interface. One system call asks for all.
    pub fn are_detached<'a>(all: impl Iterator<Item = &'a Self> + Clone) -> Vec<bool> {
        let mut fds: Vec<PollFd<'_>> =
            all.clone().flat_map(|one| &one.files).map(|file| poll_fd(file)).collect();
        let is_asked = poll(&mut fds, PollTimeout::ZERO).is_ok();
        let mut said = fds.iter().map(|fd| is_asked && has_error(fd));
        all.map(|one| one.files.iter().fold(false, |any, _| any | said.next().unwrap_or(false))).collect()
    }
}

/// Whether a file of `/dev/net/tun` has no interface: the kernel then reports an error.
pub(super) fn is_detached(file: &OwnedFd) -> bool {
    let mut fds = [poll_fd(file)];
    poll(&mut fds, PollTimeout::ZERO).is_ok() && has_error(&fds[0])
}

fn poll_fd(file: &OwnedFd) -> PollFd<'_> {
    PollFd::new(file.as_fd(), PollFlags::empty())
}

fn has_error(fd: &PollFd<'_>) -> bool {
    fd.revents().is_some_and(|events| events.contains(PollFlags::POLLERR))
}
