//! `[cluster]`: several gateways that share tunnels by a store.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoy_kernel::service::ServiceAddress;
use convoy_port::{PortEntry, TunSettings};
use convoy_settings::{At, Checker, Text, parse_prefix};
use toml::Spanned;

use super::StatePath;
use super::file::{self, File};

/// The group of all tunnels where the configuration names none.
pub const GROUP: &str = "tunnels";
/// Lease times that make sense, in seconds.
const LEASE_S: RangeInclusive<u32> = 1..=60;
const PRIORITY: RangeInclusive<u32> = 0..=1000;
/// How long reserved inbound numbers last by default, and the times that make sense, in ms.
const RESERVE_MS: u32 = 200;
const RESERVES_MS: RangeInclusive<u32> = 50..=10_000;
/// The longest time after which a group moves to the member that ranks first, in seconds.
const LONGEST_REBALANCE_S: u32 = 3600;

/// What a gateway has to do with its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The cluster's name, which is part of the store's keys.
    pub name: String,
    /// This gateway's name in it; `None` is the host's.
    pub member: Option<String>,
    /// The store's members, as URLs.
    pub endpoints: Vec<String>,
    /// TLS of the connection to the store; only a store on this host can do without.
    pub tls: Option<ClusterTls>,
    /// The file with the key by which values in the store are sealed.
    pub secret: PathBuf,
    /// Its groups of tunnels; one at least.
    pub groups: Vec<TunnelGroup>,
    /// Members with a higher one lead first.
    pub priority: u32,
    /// The lease's time to live.
    pub lease: Duration,
    /// How long a member must rank before the leader of a group until it is given the group; `None`
    /// for never.
    pub rebalance: Option<Duration>,
    /// How long the inbound sequence numbers that are reserved last.
    pub inbound_reserve: Duration,
    /// Whether the store has the tunnels, instead of this gateway's file.
    pub has_tunnels: bool,
    /// What a new leader accepts of what its predecessor may have accepted.
    pub replay: ReplayAfterTakeover,
    /// The folder that has what this gateway has seen of the store; `None` for none.
    pub memory: Option<PathBuf>,
}

/// Tunnels that one member leads at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelGroup {
    /// Its name.
    pub name: String,
    /// Addresses that its leader has.
    pub addresses: Vec<ServiceAddress>,
}

impl ClusterConfig {
    /// The service addresses of all groups.
    pub fn addresses(&self) -> impl Iterator<Item = &ServiceAddress> {
        self.groups.iter().flat_map(|group| &group.addresses)
    }

    /// The file with what the gateway has seen of the store as this member.
    pub fn memory_of(&self, member: &str) -> Option<PathBuf> {
        self.memory.as_ref().map(|folder| folder.join(format!("cluster-{}-{member}", self.name)))
    }

    /// The service addresses of a group.
    pub fn addresses_of(&self, group: &str) -> &[ServiceAddress] {
        self.groups.iter().find(|known| known.name == group).map_or(&[], |known| &known.addresses)
    }
}

/// The files of TLS with client certificates, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterTls {
    /// The certificate of the store's authority.
    pub ca: PathBuf,
    /// This gateway's certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What a new leader accepts of the sequence numbers that its predecessor may have accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplayAfterTakeover {
    /// None of them: no packet is accepted twice.
    #[default]
    Strict,
    /// Those after the last checkpoint: few packets are lost, and as many could be replayed.
    Checkpoint,
}

/// Checks the table; before ports and tunnels, whose addresses may be the cluster's.
pub(super) fn cluster(c: &mut Checker<'_>, file: &File) -> Option<ClusterConfig> {
    let Some(table) = &file.cluster else {
        if let Some(group) = file.group.first() {
            c.add(&group.at.span, "group", "a group of tunnels needs [cluster]; add it, or remove [[group]]");
        }
        return None;
    };
    let at = &table.at;
    let name = c.needed(at, table.name.as_ref(), "cluster.name", "\"west\"");
    let name = name.and_then(|text| word(c, text, "cluster.name"));
    let member = table.member.as_ref().map(|text| word(c, text, "cluster.member"));
    let endpoints = endpoints(c, at, table);
    let tls = tls(c, at, table);
    let secret = c.needed(at, table.secret.as_ref(), "cluster.secret", "\"/etc/convoy/cluster.key\"");
    let secret = secret.and_then(|text| absolute(c, text, "cluster.secret"));
    let words = [("strict", ReplayAfterTakeover::Strict), ("checkpoint", ReplayAfterTakeover::Checkpoint)];
    let replay = c.one_of(table.replay_after_takeover.as_ref(), "cluster.replay_after_takeover", &words);
    let reserve_ms =
        c.in_range(table.inbound_reserve_ms.as_ref(), "cluster.inbound_reserve_ms", RESERVE_MS, RESERVES_MS);
    let places = [("file", false), ("store", true)];
    let has_tunnels = c.one_of(table.tunnels.as_ref(), "cluster.tunnels", &places);
    let lease_s = c.in_range(table.lease_s.as_ref(), "cluster.lease_s", 2, LEASE_S);
    let priority = c.in_range(table.priority.as_ref(), "cluster.priority", 100, PRIORITY);
    let groups = groups(c, file, table);
    one_group_with_charon(c, file, groups.len());
    let most_s = if groups.len() > 1 { 10 } else { 0 };
    let rebalance_s =
        c.in_range(table.rebalance_s.as_ref(), "cluster.rebalance_s", most_s, 0..=LONGEST_REBALANCE_S);
    Some(ClusterConfig {
        name: name?,
        member: member.flatten(),
        endpoints: endpoints?,
        tls: tls?,
        secret: secret?,
        groups,
        priority,
        rebalance: (rebalance_s > 0).then(|| Duration::from_secs(rebalance_s.into())),
        lease: Duration::from_secs(lease_s.into()),
        inbound_reserve: Duration::from_millis(reserve_ms.into()),
        has_tunnels: has_tunnels?,
        replay: replay?,
        memory: memory(file),
    })
}

/// The folder of the state file, which is for gateways that are in no cluster.
fn memory(file: &File) -> Option<PathBuf> {
    let state = StatePath::of(file.gateway.state.as_ref().map(|text| text.get_ref().as_str()));
    state.map(|state| state.path.parent().unwrap_or(Path::new("")).to_owned())
}

/// No interface has a service address for itself: a gateway that stands by would answer for it, and
/// hosts would send it what is for the leader.
pub(super) fn service_addresses_are_held_by_leaders(
    c: &mut Checker<'_>,
    file: &File,
    cluster: Option<&ClusterConfig>,
) {
    let Some(cluster) = cluster else { return };
    let of_tun = |port: &PortEntry| port.kind.as_ref().is_some_and(|keys| keys.of::<TunSettings>().is_some());
    let ports = file.port.iter().filter(|port| of_tun(port));
    let of_ports = ports.filter_map(|port| Some((port.common.address.as_ref()?, "port.address")));
    let interfaces = file.interface.iter();
    let of_interfaces = interfaces.filter_map(|entry| Some((entry.address.as_ref()?, "interface.address")));
    for (list, key) in of_ports.chain(of_interfaces) {
        for text in list.get_ref() {
            let Some(address) = parse_prefix(text.get_ref()).map(|prefix| prefix.addr()) else { continue };
            if cluster.addresses().any(|service| service.address == address) {
                let what = format!(
                    "{address} is a service address of the cluster, which only the gateway that leads may have, but this \
                     interface would have it always; remove it, or write another address"
                );
                c.add(&text.span(), key, what);
            }
        }
    }
}

/// With `tunnels = "store"`, a gateway's own file has none. What is shared begins at `shared`.
pub(super) fn tunnels_are_elsewhere(c: &mut Checker<'_>, file: &File, shared: Option<usize>) {
    let word = file.cluster.as_ref().and_then(|table| table.tunnels.as_ref());
    if word.is_none_or(|word| word.get_ref() != "store") {
        return;
    }
    let tables = file.tunnel.iter().map(|tunnel| &tunnel.at).chain(file.bypass.iter().map(|entry| &entry.at));
    if let Some(at) = tables.into_iter().find(|at| shared.is_none_or(|shared| at.span.start < shared)) {
        let what = "cluster.tunnels is \"store\": move it to a file for `convoy cluster put`";
        c.add(&at.span, "tunnel", what);
    }
}

/// charon has one state of IKE for all its tunnels: it runs beside the gateway that leads them all.
fn one_group_with_charon(c: &mut Checker<'_>, file: &File, groups: usize) {
    if let Some(charon) = file.gateway.charon.as_ref().filter(|_| groups > 1) {
        let what = "charon's tunnels are of one group; remove charon, or all [[group]] but one";
        c.add(&charon.span(), "gateway.charon", what);
    }
}

/// A part of a key in the store.
fn word(c: &mut Checker<'_>, text: &Text, key: &str) -> Option<String> {
    let word = text.get_ref();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if word.is_empty() || word.len() > 64 || !word.bytes().all(fits) {
        let what = format!("{word:?} is not a name of at most 64 letters, digits and \"-_.\"");
        c.add(&text.span(), key, what);
        return None;
    }
    Some(word.clone())
}

fn endpoints(c: &mut Checker<'_>, at: &At, table: &file::Cluster) -> Option<Vec<String>> {
    const KEY: &str = "cluster.endpoints";
    let list = c.needed(at, table.endpoints.as_ref(), KEY, "[\"https://192.0.2.10:2379\"]")?;
    if list.get_ref().is_empty() {
        c.add(&list.span(), KEY, "it is empty; name at least one member of etcd");
        return None;
    }
    for text in list.get_ref() {
        let url = text.get_ref();
        let is_local = is_of_this_host(url);
        if !url.starts_with("https://") && !url.starts_with("http://") {
            let what = format!("{url:?} is not a URL such as https://192.0.2.10:2379");
            c.add(&text.span(), KEY, what);
        } else if !url.starts_with("https://") && !is_local {
            let what = "only an etcd on this host may be without TLS; write https://";
            c.add(&text.span(), KEY, what);
        }
    }
    Some(list.get_ref().iter().map(|text| text.get_ref().clone()).collect())
}

fn is_of_this_host(url: &str) -> bool {
    ["http://127.", "http://localhost", "http://[::1]"].iter().any(|start| url.starts_with(start))
}

/// All three files, or none where no endpoint needs them; the outer `None` is an error.
fn tls(c: &mut Checker<'_>, at: &At, table: &file::Cluster) -> Option<Option<ClusterTls>> {
    let uses_tls =
        |list: &Spanned<Vec<Text>>| list.get_ref().iter().any(|text| text.get_ref().starts_with("https://"));
    let files = [&table.ca, &table.certificate, &table.key];
    if !table.endpoints.as_ref().is_some_and(uses_tls) && files.iter().all(|file| file.is_none()) {
        return Some(None);
    }
    let mut path = |text: &Option<Text>, key: &str, example: &str| {
        let text = c.needed(at, text.as_ref(), key, example)?;
        absolute(c, text, key)
    };
    let ca = path(&table.ca, "cluster.ca", "\"/etc/convoy/etcd-ca.pem\"");
    let certificate = path(&table.certificate, "cluster.certificate", "\"/etc/convoy/etcd.pem\"");
    let key = path(&table.key, "cluster.key", "\"/etc/convoy/etcd-key.pem\"");
    Some(Some(ClusterTls { ca: ca?, certificate: certificate?, key: key? }))
}

fn absolute(c: &mut Checker<'_>, text: &Text, key: &str) -> Option<PathBuf> {
    let path = Path::new(text.get_ref());
    if !path.is_absolute() {
        c.add(&text.span(), key, format!("{:?} is not an absolute path", text.get_ref()));
        return None;
    }
    Some(path.to_owned())
}

/// The groups; one of all tunnels if the file has none.
fn groups(c: &mut Checker<'_>, file: &File, table: &file::Cluster) -> Vec<TunnelGroup> {
    let of_all = addresses(c, table.addresses.as_ref(), "cluster.addresses");
    if file.group.is_empty() {
        return vec![TunnelGroup { name: GROUP.to_owned(), addresses: of_all }];
    }
    if let Some(list) = &table.addresses {
        let what = "with [[group]], each group has its own addresses; write them there";
        c.add(&list.span(), "cluster.addresses", what);
    }
    c.unique(file.group.iter().map(|group| group.name.as_ref()), "group.name");
    let mut groups = Vec::new();
    for entry in &file.group {
        let name = c.needed(&entry.at, entry.name.as_ref(), "group.name", "\"east\"");
        let addresses = addresses(c, entry.addresses.as_ref(), "group.addresses");
        if let Some(name) = name.and_then(|text| word(c, text, "group.name")) {
            groups.push(TunnelGroup { name, addresses });
        }
    }
    groups
}

/// The group of a tunnel: the one that it names, or the only one. `groups` are those with a
/// [[group]], if there is a cluster.
pub(super) fn tunnel_group(
    c: &mut Checker<'_>,
    tunnel: &file::Tunnel,
    groups: Option<&[&str]>,
) -> Option<String> {
    const KEY: &str = "tunnel.group";
    match (&tunnel.group, groups) {
        (None, None | Some([])) => Some(GROUP.to_owned()),
        (None, Some([only])) => Some((*only).to_owned()),
        (None, Some([first, ..])) => {
            c.needed(&tunnel.at, None::<&Text>, KEY, &format!("{first:?}")).map(|_| String::new())
        }
        (Some(text), None) => {
            c.add(&text.span(), KEY, "there is no [cluster], so tunnels have no groups");
            None
        }
        (Some(text), Some(groups)) if !groups.contains(&text.get_ref().as_str()) => {
            c.add(&text.span(), KEY, format!("there is no [[group]] {:?}", text.get_ref()));
            None
        }
        (Some(text), Some(_)) => Some(text.get_ref().clone()),
    }
}

/// Addresses as keepalived has them: "192.0.2.1/24 dev eth0".
fn addresses(c: &mut Checker<'_>, list: Option<&Spanned<Vec<Text>>>, key: &str) -> Vec<ServiceAddress> {
    let list = list.map_or(&[][..], |list| list.get_ref());
    let mut found = Vec::new();
    for text in list {
        if let Some(address) = c.read::<ServiceAddress>(text, key) {
            c.expect_address(address.address);
            found.push(address);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    const GOOD: &str = "[cluster]\nname = \"west\"\nendpoints = [\"https://192.0.2.10:2379\"]\n\
        ca = \"/a\"\ncertificate = \"/b\"\nkey = \"/c\"\nsecret = \"/d\"\n\
        addresses = [\"198.51.100.9/24 dev eth0\", \"2001:db8::9/64 dev eth1\"]\n";

    fn errors(text: &str) -> String {
        Config::parse("a.toml", text).expect_err("refused").to_string()
    }

    #[test]
    fn a_cluster_has_defaults_for_all_but_its_store_and_its_key() {
        let config = Config::parse("a.toml", GOOD).expect("good").cluster.expect("a cluster");
        assert_eq!((config.lease, config.priority), (Duration::from_secs(2), 100));
        assert_eq!(config.replay, ReplayAfterTakeover::Strict);
        let eth1 = ServiceAddress {
            interface: "eth1".to_owned(),
            address: "2001:db8::9".parse().expect("an address"),
            prefix: 64,
        };
        assert_eq!(config.groups[0].addresses[1], eth1);
        assert_eq!((config.groups.len(), config.rebalance), (1, None));
        assert!(Config::parse("a.toml", "").expect("good").cluster.is_none());
    }

    #[test]
    fn each_mistake_is_named_with_its_line_and_what_to_write() {
        let text = errors(&GOOD.replace("https", "http").replace("/24 dev eth0", ""));
        assert!(text.contains("a.toml:3:") && text.contains("may be without TLS"), "{text}");
        assert!(text.contains("a.toml:8:") && text.contains("\"192.0.2.1/24 dev eth0\""), "{text}");
        let text = errors(&GOOD.replace("ca = \"/a\"\n", "").replace("secret = \"/d\"", "secret = \"d\""));
        assert!(text.contains("cluster.ca: it is missing"), "{text}");
        assert!(text.contains("not an absolute path"), "{text}");
    }

    #[test]
    fn no_interface_has_a_service_address_for_itself() {
        let ports = "[[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"0.0.0.0\"]\n[[port]]\n\
            name = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"198.51.100.9/32\"]\n";
        let text = errors(&format!("{GOOD}{ports}"));
        assert!(text.contains("port.address: 198.51.100.9 is a service address"), "{text}");
        Config::parse("a.toml", &format!("{GOOD}{}", ports.replace(".9/32", ".8/32"))).expect("another one");
        let interface = "[[interface]]\nname = \"ipsec-b\"\naddress = [\"2001:db8::9/128\"]\nmtu = 1400\n";
        let text = errors(&format!("{GOOD}{}{interface}", ports.replace(".9/32", ".8/32")));
        assert!(text.contains("interface.address: 2001:db8::9 is a service address"), "{text}");
    }

    #[test]
    fn charon_is_for_a_cluster_with_one_group() {
        let charon = "[gateway]\ncharon = \"/run/c.sock\"\n[[port]]\nname = \"outside\"\nkind = \"udp\"\n\
            address = [\"0.0.0.0\"]\n[[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\n";
        let config = Config::parse("a.toml", &format!("{GOOD}{charon}")).expect("good");
        assert!(config.charon.is_some() && config.cluster.is_some());
        let text = errors(&format!("{charon}{}", with_groups()));
        assert!(text.contains("gateway.charon: charon's tunnels are of one group"), "{text}");
    }

    #[test]
    fn a_store_on_this_host_needs_no_tls() {
        let text = "[cluster]\nname = \"w\"\nendpoints = [\"http://127.0.0.1:2379\"]\nsecret = \"/d\"\n";
        let config = Config::parse("a.toml", text).expect("good").cluster.expect("a cluster");
        assert_eq!(config.tls, None);
    }
    const GROUPS: &str = "[[group]]\nname = \"a\"\naddresses = [\"198.51.100.9/24 dev eth0\"]\n\
        [[group]]\nname = \"b\"\n[[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
        local_ts = [\"10.1.0.0/24\"]\nremote_ts = [\"10.2.0.0/24\"]\nesp_proposal = \"aes128gcm16\"\n\
        group = \"b\"\n[tunnel.manual]\nspi_in = 0x1001\nspi_out = 0x1002\n\
        key_in = \"00112233445566778899aabbccddeeff00112233\"\n\
        key_out = \"ffeeddccbbaa99887766554433221100ffeeddcc\"\n";

    fn with_groups() -> String {
        let cluster = GOOD.split("addresses").next().expect("the rest");
        format!("{cluster}{GROUPS}")
    }

    #[test]
    fn each_tunnel_is_of_one_group_and_each_group_has_its_addresses() {
        let config = Config::parse("a.toml", &with_groups()).expect("good");
        assert_eq!(config.tunnels[0].group, "b");
        let cluster = config.cluster.expect("a cluster");
        assert_eq!((cluster.addresses_of("a").len(), cluster.addresses_of("b").len()), (1, 0));
        assert_eq!(cluster.rebalance, Some(Duration::from_secs(10)));
        let text = errors(&with_groups().replace("group = \"b\"", "group = \"c\""));
        assert!(text.contains("tunnel.group") && text.contains("no [[group]] \"c\""), "{text}");
        let text = errors(&with_groups().replace("group = \"b\"\n", ""));
        assert!(text.contains("tunnel.group: it is missing"), "{text}");
        let text = errors(&format!("{GOOD}{GROUPS}"));
        assert!(text.contains("cluster.addresses") && text.contains("write them there"), "{text}");
        let text = errors(GROUPS);
        assert!(text.contains("needs [cluster]") && text.contains("no [cluster], so"), "{text}");
    }
}
