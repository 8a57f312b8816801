//! What passes between a gateway and its agent.

use std::io::{self, Read, Write};

use convoy_cluster::etcd::TlsConfig;
use convoy_cluster::{ClusterStatus, Order, Report};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::companion::framing::Framing;
use crate::config::SharedText;

/// The longest message is the records of some 100,000 SAs.
const FRAMING: Framing = Framing { limit: 64 << 20 };

/// From the gateway.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ToAgent {
    /// Begin; the first message.
    Begin(Box<Begin>),
    /// Something has happened to a group.
    Report(Report),
    /// Give all groups away, and lead none until `Serve`.
    Drain,
    /// Lead groups again.
    Serve,
    /// Give all groups away, and end.
    End,
}

/// What an agent has to know. It opens no file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    pub(super) cluster: String,
    pub(super) member: String,
    pub(super) priority: u32,
    pub(super) groups: Vec<String>,
    pub(super) lease_s: u32,
    /// How long another member must rank before this one until it is given a group.
    pub(super) rebalance_ns: Option<u64>,
    pub(super) is_strict: bool,
    pub(super) endpoints: Vec<String>,
    pub(super) tls: Option<Pem>,
    /// How long reserved inbound numbers last.
    pub(super) inbound_reserve_ns: u64,
    /// Whether the gateway wants the configuration that the cluster shares.
    pub(super) wants_config: bool,
    /// The text of the file with the cluster's key.
    pub(super) secret: Zeroizing<String>,
}

/// The contents of the files of TLS.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pem {
    pub(super) ca: String,
    pub(super) certificate: String,
    pub(super) key: Zeroizing<String>,
}

/// From the agent.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FromAgent {
    /// An order of the member.
    Order(Order),
    /// What the cluster looks like now.
    Status(Box<ClusterStatus>),
    /// Another version of the configuration that the cluster shares.
    Config(Box<SharedText>),
    /// The store can be reached again, or cannot, with the reason.
    Store(Result<(), String>),
    /// Everything was given away; the last message.
    Ended,
}

impl Pem {
    /// As the store takes them.
    pub(super) fn into_tls(self) -> TlsConfig {
        TlsConfig {
            ca: self.ca.into_bytes(),
            certificate: self.certificate.into_bytes(),
            key: Zeroizing::new(self.key.as_bytes().to_vec()),
        }
    }
}

/// Sends a message.
pub(super) fn send(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    stream.write_all(&FRAMING.frame(message)?)
}

/// Receives a message; `None` if the other end is gone.
pub(super) fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<Option<T>> {
    FRAMING.receive(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_received_as_it_was_sent() {
        let mut bytes = Vec::new();
        let sent = FromAgent::Order(Order::Until { deadline_ns: u64::MAX });
        send(&mut bytes, &sent).expect("memory does not fail");
        let received: FromAgent = receive(&mut &bytes[..]).expect("whole").expect("there is one");
        assert!(matches!(received, FromAgent::Order(Order::Until { deadline_ns: u64::MAX })));
    }
}
