//! `convoy engines`.

use convoy_gateway::engines::{EngineOverview, HandoverRow, overview, window_ns};

use crate::Failure;
use crate::args::EnginesArgs;
use crate::table::new_table;

pub(crate) fn run(args: &EnginesArgs) -> Result<(), Failure> {
    let engines = overview(args.calibrate).map_err(|error| Failure::Failed(error.to_string()))?;
    if args.json {
        let text =
            serde_json::to_string_pretty(&engines).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
        return Ok(());
    }
    for engine in &engines {
        print(engine);
    }
    if args.calibrate {
        println!("window: {:.0} ns to sort a packet by its SA", window_ns());
        println!("  packets are sorted where t_key exceeds t_init plus this");
    }
    Ok(())
}

fn print(engine: &EngineOverview) {
    println!("{}: {}", engine.kind, engine.summary);
    if let Some(reason) = &engine.reason {
        println!("  unavailable: {reason}");
        if let Some(remedy) = &engine.remedy {
            println!("  to install it: {remedy}");
        }
        println!();
        return;
    }
    println!("  version {}", engine.version.as_deref().unwrap_or("unknown"));
    println!("  algorithms: {}", engine.algorithms.join(", "));
    if let Some(left_out) = &engine.left_out {
        println!("  not supported: {left_out}");
    }
    for device in &engine.devices {
        println!("  device {}: {}", device.device, device.summary);
        match &device.why_not {
            Some(why_not) => println!("    not usable: {why_not}"),
            None => println!("    reports support for: {}", device.algorithms.join(", ")),
        }
    }
    if !engine.costs.is_empty() {
        let mut table = new_table(&[
            "algorithm",
            "placement",
            "t_init ns",
            "t_block ns (16 bytes)",
            "t_key ns",
            "handover ns",
        ]);
        for cost in &engine.costs {
            table.add_row([
                cost.algorithm.clone(),
                cost.placement.clone(),
                format!("{:.0}", cost.t_init_ns),
                format!("{:.2}", cost.t_block_ns),
                cost.t_key_ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.1}")),
                cost.handover.as_ref().map_or_else(|| "-".to_owned(), handover),
            ]);
        }
        println!("{table}");
    }
    println!();
}

/// Components of the handover cost.
fn handover(row: &HandoverRow) -> String {
    let HandoverRow { init_ns, packet_ns, block_ns } = row;
    format!("{init_ns:.0} + {packet_ns:.0} a packet + {block_ns:.2} a block")
}
