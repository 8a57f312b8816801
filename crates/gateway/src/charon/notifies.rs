//! IKE's errors in words, with what to do.

use convoy_config::counted;
use convoy_ike::protocol::ReportKind;

/// Exchanges (RFC 7296 section 3.1).
const IKE_SA_INIT: u8 = 34;
/// Notifies (RFC 7296 section 3.10.1).
const INVALID_SYNTAX: u16 = 7;
const NO_PROPOSAL_CHOSEN: u16 = 14;
const AUTHENTICATION_FAILED: u16 = 24;
const INTERNAL_ADDRESS_FAILURE: u16 = 36;
const FAILED_CP_REQUIRED: u16 = 37;
const TS_UNACCEPTABLE: u16 = 38;

/// Why a certificate was refused, if that is what was reported.
pub(super) fn certificate(kind: &ReportKind) -> Option<String> {
    let (what, subject) = match kind {
        ReportKind::CertificateExpired { subject } => ("has expired", subject),
        ReportKind::CertificateRevoked { subject } => ("is revoked", subject),
        ReportKind::CertificateUntrusted { subject } => ("is not trusted here", subject),
        _ => return None,
    };
    Some(format!("the peer's certificate {what}: {subject}"))
}

/// Whether charon did not accept the peer's identity.
pub(super) fn is_refusal_of_peer(kind: &ReportKind) -> bool {
    matches!(kind, ReportKind::Sent { notify: AUTHENTICATION_FAILED, .. })
}

/// What happened, and where to look.
pub(super) fn words(kind: &ReportKind) -> String {
    match kind {
        ReportKind::Received { exchange, notify } => notify_words(*exchange, *notify, true),
        ReportKind::Sent { exchange, notify } => notify_words(*exchange, *notify, false),
        ReportKind::NoAnswer { again } => format!(
            "the peer has not answered, and the message was sent {}: it does not run IKE at this \
             address, or something between drops UDP to ports 500 and 4500",
            counted(*again, "more time")
        ),
        ReportKind::GaveUp => {
            "the peer did not answer, and charon gave up: it does not run IKE at this address, or \
                               something between drops UDP to ports 500 and 4500"
                .to_owned()
        }
        ReportKind::NoAddress => "the peer's name does not resolve".to_owned(),
        ReportKind::Answered => "the peer has answered".to_owned(),
        ReportKind::CertificateExpired { .. }
        | ReportKind::CertificateRevoked { .. }
        | ReportKind::CertificateUntrusted { .. } => certificate(kind).unwrap_or_default(),
    }
}

fn notify_words(exchange: u8, notify: u16, is_peers: bool) -> String {
    let by = if is_peers { "the peer answered" } else { "charon answered" };
    match notify {
        AUTHENTICATION_FAILED if is_peers => {
            "the peer answered AUTHENTICATION_FAILED: this side's identity, pre-shared key or certificate is not what \
             it expects"
                .to_owned()
        }
        AUTHENTICATION_FAILED => "charon answered AUTHENTICATION_FAILED: the peer's identity, pre-shared key or \
                                  certificate is not what swanctl.conf expects"
            .to_owned(),
        NO_PROPOSAL_CHOSEN if exchange == IKE_SA_INIT => {
            format!("{by} NO_PROPOSAL_CHOSEN: no IKE proposal in common; compare proposals at both ends")
        }
        NO_PROPOSAL_CHOSEN => {
            format!("{by} NO_PROPOSAL_CHOSEN: no ESP proposal in common; compare esp_proposals at both ends")
        }
        TS_UNACCEPTABLE => format!(
            "{by} TS_UNACCEPTABLE: the networks do not fit; each end's local_ts must be the other's remote_ts"
        ),
        INTERNAL_ADDRESS_FAILURE => {
            format!("{by} INTERNAL_ADDRESS_FAILURE: there is no virtual IP; see the pool of the end that assigns it")
        }
        FAILED_CP_REQUIRED => {
            format!("{by} FAILED_CP_REQUIRED: a virtual IP must be asked for; see vips of the client")
        }
        INVALID_SYNTAX => format!("{by} INVALID_SYNTAX: a message was malformed"),
        other => format!("{by} with error {other} (IANA's IKEv2 notify message types); see charon's log"),
    }
}
