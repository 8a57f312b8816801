//! Collects all workers' parts into one snapshot.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use convoy_report::snapshot::{Snapshot, TunnelSelection, policy, sa};
use convoy_report::survey::{Survey, SurveyPart};

use crate::worker_handles::WorkerHandles;

/// How long a worker may be silent before it has reported everything.
const SILENCE: Duration = Duration::from_millis(if cfg!(test) { 6_000 } else { 1_500 });
/// Time limit of all of them together, however slow their rounds are.
const IN_ALL: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 3 });

/// Asks all workers at once for their state, and waits for a limited time. With a selection, SAs,
/// tunnels and policies are of these tunnels alone.
pub(crate) fn gather(handles: &WorkerHandles, selection: Option<&TunnelSelection>) -> Snapshot {
    let (parts, received) = channel();
    for worker in 0..handles.len() {
        let survey = Survey::reported_to(parts.clone(), selection.cloned());
        handles.send(worker, move |thread| thread.begin_survey(survey));
    }
    // A worker that has ended drops its end.
    drop(parts);
    let mut gathered = Gathered::default();
    let until = Instant::now() + IN_ALL;
    while gathered.done.len() < handles.len() {
        let left = until.saturating_duration_since(Instant::now());
        match received.recv_timeout(left.min(SILENCE)) {
            Ok((worker, part)) => gathered.add(worker, part),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    gathered.whole(handles.len() as u16)
}

/// What has arrived so far.
#[derive(Default)]
struct Gathered {
    under_way: BTreeMap<u16, Snapshot>,
    done: BTreeMap<u16, Snapshot>,
}

impl Gathered {
    fn add(&mut self, worker: u16, part: SurveyPart) {
        let so_far = self.under_way.entry(worker).or_default();
        match part {
            SurveyPart::Sas(notes) => so_far.sas.extend(notes.into_iter().map(sa)),
            SurveyPart::Tunnels(rows) => so_far.tunnels.extend(rows),
            SurveyPart::Policies(views) => so_far.policies.extend(views.into_iter().map(policy)),
            SurveyPart::PoliciesAnew => so_far.policies.clear(),
            SurveyPart::Rest(rest) => {
                let Snapshot { sas, tunnels, policies, .. } = std::mem::take(so_far);
                self.under_way.remove(&worker);
                self.done.insert(worker, Snapshot { sas, tunnels, policies, ..*rest });
            }
        }
    }

    /// The snapshot of a gateway with this many workers, without those that have not reported
    /// everything.
    fn whole(self, workers: u16) -> Snapshot {
        let silent_workers = (0..workers).filter(|worker| !self.done.contains_key(worker)).collect();
        Snapshot { silent_workers, ..Snapshot::merge(self.done.into_values().collect()) }
    }
}
