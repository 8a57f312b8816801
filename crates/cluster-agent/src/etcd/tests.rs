//! What needs no etcd; `tests/cluster-store.sh` has the rest.

use std::net::TcpListener;
use std::sync::mpsc::channel;

use convoy_cluster::StoreAnswer;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn config(endpoints: &[&str], tls: Option<TlsConfig>) -> StoreConfig {
    let endpoints = endpoints.iter().map(|endpoint| (*endpoint).to_owned()).collect();
    StoreConfig { endpoints, tls, request_timeout: Duration::from_secs(5) }
}

fn refusal(config: StoreConfig) -> String {
    Store::<u8>::start(config, channel().0).expect_err("not started").to_string()
}

#[test]
fn what_can_never_be_used_is_refused_at_the_start() {
    let tls = || {
        let certificate = || b"-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n".to_vec();
        Some(TlsConfig { ca: certificate(), certificate: certificate(), key: Zeroizing::default() })
    };
    for (endpoints, tls, expected) in [
        (&[][..], None, "at least one endpoint is needed"),
        (&["127.0.0.1:2379"][..], None, "endpoint 127.0.0.1:2379: a URL with http or https is needed"),
        (&["https://127.0.0.1:2379"][..], None, "https needs certificates"),
        (&["http://127.0.0.1:2379"][..], tls(), "certificates need https"),
        (&["http://127.0.0.1:2379", "http://?"][..], None, "endpoint http://?: "),
        (&["https://127.0.0.1:2379"][..], tls(), "endpoint https://127.0.0.1:2379: "),
    ] {
        let reason = refusal(config(endpoints, tls));
        assert!(reason.contains(expected), "{endpoints:?}: {reason}");
    }
}

#[test]
fn calls_are_refused_while_no_endpoint_is_there() {
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let endpoint = format!("http://{address}");
    let (sender, events) = channel();
    let store = Store::start(config(&[&endpoint], None), sender).expect("started");
    let mut losses = Vec::new();
    let mut call = 0;
    while call < 100 || losses.is_empty() {
        call += 1;
        store.ask(call, Call::Grant { ttl_s: 5 });
        loop {
            match events.recv_timeout(PATIENCE).expect("an event") {
                StoreEvent::Lost { reason } => losses.push(reason),
                event => {
                    let reason = "no endpoint is connected".into();
                    assert_eq!(event, StoreEvent::Answered(call, StoreAnswer::Refused { reason }));
                    break;
                }
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(store);
    losses.extend(events.iter().filter_map(|event| match event {
        StoreEvent::Lost { reason } => Some(reason),
        _ => None,
    }));
    assert!(losses.len() == 1 && losses[0].contains(&endpoint), "{losses:?}");
}
