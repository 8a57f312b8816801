//! Checks files before they are written, and writes them all or none.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use convoy_settings::HostEnvironment;
use tempfile::NamedTempFile;

use super::SiteFile;
use crate::PRODUCT;
use crate::{Basis, Config, ConfigErrors, Problem};

/// The files of a site, and the folder that is the root of its file system.
pub struct Tree {
    /// `/` for this host.
    pub root: PathBuf,
    /// The files.
    pub files: Vec<SiteFile>,
}

impl Tree {
    /// The place of each file.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|file| self.root.join(&file.path))
    }
}

/// Why nothing was written, or not all.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Files are there already.
    #[error("{}; nothing was written", exist(.0))]
    Exists(Vec<PathBuf>),
    /// A file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

fn exist(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    format!("{} already {}", names.join(", "), if names.len() == 1 { "exists" } else { "exist" })
}

/// Reads the gateway's configuration of a site as the gateway will, in this environment, and
/// returns its warnings.
///
/// # Errors
/// [`ConfigErrors`].
pub fn check(tree: &Tree, environment: &dyn HostEnvironment) -> Result<Vec<Problem>, ConfigErrors> {
    let configurations =
        tree.files.iter().filter(|file| file.path.extension().is_some_and(|end| end == "toml"));
    let mut warnings = Vec::new();
    for file in configurations {
        let name = tree.root.join(&file.path).display().to_string();
        warnings.extend(
            Config::parse_at(&name, &file.text, &Basis { kinds: &PRODUCT, machine: environment })?.warnings,
        );
    }
    Ok(warnings)
}

/// Writes all files with mode 0600. Files that are there are replaced only if that is forced;
/// otherwise nothing is written.
///
/// # Errors
/// [`WriteError`].
pub fn write(trees: &[Tree], is_forced: bool) -> Result<(), WriteError> {
    let paths = || trees.iter().flat_map(Tree::paths);
    let there: Vec<PathBuf> = paths().filter(|path| !is_forced && path.symlink_metadata().is_ok()).collect();
    if !there.is_empty() {
        return Err(WriteError::Exists(there));
    }
    // What can fail for want of rights or room does so before the first file is in its place.
    let mut ready = Vec::new();
    for tree in trees {
        for file in &tree.files {
            let path = tree.root.join(&file.path);
            let aside = beside(&tree.root, &path, file.text.as_bytes());
            ready.push((aside.map_err(|error| WriteError::Failed { path: path.clone(), error })?, path));
        }
    }
    for (aside, path) in ready {
        let kept = if is_forced { aside.persist(&path) } else { aside.persist_noclobber(&path) };
        kept.map_err(|error| WriteError::Failed { path, error: error.error })?;
    }
    Ok(())
}

/// A complete file with mode 0600 beside its place. Folders are made; one that is to be the root is
/// for its owner alone.
fn beside(root: &Path, path: &Path, text: &[u8]) -> io::Result<NamedTempFile> {
    DirBuilder::new().recursive(true).mode(0o700).create(root)?;
    let folder = path.parent().unwrap_or(root);
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use zeroize::Zeroizing;

    use super::*;

    fn tree(root: PathBuf, text: &str) -> Tree {
        let file = |path| SiteFile { path: PathBuf::from(path), text: Zeroizing::new(text.to_owned()) };
        Tree { root, files: vec![file("etc/convoy/convoy.toml"), file("etc/swanctl/conf.d/convoy.conf")] }
    }

    #[test]
    fn files_are_for_their_owner_and_replaced_only_by_force() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("site-b");
        let toml = root.join("etc/convoy/convoy.toml");
        let swanctl = root.join("etc/swanctl/conf.d/convoy.conf");
        write(&[tree(root.clone(), "one")], false).expect("written");
        let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&toml), mode(&swanctl), mode(&root)), (0o600, 0o600, 0o700));
        std::fs::remove_file(&toml).expect("removed");
        let reported = write(&[tree(root.clone(), "two")], false).expect_err("one is there").to_string();
        assert!(reported.starts_with(&format!("{} already exists", swanctl.display())), "{reported}");
        assert!(!toml.exists(), "nothing is written then");
        std::fs::set_permissions(&swanctl, PermissionsExt::from_mode(0o644)).expect("ours");
        write(&[tree(root.clone(), "three")], true).expect("by force");
        assert_eq!(std::fs::read_to_string(&swanctl).expect("readable"), "three");
        assert_eq!(mode(&swanctl), 0o600);
        assert_eq!(std::fs::read_dir(toml.parent().expect("a folder")).expect("readable").count(), 1);
    }

    #[test]
    fn nothing_is_in_its_place_if_one_file_cannot_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("file"), "").expect("writable");
        let good = tree(folder.path().join("good"), "text");
        let bad = tree(folder.path().join("file"), "text");
        let first = good.paths().next().expect("a path");
        let reported = write(&[good, bad], false).expect_err("no folder").to_string();
        assert!(
            reported.contains("cannot write") && reported.contains("file/etc/convoy/convoy.toml"),
            "{reported}"
        );
        assert!(!first.exists());
    }

    #[test]
    fn a_file_that_the_gateway_refuses_is_refused() {
        let reported = check(&tree(PathBuf::from("/"), "nonsense = true"), &convoy_settings::Nowhere);
        assert!(reported.expect_err("no such key").to_string().contains("/etc/convoy/convoy.toml"));
    }
}
