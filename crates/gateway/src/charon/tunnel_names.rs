//! What charon's tunnels are called: a `[[tunnel]]` that covers a tunnel's networks, or takes them
//! from charon, gives it its name, so that log, events, `convoy show` and metrics have one name for
//! it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use convoy_config::Config;
use convoy_ike::state::{ChildName, PolicyUpdate};
use convoy_ipsec::{Action, OrderedSelectors, PolicyPlace, Selector, TrafficSelector, TunnelId};

use super::networks::Standing;
use crate::worker_thread::TunnelName;

/// A tunnel whose name has changed, with the new one; `None` if it has lost it.
pub(crate) type Renamed = (TunnelId, Option<TunnelName>);

/// The names of all tunnels of charon's.
pub(super) struct TunnelNames {
    /// By inside interface; 0 is the one that tunnels share.
    configured: HashMap<u16, Configured>,
    /// The names of all tunnels of the configuration that have no static keys.
    all: HashSet<String>,
    /// Those of them that take their networks from charon.
    open: HashSet<String>,
    tunnels: HashMap<TunnelId, KnownTunnel>,
    /// The tunnel of each policy.
    owners: HashMap<PolicyPlace, TunnelId>,
    by_connection: HashMap<String, BTreeSet<TunnelId>>,
}

/// What is known of a tunnel.
#[derive(Default)]
struct KnownTunnel {
    child: Option<ChildName>,
    /// The inside interface of its policies.
    interface: u16,
    /// Their traffic.
    selectors: BTreeMap<PolicyPlace, Selector>,
    /// The name that was reported last.
    name: Option<TunnelName>,
}

/// The far sides of the configuration's tunnels without static keys that have an inside interface.
struct Configured {
    /// Their traffic, and everything to their networks.
    traffic: Named,
    networks: Named,
}

/// Selectors, the narrowest first, each with the name of its tunnel.
struct Named {
    ordered: OrderedSelectors,
    names: Vec<String>,
}

impl Named {
    fn of(mut all: Vec<(Selector, String)>) -> Self {
        let width = |side: &TrafficSelector| side.addresses.as_prefix().map_or(0, |(_, bits)| bits);
        all.sort_by_key(|(selector, _)| std::cmp::Reverse((width(&selector.remote), width(&selector.local))));
        let (selectors, names) = all.into_iter().unzip();
        Self { ordered: OrderedSelectors::new(selectors), names }
    }

    fn covering(&self, selector: &Selector) -> Option<&String> {
        self.names.get(self.ordered.first_covering(selector, self.names.len())?)
    }
}

impl Configured {
    /// Those of a configuration, by interface.
    fn of(config: &Config) -> HashMap<u16, Self> {
        let mut all: HashMap<u16, [Vec<(Selector, String)>; 2]> = HashMap::new();
        for tunnel in config.tunnels.iter().filter(|tunnel| !tunnel.has_static_keys()) {
            let Some(interface) = config.interface_number(tunnel.interface.as_deref()) else { continue };
            let [traffic, networks] = all.entry(interface).or_default();
            traffic.extend(tunnel.selectors().map(|selector| (selector, tunnel.name.clone())));
            networks.extend(tunnel.remote_ts.iter().map(|remote| (toward(*remote), tunnel.name.clone())));
        }
        let of_one = |(interface, [traffic, networks]): (u16, [Vec<(Selector, String)>; 2])| {
            (interface, Self { traffic: Named::of(traffic), networks: Named::of(networks) })
        };
        all.into_iter().map(of_one).collect()
    }

    /// The tunnel that covers all of this traffic, or else its far side.
    fn covering(&self, selector: &Selector) -> Option<&String> {
        self.traffic.covering(selector).or_else(|| self.networks.covering(&toward(selector.remote)))
    }
}

/// Everything to these addresses.
fn toward(remote: TrafficSelector) -> Selector {
    let all = if remote.addresses.first().is_ipv6() { "::/0" } else { "0.0.0.0/0" };
    Selector { local: all.parse().expect("a prefix"), remote }
}

/// The names of the tunnels of a configuration that have no static keys.
fn charons(config: &Config) -> HashSet<String> {
    let charons = config.tunnels.iter().filter(|tunnel| !tunnel.has_static_keys());
    charons.map(|tunnel| tunnel.name.clone()).collect()
}

/// The tunnels of a configuration that have neither keys nor networks.
fn open(config: &Config) -> HashSet<String> {
    let open =
        config.tunnels.iter().filter(|tunnel| !tunnel.has_static_keys() && tunnel.remote_ts.is_empty());
    open.map(|tunnel| tunnel.name.clone()).collect()
}

impl TunnelNames {
    /// No tunnels yet.
    pub(super) fn new(config: &Config) -> Self {
        let (tunnels, owners, by_connection) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (all, open) = (charons(config), open(config));
        Self { configured: Configured::of(config), all, open, tunnels, owners, by_connection }
    }

    /// Takes changes of tunnels and their policies; returns what was renamed by them.
    pub(super) fn update(&mut self, update: &PolicyUpdate) -> Vec<Renamed> {
        let mut changed = BTreeSet::new();
        for (tunnel, name) in &update.names {
            self.name_child(*tunnel, name.as_ref());
            changed.insert(*tunnel);
        }
        for step in &update.steps {
            if let Some((place, owner)) = step.change.gone.and_then(|place| self.owners.remove_entry(&place))
            {
                if let Some(known) = self.tunnels.get_mut(&owner) {
                    known.selectors.remove(&place);
                }
                changed.insert(owner);
            }
            let Some((rank, policy)) = &step.change.came else { continue };
            let Action::Protect(tunnel) = policy.action else { continue };
            let place = PolicyPlace { priority: policy.priority, rank: *rank };
            self.owners.insert(place, tunnel);
            let known = self.tunnels.entry(tunnel).or_default();
            known.interface = policy.interface;
            known.selectors.insert(place, policy.selector);
            changed.insert(tunnel);
        }
        changed.into_iter().filter_map(|tunnel| self.rename(tunnel)).collect()
    }

    /// Takes another configuration; returns what is renamed by it.
    pub(super) fn configure(&mut self, config: &Config) -> Vec<Renamed> {
        (self.configured, self.all, self.open) = (Configured::of(config), charons(config), open(config));
        let all: BTreeSet<TunnelId> = self.tunnels.keys().copied().collect();
        all.into_iter().filter_map(|tunnel| self.rename(tunnel)).collect()
    }

    /// The name for people of a child of charon's tunnel.
    pub(super) fn shown(&self, tunnel: TunnelId) -> Option<&str> {
        Some(&self.tunnels.get(&tunnel)?.name.as_ref()?.shown)
    }

    /// How the configuration has the networks of a tunnel, if no `remote_ts` covers them.
    pub(super) fn standing(&self, tunnel: TunnelId) -> Standing {
        let known = self.tunnels.get(&tunnel);
        match known.and_then(|known| known.name.as_ref()) {
            Some(name) if self.open.contains(&name.shown) => Standing::Taken,
            None if !self.open.is_empty() && known.is_some() => Standing::Pending,
            _ => Standing::Outside,
        }
    }

    /// The name for people of a connection's tunnel; of several, one.
    pub(super) fn of_connection(&self, connection: &str) -> Option<&str> {
        self.shown(*self.by_connection.get(connection)?.first()?)
    }

    fn name_child(&mut self, tunnel: TunnelId, name: Option<&ChildName>) {
        let known = self.tunnels.entry(tunnel).or_default();
        let connection = |child: &Option<ChildName>| child.as_ref().map(|child| child.connection.clone());
        let before = connection(&std::mem::replace(&mut known.child, name.cloned()));
        let now = connection(&known.child).filter(|connection| !connection.is_empty());
        if let Some(before) = before
            && let Some(tunnels) = self.by_connection.get_mut(&before)
        {
            tunnels.remove(&tunnel);
            if tunnels.is_empty() {
                self.by_connection.remove(&before);
            }
        }
        if let Some(now) = now {
            self.by_connection.entry(now).or_default().insert(tunnel);
        }
    }

    /// Determines the name of a tunnel; reports it if it is another one.
    fn rename(&mut self, tunnel: TunnelId) -> Option<Renamed> {
        let known = self.tunnels.get_mut(&tunnel)?;
        let child = known.child.as_ref().map(ToString::to_string);
        let of_interface = self.configured.get(&known.interface);
        let covering = |selector| of_interface.and_then(|of| of.covering(selector)).cloned();
        let mut others: Vec<String> = known.selectors.values().filter_map(covering).collect();
        // An SA that goes is reported after its policies have gone.
        let last =
            known.name.as_ref().filter(|last| child.as_ref().is_some_and(|child| *child == last.child));
        let last = last.filter(|last| known.selectors.is_empty() && self.all.contains(&last.shown));
        let shown = last
            .map(|last| last.shown.clone())
            .or_else(|| others.first().cloned())
            .or_else(|| known.child.as_ref().and_then(|child| named_by(&self.open, child)))
            .or_else(|| child.clone());
        others.retain(|other| shown.as_ref() != Some(other));
        others.sort();
        others.dedup();
        let name = shown.map(|shown| TunnelName { shown, child: child.unwrap_or_default(), others });
        let is_other = known.name != name;
        known.name.clone_from(&name);
        if name.is_none() && known.selectors.is_empty() {
            self.tunnels.remove(&tunnel);
        }
        is_other.then_some((tunnel, name))
    }
}

/// The one of these names that a child of charon's has, or its connection, or both with a slash.
fn named_by(names: &HashSet<String>, child: &ChildName) -> Option<String> {
    let ChildName { connection, child: name } = child;
    [&child.to_string(), connection, name].into_iter().find(|name| names.contains(*name)).cloned()
}

#[cfg(test)]
mod tests {
    use convoy_ike::state::PolicyStep;
    use convoy_ipsec::{Policy, PolicyChange, PolicyRank};

    use super::*;

    /// A configuration with tunnels of charon's to these networks.
    fn config(tunnels: &[(&str, &str)]) -> Config {
        let tunnel = |(name, network): &(&str, &str)| {
            format!("[[tunnel]]\nname = \"{name}\"\nremote_ts = [\"{network}\"]\n")
        };
        let tunnels: String = tunnels.iter().map(tunnel).collect();
        let text = format!(
            "[gateway]\ncharon = \"/run/charon.sock\"\n\
             [[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"10.1.0.1/24\"]\n\
             [[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n{tunnels}"
        );
        Config::parse("a.toml", &text).expect("good")
    }

    fn named(tunnel: u32, connection: &str, child: &str) -> PolicyUpdate {
        let (connection, child) = (connection.to_owned(), child.to_owned());
        PolicyUpdate {
            names: vec![(TunnelId(tunnel), Some(ChildName { connection, child }))],
            ..Default::default()
        }
    }

    /// A policy of a tunnel to a network; its rank is the tunnel's number.
    fn policy(tunnel: u32, network: &str, interface: u16) -> PolicyUpdate {
        let rank = PolicyRank::of_daemon(tunnel.into());
        let policy = Policy {
            name: String::new(),
            selector: toward(network.parse().expect("a network")),
            priority: 7,
            action: Action::Protect(TunnelId(tunnel)),
            direction: convoy_ipsec::PolicyDirection::Both,
            interface,
        };
        let change = PolicyChange { gone: None, came: Some((rank, policy)) };
        PolicyUpdate { steps: vec![PolicyStep { change, is_tunnel_mode: true }], ..Default::default() }
    }

    fn removed(tunnel: u32) -> PolicyUpdate {
        let place = PolicyPlace { priority: 7, rank: PolicyRank::of_daemon(tunnel.into()) };
        let change = PolicyChange { gone: Some(place), came: None };
        let steps = vec![PolicyStep { change, is_tunnel_mode: true }];
        PolicyUpdate { names: vec![(TunnelId(tunnel), None)], steps, ..Default::default() }
    }

    fn words(renamed: &[Renamed]) -> Vec<(u32, String)> {
        let text = |name: &TunnelName| format!("{} {}", name.shown, name.child);
        renamed.iter().map(|(tunnel, name)| (tunnel.0, name.as_ref().map(text).unwrap_or_default())).collect()
    }

    #[test]
    fn tunnel_within_a_configured_network_has_its_name_and_others_have_charons() {
        let mut names = TunnelNames::new(&config(&[("site-b", "10.2.0.0/16"), ("site-c", "10.3.0.0/16")]));
        let update = |names: &mut TunnelNames, update: &PolicyUpdate| words(&names.update(update));
        assert_eq!(update(&mut names, &named(1, "site", "net")), [(1, "site/net site/net".to_owned())]);
        assert_eq!(update(&mut names, &policy(1, "10.2.7.0/24", 0)), [(1, "site-b site/net".to_owned())]);
        assert_eq!(names.of_connection("site"), Some("site-b"));
        assert_eq!(update(&mut names, &policy(2, "10.3.0.0/24", 0)), [(2, "site-c ".to_owned())]);
        assert_eq!(update(&mut names, &named(2, "c", "net")), [(2, "site-c c/net".to_owned())]);
        assert_eq!(update(&mut names, &named(3, "d", "net")), [(3, "d/net d/net".to_owned())]);
        assert_eq!(update(&mut names, &policy(3, "10.4.0.0/24", 0)), [], "outside every [[tunnel]]");
        assert_eq!(update(&mut names, &policy(4, "10.2.0.0/24", 1)), [], "on another interface");
        assert_eq!(update(&mut names, &removed(1)), [(1, String::new())]);
        assert_eq!((names.of_connection("site"), names.of_connection("c")), (None, Some("site-c")));
        names.update(&removed(4));
        assert_eq!(names.tunnels.len(), 2);
    }

    #[test]
    fn tunnel_on_an_interface_has_the_name_of_the_tunnel_that_the_configuration_has_there() {
        let text = "[gateway]\ncharon = \"/run/charon.sock\"\n\
            [[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n\
            [[interface]]\nname = \"ipsec-b\"\nif_id = 42\n[[tunnel]]\nname = \"site-b\"\ninterface = \"ipsec-b\"\n";
        let mut names = TunnelNames::new(&Config::parse("a.toml", text).expect("good"));
        names.update(&named(1, "site", "net"));
        assert_eq!(words(&names.update(&policy(1, "0.0.0.0/0", 1))), [(1, "site-b site/net".to_owned())]);
        assert_eq!(names.update(&policy(2, "0.0.0.0/0", 0)), [], "on the shared interface");
    }

    #[test]
    fn tunnel_without_networks_takes_those_of_the_child_with_its_name() {
        let text = "[gateway]\ncharon = \"/run/charon.sock\"\n\
            [[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"10.1.0.1/24\"]\n\
            [[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n\
            [[tunnel]]\nname = \"site\"\n[[tunnel]]\nname = \"other\"\nremote_ts = [\"10.3.0.0/16\"]\n";
        let mut names = TunnelNames::new(&Config::parse("a.toml", text).expect("good"));
        for (tunnel, network, name, standing) in [
            (1, "10.2.0.0/24", ("site", "net"), Standing::Taken),
            (2, "10.4.0.0/24", ("c", "site"), Standing::Taken),
            (3, "10.5.0.0/24", ("d", "net"), Standing::Outside),
            (4, "10.3.7.0/24", ("e", "net"), Standing::Outside),
        ] {
            names.update(&policy(tunnel, network, 0));
            let is_covered = tunnel == 4;
            let before = if is_covered { Standing::Outside } else { Standing::Pending };
            assert_eq!(names.standing(TunnelId(tunnel)), before, "{network}");
            names.update(&named(tunnel, name.0, name.1));
            assert_eq!(names.standing(TunnelId(tunnel)), standing, "{network}");
        }
        assert_eq!(names.shown(TunnelId(2)), Some("site"));
    }

    #[test]
    fn narrowest_tunnel_names_a_child_and_one_with_several_is_reported_with_all() {
        let tunnels = [("hub", "10.0.0.0/8"), ("site-b", "10.2.0.0/16"), ("site-c", "10.3.0.0/16")];
        let mut names = TunnelNames::new(&config(&tunnels));
        names.update(&named(1, "site", "net"));
        names.update(&policy(1, "10.2.7.0/24", 0));
        assert_eq!(names.shown(TunnelId(1)), Some("site-b"));
        let mut both = policy(1, "10.3.7.0/24", 0);
        let rank = PolicyRank::of_daemon(99);
        both.steps[0].change.came.as_mut().expect("one").0 = rank;
        let renamed = names.update(&both);
        let name = renamed[0].1.as_ref().expect("it has a name");
        assert_eq!((name.shown.as_str(), &name.others[..]), ("site-b", &["site-c".to_owned()][..]));
    }

    #[test]
    fn reload_renames_tunnels_that_another_name_covers() {
        let mut names = TunnelNames::new(&config(&[("site-b", "10.2.0.0/16")]));
        names.update(&named(1, "site", "net"));
        names.update(&policy(1, "10.2.7.0/24", 0));
        assert_eq!(words(&names.configure(&config(&[("site-b", "10.2.0.0/16")]))), []);
        let renamed = names.configure(&config(&[("berlin", "10.2.0.0/16")]));
        assert_eq!(words(&renamed), [(1, "berlin site/net".to_owned())]);
        assert_eq!(words(&names.configure(&config(&[]))), [(1, "site/net site/net".to_owned())]);
    }
}
