//! `convoy init --add`: a tunnel more for this gateway.

use std::path::{Path, PathBuf};

use convoy_config::ThisMachine;
use convoy_config::init::{self, Existing, KeySource, SiteFile, SiteSide, Tree, TwoSites};

use super::{InitArgs, failed, plan, secrets};
use crate::Failure;

/// Where the gateway has its configuration.
const CONFIGURATION: &str = "/etc/convoy/convoy.toml";

/// Adds a tunnel to the gateway's configuration, and writes the files of the other gateway.
pub(super) fn run(args: &InitArgs, name: &str) -> Result<(), Failure> {
    let existing = Existing::load(Path::new(CONFIGURATION)).map_err(Failure::Problems)?;
    if let Some(why) = existing.refusal(name) {
        return Err(Failure::Config(format!("--add: {why}")));
    }
    let plan = plan(args, &ThisMachine, Some(&existing))?;
    if let Some(why) = existing.misfit(&plan) {
        return Err(Failure::Config(why));
    }
    let secrets = secrets(&plan)?;
    let [local, remote] = init::files(&plan, &secrets);
    // charon's file has the tunnel's name, beside those that are there.
    let local: Vec<SiteFile> = local
        .into_iter()
        .skip(1)
        .map(|file| SiteFile { path: format!("etc/swanctl/conf.d/{name}.conf").into(), ..file })
        .collect();
    let here =
        std::env::current_dir().map_err(|error| Failure::Failed(format!("the current folder: {error}")))?;
    let trees =
        [Tree { root: PathBuf::from("/"), files: local }, Tree { root: here.join(name), files: remote }];
    let extended = existing.with(&plan, &secrets);
    let mut warnings = extended.check(&ThisMachine).map_err(Failure::Problems)?;
    warnings.extend(init::check(&trees[1], &convoy_config::Nowhere).map_err(Failure::Problems)?);
    // What can fail does so before the first file is in its place.
    let prepared = extended.prepare().map_err(failed)?;
    prepared.check_unchanged().map_err(failed)?;
    init::write(&trees, args.force).map_err(failed)?;
    prepared.replace().map_err(|error| {
        let written: Vec<String> =
            trees.iter().flat_map(Tree::paths).map(|path| path.display().to_string()).collect();
        Failure::Failed(format!("{error}; written were {}", written.join(", ")))
    })?;
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    plan.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
    print!("{}", text(&plan, &trees));
    Ok(())
}

/// What was written, and how it becomes a tunnel.
fn text(plan: &TwoSites, trees: &[Tree; 2]) -> String {
    let name = &plan.site(SiteSide::Remote).name;
    let mut text = format!("Added {name} to {CONFIGURATION}. Wrote (with keys, mode 0600):\n");
    trees.iter().flat_map(Tree::paths).for_each(|path| text.push_str(&format!("  {}\n", path.display())));
    let [here, other] = [SiteSide::Local, SiteSide::Remote].map(|side| plan.site(side));
    let (what, commands) = super::steps::delivery(other, Some(here), &trees[1]);
    text.push_str(&format!("\nNext, as root:\n1. {what}\n"));
    for command in commands {
        text.push_str(&format!("     {command}\n"));
    }
    let start = super::steps::start(plan.keys);
    text.push_str(&format!(
        "2. Start it, at {name}:\n     {start}\n3. Here, which leaves the other tunnels as they are:\n"
    ));
    text.push_str("     convoy reload\n");
    if plan.keys == KeySource::Psk {
        text.push_str("     swanctl --load-all\n");
    }
    let folder = trees[1].root.display();
    text.push_str(&format!("Once they are copied, remove this folder, which contains keys: {folder}\n"));
    text
}
