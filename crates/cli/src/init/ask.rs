//! Questions on a terminal.

use std::io::{self, BufRead, ErrorKind, Write};

use convoy_config::init::{Draft, Field};

/// Asks for all that was not said, but for the names of the sites. An empty answer is the one in
/// brackets. A wrong one is refused with the reason, and the question repeated.
///
/// # Errors
/// The system's, and the end of the input.
pub(super) fn ask(draft: &mut Draft<'_>, input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<()> {
    writeln!(
        output,
        "An empty answer takes the value in brackets. Run this at one site only: it writes the files of both."
    )?;
    for field in Field::ALL {
        while draft.is_asked_for(field) && !draft.is_set(field) && !matches!(field, Field::Name(_)) {
            let default = draft.default_of(field);
            let shown = default.as_ref().map_or_else(String::new, |default| format!(" [{default}]"));
            write!(output, "{}{shown}: ", field.question())?;
            output.flush()?;
            let answer = line(input)?;
            let answer = if answer.trim().is_empty() { default } else { Some(answer) };
            let taken = draft.set(field, answer.as_deref().unwrap_or_default());
            if let Err(refusal) = taken {
                writeln!(output, "  {}", refusal.what)?;
            }
        }
    }
    Ok(())
}

fn line(input: &mut dyn BufRead) -> io::Result<String> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the input ended before the last question"));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_config::Nowhere;
    use convoy_config::init::SiteSide;

    fn asked(draft: &mut Draft<'_>, answers: &str) -> (io::Result<()>, String) {
        let mut output = Vec::new();
        let done = ask(draft, &mut answers.as_bytes(), &mut output);
        (done, String::from_utf8(output).expect("text"))
    }

    #[test]
    fn a_wrong_answer_is_reported_the_reason_and_asked_again() {
        let mut draft = Draft::new(&Nowhere, &|_| Err(std::io::ErrorKind::NotFound.into()));
        let answers =
            "\n198.51.100.1\n\n192.0.2.1\n10.1.0.7/24\n10.1.0.0/24\n10.1.0.0/16\n10.2.0.0/24\n\n\n\n\n\n\n";
        let (done, reported) = asked(&mut draft, answers);
        done.expect(&reported);
        let times = |text: &str| reported.matches(text).count();
        assert_eq!(
            times("Outside address of this gateway: "),
            2,
            "an empty answer without a default: {reported}"
        );
        assert_eq!(times("  10.1.0.7/24 has bits after its prefix; write 10.1.0.0/24\n"), 1, "{reported}");
        assert_eq!(times("Networks behind the other gateway: "), 2, "{reported}");
        assert!(reported.contains("Inside addresses of the other gateway [10.2.0.1]: "), "{reported}");
        let plan = draft.finish().expect("fits").expect("complete");
        assert_eq!(plan.site(SiteSide::Remote).networks[0].to_string(), "10.2.0.0/24");
    }

    #[test]
    fn what_was_said_is_not_asked_and_an_early_end_is_an_error() {
        let mut draft = Draft::new(&Nowhere, &|_| Err(std::io::ErrorKind::NotFound.into()));
        for (field, text) in [(Field::Ike, "psk"), (Field::Outside(SiteSide::Remote), "198.51.100.1")] {
            draft.set(field, text).expect(text);
        }
        let (done, reported) = asked(&mut draft, "192.0.2.1\n10.1.0.0/24\n");
        assert_eq!(done.expect_err("it ends early").kind(), ErrorKind::UnexpectedEof);
        assert!(!reported.contains("IKE") && !reported.contains("Outside address or name"), "{reported}");
    }
}
