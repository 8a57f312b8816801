//! Prometheus metrics on a configured address, made from the same
//! [`Snapshot`](convoy_report::snapshot::Snapshot) as `convoy show`, and if wanted a page for
//! browsers.

mod answer;
mod browser;
mod limits;
mod maker;
mod page;
mod server;
mod text;

use convoy_config::Config;
use text::sums::{are_few, series_of};

pub use maker::{SnapshotReply, SnapshotSource};
pub use server::{Contents, bind, serve};
pub use text::{CONTENT_TYPE, write};

/// For `convoy check`: how many series the tunnels of a configuration add to those of the gateway,
/// if it serves metrics.
pub fn overview(config: &Config) -> Option<String> {
    config.metrics?;
    let tunnels = config.tunnels.len();
    let series = series_of(tunnels);
    let each = "while each tunnel has one SA in each direction";
    Some(match config.metrics_per_tunnel.unwrap_or(are_few(tunnels)) {
        true => format!("metrics: series of each tunnel, up to {series} {each}"),
        false => {
            format!("metrics: sums alone; metrics_per_tunnel = true would add up to {series} series {each}")
        }
    })
}

/// Reads the query of a browser. Never panics, whatever the text.
///
/// # Errors
/// What is wrong with it, in words for the client.
pub fn check_query(text: &str) -> Result<(), String> {
    browser::Query::parse(text).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_says_how_many_series_the_tunnels_have() {
        let of = |tunnels: usize, line: &str| {
            let gateway = format!("[gateway]\ncharon = \"/c\"\nmetrics = \"127.0.0.1:9464\"\n{line}\n");
            let ports = "[[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\n\
                [[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n\
                [[engine]]\nkind = \"software\"\n";
            let tunnel = |at| format!("[[tunnel]]\nname = \"t{at}\"\nremote_ts = [\"10.2.{at}.0/24\"]\n");
            let text =
                [gateway, ports.to_owned()].into_iter().chain((0..tunnels).map(tunnel)).collect::<String>();
            overview(&Config::parse("test.toml", &text).expect("a good configuration")).unwrap_or_default()
        };
        let each = "while each tunnel has one SA in each direction";
        assert_eq!(of(2, ""), format!("metrics: series of each tunnel, up to 34 {each}"));
        assert_eq!(
            of(101, "metrics_per_tunnel = true"),
            format!("metrics: series of each tunnel, up to 1717 {each}")
        );
        let sums =
            format!("metrics: sums alone; metrics_per_tunnel = true would add up to 1717 series {each}");
        assert_eq!([of(101, ""), of(101, "metrics_per_tunnel = false")], [sums.clone(), sums]);
    }
}
