//! A TAP interface: what the kernel sends by it is read here, frame by frame, and what is written
//! here it receives. It is how a card in the program is a network interface of the kernel.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use convoy_packet::MacAddress;
use nix::errno::Errno;
use tun_rs::{DeviceBuilder, Layer};

use convoy_kernel::route;

/// One interface of the kernel. It disappears when this is dropped.
pub struct KernelInterface {
    device: OwnedFd,
}

impl KernelInterface {
    /// Creates the interface with a hardware address, an MTU in bytes and addresses, each with the
    /// length of its network's prefix, and sets it up.
    ///
    /// # Errors
    /// The system's: it needs CAP_NET_ADMIN and /dev/net/tun.
    pub fn create(name: &str, mac: MacAddress, mtu: u16, addresses: &[(IpAddr, u8)]) -> io::Result<Self> {
        if nix::net::if_::if_nametoindex(name).is_ok() {
            let reason =
                format!("the interface {name} exists; choose another name, or run: ip link del {name}");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
        }
        let tap = DeviceBuilder::new().name(name).layer(Layer::L2).mac_addr(mac.0).mtu(mtu).build_sync()?;
        let index = tap.if_index()?;
        for (address, bits) in addresses {
            route::add_address(index, *address, *bits)?;
        }
        tap.enabled(true)?;
        tap.set_nonblocking(true)?;
        let device = tap.as_fd().try_clone_to_owned()?;
        Ok(Self { device })
    }

    /// The next frame that the kernel sends, at the start of `buffer`: its length, or `None` if
    /// there is none. One that is longer than the buffer is cut.
    ///
    /// # Errors
    /// The system's, for example while the interface is down.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match nix::unistd::read(&self.device, buffer) {
            Ok(len) => Ok(Some(len)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Has the kernel receive a frame.
    ///
    /// # Errors
    /// The system's, for example while the interface is down; the frame is lost.
    pub fn write(&self, frame: &[u8]) -> io::Result<()> {
        loop {
            match nix::unistd::write(&self.device, frame) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for KernelInterface {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
