//! Surveys of a worker: its SAs, and the totals of its tunnels.

use convoy_dataplane::ledger::{Ledger, Tally};
use convoy_ipsec::{Action, PolicyView, SaCursor, SaView, Tables, TunnelId};
use convoy_report::snapshot::{PolicyNote, SaNote, Snapshot};
use convoy_report::survey::{STEP, Survey, Surveyed};

use super::WorkerThread;

impl WorkerThread {
    /// Reports the state of this worker step by step from now on. A survey in progress is
    /// abandoned: its requester has given up.
    pub(crate) fn begin_survey(&mut self, survey: Survey) {
        self.survey = Some(survey);
    }

    /// Takes one step of the survey in progress; `false` if there is none.
    pub(crate) fn survey(&mut self) -> bool {
        let Some(mut survey) = self.survey.take() else { return false };
        if survey.step(self) {
            self.survey = Some(survey);
        } else if !survey.is_reported() {
            self.find_climbs(survey.drops_before());
        }
        true
    }

    /// Updates the totals of a tunnel; call it before the tunnel changes or loses its name.
    pub(super) fn update_totals_of(&mut self, tunnel: TunnelId) {
        let views: Vec<SaView> = self.tables().sas_of(tunnel).collect();
        views.iter().for_each(|view| self.note(view));
        let lost = self.tables().dropped_without_sa_by(tunnel);
        if lost > 0 {
            let name = self.name_of(tunnel).map(str::to_owned);
            self.ledger.note_without_sa(name.as_deref(), tunnel, lost);
        }
    }

    /// Updates the totals of all tunnels; call it before they change or lose their names.
    pub(super) fn update_totals(&mut self) {
        self.close_departed();
        let mut cursor = Some(SaCursor::default());
        while let Some(at) = cursor {
            let mut views = Vec::new();
            cursor = self.tables().walk_sas(at, STEP as u32, &mut |view| views.push(view));
            views.iter().for_each(|view| self.note(view));
        }
        self.note_without_sa(0, usize::MAX);
    }
}

impl WorkerThread {
    /// Gives a policy the name of its tunnel, if that has one.
    pub(crate) fn call_by_tunnel(&self, view: &mut PolicyView) {
        let Action::Protect(tunnel) = view.policy.action else { return };
        if let Some(name) = self.name_of(tunnel) {
            name.clone_into(&mut view.policy.name);
        }
    }
}

impl Surveyed for WorkerThread {
    fn tables(&self) -> &Tables {
        &self.worker.pipeline().ipsec().tables
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn close_departed(&mut self) {
        let now_ns = self.worker.pipeline().clock().now_ns();
        for view in self.worker.pipeline_mut().take_departed() {
            let name = self.name_of(view.tunnel).map(str::to_owned);
            self.ledger.close(view.index, name.as_deref(), view.name.direction, Tally::of(&view, now_ns));
        }
    }

    fn note(&mut self, view: &SaView) {
        let name = self.name_of(view.tunnel).map(str::to_owned);
        let tally = Tally::of(view, self.worker.pipeline().clock().now_ns());
        self.ledger.note(view.index, name.as_deref(), view.name.direction, tally);
    }

    fn note_without_sa(&mut self, first: usize, most: usize) -> bool {
        let Some(losers) = self.tables().dropped_without_sa_of(first, most) else { return false };
        let losers: Vec<_> = losers.collect();
        for (tunnel, packets) in losers {
            let name = self.name_of(tunnel).map(str::to_owned);
            self.ledger.note_without_sa(name.as_deref(), tunnel, packets);
        }
        true
    }

    fn describe(&self, view: SaView) -> SaNote {
        let stage = self.worker.pipeline().stage();
        let by = |engine: usize| stage.engines().description(engine).name.clone();
        SaNote {
            tunnel: self.ledger.tunnel_of(view.index).to_owned(),
            child: self.child_of(view.tunnel),
            inline_by: stage.bound_to(view.index).map(by).unwrap_or_default(),
            view,
        }
    }

    fn describe_policy(&self, mut view: PolicyView) -> PolicyNote {
        self.call_by_tunnel(&mut view);
        let name = match view.policy.action {
            Action::Protect(tunnel) => self.names.get(&tunnel),
            Action::Bypass | Action::Discard => None,
        };
        let name = name.cloned().unwrap_or_default();
        PolicyNote { view, child: name.child, others: name.others }
    }

    fn now_ns(&self) -> u64 {
        self.worker.pipeline().clock().now_ns()
    }

    fn rest(&self) -> Snapshot {
        Snapshot::of_all_but_lists(&self.worker, self.started)
    }
}
