//! Generates the command line's page of the documentation from clap's definitions.

use std::path::Path;

use clap::{Arg, Command};

use crate::Failure;
use crate::manuals;

/// Maximum line length of the page.
const WIDTH: usize = 100;

/// Writes `man/` and `completions/` of a program into a folder, for packages.
///
/// # Errors
/// A folder that cannot be written to.
pub fn write_manuals(program: Command, folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::Failed(format!("cannot write to {}: {error}", folder.display()));
    manuals::write(program, folder).map_err(failed)
}

/// Every command with its usage, arguments and options, as Markdown.
pub fn page(title: &str, mut program: Command) -> String {
    program.build();
    let name = program.get_name().to_owned();
    let about = format!(
        "Written by `convoy-lab reference --of {name}`, from what `{name} help` shows. The exit status is 0 for success, 1 for a \
         failure and 2 for wrong usage or configuration."
    );
    let mut page = format!("# {title}\n\n{}", wrapped(&about, "", ""));
    section(&mut program, &mut page, true);
    page
}

/// Adds a command and its subcommands.
fn section(command: &mut Command, page: &mut String, is_root: bool) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap_or_default().to_owned();
    if !is_root {
        let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
        page.push_str(&format!("\n## {name}\n\n"));
        paragraphs(&about.unwrap_or_default(), page);
        let usage = command.render_usage().to_string();
        page.push_str(&format!("    {}\n", usage.trim_start_matches("Usage: ").trim()));
        let shown = |argument: &&Arg| !argument.is_hide_set() && !is_of_every_command(argument);
        let items: Vec<String> = command.get_arguments().filter(shown).map(item).collect();
        if !items.is_empty() {
            page.push_str(&format!("\n{}", items.concat()));
        }
    }
    command.get_subcommands_mut().for_each(|below| section(below, page, false));
}

fn is_of_every_command(argument: &Arg) -> bool {
    ["help", "version"].contains(&argument.get_id().as_str())
}

/// An argument or option as a list item.
fn item(argument: &Arg) -> String {
    let values: Vec<String> =
        argument.get_value_names().into_iter().flatten().map(ToString::to_string).collect();
    let value = if argument.get_action().takes_values() {
        format!(" <{}>", values.join("> <"))
    } else {
        String::new()
    };
    let names: Vec<String> = [
        argument.get_short().map(|short| format!("-{short}")),
        argument.get_long().map(|long| format!("--{long}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let name = match names.as_slice() {
        [] => value.trim().to_owned(),
        names => format!("{}{value}", names.join("`, `")),
    };
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = format!("`{name}`: {}", escaped(&help));
    if argument.get_action().takes_values() {
        let defaults = argument.get_default_values().iter();
        let defaults: Vec<String> = defaults.map(|value| format!("`{}`", value.to_string_lossy())).collect();
        if !defaults.is_empty() {
            text.push_str(&format!(" (default: {})", defaults.join(", ")));
        }
    }
    let mut text = wrapped(&text, "- ", "  ");
    for value in argument
        .get_possible_values()
        .iter()
        .filter(|value| argument.get_action().takes_values() && !value.is_hide_set())
    {
        let help =
            value.get_help().map(|help| format!(": {}", escaped(&help.to_string()))).unwrap_or_default();
        text.push_str(&wrapped(&format!("`{}`{help}", value.get_name()), "  - ", "    "));
    }
    text
}

/// Escapes characters that Markdown would interpret.
fn escaped(text: &str) -> String {
    text.replace('<', "\\<").replace('*', "\\*")
}

fn paragraphs(text: &str, page: &mut String) {
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        page.push_str(&format!("{}\n", wrapped(&escaped(paragraph), "", "")));
    }
}

/// Wraps text to [`WIDTH`] columns; `first` and `rest` are the prefixes of the first and of the
/// other lines.
fn wrapped(text: &str, first: &str, rest: &str) -> String {
    let (mut lines, mut line) = (String::new(), first.to_owned());
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(&format!("{line}\n"));
            (line, is_empty) = (rest.to_owned(), true);
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    format!("{lines}{line}\n")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn the_page_of_the_book_is_what_the_program_says() {
        let page = include_str!("../../../docs/reference/command-line.md");
        assert!(
            page == super::page("Command line", Cli::command()),
            "renew it: convoy-lab reference --of convoy >docs/reference/command-line.md"
        );
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        let text = wrapped(&"word ".repeat(50), "- ", "  ");
        assert!(text.lines().count() == 3 && text.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")));
        assert_eq!(wrapped("a", "- ", "  "), "- a\n");
    }
}
