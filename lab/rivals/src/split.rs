//! The adaptive split of NBA (Kim et al., EuroSys 2015): fixed fractions of the work for each
//! engine, which move in small steps towards the highest throughput. NBA has two engines and draws
//! at random; here the fractions of any number of engines are moved in turns, and the work is
//! assigned deterministically.

use convoy_scheduler::{Done, Heuristic, Pick, View};

use crate::immediate::head_to;

/// A step of a fraction, as in NBA.
const STEP: f64 = 0.04;
/// Completed multi-packets between two steps.
const PERIOD: u32 = 512;

/// Fractions of the blocks, by engine.
#[derive(Default)]
pub(crate) struct HillClimbedSplit {
    fractions: Vec<f64>,
    /// Blocks that each engine is owed.
    owed: Vec<f64>,
    /// The engine whose fraction moves, and in which direction.
    moved: usize,
    step: f64,
    /// Multi-packets, and predicted work, since the last step, and when that was.
    completed: u32,
    blocks: f64,
    since: u64,
    best: f64,
}

impl HillClimbedSplit {
    fn begin(&mut self, engines: usize) {
        self.fractions = vec![1.0 / engines as f64; engines];
        self.owed = vec![0.0; engines];
        self.step = STEP;
    }

    /// Goes on in the same direction while throughput grows, and otherwise turns around, with the
    /// next engine.
    fn climb(&mut self, now: u64) {
        let throughput = self.blocks / (now - self.since).max(1) as f64;
        if throughput < self.best {
            self.step = -self.step;
            if self.step > 0.0 {
                self.moved = (self.moved + 1) % self.fractions.len();
            }
        }
        self.best = throughput;
        let fraction = &mut self.fractions[self.moved];
        *fraction = (*fraction + self.step).clamp(0.0, 1.0);
        let sum: f64 = self.fractions.iter().sum();
        let all = self.fractions.len() as f64;
        self.fractions.iter_mut().for_each(|one| *one = if sum > 0.0 { *one / sum } else { 1.0 / all });
        (self.completed, self.blocks, self.since) = (0, 0.0, now);
    }
}

impl Heuristic for HillClimbedSplit {
    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        if self.fractions.len() != view.engines.len() {
            self.begin(view.engines.len());
        }
        let chosen = view.offers(0).max_by(|(one, _), (other, _)| {
            let due = |engine: usize| self.owed[engine] + self.fractions[engine];
            due(*one).total_cmp(&due(*other)).then(other.cmp(one))
        });
        chosen.map(|(engine, _)| head_to(engine))
    }

    fn assigned(&mut self, view: &View<'_>, pick: Pick) {
        let blocks = view.groups[0].blocks as f64;
        self.owed.iter_mut().zip(&self.fractions).for_each(|(owed, fraction)| *owed += fraction * blocks);
        self.owed[pick.engine] -= blocks;
        // What a full engine could not take is not made up for later.
        self.owed.iter_mut().for_each(|owed| *owed = owed.clamp(-16.0 * blocks, 16.0 * blocks));
        self.blocks += blocks;
    }

    fn completed(&mut self, done: &Done) {
        self.completed += 1;
        if self.completed >= PERIOD && !self.fractions.is_empty() {
            self.climb(done.now);
        }
    }
}
