//! The configurations of other gateways, as convoy's: what `convoy import` writes.
//!
//! Each [`ImportFormat`] has a reader, which makes of a [`ImportSource`] a gateway and, where
//! charon does not keep its own file, connections of charon's. What cannot be taken is a
//! [`Finding`] with its line. No key is invented: convoy.toml has none, and charon's file has those
//! alone that were imported.

mod aws;
mod braces;
mod charon_file;
mod convoy_file;
mod findings;
mod format;
mod gateway;
mod ipsec_conf;
mod mtu;
mod source;
mod swanctl;
mod wireguard;

pub use findings::Finding;
pub use format::ImportFormat;
pub use source::ImportSource;

use std::net::IpAddr;

use convoy_settings::HostEnvironment;
use zeroize::Zeroizing;

/// What a file became.
pub struct Imported {
    /// What it was read as.
    pub format: ImportFormat,
    /// The text of convoy.toml.
    pub convoy: Zeroizing<String>,
    /// The text of a file of swanctl's, if charon needs one.
    pub charon: Option<Zeroizing<String>>,
    /// What was not taken, in the order of its lines.
    pub left: Vec<Finding>,
    /// Whether this host is the gateway, as far as it is known: it has the outside addresses.
    pub is_of_this_host: bool,
}

/// Reads a file of a format, or of the one that its text has, for a gateway on a machine.
///
/// # Errors
/// What is wrong with the file, with its line and what to do.
pub fn import(
    source: &ImportSource,
    format: Option<ImportFormat>,
    machine: &dyn HostEnvironment,
) -> Result<Imported, Finding> {
    let recognised = || ImportFormat::of(&source.text).or_else(|| ImportFormat::of_name(&source.name));
    let format = format.or_else(recognised).ok_or_else(|| {
        let what =
            format!("its format is not recognised; say it by --format: {}", ImportFormat::words().join(", "));
        source.place(0).finding("", what)
    })?;
    let mut left = Vec::new();
    let mut gateway = match format {
        ImportFormat::Swanctl => swanctl::read(source, &mut left)?,
        ImportFormat::Ipsec => ipsec_conf::read(source, machine, &mut left)?,
        ImportFormat::WireGuard => wireguard::read(source, &mut left)?,
        ImportFormat::Aws => aws::read(source, &mut left)?,
    };
    let chosen = gateway.choose_inside(machine);
    inside_is_of_this_host(source, &chosen, machine, &mut left);
    mtu::fit(&mut gateway, &mut left);
    left.sort_by_key(|finding| finding.order(&source.name));
    let has = |address: &IpAddr| machine.has_address(*address) == Some(true);
    Ok(Imported {
        format,
        convoy: convoy_file::text(&gateway, &source.name),
        charon: charon_file::text(&gateway, &source.name),
        left,
        is_of_this_host: gateway.outside.iter().all(has),
    })
}

/// Reports an inside address that is only assumed.
fn inside_is_of_this_host(
    source: &ImportSource,
    chosen: &[IpAddr],
    machine: &dyn HostEnvironment,
    left: &mut Vec<Finding>,
) {
    let assumed = chosen.iter().filter(|address| machine.has_address(**address) != Some(true));
    for address in assumed {
        let what = format!(
            "no interface of this machine has an address in that network, so convoy0 gets {address}; write the \
             gateway's own in [[port]] \"inside\" if it is another"
        );
        left.push(source.place(0).finding("local_ts", what));
    }
}

#[cfg(test)]
mod tests;
