//! `convoy cluster put` and the like: the configuration that the gateways of a cluster share.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use convoy_config::PRODUCT;
use convoy_config::{Basis, Config, ConfigErrors, OwnFile, SharedText};
use convoy_gateway::cluster::ConfigStore;
use zeroize::Zeroizing;

use crate::Failure;
use crate::args::{ClusterArgs, ClusterCommand};

/// All but `wait`.
pub(super) fn run(args: &ClusterArgs) -> Result<(), Failure> {
    let own = read(&args.config)?;
    let name = args.config.display().to_string();
    let config = Config::parse(&name, &own).map_err(Failure::Problems)?;
    let cluster = config.cluster.as_ref();
    let cluster = cluster.ok_or_else(|| Failure::Config(format!("{name} has no [cluster]")))?;
    let store = ConfigStore::open(cluster).map_err(|error| failed(&error))?;
    let own = OwnFile { name: &name, text: &own };
    match &args.command {
        ClusterCommand::Wait(_) => Ok(()),
        ClusterCommand::Put { file } => {
            if !cluster.has_tunnels {
                let what =
                    format!("{name}: its gateway has tunnels of its own; set cluster.tunnels = \"store\"");
                return Err(Failure::Config(what));
            }
            let text = read_shared(file)?;
            check(own, &file.display().to_string(), &text)?;
            put(&store, text)
        }
        ClusterCommand::Get { version } => {
            print!("{}", *version_of(&store, *version)?.text);
            Ok(())
        }
        ClusterCommand::History => {
            for version in store.versions().map_err(|error| failed(&error))? {
                let time = crate::show::units::utc(version.time_s as f64);
                println!("{}  {time}  {}", version.version, version.by);
            }
            Ok(())
        }
        ClusterCommand::Rollback { version } => {
            let text = version_of(&store, Some(*version))?.text;
            check(own, &format!("version {version}"), &text)?;
            put(&store, text)
        }
    }
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

fn read(file: &Path) -> Result<Zeroizing<String>, Failure> {
    let reported = |error| Failure::Failed(format!("cannot read {}: {error}", file.display()));
    std::fs::read_to_string(file).map(Zeroizing::new).map_err(reported)
}

/// Reads what is to be shared: a file that has tunnels, and that its owner alone may read if it has
/// their keys.
fn read_shared(file: &Path) -> Result<Zeroizing<String>, Failure> {
    let name = file.display().to_string();
    let refused = |what: &str| Failure::Problems(ConfigErrors::whole_file(&name, what));
    let failed = |error| Failure::Failed(format!("cannot read {name}: {error}"));
    // Without blocking if it is a FIFO.
    let options = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file);
    let mut opened = options.map_err(failed)?;
    let found = opened.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(refused("it is not a regular file"));
    }
    let mut text = Zeroizing::new(String::with_capacity(found.len() as usize + 1));
    opened.read_to_string(&mut text).map_err(failed)?;
    if found.mode() & 0o077 != 0 && text.contains("key_out") {
        let what = format!(
            "it has keys, and others than its owner may read it (mode {:04o}); run: chmod 600 {name}",
            found.mode() & 0o7777
        );
        return Err(refused(&what));
    }
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Err(refused("it has no tunnel, and would remove all that the cluster has"));
    }
    Ok(text)
}

/// Checks what is to be shared as this gateway would use it.
fn check(own: OwnFile<'_>, name: &str, text: &Zeroizing<String>) -> Result<(), Failure> {
    let shared = SharedText { version: 0, time_s: 0, by: String::new(), text: text.clone() };
    match Config::parse_with(own, &shared, &Basis::of(&PRODUCT)) {
        Ok(config) => {
            config.warnings.iter().for_each(|warning| eprintln!("{warning}"));
            Ok(())
        }
        Err(mut errors) => {
            for problem in errors.0.iter_mut().filter(|problem| problem.file != own.name) {
                name.clone_into(&mut problem.file);
            }
            Err(Failure::Problems(errors))
        }
    }
}

fn put(store: &ConfigStore, text: Zeroizing<String>) -> Result<(), Failure> {
    let version = store.put(text).map_err(|error| failed(&error))?;
    println!("version {version}; the gateways use it when they have checked it (`convoy show events`)");
    Ok(())
}

/// A version, or the latest one.
fn version_of(store: &ConfigStore, version: Option<u64>) -> Result<SharedText, Failure> {
    let found = match version {
        None => store.current().map_err(|error| failed(&error))?.map(|(text, _)| text),
        Some(number) => {
            let all = store.versions().map_err(|error| failed(&error))?;
            all.into_iter().find(|version| version.version == number)
        }
    };
    let what = || match version {
        None => "the cluster shares no configuration yet; `convoy cluster put FILE` puts one".to_owned(),
        Some(number) => format!("there is no version {number}; `convoy cluster history` lists them"),
    };
    found.ok_or_else(|| Failure::Failed(what()))
}
