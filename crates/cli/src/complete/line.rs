//! An unfinished command line, held against clap's definitions.

use clap::builder::ValueHint;
use clap::{Arg, Command};
use convoy_report::snapshot::NameKind;

use super::ShellCompletion;

/// What an argument's value may be.
pub(super) enum Values {
    /// The name of a file.
    File,
    /// One of these.
    Known(Vec<ShellCompletion>),
    /// A name that the running gateway knows.
    OfGateway(NameKind),
}

/// The finished words of a line.
pub(super) struct CompletionLine<'a> {
    /// The innermost command that they name.
    command: &'a Command,
    /// Its positional arguments.
    positionals: Vec<&'a str>,
    /// Its options, with their values.
    options: Vec<(&'a Arg, Option<&'a str>)>,
    /// Whether the last option still lacks its value.
    lacks_value: bool,
    /// Whether `--` came, behind which nothing is an option.
    is_escaped: bool,
}

impl<'a> CompletionLine<'a> {
    /// Reads words; `program` is built.
    pub(super) fn of(program: &'a Command, words: &'a [String]) -> Self {
        let mut line = Self {
            command: program,
            positionals: Vec::new(),
            options: Vec::new(),
            lacks_value: false,
            is_escaped: false,
        };
        words.iter().for_each(|word| line.push(word));
        line
    }

    fn push(&mut self, word: &'a str) {
        let is_option = word.len() > 1 && word.starts_with('-') && !self.is_escaped;
        if self.lacks_value && !(is_option && self.may_lack_value()) {
            self.lacks_value = false;
            if let Some((_, value)) = self.options.last_mut() {
                *value = Some(word);
            }
        } else if word == "--" {
            self.is_escaped = true;
        } else if is_option {
            self.push_option(word);
        } else if let (true, Some(below)) = (self.positionals.is_empty(), self.command.find_subcommand(word))
        {
            self.command = below;
        } else {
            self.positionals.push(word);
        }
    }

    fn push_option(&mut self, word: &'a str) {
        let (option, value) = match word.strip_prefix("--").map(|long| long.split_once('=')) {
            Some(Some((name, value))) => (self.long(name), Some(value)),
            Some(None) => (self.long(&word[2..]), None),
            None => {
                let mut letters = word[1..].chars();
                let option = letters.next().and_then(|letter| self.short(letter));
                (option, Some(letters.as_str()).filter(|value| !value.is_empty()))
            }
        };
        let Some(option) = option else { return };
        self.options.push((option, value));
        self.lacks_value = value.is_none() && option.get_action().takes_values();
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        self.command.get_arguments().find(|option| option.get_long() == Some(name))
    }

    fn short(&self, letter: char) -> Option<&'a Arg> {
        self.command.get_arguments().find(|option| option.get_short() == Some(letter))
    }

    /// Whether the last option may stand without a value, as `--watch`.
    fn may_lack_value(&self) -> bool {
        let count = self.options.last().and_then(|(option, _)| option.get_num_args());
        count.is_some_and(|count| count.min_values() == 0)
    }

    /// The value that an option has or would have without being given.
    pub(super) fn value_of(&self, id: &str) -> Option<&str> {
        let given = self.options.iter().rev().find(|(option, _)| option.get_id() == id);
        given.and_then(|(_, value)| *value).or_else(|| {
            let option = self.command.get_arguments().find(|option| option.get_id() == id)?;
            option.get_default_values().first()?.to_str()
        })
    }

    /// What may stand for the unfinished word: the part of it that stays, the part that is
    /// completed, and by what.
    pub(super) fn expected<'w>(&self, word: &'w str) -> (String, &'w str, Values) {
        let is_option = word.starts_with('-') && !self.is_escaped;
        match self.options.last() {
            Some((option, None)) if self.lacks_value && !(is_option && self.may_lack_value()) => {
                return (String::new(), word, self.values(option));
            }
            _ => {}
        }
        if !is_option {
            return (String::new(), word, self.next_positional());
        }
        match word.split_once('=') {
            Some((name, value)) => {
                let option = name.strip_prefix("--").and_then(|name| self.long(name));
                let values = option.map_or(Values::Known(Vec::new()), |option| self.values(option));
                (format!("{name}="), value, values)
            }
            None => (String::new(), word, Values::Known(self.free_options())),
        }
    }

    /// Commands and the next positional argument; options if the line takes neither.
    fn next_positional(&self) -> Values {
        let mut known = Vec::new();
        if self.positionals.is_empty() {
            let below = self.command.get_subcommands().filter(|below| !below.is_hide_set());
            known.extend(below.map(|below| candidate(below.get_name(), below.get_about())));
        }
        let mut positionals = self.command.get_positionals();
        match positionals.nth(self.positionals.len()).map(|next| self.values(next)) {
            Some(Values::Known(values)) => known.extend(values),
            Some(other) => return other,
            None => {}
        }
        if known.is_empty() { Values::Known(self.free_options()) } else { Values::Known(known) }
    }

    /// The options that are not given yet.
    fn free_options(&self) -> Vec<ShellCompletion> {
        let is_given = |option: &Arg| self.options.iter().any(|(given, _)| given.get_id() == option.get_id());
        let free = self.command.get_arguments().filter(|option| !option.is_hide_set() && !is_given(option));
        free.filter_map(|option| Some(candidate(&format!("--{}", option.get_long()?), option.get_help())))
            .collect()
    }

    fn values(&self, argument: &Arg) -> Values {
        let possible = argument.get_possible_values();
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        if let Some(names) = name_kind(self.command, argument, &self.positionals) {
            Values::OfGateway(names)
        } else if argument.get_value_hint() == ValueHint::AnyPath {
            Values::File
        } else {
            Values::Known(shown.map(|value| candidate(value.get_name(), value.get_help())).collect())
        }
    }
}

/// A candidate with the first line of its help.
fn candidate(value: &str, help: Option<&clap::builder::StyledStr>) -> ShellCompletion {
    let help = help.map(ToString::to_string).unwrap_or_default();
    ShellCompletion { value: value.to_owned(), help: help.lines().next().unwrap_or_default().to_owned() }
}

/// The names of the gateway that an argument of a command takes, if it takes any.
fn name_kind(command: &Command, argument: &Arg, positionals: &[&str]) -> Option<NameKind> {
    match (command.get_name(), argument.get_id().as_str()) {
        ("show", "name") => (positionals == ["tunnel"]).then_some(NameKind::Tunnels),
        ("show" | "trace", "tunnel") => Some(NameKind::Tunnels),
        ("show", "peer") => Some(NameKind::Peers),
        ("explain", "interface") => Some(NameKind::Interfaces),
        _ => None,
    }
}
