//! The store against real members of etcd, which `tests/cluster-store.sh` starts and stops.
//!
//! usage: store FOLDER CLIENT SCENARIO ENDPOINT...: with the certificates FOLDER/ca.pem and
//! FOLDER/CLIENT.pem, the key FOLDER/CLIENT.key and the cluster's FOLDER/cluster.key. It asks for
//! what it wants done to the members by a line that begins with "do: ", and goes on after a line of
//! input.

mod client;
mod failures;
mod figures;
mod keys;

use std::io::{BufRead, stdin};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use convoy_cluster_agent::etcd::{StoreConfig, TlsConfig};

/// Has the script do something to the members of etcd.
fn have_done(what: &str) -> Result<()> {
    println!("do: {what}");
    let mut line = String::new();
    stdin().lock().read_line(&mut line)?;
    if line.trim() == "done" { Ok(()) } else { bail!("{what}: {line}") }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, client, scenario, endpoints @ ..] = &arguments[..] else {
        bail!("usage: store FOLDER CLIENT SCENARIO ENDPOINT...")
    };
    let read = |name: String| {
        std::fs::read(Path::new(folder).join(&name)).with_context(|| format!("reading {name}"))
    };
    let tls = TlsConfig {
        ca: read("ca.pem".into())?,
        certificate: read(format!("{client}.pem"))?,
        key: read(format!("{client}.key"))?.into(),
    };
    let request_timeout = Duration::from_secs(2);
    let config = StoreConfig { endpoints: endpoints.to_vec(), tls: Some(tls), request_timeout };
    match &scenario[..] {
        "keys" => keys::all(&config),
        "figures" => figures::print(&config, Path::new(folder)),
        "leader-killed" => failures::leader_killed(&config),
        "no-quorum" => failures::no_quorum(&config),
        "stranger" => failures::stranger(&config),
        "full" => failures::full(&config),
        _ => bail!("no scenario {scenario}"),
    }
}
