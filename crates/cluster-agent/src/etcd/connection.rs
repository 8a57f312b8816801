//! Connections to etcd's members.

use std::time::Duration;

use convoy_cluster::StoreId;
use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use tokio::time::timeout;

use super::outcome::describe;
use super::{StartError, StoreConfig};

/// The time without a byte from etcd after which the connection is probed while requests or streams
/// are open. etcd ends connections that are probed more often than every 5 s, or while nothing is
/// open.
const PROBE_AFTER: Duration = Duration::from_secs(10);

/// Fails if an endpoint or a certificate cannot be used whatever the network does.
pub(super) async fn check(config: &StoreConfig) -> Result<(), StartError> {
    if config.endpoints.is_empty() {
        return Err(StartError::NoEndpoint);
    }
    for endpoint in &config.endpoints {
        let fail = |reason| StartError::Endpoint { endpoint: endpoint.clone(), reason };
        match (&config.tls, endpoint.split_once("://")) {
            (Some(_), Some(("https", _))) | (None, Some(("http", _))) => {}
            (None, Some(("https", _))) => return Err(fail("https needs certificates".into())),
            (Some(_), Some(("http", _))) => return Err(fail("certificates need https".into())),
            _ => return Err(fail("a URL with http or https is needed".into())),
        }
        client(endpoint, config).await.map_err(fail)?;
    }
    Ok(())
}

/// A client of one endpoint, which connects with its first request.
async fn client(endpoint: &str, config: &StoreConfig) -> Result<Client, String> {
    let mut options = ConnectOptions::new()
        .with_connect_timeout(config.request_timeout)
        .with_keep_alive(PROBE_AFTER, config.request_timeout)
        .with_keep_alive_while_idle(false)
        .with_require_leader(true);
    if let Some(tls) = &config.tls {
        let tls = TlsOptions::new()
            .ca_certificate(Certificate::from_pem(&tls.ca))
            .identity(Identity::from_pem(&tls.certificate, &*tls.key));
        options = options.with_tls(tls);
    }
    Client::connect([endpoint], Some(options)).await.map_err(|error| describe(&error))
}

/// A connection to a member that knows a leader.
pub(super) struct EtcdConnection {
    pub(super) client: Client,
    /// The store's revision as far as the member knows it.
    pub(super) revision: u64,
    /// The store.
    pub(super) store: StoreId,
    /// The member's version.
    pub(super) version: String,
}

/// Connects to a member that knows a leader.
pub(super) async fn connect(endpoint: &str, config: &StoreConfig) -> Result<EtcdConnection, String> {
    let mut client = client(endpoint, config).await?;
    let status = match timeout(config.request_timeout, client.status()).await {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => return Err(explain(describe(&error), config)),
        Err(_) => return Err(format!("no answer within {:?}", config.request_timeout)),
    };
    if status.leader() == 0 {
        return Err("it knows no leader".into());
    }
    let header = status.header().ok_or("an answer without a header")?;
    let revision = u64::try_from(header.revision()).unwrap_or(0);
    let (store, version) = (header.cluster_id(), status.version().to_owned());
    Ok(EtcdConnection { client, revision, store, version })
}

/// With TLS 1.3 a member looks at the client's certificate when the client is done with its part,
/// and then sends an alert and ends the connection. The client may see the end alone.
fn explain(reason: String, config: &StoreConfig) -> String {
    let is_end = ["connection closed", "reset by peer", "roken pipe"].iter().any(|end| reason.contains(end));
    if config.tls.is_some() && is_end {
        format!("{reason}; a member that does not trust the client's certificate ends connections so")
    } else {
        reason
    }
}
