//! `esp_proposal` of a tunnel.

use convoy_ipsec::{
    AdmittedAlgorithms, Envelope, Mode, Proposal, ProposalError, ProposalList, SaProtocol, in_swanctl_words,
    proposal_words,
};
use convoy_packet::ipv4;
use convoy_settings::{Checker, Text, nearest};

use super::PROPOSAL;

/// The size of outer packets for which proposals are compared, in bytes.
const ROOM_OUTSIDE: usize = 1500;

/// `esp_proposal`: at least one proposal, or `default`. `None` if it is invalid.
pub(super) fn proposals(
    c: &mut Checker<'_>,
    text: &Text,
    protocol: Option<SaProtocol>,
    admitted: AdmittedAlgorithms,
) -> Option<ProposalList> {
    let (span, key) = (text.span(), "tunnel.esp_proposal");
    let list = match text.get_ref().parse::<ProposalList>() {
        Ok(list) => list,
        Err(error) => {
            c.add(&span, key, unknown_proposal(text.get_ref(), &error));
            return None;
        }
    };
    let protocol = protocol?;
    for proposal in &list.proposals {
        if let Some(fault) = admitted.refusal(proposal.transform, protocol) {
            let or = match admitted {
                AdmittedAlgorithms::Approved => "",
                _ => ", or set allow_weak = true in [gateway]",
            };
            c.add(&span, key, format!("{proposal} {fault}; use aes128gcm16{or}"));
        }
        if protocol == SaProtocol::Ah && proposal.transform.cipher_key_len() != 0 {
            c.add(&span, key, "AH uses only an integrity algorithm, such as sha256");
        }
    }
    Some(list)
}

/// The message for an invalid proposal, with a suggestion where a word is like a known one.
pub fn unknown_proposal(text: &str, error: &ProposalError) -> String {
    meant(text, error).map_or_else(|| error.to_string(), |meant| error.suggesting(&meant))
}

/// A suggestion for an invalid proposal.
fn meant(text: &str, error: &ProposalError) -> Option<String> {
    let ProposalError::UnknownWord { word, .. } = error else { return None };
    let words = proposal_words();
    let nearest = || nearest(word, &words.iter().map(String::as_str).collect::<Vec<_>>());
    // A notation whose parts are no words of swanctl's precedes a word that resembles one part.
    let other = if text.contains(',') { None } else { in_swanctl_words(text) };
    other.filter(|other| other != text).or_else(|| nearest().map(str::to_owned))
}

/// The only proposal of a tunnel with static keys, for which nothing is negotiated.
pub(super) fn only_proposal(c: &mut Checker<'_>, text: &Text, list: &ProposalList) -> Option<Proposal> {
    let (span, key) = (text.span(), "tunnel.esp_proposal");
    let Some(first) = list.proposals.first().copied() else { return PROPOSAL.parse().ok() };
    if list.proposals.len() > 1 || list.has_default {
        let what = format!("static keys are for one proposal: {first} is used, and the others are ignored");
        c.warn(&span, key, what);
    }
    if !list.key_exchange.is_empty() {
        let groups = list.key_exchange.join(", ");
        let what = format!(
            "{groups} is for the key exchange of IKE, and is ignored with static keys; write {first}"
        );
        c.warn(&span, key, what);
    }
    Some(first)
}

/// The proposal that leaves the least room for packets, of those that a daemon may choose from;
/// `None` if the daemon's own defaults are among them.
pub(super) fn longest(list: &ProposalList, protocol: SaProtocol) -> Option<Proposal> {
    let room = |proposal: &&Proposal| {
        let envelope = Envelope::new(protocol, Mode::Tunnel, proposal.transform, false, true);
        envelope.inner_mtu(ROOM_OUTSIDE, ipv4::HEADER_BYTES)
    };
    if list.has_default { None } else { list.proposals.iter().min_by_key(room).copied() }
}
