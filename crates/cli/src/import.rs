//! `convoy import`.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use convoy_config::import::{Finding, ImportFormat, ImportSource, Imported, import};
use convoy_config::init::{self, SiteFile, Tree, WriteError};
use convoy_config::{HostEnvironment, Nowhere, ThisMachine};

use crate::Failure;

/// Arguments of `convoy import`.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// swanctl.conf, ipsec.conf, a file of wg-quick, or AWS' text of a site-to-site VPN for a
    /// generic device
    file: PathBuf,
    /// The format of the file [default: detected from its text]
    #[arg(long, value_parser = PossibleValuesParser::new(ImportFormat::words()))]
    format: Option<String>,
    /// The file to write, or a folder for convoy.toml; charon's file, if one is needed, is written
    /// beside it, with the ending .conf
    #[arg(long, value_name = "FILE|FOLDER", default_value = "convoy.toml")]
    output: PathBuf,
}

pub(crate) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let wrong = |finding: Finding| Failure::Config(format!("{finding}; nothing was written"));
    let format = args.format.as_deref().and_then(ImportFormat::of_word);
    let source = ImportSource::read(&args.file).map_err(wrong)?;
    let convoy = convoy_at(&args.output)?;
    let imported = import(&source, format, &ThisMachine).map_err(wrong)?;
    let tree = tree(&convoy, &imported);
    // A file for another host is not held against this one.
    let machine: &dyn HostEnvironment = if imported.is_of_this_host { &ThisMachine } else { &Nowhere };
    let warnings = init::check(&tree, machine).map_err(Failure::Problems)?;
    init::write(std::slice::from_ref(&tree), false).map_err(|error| match error {
        WriteError::Exists(_) => Failure::Failed(format!("{error}; --output writes elsewhere")),
        WriteError::Failed { .. } => Failure::Failed(error.to_string()),
    })?;
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    imported.left.iter().for_each(|finding| println!("{finding}"));
    print!("{}", steps(&tree, &imported));
    Ok(())
}

/// Where convoy.toml is written. Its ending has it checked before that, and keeps it apart from
/// charon's file.
fn convoy_at(output: &Path) -> Result<PathBuf, Failure> {
    let convoy = if output.is_dir() { output.join("convoy.toml") } else { output.to_owned() };
    if convoy.extension().is_some_and(|end| end == "toml") {
        return Ok(convoy);
    }
    let what = "a name that ends in .toml, or a folder that exists, is expected; nothing was written";
    Err(Failure::Config(format!("--output {}: {what}", output.display())))
}

/// The files below the folder in which they are written.
fn tree(convoy: &Path, imported: &Imported) -> Tree {
    let root = convoy.parent().filter(|root| !root.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = PathBuf::from(convoy.file_name().unwrap_or_default());
    let charon = imported.charon.clone().map(|text| SiteFile { path: name.with_extension("conf"), text });
    let files = [SiteFile { path: name, text: imported.convoy.clone() }].into_iter().chain(charon).collect();
    Tree { root: root.to_owned(), files }
}

/// What was written, and what is left to do.
fn steps(tree: &Tree, imported: &Imported) -> String {
    let mut paths = tree.paths().map(|path| path.display().to_string());
    let convoy = paths.next().unwrap_or_default();
    let mut text =
        format!("\nRead as {}. Written, readable only by its owner:\n  {convoy}\n", imported.format.word());
    let mut commands = vec![format!("install -D -m 600 {convoy} /etc/convoy/convoy.toml")];
    if let Some(charon) = paths.next() {
        text.push_str(&format!("  {charon}\n"));
        commands.push(format!("install -m 600 {charon} /etc/swanctl/conf.d/"));
    }
    if imported.charon.as_ref().is_some_and(|charon| charon.contains("TO DO")) {
        text.push_str("The second has no authentication yet: set it where it says TO DO.\n");
    }
    if !imported.is_of_this_host {
        text.push_str(
            "This host does not have the outside addresses: copy the files to the gateway. A gateway behind a NAT has \
             its\nown address in both.\n",
        );
    }
    commands.push("convoy check".to_owned());
    commands.push("systemctl enable convoy strongswan && systemctl restart convoy strongswan".to_owned());
    text.push_str("\nNext, as root, with strongSwan and the package convoy-charon installed:\n");
    commands.iter().for_each(|command| text.push_str(&format!("  {command}\n")));
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const FILE: &str = "[Interface]\nAddress = 10.9.0.1/24\n[Peer]\nAllowedIPs = 10.9.0.2/32\n";

    fn run_in(folder: &Path, output: &str) -> Result<(), Failure> {
        let file = folder.join("wg0.conf");
        std::fs::write(&file, FILE).expect("written");
        run(&ImportArgs { file, format: None, output: folder.join(output) })
    }

    #[test]
    fn both_files_are_for_their_owner_and_never_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        run_in(folder.path(), "gateway.toml").unwrap_or_else(|failure| panic!("{failure}"));
        for name in ["gateway.toml", "gateway.conf"] {
            let mode = folder.path().join(name).metadata().expect(name).permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let failure = run_in(folder.path(), "gateway.toml").expect_err("there already").to_string();
        assert!(
            failure.contains("already exist; nothing was written; --output writes elsewhere"),
            "{failure}"
        );
        run_in(folder.path(), "").unwrap_or_else(|failure| panic!("{failure}"));
        assert!(folder.path().join("convoy.toml").exists() && folder.path().join("convoy.conf").exists());
    }

    #[test]
    fn a_name_that_is_not_of_a_toml_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["gateway", "gateway.conf", "gateway.toml.conf", ".toml"] {
            let failure = run_in(folder.path(), name).expect_err(name).to_string();
            assert!(
                failure.contains("ends in .toml") && failure.contains("nothing was written"),
                "{failure}"
            );
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1, "wg0.conf alone");
    }

    #[test]
    fn steps_name_both_files_and_the_missing_authentication() {
        let source = ImportSource::new(Path::new("wg0.conf"), FILE);
        let imported = import(&source, None, &Nowhere).unwrap_or_else(|error| panic!("{error}"));
        let text = steps(&tree(Path::new("out/convoy.toml"), &imported), &imported);
        assert!(text.contains("install -D -m 600 out/convoy.toml /etc/convoy/convoy.toml\n"), "{text}");
        assert!(
            text.contains("install -m 600 out/convoy.conf /etc/swanctl/conf.d/\n") && text.contains("TO DO"),
            "{text}"
        );
    }
}
