//! `convoy trace`: follows packets of a running gateway.

mod pcapng;
mod text;

use std::path::Path;
use std::time::{Duration, Instant};

use convoy_config::counted;
use convoy_gateway::control::{Answer, Ask};
use convoy_gateway::trace::{TraceReport, TraceRequest, TraceRow};

use crate::Failure;
use crate::args::TraceArgs;
use crate::control::ask;

/// Interval between two questions to the gateway.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &TraceArgs) -> Result<(), Failure> {
    // The file first: an error there should not cost a trace.
    let mut file = args.pcapng.as_deref().map(pcapng::Traces::create).transpose()?;
    let request = TraceRequest {
        count: args.count,
        tunnel: args.tunnel.clone(),
        host: args.host,
        dropped: args.dropped,
    };
    good(ask(&args.control, Ask::Trace(request))?)?;
    let found = follow(args, file.as_mut());
    // A gateway that is gone has ended it as well.
    let _ = ask(&args.control, Ask::EndTrace);
    let found = found?;
    file.map_or(Ok(()), pcapng::Traces::finish)?;
    if found < args.count && !args.json {
        println!("{found} of {} in {} s", counted(args.count, "packet"), args.seconds);
    }
    Ok(())
}

/// Prints packets until all are found or the time is over; returns how many there were.
fn follow(args: &TraceArgs, mut file: Option<&mut pcapng::Traces>) -> Result<usize, Failure> {
    let until = Instant::now() + Duration::from_secs_f64(args.seconds);
    let mut found = 0;
    loop {
        let is_over = Instant::now() >= until;
        let report = taken(&args.control)?;
        for packet in &report.packets {
            found += 1;
            print(args, found, packet)?;
            if let Some(file) = &mut file {
                file.write(packet)?;
            }
        }
        if is_over || report.is_complete {
            return Ok(found);
        }
        std::thread::sleep(PAUSE);
    }
}

fn print(args: &TraceArgs, number: usize, packet: &TraceRow) -> Result<(), Failure> {
    if args.json {
        let line = serde_json::to_string(packet).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{line}");
    } else {
        println!("{number}  {}", text::packet(packet));
    }
    Ok(())
}

fn taken(control: &Path) -> Result<TraceReport, Failure> {
    match ask(control, Ask::Traced)? {
        Answer::Traced(report) => Ok(report),
        other => Err(unexpected(other)),
    }
}

fn good(answer: Answer) -> Result<(), Failure> {
    match answer {
        Answer::Good => Ok(()),
        other => Err(unexpected(other)),
    }
}

fn unexpected(answer: Answer) -> Failure {
    Failure::Failed(match answer {
        Answer::Refused(reason) => reason,
        _ => "the gateway gave an unexpected answer".to_owned(),
    })
}
