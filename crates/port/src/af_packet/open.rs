//! Opens the queues of an `af_packet` port: the programs at the interface and at the sockets, and a
//! socket for each worker.

use std::sync::Arc;

use super::AfPacket;
use super::interface::AfPacketInterface;
use crate::PortError;
use crate::contract::Reopening;
use crate::link::{Link, LinkConfig, LinkTakes};
use crate::super_packet::Joins;

impl AfPacket {
    /// The queues of a port, among which packets are distributed by flow, and how they go on after
    /// their interface was missing, as it may be now.
    ///
    /// # Errors
    /// [`PortError`] says what the system refused: this needs CAP_NET_ADMIN, CAP_NET_RAW and
    /// CAP_BPF, and Linux 6.6.
    pub(crate) fn open(config: &LinkConfig) -> Result<(Vec<Self>, Reopening), PortError> {
        let number = config.interface_number()?;
        let links: Vec<Link> =
            (0..config.queues).map(|queue| Link::open(config, number, queue)).collect::<Result<_, _>>()?;
        let at = Arc::new(AfPacketInterface::load(config)?);
        let sockets = match number {
            Some(number) => at.use_interface(number)?.into_iter().map(Some).collect(),
            None => (0..config.queues).map(|_| None).collect::<Vec<_>>(),
        };
        let joins = match config.takes {
            LinkTakes::Plaintext { .. } => Joins::TcpAndUdp,
            LinkTakes::Protected { .. } => Joins::WithoutChecksum,
            LinkTakes::Datagrams { .. } => Joins::Nothing,
        };
        let queues = links.into_iter().zip(sockets).enumerate();
        let open = |(queue, (link, socket))| Self::new(link, socket, joins, Arc::clone(&at), queue);
        let queues = queues.map(open).collect();
        Ok((queues, Reopening::Link(at)))
    }
}
