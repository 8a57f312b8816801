//! `convoy explain`: says what a running gateway would do with a packet.

use convoy_gateway::control::{Answer, Ask};
use convoy_gateway::explain::{ExplainRequest, Explanation};

use crate::Failure;
use crate::args::ExplainArgs;
use crate::control::ask;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;
const SCTP: u8 = 132;

pub(crate) fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let request = ExplainRequest {
        source: args.source,
        destination: args.destination,
        protocol: args.proto,
        ports: ports(args)?,
        length: args.length,
        dont_fragment: args.df,
        interface: args.interface.clone(),
    };
    let reported = match ask(&args.control, Ask::Explain(request))? {
        Answer::Explained(reported) => reported,
        Answer::Refused(reason) => return Err(Failure::Failed(reason)),
        _ => return Err(Failure::Failed("the gateway gave an unexpected answer".to_owned())),
    };
    if args.json {
        let text =
            serde_json::to_string_pretty(&reported).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
    } else {
        print!("{}", text(&reported));
    }
    match &*reported.outcome {
        "dropped" | "elsewhere" => Err(Failure::Answered),
        _ => Ok(()),
    }
}

/// The ports as a packet has them. Where none is given, they are a client's and the discard
/// service's.
fn ports(args: &ExplainArgs) -> Result<Option<(u16, u16)>, Failure> {
    let given = args.sport.is_some() || args.dport.is_some();
    match args.proto {
        TCP | UDP | SCTP => Ok(Some((args.sport.unwrap_or(40_000), args.dport.unwrap_or(9)))),
        ICMP | ICMP_V6 => {
            let echo = if args.proto == ICMP { 8 } else { 128 };
            let (kind, code) = (args.sport.unwrap_or(echo), args.dport.unwrap_or(0));
            if kind > 255 || code > 255 {
                let expected = "--sport and --dport are an ICMP packet's type and code, from 0 to 255";
                return Err(Failure::Config(expected.to_owned()));
            }
            let both = kind << 8 | code;
            Ok(Some((both, both)))
        }
        protocol if given => {
            Err(Failure::Config(format!("protocol {protocol} has no ports: leave out --sport and --dport")))
        }
        _ => Ok(None),
    }
}

/// A line for each stage, `!` before those that keep the packet or its answer from arriving, and
/// the outcome.
fn text(reported: &Explanation) -> String {
    let mut text = String::new();
    for step in &reported.steps {
        let mark = if step.is_fault { '!' } else { ' ' };
        text.push_str(&format!("{mark} {:<7} {}\n", step.stage, step.text));
    }
    let has_fault = reported.steps.iter().any(|step| step.is_fault);
    let outcome = match (&*reported.outcome, &reported.reason) {
        ("dropped", Some(reason)) => format!("dropped: {reason}"),
        ("elsewhere", _) => "does not reach the gateway".to_owned(),
        ("waits", _) => "waits for an SA".to_owned(),
        (other, _) if has_fault => format!("{other}, but see !"),
        (other, _) => other.to_owned(),
    };
    text.push_str(&format!("= {outcome}\n"));
    text
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use convoy_gateway::explain::ExplainStep;

    use super::*;
    use crate::args::{Cli, Command};

    fn args(line: &str) -> ExplainArgs {
        let words = "convoy explain 10.1.0.7 10.2.0.9".split(' ').chain(line.split_whitespace());
        match Cli::try_parse_from(words).map(|cli| cli.command) {
            Ok(Command::Explain(args)) => args,
            _ => panic!("{line}"),
        }
    }

    #[test]
    fn packet_with_a_fault_on_its_way_is_not_called_protected() {
        let step = |is_fault| ExplainStep { stage: "peer".to_owned(), text: "text".to_owned(), is_fault };
        let reported = |outcome: &str, is_fault| {
            let steps = vec![step(false), step(is_fault)];
            text(&Explanation { outcome: outcome.to_owned(), steps, ..Explanation::default() })
        };
        assert_eq!(reported("protected", false), "  peer    text\n  peer    text\n= protected\n");
        assert_eq!(reported("sent", true), "  peer    text\n! peer    text\n= sent, but see !\n");
        assert!(reported("bypassed", true).ends_with("= bypassed, but see !\n"));
    }

    #[test]
    fn ports_are_those_of_the_protocol() {
        let ports = |line: &str| ports(&args(line)).map_err(|_| ());
        assert_eq!(ports("--dport 53"), Ok(Some((40_000, 53))));
        assert_eq!(ports("--proto icmp"), Ok(Some((0x800, 0x800))));
        assert_eq!(ports("--proto icmpv6 --sport 1 --dport 4"), Ok(Some((0x104, 0x104))));
        assert_eq!(ports("--proto icmp --sport 300"), Err(()));
        assert_eq!(ports("--proto 47"), Ok(None));
        assert_eq!(ports("--proto 47 --dport 1"), Err(()));
    }
}
