//! The configurations in the documentation are valid.

use convoy_ipsec::{IptfsConfig, Mode, OuterDscp};

use super::{GOOD, changed};
use crate::Config;
use crate::file::File;

#[test]
fn the_whole_of_what_is_documented_is_read() {
    let text = include_str!("documented.toml");
    let config = Config::parse("documented.toml", text).expect("good");
    assert_eq!((config.engines.len(), config.ports.len(), config.tunnels.len()), (2, 2, 1));
}

#[test]
fn every_key_is_in_the_documentation_and_is_read_there() {
    let text = include_str!("../../../../docs/reference/configuration.md");
    let block =
        |at| text.split("```toml\n").nth(at).and_then(|rest| rest.split("```").next()).expect("a block");
    let (toml, dpdk, iptfs) = (block(1), block(2), block(4));
    let config = Config::parse("configuration.md", toml).expect("good");
    assert_eq!((config.engines.len(), config.ports.len(), config.tunnels.len()), (3, 3, 1));
    let udp = "[[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n";
    Config::parse("configuration.md", &changed(udp, dpdk)).expect("good");
    let tunnels = Config::parse("configuration.md", &format!("{GOOD}{iptfs}")).expect("good").tunnels;
    assert_eq!(tunnels.iter().filter(|tunnel| tunnel.mode == Mode::Iptfs).count(), 2);
    assert_eq!((tunnels[1].iptfs, tunnels[1].dscp), (IptfsConfig::default(), OuterDscp::Set(0)));
    assert_eq!(tunnels[2].iptfs, IptfsConfig { packet_rate: 1_000, ..IptfsConfig::default() });
    let from_end =
        |at| text.rsplit("```toml\n").nth(at).and_then(|rest| rest.split("```").next()).expect("a block");
    let (cluster, groups) = (from_end(1), from_end(0));
    Config::parse("configuration.md", &format!("{GOOD}{cluster}")).expect("good").cluster.expect("one");
    let lines = cluster.lines().filter(|line| !line.contains("addresses"));
    let grouped = lines.chain(groups.lines()).collect::<Vec<_>>().join("\n");
    let grouped = Config::parse("configuration.md", &grouped).expect("good");
    assert_eq!((grouped.tunnels[0].group.as_str(), grouped.cluster.expect("one").groups.len()), ("west", 2));
    let shown_elsewhere = ["read", "write", "side"];
    let deprecated = ["packet_size_threshold", "full_queue", "depth_unit", "overtake"];
    for key in File::keys().filter(|key| !shown_elsewhere.contains(key) && !deprecated.contains(key)) {
        let is_there =
            [toml, dpdk, iptfs, cluster, groups].iter().flat_map(|block| block.lines()).any(|line| {
                line.starts_with(&format!("{key} = "))
                    || line.contains(&format!("{key}]"))
                    || line.contains(&format!(" {key} = "))
            });
        assert!(is_there, "{key} is not documented");
    }
}
