//! The words of ipsec.conf in those of swanctl.conf.

/// Keys without a counterpart that matters, and why.
const DAEMON: &str = "charon's default holds; set it in the connection of swanctl if you need another";
const LIFETIME: &str = "swanctl has rekey_time, of 1 h for a child and 4 h for IKE by default; set it there if you need \
                        another: ends need not agree";
const MARKS: &str = "the gateway has no marks; use if_id_in and if_id_out of a child with an [[interface]]";
const SCRIPTS: &str =
    "rules for IPsec policies match nothing, as the kernel sees no IPsec; filter by the interface convoy0";
const AUTHENTICATION: &str =
    "swanctl has it in another form; write it in `local` or `remote` of the connection";

const ROUTES: &str = "outer packets follow the host's routes";
const ANY: &str = "append %any to remote_addrs of the connection if the peer's address changes";

/// What is not taken, and why.
pub(super) const NOT_TAKEN: [(&str, &str); 59] = [
    ("lifetime", LIFETIME),
    ("keylife", LIFETIME),
    ("salifetime", LIFETIME),
    ("ikelifetime", LIFETIME),
    ("lifebytes", LIFETIME),
    ("lifepackets", LIFETIME),
    ("margintime", LIFETIME),
    ("rekeymargin", LIFETIME),
    ("marginbytes", LIFETIME),
    ("marginpackets", LIFETIME),
    ("rekeyfuzz", LIFETIME),
    ("rekey", DAEMON),
    ("reauth", DAEMON),
    ("keyingtries", DAEMON),
    ("inactivity", DAEMON),
    ("dpdtimeout", "IKEv2 has the times of retransmissions instead, in strongswan.conf"),
    ("retransmit-timeout", DAEMON),
    ("mark", MARKS),
    ("mark_in", MARKS),
    ("mark_out", MARKS),
    ("mark-in", MARKS),
    ("mark-out", MARKS),
    ("vti-interface", MARKS),
    ("vti-routing", MARKS),
    ("ipsec-interface", MARKS),
    ("reqid", DAEMON),
    (
        "installpolicy",
        "the gateway sends by policies alone; use if_id_in and if_id_out with an [[interface]]",
    ),
    ("priority", DAEMON),
    ("nic-offload", "engines are in convoy.toml, and chosen if none are"),
    ("leftfirewall", SCRIPTS),
    ("rightfirewall", SCRIPTS),
    ("lefthostaccess", SCRIPTS),
    ("righthostaccess", SCRIPTS),
    ("leftupdown", SCRIPTS),
    ("rightupdown", SCRIPTS),
    ("leftauth2", AUTHENTICATION),
    ("rightauth2", AUTHENTICATION),
    ("leftca", AUTHENTICATION),
    ("rightca", AUTHENTICATION),
    ("leftrsasigkey", AUTHENTICATION),
    ("rightrsasigkey", AUTHENTICATION),
    ("leftsigkey", AUTHENTICATION),
    ("rightsigkey", AUTHENTICATION),
    ("leftgroups", AUTHENTICATION),
    ("rightgroups", AUTHENTICATION),
    ("xauth", AUTHENTICATION),
    ("modeconfig", AUTHENTICATION),
    ("leftnexthop", ROUTES),
    ("rightnexthop", ROUTES),
    ("leftallowany", ANY),
    ("rightallowany", ANY),
    ("pfs", "the group is part of esp_proposals; write one there, such as aes256gcm16-x25519"),
    ("esn", "it is part of esp_proposals; append -esn-noesn there to ask for it"),
    ("ikepad", DAEMON),
    ("sha2-truncbug", "write sha256_96 in place of sha256 in esp_proposals if the peer has that fault"),
    ("aggressive", "it is of IKEv1, and the connection has version = 2"),
    ("aggrmode", "it is of IKEv1, and the connection has version = 2"),
    ("leftdns", "charon gives out no name servers by it; use `dns` of a pool"),
    ("rightdns", "charon gives out no name servers by it; use `dns` of a pool"),
];

/// Keys that are taken.
pub(super) const TAKEN: [&str; 19] = [
    "auto",
    "type",
    "authby",
    "keyexchange",
    "ikev2",
    "ike",
    "esp",
    "phase2alg",
    "phase2",
    "ah",
    "dpdaction",
    "dpddelay",
    "closeaction",
    "mobike",
    "fragmentation",
    "forceencaps",
    "encapsulation",
    "compress",
    "eap_identity",
];

/// Keys that are taken of each end, behind `left` or `right`.
pub(super) const TAKEN_OF_ENDS: [&str; 9] =
    ["", "subnet", "subnets", "id", "auth", "cert", "sourceip", "protoport", "sendcert"];

/// Numbers that are taken as they are, with their names in a child of swanctl.conf.
pub(super) const NUMBERS: [(&str, &str); 3] =
    [("replay_window", "replay_window"), ("replay-window", "replay_window"), ("tfc", "tfc_padding")];

/// DH groups by the numbers that libreswan has them by.
const GROUPS: [(&str, &str); 11] = [
    ("dh2", "modp1024"),
    ("dh5", "modp1536"),
    ("dh14", "modp2048"),
    ("dh15", "modp3072"),
    ("dh16", "modp4096"),
    ("dh17", "modp6144"),
    ("dh18", "modp8192"),
    ("dh19", "ecp256"),
    ("dh20", "ecp384"),
    ("dh21", "ecp521"),
    ("dh31", "x25519"),
];

/// Other names of libreswan's.
const NAMES: [(&str, &str); 13] = [
    ("sha2_256", "sha256"),
    ("sha2_384", "sha384"),
    ("sha2_512", "sha512"),
    ("sha2", "sha256"),
    ("aes_gcm128", "aes128gcm16"),
    ("aes_gcm256", "aes256gcm16"),
    ("aes_gcm_c_128", "aes128gcm16"),
    ("aes_gcm_c_256", "aes256gcm16"),
    ("aes_gcm", "aes128gcm16"),
    ("aes_ctr128", "aes128ctr"),
    ("aes_ctr256", "aes256ctr"),
    ("chacha20_poly1305", "chacha20poly1305"),
    ("aes", "aes128"),
];

/// Proposals of strongSwan's or libreswan's ipsec.conf in swanctl's words.
pub(super) fn proposals(text: &str) -> String {
    let word = |word: &str| {
        let known = GROUPS.iter().chain(&NAMES).find(|(name, _)| *name == word);
        known.map_or(word, |(_, ours)| ours).to_owned()
    };
    let one = |one: &str| {
        let lower = one.trim().to_lowercase();
        let words = lower.split(['-', ';']).filter(|one| !one.is_empty() && *one != "null");
        words.map(word).collect::<Vec<_>>().join("-")
    };
    text.trim_end_matches('!').split(',').map(one).collect::<Vec<_>>().join(", ")
}

/// A value of a key in swanctl's word; none if there is no such word.
pub(super) fn translated(words: &[(&str, &'static str)], value: &str) -> Option<&'static str> {
    words.iter().find(|(word, _)| *word == value).map(|(_, ours)| *ours)
}

/// `auto` as `start_action`.
pub(super) const START: [(&str, &str); 7] = [
    ("add", "none"),
    ("route", "trap"),
    ("ondemand", "trap"),
    ("start", "start"),
    ("up", "start"),
    ("keep", "none"),
    ("ignore", "none"),
];

/// `dpdaction` and `closeaction`.
pub(super) const ACTION: [(&str, &str); 5] = [
    ("none", "none"),
    ("clear", "clear"),
    ("hold", "trap"),
    ("restart", "restart"),
    ("restart_by_peer", "restart"),
];

/// `type` as `mode`.
pub(super) const MODE: [(&str, &str); 4] =
    [("tunnel", "tunnel"), ("transport", "transport"), ("passthrough", "pass"), ("pass", "pass")];
