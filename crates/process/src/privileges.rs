//! Giving up privileges.
//!
//! Ports, sockets and files are opened with whatever a process was started with; they keep working
//! without it. Then it becomes a user of its own without capabilities, whose memory no other
//! process can read and no core file or swap space ever holds. Threads inherit their creator's
//! privileges, so this precedes any thread that outlives the start.

use std::collections::HashSet;
use std::fmt::Display;

use caps::{CapSet, Capability};
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, User, geteuid, setgid, setgroups, setuid};

/// The user that a gateway becomes by default.
pub const DEFAULT_USER: &str = "convoy";
/// The user that charon runs as where its package's unit is installed.
const CHARON_USER: &str = "convoy-charon";
/// The user if [`DEFAULT_USER`] does not exist.
const FALLBACK: &str = "nobody";

/// Why privileges could not be given up.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PrivilegeError(String);

/// That the system refused something, with its reason.
pub fn refused(what: impl Display) -> impl Fn(&dyn Display) -> PrivilegeError {
    move |error| PrivilegeError(format!("{what}: {error}"))
}

/// That there is no such user, and what to do.
pub fn user_is_missing(name: &str) -> String {
    format!("there is no user {name:?}; {}", how_to_add(name))
}

fn how_to_add(name: &str) -> String {
    format!("run: useradd --system --no-create-home --shell /usr/sbin/nologin {name}")
}

/// The user that a gateway becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    name: String,
    uid: Uid,
    gid: Gid,
}

impl Account {
    /// The configured user, or [`DEFAULT_USER`], or, if that does not exist, `nobody` and a
    /// warning. `None` for a gateway that was not started by root: it keeps its user.
    ///
    /// # Errors
    /// That there is no such user, and what to do.
    pub fn find(configured: Option<&str>) -> Result<(Option<Self>, Option<String>), PrivilegeError> {
        if !geteuid().is_root() {
            return Ok((None, None));
        }
        let name = configured.unwrap_or(DEFAULT_USER);
        if let Some(account) = Self::named(name)? {
            return Ok((Some(account), None));
        }
        let fallback = if configured.is_none() { Self::named(FALLBACK)? } else { None };
        let Some(fallback) = fallback else {
            return Err(PrivilegeError(user_is_missing(name)));
        };
        let warning = format!(
            "running as the shared user {FALLBACK}, because there is no user {name:?}; {}",
            how_to_add(name)
        );
        Ok((Some(fallback), Some(warning)))
    }

    /// The user that charon runs as: the configured one, or `convoy-charon` if there is one. `None`
    /// for a gateway that was not started by root, which cannot let another user in.
    ///
    /// # Errors
    /// That there is no such user, and what to do.
    pub fn of_charon(configured: Option<&str>) -> Result<Option<Self>, PrivilegeError> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let name = configured.unwrap_or(CHARON_USER);
        match Self::named(name)? {
            None if configured.is_some() => Err(PrivilegeError(user_is_missing(name))),
            found => Ok(found),
        }
    }

    /// Its number.
    pub fn uid(&self) -> u32 {
        self.uid.as_raw()
    }

    /// The number of its group.
    pub fn gid(&self) -> u32 {
        self.gid.as_raw()
    }

    fn named(name: &str) -> Result<Option<Self>, PrivilegeError> {
        let found =
            User::from_name(name).map_err(|error| refused("cannot read the list of users")(&error))?;
        Ok(found.map(|user| Self { name: user.name, uid: user.uid, gid: user.gid }))
    }
}

impl Display for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// Keeps all memory of this process, and so every key, out of swap space, now and later.
///
/// # Errors
/// [`PrivilegeError`] if the system refuses; the gateway may go on then.
pub fn lock_memory() -> Result<(), PrivilegeError> {
    let refused = refused("cannot lock memory, so keys may reach swap");
    // Later allocations fail beyond the limit, so there must be none.
    let _ = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
    let (limit, _) = getrlimit(Resource::RLIMIT_MEMLOCK).map_err(|error| refused(&error))?;
    if limit != RLIM_INFINITY {
        let reported = "memlock limit too low: keys may reach swap; raise it with `ulimit -l unlimited`, or \
                    LimitMEMLOCK=infinity in a unit";
        return Err(PrivilegeError(reported.to_owned()));
    }
    // Pages that were never touched need no memory; nix has no name for this flag.
    let on_fault = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | on_fault)
        .map_err(|error| refused(&error))
}

/// Becomes `account`, drops every capability of this thread and of all that it will create, and
/// protects this process's memory from others, for good.
///
/// # Errors
/// [`PrivilegeError`] if the system refuses; the gateway should not go on then.
pub fn give_up(account: Option<&Account>) -> Result<(), PrivilegeError> {
    if let Some(Account { name, uid, gid }) = account {
        let refused = refused(format!("cannot become the user {name} (needs CAP_SETUID and CAP_SETGID)"));
        setgroups(&[]).map_err(|error| refused(&error))?;
        setgid(*gid).map_err(|error| refused(&error))?;
        setuid(*uid).map_err(|error| refused(&error))?;
    }
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).map_err(|error| refused("cannot drop capabilities")(&error))?;
    }
    shut_off()
}

/// Drops every capability but the one for routes.
///
/// # Errors
/// [`PrivilegeError`] if the system refuses.
pub fn keep_routing() -> Result<(), PrivilegeError> {
    let refused = refused("cannot drop all capabilities except CAP_NET_ADMIN");
    let wanted = HashSet::from([Capability::CAP_NET_ADMIN]);
    let have = caps::read(None, CapSet::Permitted).map_err(|error| refused(&error))?;
    let kept: HashSet<Capability> = wanted.intersection(&have).copied().collect();
    for set in [CapSet::Ambient, CapSet::Inheritable] {
        caps::clear(None, set).map_err(|error| refused(&error))?;
    }
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &kept).map_err(|error| refused(&error))?;
    }
    shut_off()
}

/// No program gains privileges; no other process of this user can read the memory, and no core file
/// is written.
fn shut_off() -> Result<(), PrivilegeError> {
    use nix::sys::prctl::{set_dumpable, set_no_new_privs};
    set_no_new_privs().map_err(|error| refused("cannot set no_new_privs")(&error))?;
    set_dumpable(false).map_err(|error| refused("cannot disable core files")(&error))?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(|error| refused("cannot disable core files")(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_gave_up_its_privileges_has_none_and_passes_none_on() {
        let left = || caps::read(None, CapSet::Permitted).expect("readable").len();
        let thread = std::thread::spawn(move || {
            give_up(None).expect("allowed");
            (left(), std::thread::spawn(left).join().expect("no panic"))
        });
        assert_eq!(thread.join().expect("no panic"), (0, 0));
    }

    #[test]
    #[ignore = "needs root; `make test` runs it"]
    fn a_user_that_was_named_and_is_not_there_is_an_error_that_says_what_to_do() {
        let error = Account::find(Some("convoy-no-such-user")).expect_err("no such user").to_string();
        assert!(error.contains("useradd --system") && error.contains("convoy-no-such-user"), "{error}");
        let (account, _) = Account::find(Some("nobody")).expect("there is always one");
        assert_eq!(account.map(|account| account.to_string()), Some("nobody".to_owned()));
    }
}
