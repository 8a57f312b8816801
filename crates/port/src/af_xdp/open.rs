//! Opens the queues of an `af_xdp` port: the program at the interface, and a socket for each
//! worker.

use std::sync::Arc;

use super::AfXdp;
use super::interface::AfXdpInterface;
use crate::PortError;
use crate::contract::Reopening;
use crate::link::{Link, LinkConfig};

impl AfXdp {
    /// The queues of a port, each with a socket at the interface's queue of the same number, and
    /// how they go on after their interface was missing, as it may be now.
    ///
    /// # Errors
    /// [`PortError`] says what the interface lacks, or what the system refused: this needs
    /// CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF and CAP_IPC_LOCK.
    pub(crate) fn open(config: &LinkConfig) -> Result<(Vec<Self>, Reopening), PortError> {
        let number = config.interface_number()?;
        let links: Vec<Link> =
            (0..config.queues).map(|queue| Link::open(config, number, queue)).collect::<Result<_, _>>()?;
        let at = Arc::new(AfXdpInterface::load(config)?);
        let sockets = match number {
            Some(number) => at.use_interface(number)?.into_iter().map(Some).collect(),
            None => (0..config.queues).map(|_| None).collect::<Vec<_>>(),
        };
        let queues = links.into_iter().zip(sockets).enumerate();
        let open = |(queue, (link, socket))| Self::new(link, socket, Arc::clone(&at), queue);
        let queues = queues.map(open).collect();
        Ok((queues, Reopening::Link(at)))
    }
}
