//! A gateway's IPsec with an inbound and an outbound SA of each kind, for the packet targets.

use std::net::IpAddr;

use convoy_ipsec::{
    Action, Ipsec, IpsecConfig, KeyMaterial, Policy, PolicyDirection, Proposal, SaConfig, SaDirection,
    SaProtocol, Selector, TunnelId, UdpEncap,
};

pub(crate) fn gateway() -> Ipsec {
    // Small, because every input gets a new one.
    let mut ipsec = Ipsec::new(IpsecConfig { flow_cache: 16, ..IpsecConfig::default() });
    let words = ["aes128gcm16", "aes128-sha256", "null-sha1", "aes128ctr-sha256-esn"];
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    for (at, words) in words.into_iter().enumerate() {
        let proposal: Proposal = words.parse().expect("known words");
        let keys = vec![7; proposal.transform.key_material_len()];
        let keys = KeyMaterial::new(proposal.transform, keys).expect("its own length");
        for (direction, spi) in [(SaDirection::Inbound, 256), (SaDirection::Outbound, 512)] {
            let (local, remote) = (address("192.0.2.1"), address("192.0.2.2"));
            let base = SaConfig::new(spi + at as u32, direction, local, remote, keys.clone());
            let sa = SaConfig {
                protocol: if at == 2 { SaProtocol::Ah } else { SaProtocol::Esp },
                encap: (at == 0).then_some(UdpEncap { local_port: 4500, remote_port: 4500 }),
                esn: proposal.esn,
                tunnel: TunnelId(at as u32),
                ..base
            };
            ipsec.install(sa).expect("a good SA");
        }
    }
    ipsec.set_policies(vec![Policy {
        name: "all".to_owned(),
        priority: 1,
        direction: PolicyDirection::Both,
        interface: 0,
        selector: Selector {
            local: "0.0.0.0/0".parse().expect("a selector"),
            remote: "0.0.0.0/0".parse().expect("a selector"),
        },
        action: Action::Protect(TunnelId(0)),
    }]);
    ipsec
}
