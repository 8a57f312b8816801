//! ipsec.conf in the forms of strongSwan and of libreswan.

use std::net::IpAddr;
use std::path::Path;

use super::*;
use crate::Config;
use crate::import::{ImportFormat, Imported, import};
use convoy_settings::Nowhere;

struct Host(&'static str);

impl HostEnvironment for Host {
    fn has_address(&self, address: IpAddr) -> Option<bool> {
        Some(address.to_string() == self.0)
    }
}

fn imported_at(text: &str, machine: &dyn HostEnvironment) -> Imported {
    let source = ImportSource::new(Path::new("ipsec.conf"), text);
    import(&source, Some(ImportFormat::Ipsec), machine).unwrap_or_else(|error| panic!("{error}"))
}

fn imported(text: &str) -> Imported {
    imported_at(text, &Nowhere)
}

fn config(imported: &Imported) -> Config {
    Config::parse("convoy.toml", &imported.convoy)
        .unwrap_or_else(|errors| panic!("{errors}\n{}", *imported.convoy))
}

fn left(imported: &Imported) -> String {
    imported.left.iter().map(|finding| format!("{finding}\n")).collect()
}

fn charon(imported: &Imported) -> &str {
    imported.charon.as_ref().expect("a file of swanctl's")
}

const SITE: &str = "# two sites
config setup
\tuniqueids = no
conn %default
\tkeyexchange=ikev2
\tauthby=secret
conn ends
\tleft=192.0.2.1
\tleftid=@a.example
\tright=192.0.2.2
\trightid=@b.example
conn site
\talso=ends
\tleftsubnet=10.1.0.0/24
\trightsubnet=10.2.0.0/24,10.20.0.0/16
\tike=aes256-sha256-modp2048!
\tesp=aes256gcm16-modp2048!
\tdpdaction=restart
\tdpddelay=10s
\tikelifetime=8h # as before
\tauto=route
";

#[test]
fn pair_of_sites_becomes_a_tunnel_and_a_connection_with_a_place_for_the_key() {
    let imported = imported(SITE);
    let read = config(&imported);
    assert_eq!((read.tunnels.len(), read.tunnels[0].remote_ts.len()), (1, 2));
    for line in [
        "local_addrs = 192.0.2.1",
        "remote_addrs = 192.0.2.2",
        "proposals = \"aes256-sha256-modp2048\"",
        "esp_proposals = aes256gcm16-modp2048",
        "local_ts = 10.1.0.0/24",
        "start_action = trap",
        "dpd_action = restart",
        "dpd_delay = 10s",
        "auth = psk",
        "id = @b.example",
        "# TO DO: set the authentication",
        "  #    id-1 = @a.example",
    ] {
        assert!(charon(&imported).contains(&line.replace('"', "")), "{line}: {}", charon(&imported));
    }
    let left = left(&imported);
    for line in [
        "ipsec.conf:3: uniqueids: it is a setting of the daemon",
        "ipsec.conf:6: authby: the pre-shared key is in ipsec.secrets",
        "ipsec.conf:20: ikelifetime: swanctl has rekey_time",
    ] {
        assert!(left.contains(line), "{line}: {left}");
    }
}

#[test]
fn right_is_this_gateway_where_the_machine_has_its_address() {
    let imported = imported_at(SITE, &Host("192.0.2.2"));
    assert!(charon(&imported).contains("local_addrs = 192.0.2.2\n    remote_addrs = 192.0.2.1\n"));
    assert_eq!(config(&imported).tunnels[0].remote_ts[0].to_string(), "10.1.0.0/24");
}

#[test]
fn libreswan_names_of_algorithms_become_swanctl_s() {
    for (theirs, ours) in [
        ("aes256-sha2;modp2048", "aes256-sha256-modp2048"),
        ("aes_gcm256-null,aes128-sha1", "aes256gcm16, aes128-sha1"),
        ("aes-sha2_512;dh19", "aes128-sha512-ecp256"),
    ] {
        assert_eq!(proposals(theirs), ours);
    }
    let text = "conn net\n left=%defaultroute\n leftsourceip=10.1.0.9\n leftsubnets={10.1.0.0/24 10.5.0.0/24}\n \
        right=gw.example.org\n rightsubnet=10.2.0.0/24\n phase2alg=aes_gcm256-null\n encapsulation=yes\n auto=start\n authby=rsasig\n leftcert=/etc/a.pem\n";
    let imported = imported(text);
    assert!(imported.convoy.contains("address = [\"10.1.0.9/32\", \"10.5.0.1/32\"]"), "{}", *imported.convoy);
    assert_eq!(config(&imported).tunnels[0].local_ts.len(), 2);
    let charon = charon(&imported);
    for line in [
        "remote_addrs = gw.example.org",
        "encap = yes",
        "certs = a.pem",
        "esp_proposals = aes256gcm16",
        "auth = pubkey",
    ] {
        assert!(charon.contains(line), "{line}: {charon}");
    }
    assert!(!charon.contains("TO DO") && !charon.contains("vips"), "{charon}");
}

#[test]
fn clients_get_addresses_of_a_pool_and_a_client_asks_for_one() {
    let server = imported(
        "conn clients\n left=192.0.2.1\n leftsubnet=10.1.0.0/24\n right=%any\n rightsourceip=10.3.0.0/24\n leftcert=a.pem\n auto=add\n",
    );
    assert_eq!(config(&server).tunnels[0].remote_ts[0].to_string(), "10.3.0.0/24");
    assert!(
        charon(&server).contains("pools {\n  clients-pool {\n    addrs = 10.3.0.0/24"),
        "{}",
        charon(&server)
    );
    assert!(!charon(&server).contains("remote_ts") && charon(&server).contains("remote_addrs = %any"));
    let client = imported(
        "conn office\n left=%any\n leftsourceip=%config\n right=192.0.2.1\n rightsubnet=10.1.0.0/24\n leftauth=eap\n eap_identity=bob\n rightauth=pubkey\n auto=start\n",
    );
    let charon = charon(&client);
    assert!(
        charon.contains("vips = 0.0.0.0")
            && charon.contains("eap_id = bob")
            && charon.contains("remote_ts = 10.1.0.0/24"),
        "{charon}"
    );
    config(&client);
}

#[test]
fn peer_that_alone_names_the_networks_behind_it_becomes_a_tunnel_without_them() {
    let server = imported(
        "conn clients\n left=192.0.2.1\n leftsubnet=10.1.0.0/24\n right=%any\n leftcert=a.pem\n auto=add\n",
    );
    let read = config(&server);
    assert_eq!((&*read.tunnels[0].name, read.tunnels[0].remote_ts.len()), ("clients", 0));
    assert!(
        left(&server).contains("ipsec.conf:1: conn clients: the peer alone names the networks"),
        "{}",
        left(&server)
    );
    assert!(!charon(&server).contains("remote_ts"));
}

#[test]
fn what_is_not_taken_is_reported_with_its_line() {
    for (line, expected) in [
        ("ah=sha256-modp2\"048", "ipsec.conf:14: ah: letters, digits and - between algorithms"),
        ("mark=42", "ipsec.conf:14: mark: the gateway has no marks"),
        ("compress=yes", "ipsec.conf:14: compress: the gateway has no IPComp"),
        ("keyexchange=ikev1", "ipsec.conf:14: keyexchange: IKEv1 was never tried"),
        ("leftfirewall=yes", "ipsec.conf:14: leftfirewall: rules for IPsec policies match nothing"),
        ("dpdacton=clear", "ipsec.conf:14: dpdacton: unknown key; did you mean \"dpdaction\"?"),
    ] {
        let imported = imported(&SITE.replace("\talso=ends\n", &format!("\talso=ends\n\t{line}\n")));
        assert!(left(&imported).contains(expected), "{}", left(&imported));
        config(&imported);
    }
}

#[test]
fn inside_address_of_several_connections_is_there_once_and_other_networks_get_one_too() {
    let conn = |name: &str, network: &str, rest: &str| {
        format!(
            "conn {name}\n left=192.0.2.1\n right=192.0.2.2\n leftsubnet={network}\n rightsubnet=10.2.0.0/24\n authby=secret\n auto=add\n{rest}"
        )
    };
    let source = " leftsourceip=10.1.0.9\n";
    let text =
        conn("a", "10.1.0.0/24", source) + &conn("b", "10.1.0.0/16", source) + &conn("c", "10.5.0.0/24", "");
    let read = imported(&text);
    assert!(read.convoy.contains("address = [\"10.1.0.9/32\", \"10.5.0.1/32\"]"), "{}", *read.convoy);
    config(&read);
}

#[test]
fn bad_lines_are_errors_with_what_is_expected() {
    for (text, expected) in [
        (
            SITE.replace("left=192.0.2.1", "left=192.0.2.256"),
            "ipsec.conf:8: left: \"192.0.2.256\": an address, a name or %any",
        ),
        (SITE.replace("also=ends", "also=end"), "ipsec.conf:13: also: there is no conn \"end\""),
        (
            SITE.replace("also=ends", "also=site"),
            "ipsec.conf:13: also: connections name each other in a circle",
        ),
        (SITE.replace("10.1.0.0/24", "10.1.0.0/240"), "ipsec.conf:14: leftsubnet: `10.1.0.0/240`"),
        (SITE.replace("auto=route", ""), "ipsec.conf: conn: there is no connection to take"),
        (" left=192.0.2.1\n".to_owned(), "ipsec.conf:1: a line that begins with a space"),
        ("conn a\n secretwords\n".to_owned(), "ipsec.conf:2: `key=value` is expected"),
        ("conn a\n secretwords==\n".to_owned(), "ipsec.conf:2: `key=value` is expected"),
        ("conn a\n secretwordsthatarelonger=\n".to_owned(), "ipsec.conf:2: `key=value` is expected"),
        ("conn a\n secret+words=\n".to_owned(), "ipsec.conf:2: `key=value` is expected"),
        ("com a\n".to_owned(), "ipsec.conf:1: com: `config setup`"),
        (SITE.replace("authby=secret", "authby=never"), "ipsec.conf:6: authby: \"never\": charon's psk"),
    ] {
        let source = ImportSource::new(Path::new("ipsec.conf"), &text);
        let error = import(&source, Some(ImportFormat::Ipsec), &Nowhere).err().expect(expected);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
