//! Names of key exchanges.

use convoy_ike::protocol::IkePeer;
use convoy_report::snapshot::IkePeerRow;

/// IKEv2's key exchange methods (IANA, transform type 4) in swanctl's words.
const NAMES: [(u16, &str); 18] = [
    (2, "modp1024"),
    (5, "modp1536"),
    (14, "modp2048"),
    (15, "modp3072"),
    (16, "modp4096"),
    (17, "modp6144"),
    (18, "modp8192"),
    (19, "ecp256"),
    (20, "ecp384"),
    (21, "ecp521"),
    (28, "ecp256bp"),
    (29, "ecp384bp"),
    (30, "ecp512bp"),
    (31, "x25519"),
    (32, "x448"),
    (35, "mlkem512"),
    (36, "mlkem768"),
    (37, "mlkem1024"),
];

/// A peer in words.
pub(super) fn row(peer: &IkePeer) -> IkePeerRow {
    let name = |number: &u16| {
        let known = NAMES.iter().find(|(known, _)| known == number);
        known.map_or_else(|| format!("method {number}"), |(_, name)| (*name).to_owned())
    };
    let names: Vec<String> = peer.key_exchanges.iter().filter(|number| **number != 0).map(name).collect();
    IkePeerRow {
        identity: peer.identity.clone(),
        virtual_ips: peer.virtual_ips.clone(),
        key_exchange: names.join("+"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_exchanges_are_named_in_their_order() {
        let of = |numbers: &[u16]| {
            let mut peer = IkePeer::default();
            peer.key_exchanges[..numbers.len()].copy_from_slice(numbers);
            row(&peer).key_exchange
        };
        assert_eq!(of(&[]), "");
        assert_eq!(of(&[31, 36]), "x25519+mlkem768");
        assert_eq!(of(&[1000]), "method 1000");
    }
}
