//! The cluster's agent: a process with a connection to the cluster's store, etcd, beside a gateway
//! or a command, which have none.
//!
//! - [`serve`] is the whole process: for a gateway it is a member of the cluster
//!   ([`convoy_cluster::Member`]); for a command it makes calls to the store.
//! - [`etcd`] is the connection.
//!
//! It is a program of its own so that gRPC and TLS are in no process that has packets. It opens no
//! file: its first message has what it must know.

pub mod etcd;
mod member;
mod serve;
mod shared_config;
mod store_calls;

pub use serve::serve;
