//! Sealed packets that the system refused to send: counted for their SAs with the reason.

use std::io;
use std::net::IpAddr;

use convoy_ipsec::{DropReason, SaProtocol, Tables};
use convoy_port::{Port, Unsent, UnsentSa};

/// Interval between two log messages of errors that have no drop reason of their own, in ns: a
/// minute.
const SILENCE_NS: u64 = 60_000_000_000;

/// Counts what the outside ports could not send.
#[derive(Default)]
pub(super) struct UnsentCounter {
    /// Buffer kept between calls.
    unsent: Vec<Unsent>,
    /// When an error without a drop reason may be logged again.
    next_word_ns: u64,
}

impl UnsentCounter {
    /// Counts what the system refused since the last call.
    pub(super) fn count(&mut self, now_ns: u64, ports: &mut [Box<dyn Port>], tables: &mut Tables) {
        self.count_each(now_ns, ports, tables, &mut |_, _| ());
    }

    /// The same; `note` receives each with its reason.
    pub(super) fn count_each(
        &mut self,
        now_ns: u64,
        ports: &mut [Box<dyn Port>],
        tables: &mut Tables,
        note: &mut dyn FnMut(&Unsent, DropReason),
    ) {
        for port in ports {
            port.take_unsent(&mut self.unsent);
            for unsent in self.unsent.drain(..) {
                let reason = reason(unsent.errno);
                note(&unsent, reason);
                tables.count_unsent(reason, unsent.packets, unsent.sa.map(name));
                if reason == DropReason::SendFailed && now_ns >= self.next_word_ns {
                    self.next_word_ns = now_ns + SILENCE_NS;
                    let error = io::Error::from_raw_os_error(unsent.errno);
                    let port = &port.description().name;
                    tracing::warn!(port, %error, "the system refused to send packets");
                }
            }
        }
    }
}

/// The key by which an outbound SA is found.
fn name(sa: UnsentSa) -> (SaProtocol, u32, IpAddr) {
    let protocol = if sa.is_ah { SaProtocol::Ah } else { SaProtocol::Esp };
    (protocol, sa.spi, sa.destination)
}

/// The drop reason for an error of the system.
fn reason(errno: i32) -> DropReason {
    match errno {
        libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::ENXIO | libc::ENODEV => {
            DropReason::NoRoute
        }
        libc::EPERM | libc::EACCES => DropReason::SendForbidden,
        // From a blackhole route, or after an address was removed; newer kernels report ENETUNREACH
        // for IPv4.
        libc::EADDRNOTAVAIL | libc::EINVAL => DropReason::NoLocalAddress,
        libc::EMSGSIZE => DropReason::SendTooLong,
        _ => DropReason::SendFailed,
    }
}
