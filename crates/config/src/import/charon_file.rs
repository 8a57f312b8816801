//! charon's file: connections for swanctl.

use zeroize::Zeroizing;

use super::gateway::{ImportedConnection, ImportedGateway, ImportedSecret, SwanctlKeys};
use crate::lines::Lines;

/// The text of a file of swanctl's; none if charon keeps its own.
pub(super) fn text(gateway: &ImportedGateway, origin: &str) -> Option<Zeroizing<String>> {
    if gateway.connections.is_empty() {
        return None;
    }
    let mut text = Lines::new();
    text.add(&format!("# By convoy import, from {}.", origin.replace(char::is_control, " ")));
    text.add("connections {");
    gateway.connections.iter().for_each(|one| connection(one, &mut text));
    text.add("}");
    if !gateway.pools.is_empty() {
        text.add("pools {");
        for (name, addresses) in &gateway.pools {
            text.add(&format!("  {name} {{\n    addrs = {}\n  }}", quoted(addresses)));
        }
        text.add("}");
    }
    text.add("secrets {");
    gateway.connections.iter().for_each(|one| secret(one, &mut text));
    text.add("}");
    Some(text.0)
}

fn connection(connection: &ImportedConnection, text: &mut Lines) {
    let ImportedConnection { name, keys, local, remote, child: (child, child_keys), .. } = connection;
    text.add(&format!("  {name} {{"));
    section(keys, 4, text);
    for (end, keys) in [("local", local), ("remote", remote)] {
        text.add(&format!("    {end} {{"));
        section(keys, 6, text);
        text.add("    }");
    }
    text.add(&format!("    children {{\n      {child} {{"));
    section(child_keys, 8, text);
    text.add("      }\n    }\n  }");
}

fn section(keys: &SwanctlKeys, indent: usize, text: &mut Lines) {
    for (key, value) in keys {
        text.add(&format!("{:indent$}{key} = {}", "", quoted(value)));
    }
}

fn secret(connection: &ImportedConnection, text: &mut Lines) {
    let name = &connection.name;
    let ids = |ids: &[String], mark: &str| -> String {
        ids.iter().enumerate().map(|(at, id)| format!("{mark}    id-{} = {}\n", at + 1, quoted(id))).collect()
    };
    match &connection.secret {
        ImportedSecret::Elsewhere => {}
        ImportedSecret::Known(of, key) => {
            let key = Zeroizing::new(quoted(key));
            let ids = ids(of, "");
            text.add(&Zeroizing::new(format!("  ike-{name} {{\n{ids}    secret = {}\n  }}", *key)));
        }
        ImportedSecret::Missing(of) => {
            let ids = ids(of, "  #");
            text.add("  # TO DO: set the authentication. Without a secret, charon refuses the connection.");
            text.add("  # `openssl rand -base64 32` makes one; both ends need the same. Then remove the #.");
            text.add(&format!("  # ike-{name} {{\n{ids}  #    secret = \"\"\n  # }}"));
        }
    }
}

/// A value in quotes, unless it consists of characters that mean nothing else.
fn quoted(value: &str) -> String {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "._-@%:/,*+|[] ".contains(one);
    if !value.is_empty() && value.trim() == value && value.chars().all(is_plain) {
        return value.to_owned();
    }
    let escaped = |text: &mut String, one: char| match one {
        '"' | '\\' => text.extend(['\\', one]),
        control if control.is_control() => text.push(' '),
        other => text.push(other),
    };
    let mut text = String::with_capacity(2 * value.len() + 2);
    text.push('"');
    value.chars().for_each(|one| escaped(&mut text, one));
    text.push('"');
    text
}
