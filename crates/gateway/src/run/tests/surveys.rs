//! Snapshots are taken in steps between packets.

use std::sync::mpsc::Receiver;

use convoy_report::survey::{STEP, Survey, SurveyPart};

use super::*;

/// Enough for several steps over each kind of row.
const TUNNELS: u32 = 5 * STEP as u32 / 2;

/// A worker whose rounds the test runs, and the test's ends of its ports.
struct OneWorker {
    thread: WorkerThread,
    inside: Memory,
    outside: Memory,
    peer: Pipeline,
}

fn one_worker() -> OneWorker {
    let pipeline = |site| {
        let (config, mut costs) = (config(TUNNELS, site, 1), costs());
        let engines = assemble::engines(&config, &mut costs).expect("software is everywhere").remove(0);
        let (pipeline, installed) =
            assemble::pipeline(&config, 0, engines, &costs, Clock::start(), &Starts::Unlimited)
                .expect("good");
        (pipeline, installed, config, costs)
    };
    let ((in_port, inside), (out_port, outside)) =
        (link("inside", "hosts", LINK, 1_500), link("outside", "network", LINK, 1_500));
    let (ours, installed, config, costs) = pipeline(1);
    let worker = Worker::new(ours, vec![Box::new(in_port)], vec![Box::new(out_port)]);
    let thread = WorkerThread::new(worker, Arc::new(config), installed, costs.models());
    OneWorker { thread, inside, outside, peer: pipeline(2).0 }
}

impl OneWorker {
    /// Whether a packet from the peer is delivered before the snapshot's next step.
    fn passes(&mut self, tunnel: u32, mark: u8) -> bool {
        let frame = self.peer.pool_mut().take_filled(&inner(tunnel, mark), 64).expect("a frame");
        self.peer.outbound(&mut vec![frame]);
        while self.peer.pump(Input::Ended) || !self.peer.is_empty() {}
        let mut sealed = std::mem::take(&mut self.peer.departures.to_outside);
        self.outside.send(self.peer.pool_mut(), &mut sealed).expect("memory does not fail");
        for _ in 0..2 {
            self.thread.worker_mut().round(true).expect("memory does not fail");
        }
        let mut burst = Vec::new();
        self.inside.receive(self.peer.pool_mut(), 64, &mut burst).expect("memory does not fail");
        let has_come = burst.iter().any(|frame| frame[63] == mark);
        self.peer.pool_mut().give_back_burst(&mut burst);
        has_come
    }

    /// Sets the policies that it has.
    fn set_policies(&mut self) {
        let ipsec = self.thread.worker_mut().pipeline_mut().ipsec_mut();
        let policies = ipsec.tables.policies().map(|view| view.policy).collect();
        ipsec.set_policies(policies);
    }

    fn begin(&mut self) -> Receiver<(u16, SurveyPart)> {
        let (parts, received) = channel();
        self.thread.begin_survey(Survey::reported_to(parts, None));
        received
    }
}

/// The number of rows in a part.
fn rows(part: &SurveyPart) -> usize {
    match part {
        SurveyPart::Sas(rows) => rows.len(),
        // Each tunnel has a row for each direction.
        SurveyPart::Tunnels(rows) => rows.len() / 2,
        SurveyPart::Policies(rows) => rows.len(),
        SurveyPart::PoliciesAnew | SurveyPart::Rest(_) => 0,
    }
}

#[test]
fn a_packet_waits_for_one_step_of_a_snapshot_at_most() {
    let mut bench = one_worker();
    let received = bench.begin();
    let (mut sas, mut tunnels, mut policies, mut is_done) = (0, 0, 0, false);
    let mut steps = 0_u32;
    while bench.thread.survey() {
        steps += 1;
        let parts: Vec<_> = received.try_iter().collect();
        assert!(parts.iter().map(|(_, part)| rows(part)).sum::<usize>() <= STEP, "in step {steps}");
        for (_, part) in parts {
            let count = rows(&part);
            match part {
                SurveyPart::Sas(_) => sas += count,
                SurveyPart::Tunnels(_) => tunnels += count,
                SurveyPart::Policies(_) => policies += count,
                SurveyPart::PoliciesAnew => panic!("no policy has changed"),
                SurveyPart::Rest(_) => is_done = true,
            }
        }
        assert!(bench.passes(steps % TUNNELS, steps as u8), "between step {steps} and the next");
    }
    let rows = TUNNELS as usize;
    assert_eq!((sas, tunnels, policies, is_done), (2 * rows, rows, rows, true));
    assert!(steps as usize >= 4 * rows / STEP, "{steps} steps");
}

#[test]
fn policies_that_change_during_a_snapshot_are_reported_again_and_it_ends_however_often_they_do() {
    let mut bench = one_worker();
    let received = bench.begin();
    let (mut names, mut last, mut again, mut is_done) = (Vec::new(), Vec::new(), 0, false);
    let mut changes = 0;
    while bench.thread.survey() {
        for (_, part) in received.try_iter() {
            match part {
                SurveyPart::Policies(notes) => {
                    let first = names.is_empty();
                    names.extend(notes.into_iter().map(|note| note.view.policy.name));
                    if first && changes < 2 {
                        changes += 1;
                        bench.set_policies();
                    }
                }
                SurveyPart::PoliciesAnew => {
                    (again, last) = (again + 1, std::mem::take(&mut names));
                }
                SurveyPart::Rest(_) => is_done = true,
                SurveyPart::Sas(_) | SurveyPart::Tunnels(_) => {}
            }
        }
    }
    assert!(is_done && again == 2 && last.len() == STEP, "{again} times again");
    let ipsec = bench.thread.worker_mut().pipeline().ipsec();
    assert_eq!(names, ipsec.tables.policies().map(|view| view.policy.name).collect::<Vec<_>>());

    let received = bench.begin();
    while bench.thread.survey() {
        bench.set_policies();
    }
    assert!(received.try_iter().any(|(_, part)| matches!(part, SurveyPart::Rest(_))));
}

#[test]
fn snapshot_ends_when_its_listener_is_gone() {
    let mut bench = one_worker();
    drop(bench.begin());
    assert!(bench.thread.survey());
    assert!(!bench.thread.survey(), "the first step was not heard");
}
