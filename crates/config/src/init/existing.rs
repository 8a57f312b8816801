//! The configuration of a gateway that gets a tunnel more.

use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use convoy_settings::HostEnvironment;
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use super::write::WriteError;
use super::{Draft, Field, KeySource, Secrets, SiteSide, TwoSites, tunnel};
use crate::{Basis, Config, ConfigErrors, PRODUCT, Problem};

/// A configuration that is there.
pub struct Existing {
    path: PathBuf,
    text: Zeroizing<String>,
    config: Config,
}

impl Existing {
    /// Reads it, and checks it as a gateway does.
    ///
    /// # Errors
    /// [`ConfigErrors`].
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let (text, config) = Config::load_with_text(path, &PRODUCT)?;
        Ok(Self { path: path.to_owned(), text, config })
    }

    /// Why this tunnel cannot be added, if it cannot.
    pub fn refusal(&self, name: &str) -> Option<String> {
        let file = self.path.display();
        if self.config.has_tunnels_in_store() {
            return Some(format!("the tunnels of {file} are in the cluster's store; use convoy cluster put"));
        }
        let is_there = self.config.tunnels.iter().any(|tunnel| tunnel.name == name);
        is_there.then(|| format!("{file} has a tunnel {name:?} already; choose another name"))
    }

    /// Why a plan does not fit it, if it does not.
    pub fn misfit(&self, plan: &TwoSites) -> Option<String> {
        let lacks_charon = plan.keys == KeySource::Psk && self.config.charon.is_none();
        lacks_charon.then(|| {
            format!(
                "--ike psk: {} has no charon; write charon = \"/run/convoy/charon.sock\" in [gateway], and restart",
                self.path.display()
            )
        })
    }

    /// What it says of a field, after those before it were set.
    pub fn value_of(&self, field: Field, draft: &Draft<'_>) -> Option<String> {
        match field {
            Field::Ike => Some(if self.config.charon.is_some() { "psk" } else { "no" }.to_owned()),
            Field::Outside(SiteSide::Local) => self.outside_to(draft.outside(SiteSide::Remote)?),
            Field::UdpPort if draft.is_asked_for(field) => Some(self.config.natt_port().to_string()),
            _ => None,
        }
    }

    /// The address from which the gateway reaches a peer, unless it may be any of the host's.
    fn outside_to(&self, peer: IpAddr) -> Option<String> {
        let ports = self.config.ports.iter().filter(|port| port.is_outside);
        let mut addresses = ports.flat_map(|port| &port.addresses).map(|(address, _)| *address);
        let found =
            addresses.find(|address| address.is_ipv4() == peer.is_ipv4() && !address.is_unspecified());
        found.map(|address| address.to_string())
    }

    /// The configuration with the tunnel of a plan behind all that is there, as it is.
    pub fn with(&self, plan: &TwoSites, secrets: &Secrets) -> Extended {
        let table = tunnel(plan, SiteSide::Local, secrets);
        let mut text = Zeroizing::new(String::with_capacity(self.text.len() + table.len() + 1));
        text.push_str(&self.text);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&table);
        Extended { path: self.path.clone(), before: self.text.clone(), text }
    }
}

/// A configuration with a tunnel more, which is not written yet.
pub struct Extended {
    path: PathBuf,
    /// What the file was when it was read.
    before: Zeroizing<String>,
    text: Zeroizing<String>,
}

impl Extended {
    /// Reads it as the gateway will, and returns its warnings.
    ///
    /// # Errors
    /// [`ConfigErrors`].
    pub fn check(&self, machine: &dyn HostEnvironment) -> Result<Vec<Problem>, ConfigErrors> {
        let name = self.path.display().to_string();
        Ok(Config::parse_at(&name, &self.text, &Basis { kinds: &PRODUCT, machine })?.warnings)
    }

    /// Writes it beside the file, with the file's owner, for the owner alone.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn prepare(self) -> Result<Prepared, WriteError> {
        let failed = |error| WriteError::Failed { path: self.path.clone(), error };
        // The file itself, should the path be a link to it.
        let path = self.path.canonicalize().map_err(failed)?;
        let aside = self.aside(&path).map_err(failed)?;
        Ok(Prepared { path, before: self.before, aside })
    }

    fn aside(&self, path: &Path) -> io::Result<NamedTempFile> {
        let found = path.metadata()?;
        let mut file = NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
        file.write_all(self.text.as_bytes())?;
        fchown(file.as_file(), Some(found.uid()), Some(found.gid()))?;
        file.as_file().set_permissions(PermissionsExt::from_mode(found.mode() & 0o700))?;
        file.as_file().sync_all()?;
        Ok(file)
    }
}

/// A configuration with a tunnel more, complete beside the file.
pub struct Prepared {
    path: PathBuf,
    before: Zeroizing<String>,
    aside: NamedTempFile,
}

impl Prepared {
    /// Fails if the file was changed since it was read.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn check_unchanged(&self) -> Result<(), WriteError> {
        self.unchanged().map_err(|error| WriteError::Failed { path: self.path.clone(), error })
    }

    fn unchanged(&self) -> io::Result<()> {
        if Zeroizing::new(std::fs::read(&self.path)?).as_slice() == self.before.as_bytes() {
            return Ok(());
        }
        Err(io::Error::other("it was changed meanwhile, and is as it was left; try again"))
    }

    /// Replaces the file by it in one step, unless the file was changed since it was read.
    ///
    /// # Errors
    /// [`WriteError`]; the file is then as before.
    pub fn replace(self) -> Result<(), WriteError> {
        self.check_unchanged()?;
        let Self { path, aside, .. } = self;
        aside.persist(&path).map(drop).map_err(|error| WriteError::Failed { path, error: error.error })
    }
}

#[cfg(test)]
mod tests {
    use convoy_settings::Nowhere;

    use super::*;

    const FILE: &str = "# ours\n[[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"10.1.0.1/32\"]\n\
        [[port]]\nname = \"outside\"\nkind = \"udp\"\nudp_port = 5500\naddress = [\"192.0.2.1\"]\n# the end";

    fn plan(existing: &Existing) -> TwoSites {
        let mut draft = Draft::new(&Nowhere, &|_| Err(std::io::ErrorKind::NotFound.into()));
        let said = [
            (Field::Name(SiteSide::Remote), "site-c"),
            (Field::Outside(SiteSide::Remote), "198.51.100.3"),
            (Field::Networks(SiteSide::Local), "10.1.0.0/24"),
            (Field::Networks(SiteSide::Remote), "10.3.0.0/24"),
        ];
        for field in Field::ALL {
            let text = said.iter().find(|(one, _)| *one == field).map(|(_, text)| (*text).to_owned());
            if let Some(text) = text.or_else(|| existing.value_of(field, &draft)) {
                draft.set(field, &text).expect("fits");
            }
        }
        draft.finish().expect("fits").expect("complete")
    }

    #[test]
    fn tunnel_is_behind_what_is_there_and_all_of_that_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("convoy.toml");
        std::fs::write(&path, FILE).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("ours");
        let existing = Existing::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let plan = plan(&existing);
        assert_eq!((plan.udp_port, plan.sites[0].outside.to_string()), (5500, "192.0.2.1".to_owned()));
        let psk = TwoSites { keys: KeySource::Psk, ..plan.clone() };
        assert!(
            existing.misfit(&plan).is_none()
                && existing.misfit(&psk).is_some_and(|why| why.contains("no charon"))
        );
        let extended = existing.with(&plan, &Secrets::random(&plan).expect("random"));
        assert!(extended.check(&Nowhere).is_ok_and(|warnings| warnings.is_empty()));
        extended.prepare().and_then(Prepared::replace).expect("writable");
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(
            text.starts_with(FILE) && text[FILE.len()..].starts_with("\n[[tunnel]]\nname = \"site-c\"\n"),
            "{text}"
        );
        assert_eq!(path.metadata().expect("there").mode() & 0o777, 0o600);
        let again = Existing::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(again.refusal("site-c").is_some_and(|why| why.contains("has a tunnel \"site-c\" already")));
        assert_eq!(again.refusal("site-d"), None);
    }

    #[test]
    fn edits_that_were_made_meanwhile_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("convoy.toml");
        std::fs::write(&path, FILE).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("ours");
        let existing = Existing::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let plan = plan(&existing);
        let prepared = existing.with(&plan, &Secrets::random(&plan).expect("random")).prepare();
        let prepared = prepared.expect("writable");
        assert!(prepared.check_unchanged().is_ok());
        let edited = format!("{FILE}\n# an edit\n");
        std::fs::write(&path, &edited).expect("written");
        let reported = prepared.replace().expect_err("edited").to_string();
        assert!(reported.contains("it was changed meanwhile"), "{reported}");
        assert_eq!(std::fs::read_to_string(&path).expect("readable"), edited);
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1);
    }
}
