//! The part of a configuration that all gateways of a cluster share: tunnels and bypasses, which
//! are in the cluster's store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use convoy_cluster::SharedText;
use zeroize::Zeroizing;

use super::{Basis, Config, ConfigErrors, Problem};

/// Tables that a shared part may have.
const TABLES: [&str; 2] = ["tunnel", "bypass"];

/// The latest version that a gateway has got; clones share it.
#[derive(Clone, Debug, Default)]
pub struct SharedConfig(Arc<Mutex<Option<SharedText>>>);

impl SharedConfig {
    fn lock(&self) -> MutexGuard<'_, Option<SharedText>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is another version.
    pub fn set(&self, text: SharedText) {
        *self.lock() = Some(text);
    }

    /// The latest one, if there is one.
    pub fn get(&self) -> Option<SharedText> {
        self.lock().clone()
    }
}

/// A gateway's own configuration file: its name in reports, and its text.
#[derive(Clone, Copy)]
pub struct OwnFile<'a> {
    /// The name.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
}

impl Config {
    /// Checks the text of a gateway's own file together with the part that its cluster
    /// shares.
    ///
    /// # Errors
    /// [`ConfigErrors`], each with its place in the file or in the shared part.
    pub fn parse_with(
        own: OwnFile<'_>,
        shared: &SharedText,
        basis: &Basis<'_>,
    ) -> Result<Self, ConfigErrors> {
        let OwnFile { name, text: own } = own;
        let shared_name = format!("version {} of the cluster's configuration", shared.version);
        has_tunnels_alone(&shared_name, &shared.text)?;
        let mut text = Zeroizing::new(String::with_capacity(own.len() + shared.text.len() + 2));
        text.push_str(own);
        text.push('\n');
        let (at, lines) = (text.len(), text.lines().count());
        text.push_str(&shared.text);
        let placed = |mut problem: Problem| {
            if let Some(position) = problem.position.as_mut().filter(|position| position.line > lines) {
                position.line -= lines;
                problem.file.clone_from(&shared_name);
                problem.excerpt = renumbered(&problem.excerpt, lines);
            }
            problem
        };
        let all = |problems: Vec<Problem>| problems.into_iter().map(placed).collect();
        match Self::parse_parts(name, &text, Some(at), basis) {
            Ok(config) => Ok(Self { warnings: all(config.warnings), ..config }),
            Err(ConfigErrors(problems)) => Err(ConfigErrors(all(problems))),
        }
    }
}

/// An excerpt whose lines are numbered from behind the first `lines`.
fn renumbered(excerpt: &str, lines: usize) -> String {
    let line = |line: &str| match line.split_once(" |") {
        Some((number, rest)) => match number.trim().parse::<usize>() {
            Ok(whole) if whole > lines => format!("{:>1$} |{rest}", whole - lines, number.len()),
            _ => line.to_owned(),
        },
        None => line.to_owned(),
    };
    excerpt.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Keys at the top would belong to the last table of a gateway's own file.
fn has_tunnels_alone(name: &str, text: &str) -> Result<(), ConfigErrors> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count());
        ConfigErrors::whole_file(name, &format!("line {}: {}", line.max(1), error.message()))
    })?;
    match table.keys().find(|key| !TABLES.contains(&key.as_str())) {
        Some(other) => {
            let what = format!("it has {other}; a cluster shares [[tunnel]] and [[bypass]] alone");
            Err(ConfigErrors::whole_file(name, &what))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "[cluster]\nname = \"w\"\nendpoints = [\"http://127.0.0.1:2379\"]\nsecret = \"/d\"\n\
        tunnels = \"store\"\n";
    const TUNNEL: &str = "[[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
        local_ts = [\"10.1.0.0/24\"]\nremote_ts = [\"10.2.0.0/24\"]\nesp_proposal = \"aes128gcm16\"\n\
        [tunnel.manual]\nspi_in = 0x1001\nspi_out = 0x1002\n\
        key_in = \"00112233445566778899aabbccddeeff00112233\"\n\
        key_out = \"ffeeddccbbaa99887766554433221100ffeeddcc\"\n";

    fn with(own: &str, text: &str) -> Result<Config, ConfigErrors> {
        let shared =
            SharedText { version: 7, time_s: 0, by: String::new(), text: Zeroizing::new(text.to_owned()) };
        Config::parse_with(OwnFile { name: "a.toml", text: own }, &shared, &Basis::of(&crate::PRODUCT))
    }

    #[test]
    fn tunnels_come_from_the_store_and_nothing_else_does() {
        let config = with(OWN, TUNNEL).expect("good");
        assert_eq!((config.tunnels.len(), config.file.as_str()), (1, "a.toml"));
        let text = with(OWN, &format!("mtu = 9000\n{TUNNEL}")).expect_err("a key").to_string();
        assert!(text.contains("version 7") && text.contains("it has mtu"), "{text}");
        let text = with(OWN, "[[tunnel]\n").expect_err("no TOML").to_string();
        assert!(
            text.contains("version 7 of the cluster's configuration") && text.contains("line 1"),
            "{text}"
        );
        let text = Config::parse("a.toml", &format!("{OWN}{TUNNEL}")).expect_err("two places").to_string();
        assert!(text.contains("a.toml:6:") && text.contains("convoy cluster put"), "{text}");
    }

    #[test]
    fn a_problem_is_named_by_its_line_in_the_part_that_has_it() {
        let text = with(OWN, &TUNNEL.replace("10.2.0.0/24", "10.2.0.0/99")).expect_err("bad").to_string();
        assert!(text.contains("version 7 of the cluster's configuration:6:"), "{text}");
        assert!(text.contains(" 6 | remote_ts"), "{text}");
        let own = OWN.replace("secret = \"/d\"", "secret = \"d\"");
        let text = with(&own, TUNNEL).expect_err("bad").to_string();
        assert!(text.contains("a.toml:4:"), "{text}");
    }
}
