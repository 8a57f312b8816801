//! Writes the man pages and the shells' completions, for packages.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use clap::Command;

/// The scripts by which shells ask `convoy` what to complete, with the files' names; another
/// program's have its name in place of `convoy`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("convoy.bash", include_str!("complete/convoy.bash")),
    ("convoy.fish", include_str!("complete/convoy.fish")),
    ("_convoy", include_str!("complete/convoy.zsh")),
];

/// Writes `man/` and `completions/` into a folder: a man page of section 1 for each command, and
/// one file for each shell.
///
/// # Errors
/// The system's.
pub(crate) fn write(mut program: Command, folder: &Path) -> io::Result<()> {
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    let name = program.get_name().to_owned();
    for (file, script) in COMPLETIONS {
        fs::write(completions.join(file.replace("convoy", &name)), script.replace("convoy", &name))?;
    }
    program.build();
    pages(&program, &name, &man)
}

/// The page of a command and of those below it: `convoy-show.1`, `convoy-cluster-put.1`.
fn pages(command: &Command, name: &str, folder: &Path) -> io::Result<()> {
    if command.is_hide_set() || command.get_name() == "help" {
        return Ok(());
    }
    let page = clap_mangen::Man::new(command.clone()).section("1");
    page.render(&mut File::create(folder.join(format!("{name}.1")))?)?;
    command
        .get_subcommands()
        .try_for_each(|below| pages(below, &format!("{name}-{}", below.get_name()), folder))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_command_has_a_page_and_every_shell_its_completions() {
        let folder = std::env::temp_dir().join(format!("convoy-manuals-{}", std::process::id()));
        write(Cli::command(), &folder).expect("written");
        let read = |name: &str| fs::read_to_string(folder.join(name)).expect(name);
        assert!(read("man/convoy.1").contains("convoy\\-show(1)"));
        assert!(read("man/convoy-cluster-put.1").contains(".SH SYNOPSIS"));
        assert!(!folder.join("man/convoy-helper.1").exists(), "it is no command for people");
        for name in ["convoy.bash", "convoy.fish", "_convoy"] {
            assert!(read(&format!("completions/{name}")).contains(" complete -- "), "{name}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
