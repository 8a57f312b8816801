//! `convoy complete`: what may follow an unfinished command line, from clap's definitions and from
//! the names that a running gateway knows. The shells' scripts call it (`complete/convoy.bash` and
//! its neighbours).

mod line;

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use clap::Command;
use convoy_gateway::control::{self, Answer, Ask};
use convoy_report::snapshot::{NamesRequest, RunningName};

use crate::Failure;
use crate::args::CompleteArgs;
use line::{CompletionLine, Values};

/// Time limit of the gateway's answer: the operator waits at the keyboard.
const PATIENCE: Duration = Duration::from_secs(1);

/// What may stand at the end of the line, and its help.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShellCompletion {
    value: String,
    help: String,
}

/// Prints a line for each candidate, its help behind a tab. Prints no errors, as they would appear
/// in the middle of the line that is edited.
///
/// # Errors
/// That the name of a file is expected, which the shells complete.
pub fn run(args: &CompleteArgs, mut program: Command) -> Result<(), Failure> {
    program.build();
    let candidates = candidates(&program, &args.words, names).ok_or(Failure::Answered)?;
    for ShellCompletion { value, help } in candidates {
        println!("{value}\t{help}");
    }
    Ok(())
}

/// The candidates for the last word; nothing if the name of a file is expected.
fn candidates(
    program: &Command,
    words: &[String],
    ask: impl FnOnce(&Path, NamesRequest) -> Option<Vec<RunningName>>,
) -> Option<Vec<ShellCompletion>> {
    let (unfinished, words) = words.split_last()?;
    let line = CompletionLine::of(program, words);
    let (prefix, text, values) = line.expected(unfinished);
    let all = match values {
        Values::File => return None,
        Values::Known(known) => known,
        Values::OfGateway(kind) => {
            let request = NamesRequest { kind, prefix: text.to_owned() };
            let names = ask(&control_socket(&line), request).unwrap_or_default();
            names
                .into_iter()
                .map(|RunningName { name, help }| ShellCompletion { value: name, help })
                .collect()
        }
    };
    let matching = all.into_iter().filter(|candidate| candidate.value.starts_with(text));
    Some(
        matching
            .map(|ShellCompletion { value, help }| ShellCompletion { value: prefix.clone() + &value, help })
            .collect(),
    )
}

/// The control socket that the line names, or the default one.
fn control_socket(line: &CompletionLine<'_>) -> PathBuf {
    line.value_of("control").map(PathBuf::from).unwrap_or_default()
}

/// The names that the gateway at a control socket knows. A thread asks, since the gateway may hang,
/// and then not even a connection comes about; the thread ends with the process.
fn names(socket: &Path, request: NamesRequest) -> Option<Vec<RunningName>> {
    let (answered, answer) = channel();
    let socket = socket.to_owned();
    thread::spawn(move || drop(answered.send(control::ask(&socket, Ask::Names(request)))));
    match answer.recv_timeout(PATIENCE) {
        Ok(Ok(Answer::Names(names))) => Some(names),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
