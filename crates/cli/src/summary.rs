//! The log lines at the start of a gateway.

use std::path::Path;

use convoy_config::{Config, PortConfig, counted};
use convoy_report::snapshot::{PortRow, Snapshot};

/// Main settings of a gateway. It is no copy of the configuration, which holds keys. The gateway
/// itself logs its engines.
pub(crate) struct ConfigSummary {
    gateway: String,
    /// Name and description of each port.
    ports: Vec<(String, String)>,
    tunnels: String,
}

impl ConfigSummary {
    pub(crate) fn of(path: &Path, config: &Config) -> Self {
        let workers = counted(config.workers, "worker");
        let window = counted(config.scheduler.window, "packet");
        let with_keys = config.tunnels.iter().filter(|tunnel| tunnel.has_static_keys()).count();
        let charon = config.charon.as_ref().map(|path| format!("; waiting for charon at {}", path.display()));
        let interfaces = config.interfaces.iter().map(|interface| interface.port(Some(0)));
        let ports = config.ports.iter().cloned().chain(interfaces);
        Self {
            gateway: format!("with {}: {workers}, window of {window}", path.display()),
            ports: ports.map(|config| (config.name.clone(), port(&config))).collect(),
            tunnels: format!(
                "tunnels: {with_keys} with static keys, {} without{}",
                config.tunnels.len() - with_keys,
                charon.unwrap_or_default()
            ),
        }
    }

    /// Logs the settings, with values that are known only after the start.
    pub(crate) fn log(&self, snapshot: &Snapshot) {
        self.lines(snapshot).iter().for_each(|line| tracing::info!("{line}"));
    }

    fn lines(&self, snapshot: &Snapshot) -> Vec<String> {
        let mut lines = vec![format!("convoy {} {}", snapshot.version, self.gateway)];
        for (name, port) in &self.ports {
            let row = snapshot.ports.iter().find(|row| row.name == *name);
            let mtu = row.map_or_else(String::new, mtu);
            lines.push(format!("port {name}: {port}{mtu}"));
        }
        lines.push(self.tunnels.clone());
        lines
    }
}

fn mtu(row: &PortRow) -> String {
    let reason = if row.mtu_reason.is_empty() { String::new() } else { format!(" ({})", row.mtu_reason) };
    format!(", MTU {}{reason}", row.mtu)
}

fn port(config: &PortConfig) -> String {
    let device = config.settings.interface().map_or_else(String::new, |device| format!(" {device}"));
    let addresses: Vec<String> = config.addresses.iter().map(|(address, _)| address.to_string()).collect();
    let addresses = if addresses.is_empty() { String::new() } else { format!(", {}", addresses.join(", ")) };
    format!("{}{device}{addresses}", config.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_summed_up_in_a_few_lines() {
        let text = concat!(
            "[gateway]\nworkers = 2\n",
            "[[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"10.1.0.1/32\"]\n",
            "[[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n",
        );
        let config = Config::parse("site.toml", text).expect("good");
        let port = |name: &str, kind: &str, mtu, reason: &str| PortRow {
            name: name.to_owned(),
            kind: kind.to_owned(),
            mtu,
            mtu_reason: reason.to_owned(),
            ..PortRow::default()
        };
        let snapshot = Snapshot {
            version: "0.1.0".to_owned(),
            ports: vec![port("inside", "tun", 1379, "set in [[port]]"), port("outside", "udp", 1500, "")],
            ..Snapshot::default()
        };
        assert_eq!(
            ConfigSummary::of(Path::new("site.toml"), &config).lines(&snapshot),
            [
                "convoy 0.1.0 with site.toml: 2 workers, window of 32 packets",
                "port inside: tun convoy0, 10.1.0.1, MTU 1379 (set in [[port]])",
                "port outside: udp, 192.0.2.1, MTU 1500",
                "tunnels: 0 with static keys, 0 without",
            ]
        );
    }
}
