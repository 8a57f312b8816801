//! What to do next.

use std::fmt::Write as _;
use std::net::IpAddr;

use convoy_config::init::{KeySource, Reached, Site, SiteFile, SiteSide, Tree, TwoSites};

/// The files that were written, and how they make a tunnel, in at most 100 columns but for paths.
pub(super) fn text(plan: &TwoSites, trees: &[Tree; 2]) -> String {
    let is_installed = trees[0].root.parent().is_none();
    let mut text = "Wrote (with keys, mode 0600):\n".to_owned();
    for (side, tree) in SiteSide::BOTH.into_iter().zip(trees) {
        for path in tree.paths() {
            let _ = writeln!(text, "  {}: {}", plan.site(side).name, path.display());
        }
    }
    text.push_str("\nNext, as root:\n");
    let mut number = 0;
    let mut step = |what: String, commands: &[String]| {
        number += 1;
        let _ = writeln!(text, "{number}. {what}");
        commands.iter().for_each(|command| text.push_str(&format!("     {command}\n")));
    };
    let here = is_installed.then_some(&plan.sites[0]);
    for (site, tree) in plan.sites.iter().zip(trees).skip(usize::from(is_installed)) {
        let (what, commands) = delivery(site, here, tree);
        step(what, &commands);
    }
    let [local, remote] = &plan.sites;
    step("Start both gateways, at each site:".to_owned(), &[start(plan.keys).to_owned()]);
    step(format!("Try it, at {}:", local.name), &[ping(local, remote)]);
    notes(plan, &mut text);
    let copied = trees.iter().skip(usize::from(is_installed));
    let copied: Vec<String> = copied.map(|tree| tree.root.display().to_string()).collect();
    let _ = writeln!(
        text,
        "Once they are copied, remove these folders, which contain keys: {}",
        copied.join(", ")
    );
    text
}

/// How the files of a site get to it, and a command for each; `here` is the site of this host, if
/// it is one. A site that nothing reaches has to fetch them.
pub(super) fn delivery(site: &Site, here: Option<&Site>, tree: &Tree) -> (String, Vec<String>) {
    let folder = |file: &SiteFile| format!("/{}/", file.path.parent().unwrap_or(&file.path).display());
    if let (Reached::Nowhere, Some(Reached::At { host, .. })) =
        (&site.reached, here.map(|here| &here.reached))
    {
        let (host, root) = (bracketed(host), std::path::absolute(&tree.root));
        let root = root.unwrap_or_else(|_| tree.root.clone());
        let command =
            |file: &SiteFile| format!("scp root@{host}:{} {}", root.join(&file.path).display(), folder(file));
        let what = format!("Fetch the files of {}, at it, since nothing reaches it:", site.name);
        return (what, tree.files.iter().map(command).collect());
    }
    let host = match &site.reached {
        Reached::At { host, .. } => bracketed(host),
        Reached::Nowhere => site.name.clone(),
    };
    let command = |file: &SiteFile| {
        format!("scp {} root@{host}:{}", tree.root.join(&file.path).display(), folder(file))
    };
    (format!("Copy the files of {} to it:", site.name), tree.files.iter().map(command).collect())
}

/// A host as scp reads it, which separates it from the path by a colon.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

pub(super) const fn start(keys: KeySource) -> &'static str {
    match keys {
        KeySource::Static => "systemctl enable --now convoy",
        KeySource::Psk => "systemctl enable convoy strongswan && systemctl restart convoy strongswan",
    }
}

/// From inside to inside, of the first family that both have.
fn ping(local: &Site, remote: &Site) -> String {
    let same = |from: &&IpAddr, to: &&IpAddr| from.is_ipv4() == to.is_ipv4();
    let mut pairs = local.inside.iter().flat_map(|from| remote.inside.iter().map(move |to| (from, to)));
    let pair = pairs.find(|(from, to)| same(from, to));
    pair.map_or_else(String::new, |(from, to)| format!("ping -c 3 -I {from} {to}"))
}

/// What depends on the network around the gateways.
fn notes(plan: &TwoSites, text: &mut String) {
    let ports = match plan.keys {
        KeySource::Static => format!("UDP port {}", plan.udp_port),
        KeySource::Psk => "UDP ports 500 and 4500".to_owned(),
    };
    let _ = writeln!(text, "\nFirewalls between the gateways have to let {ports} pass.");
    for side in SiteSide::BOTH {
        let site = plan.site(side);
        if let (true, Reached::At { host, .. }) = (site.is_behind_nat(), &site.reached) {
            let to = match plan.keys {
                KeySource::Static => format!("UDP port {}", plan.reached_port(side)),
                KeySource::Psk => ports.clone(),
            };
            let _ = writeln!(text, "The NAT at {host} has to forward {to} to {ports} of {}.", site.outside);
        }
    }
    if plan.keys == KeySource::Psk {
        text.push_str(
            "strongSwan needs the package convoy-charon, which also lets charon reach the gateway where AppArmor\n\
             confines it.\n",
        );
    }
    let is_lan =
        |site: &Site| site.networks.iter().any(|network| network.prefix_len() < network.max_prefix_len());
    if plan.sites.iter().any(is_lan) {
        text.push_str("Hosts behind the gateways also need forwarding: see the guide, \"Site to site\".\n");
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use convoy_config::Nowhere;
    use convoy_config::init::{Draft, Field, Secrets, files};

    use super::*;

    fn reported(said: &[(Field, &str)], root: &str) -> String {
        let mut draft = Draft::new(&Nowhere, &|_| Err(std::io::ErrorKind::NotFound.into()));
        let both = [
            (Field::Outside(SiteSide::Remote), "2001:db8::2"),
            (Field::Outside(SiteSide::Local), "2001:db8::1"),
        ];
        let inside = [
            (Field::Networks(SiteSide::Local), "10.1.0.0/24"),
            (Field::Networks(SiteSide::Remote), "10.2.0.1"),
        ];
        for (field, text) in said.iter().chain(&both).chain(&inside) {
            draft.set(*field, text).expect(text);
        }
        let plan = draft.finish().expect("fits").expect("complete");
        let [local, remote] = files(&plan, &Secrets::random(&plan).expect("random"));
        let trees = [(root, local), ("/home/me/site-b", remote)];
        text(&plan, &trees.map(|(root, files)| Tree { root: PathBuf::from(root), files }))
    }

    #[test]
    fn three_steps_lead_to_a_ping() {
        let reported = reported(&[], "/");
        assert!(reported.contains(
            "  site-a: /etc/convoy/convoy.toml\n  site-b: /home/me/site-b/etc/convoy/convoy.toml\n"
        ));
        assert!(reported.contains(
            "1. Copy the files of site-b to it:\n     scp /home/me/site-b/etc/convoy/convoy.toml root@[2001:db8::2]:/etc/convoy/\n"
        ));
        assert!(
            reported.contains("2. Start both gateways, at each site:\n     systemctl enable --now convoy\n"),
            "{reported}"
        );
        assert!(
            reported.contains("3. Try it, at site-a:\n     ping -c 3 -I 10.1.0.1 10.2.0.1\n"),
            "{reported}"
        );
        assert!(
            reported.contains("UDP port 4500")
                && !reported.contains("NAT")
                && reported.contains("Site to site")
        );
    }

    #[test]
    fn site_that_nothing_reaches_fetches_its_files() {
        let nat = [
            (Field::Ike, "psk"),
            (Field::Reached(SiteSide::Remote), "any"),
            (Field::Reached(SiteSide::Local), "2001:db8::7"),
        ];
        let reported = reported(&nat, "/");
        assert!(
            reported.contains(
                "1. Fetch the files of site-b, at it, since nothing reaches it:\n     \
                 scp root@[2001:db8::7]:/home/me/site-b/etc/convoy/convoy.toml /etc/convoy/\n"
            ),
            "{reported}"
        );
    }

    #[test]
    fn a_nat_and_charon_are_reported_what_they_need() {
        let nat = [(Field::Reached(SiteSide::Local), "[2001:db8::7]:4600"), (Field::UdpPort, "5500")];
        let reported_nat = reported(&nat, "/tmp/site-a");
        assert!(reported_nat.contains(
            "The NAT at 2001:db8::7 has to forward UDP port 4600 to UDP port 5500 of 2001:db8::1."
        ));
        assert!(reported_nat.contains("1. Copy the files of site-a to it:"), "{reported_nat}");
        let reported_psk = reported(&[(Field::Ike, "psk")], "/");
        assert!(
            reported_psk.contains("systemctl restart convoy strongswan")
                && reported_psk.contains("convoy-charon")
        );
    }
}
