//! The thread that measures, while the gateway runs, what workers could only estimate: transforms
//! that arrived with a reload or that charon negotiated. It measures separate instances at the
//! lowest priority, so that no worker and no engine in use waits for it.

use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::Builder;

use convoy_dataplane::costs::Costs;
use convoy_engine::AlgorithmCost;
use convoy_ipsec::Transform;
use convoy_process::supervise;

use crate::worker_handles::WorkerHandles;

/// The lowest priority that a thread can have (setpriority(2)).
const NICE: i32 = 19;

/// Starts the thread, and returns when it has everything that it will need of the system. It
/// measures what is `wanted`, otherwise what `ahead` contains, reports to the workers, and ends
/// when no worker is left to report to.
///
/// # Errors
/// The system's, if it cannot create a thread.
pub(crate) fn start(
    mut costs: Costs,
    wanted: Receiver<Transform>,
    ahead: Vec<Transform>,
    handles: WorkerHandles,
) -> io::Result<()> {
    let (ready, started) = channel();
    Builder::new().name("calibration".to_owned()).spawn(move || {
        supervise::survive("calibration", || {
            if let Err(error) = rustix::process::setpriority_process(None, NICE) {
                tracing::warn!(
                    "cannot lower the priority of the calibration, so it runs at a worker's: {error}"
                );
            }
            costs.make_instances();
            let _ = ready.send(());
            measure(&mut costs, &wanted, ahead, &handles);
        });
    })?;
    // An error means that it has panicked, which is logged; estimates are used then.
    let _ = started.recv();
    Ok(())
}

fn measure(costs: &mut Costs, wanted: &Receiver<Transform>, ahead: Vec<Transform>, handles: &WorkerHandles) {
    let mut ahead = ahead.into_iter();
    loop {
        let next = match wanted.try_recv() {
            Ok(transform) => Some(transform),
            Err(TryRecvError::Empty) => ahead.next().or_else(|| wanted.recv().ok()),
            Err(TryRecvError::Disconnected) => None,
        };
        let Some(transform) = next else { break };
        for measured in costs.measure(transform) {
            let AlgorithmCost { handover, t_key, .. } = measured.cost;
            tracing::debug!(
                "engine {}: calibrated {transform}: {} + {t_key:.1} ns per change of SA; \
                 handover by the worker: {:.0} ns + {:.0} ns per packet + {:.1} ns per 16 bytes",
                measured.engine.name,
                measured.cost,
                handover.t_init,
                handover.t_packet,
                handover.t_block
            );
            for worker in 0..handles.len() {
                let measured = measured.clone();
                handles.send(worker, move |thread| thread.learn_cost(&measured));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use convoy_assembly::assemble;
    use convoy_config::Config;
    use convoy_dataplane::handoff::Handoff;
    use convoy_dataplane::pipeline::Clock;
    use convoy_dataplane::worker::Worker;
    use convoy_engine::{Engine, EngineControl, IdleEngine, Software};
    use convoy_ipsec::{KeyMaterial, Proposal, SaConfig, SaDirection};
    use convoy_state::Starts;

    use super::*;
    use crate::worker_thread::WorkerThread;

    #[test]
    fn the_first_sa_of_a_transform_is_installed_with_an_estimate_that_a_measurement_replaces() {
        let engine = Software::new("software0");
        let description = engine.description().clone();
        let (mut costs, makers) = (Costs::without_cache(), Arc::new(Mutex::new(Vec::new())));
        let made_by = Arc::clone(&makers);
        costs.measure_by(&description, move || {
            made_by.lock().expect("no panic").push(std::thread::current().name().map(str::to_owned));
            Ok(IdleEngine::new(Software::new("instance")))
        });
        let (wanted, wants) = channel();
        let models = costs.models().asking(wanted);
        let config = Config::parse("test.toml", "").expect("good");
        let engines: Vec<Box<dyn Engine>> = vec![Box::new(engine)];
        let (pipeline, installed) =
            assemble::pipeline(&config, 0, engines, &costs, Clock::start(), &Starts::Unlimited)
                .expect("good");
        let worker = Worker::new(pipeline, Vec::new(), Vec::new());
        let mut thread = WorkerThread::new(worker, Arc::new(config), installed, models.clone());
        let (commands, received) = channel();
        let waker = Handoff::between(1).expect("an event file").remove(0).waker();
        let handles = WorkerHandles::new([(commands, waker)]);
        start(costs, wants, Vec::new(), handles).expect("a thread");

        let transform = "aes256ctr-sha384".parse::<Proposal>().expect("good").transform;
        let keys =
            KeyMaterial::new(transform, vec![7; transform.key_material_len()]).expect("its own length");
        let ends = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().expect("an address"));
        let sa = SaConfig::new(4096, SaDirection::Outbound, ends[0], ends[1], keys);
        thread.install(&sa, None).expect("software can do it");
        let estimate = models.of(&description, transform);

        let learn = received.recv_timeout(Duration::from_secs(60)).expect("it is measured");
        assert_eq!(thread.cost_of(&description, transform), estimate, "until the worker hears of it");
        learn(&mut thread);
        assert_ne!(thread.cost_of(&description, transform), estimate);
        let makers = makers.lock().expect("no panic");
        assert_eq!(*makers, [Some("calibration".to_owned())], "no other thread has measured");
    }
}
