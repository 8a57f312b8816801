//! What passes between a gateway, or a command, and its agent.
//!
//! The first message, [`Start`], says what the agent is for. An agent that is a member then gets
//! [`ToAgent`] and sends [`FromAgent`]. One that makes calls for a command first sends whether it
//! can, a `Result<(), String>`; then it gets [`StoreCall`]s and sends
//! [`StoreEvent<u64>`](crate::StoreEvent)s.

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::memory::Seen;
use crate::orders::{MemberOrder, Report};
use crate::shared_text::SharedText;
use crate::status::ClusterStatus;
use crate::store::Call;

/// The bytes of the longest message, which is the records of some 100,000 SAs.
pub const LIMIT: usize = 64 << 20;

/// The first message to an agent.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Start {
    /// Be a member.
    Begin(Box<Begin>),
    /// Make calls to the store for a command.
    Store(Box<StoreAccess>),
}

/// From the gateway.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToAgent {
    /// Something has happened to a group.
    Report(Report),
    /// The gateway, its helper and all its workers worked at this time of the monotonic clock.
    Beat {
        /// The time, in ns.
        at_ns: u64,
    },
    /// Give all groups away, and lead none until `Serve`.
    Drain,
    /// Lead groups again.
    Serve,
    /// Give all groups away, and end.
    End,
}

/// What an agent has to know to be a member. It opens no file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// The name of the cluster.
    pub cluster: String,
    /// The name of the member.
    pub member: String,
    /// A member with a higher one leads before others.
    pub priority: u32,
    /// The groups that it may lead.
    pub groups: Vec<String>,
    /// The time to live of its lease, in seconds.
    pub lease_s: u32,
    /// How long another member must rank before this one until it is given a group.
    pub rebalance_ns: Option<u64>,
    /// Whether no inbound number is accepted twice after a takeover.
    pub is_strict: bool,
    /// The URLs of etcd's members.
    pub endpoints: Vec<String>,
    /// Certificates and key for `https`.
    pub tls: Option<Pem>,
    /// How long reserved inbound numbers last.
    pub inbound_reserve_ns: u64,
    /// Whether the gateway wants the configuration that the cluster shares.
    pub wants_config: bool,
    /// The text of the file with the cluster's key.
    pub secret: Zeroizing<String>,
    /// What this member had seen of the store when it ran last.
    pub seen: Seen,
}

/// The contents of the files of TLS.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pem {
    /// The certificates of the authorities that issue the certificates of etcd's members.
    pub ca: String,
    /// The client's certificate.
    pub certificate: String,
    /// The client's private key.
    pub key: Zeroizing<String>,
}

/// From the agent.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromAgent {
    /// An order of the member.
    Order(MemberOrder),
    /// What the cluster looks like now.
    Status(Box<ClusterStatus>),
    /// Another version of the configuration that the cluster shares.
    Config(Box<SharedText>),
    /// The store can be reached again, with the version that it says it has, or cannot, with the
    /// reason.
    Store(Result<String, String>),
    /// What the member has seen of the store, to be noted.
    Seen(Seen),
    /// Everything was given away; the last message.
    Ended,
}

/// How an agent reaches the store for a command.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreAccess {
    /// The URLs of etcd's members.
    pub endpoints: Vec<String>,
    /// Certificates and key for `https`.
    pub tls: Option<Pem>,
    /// How long an answer of the store may take, in ms.
    pub request_timeout_ms: u64,
}

/// A call that a command has an agent make.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreCall {
    /// The answer has the same.
    pub id: u64,
    /// The call.
    pub call: Call,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_and_command_start_with_different_messages() {
        let store = StoreAccess { endpoints: vec!["http://e".into()], tls: None, request_timeout_ms: 7 };
        let text = serde_json::to_string(&Start::Store(Box::new(store))).expect("text and numbers");
        assert_eq!(text, r#"{"store":{"endpoints":["http://e"],"tls":null,"request_timeout_ms":7}}"#);
        assert!(matches!(serde_json::from_str(&text), Ok(Start::Store(_))));
        serde_json::from_str::<Start>(r#""drain""#).err().expect("not the first message");
    }
}
