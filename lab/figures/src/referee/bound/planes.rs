//! The search for the best prices, by cutting planes (Kelley 1960). Each plan is a plane: whatever
//! the prices, the least time is at most what the plan costs by them. The prices at which the
//! lowest plane is highest are tried next.

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome, Variable};

use super::machine::{Machine, Plan, Prices};

/// The plans so far.
pub(super) struct Planes {
    plans: Vec<Plan>,
    packets: f64,
    has_cache: bool,
    /// No price of the window or the cache above this is of use, in seconds: what a group costs on
    /// the slowest engine, and what a miss costs.
    highest: f64,
}

impl Planes {
    pub(super) fn new(machine: &Machine) -> Self {
        let one = super::machine::Group { packets: 1.0, ..Default::default() };
        let costs = machine.engines.iter().map(|engine| engine.work(one) + engine.miss.unwrap_or(0.0));
        Self {
            plans: Vec::new(),
            packets: machine.packets as f64,
            has_cache: machine.cached.is_some(),
            highest: costs.fold(0.0, f64::max),
        }
    }

    pub(super) fn add(&mut self, plan: Plan) {
        self.plans.push(plan);
    }

    /// The prices at which the lowest plane is highest, and that height in seconds; `None` if the
    /// programme cannot be solved. Numbers are scaled to those of one packet, in us.
    pub(super) fn best(&self, lost: &[f64]) -> Option<(Prices, f64)> {
        let scale = 1e6 / self.packets;
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let first = self.plans.first()?;
        let height = problem.add_var(1.0, (0.0, f64::INFINITY));
        let fraction = |problem: &mut Problem| problem.add_var(0.0, (0.0, 1.0));
        let engines: Vec<Variable> = first.engines.iter().map(|_| fraction(&mut problem)).collect();
        let buses: Vec<Variable> = first.buses.iter().map(|_| fraction(&mut problem)).collect();
        let highest = self.highest * 1e6;
        let window = problem.add_var(0.0, (0.0, highest));
        let cache = problem.add_var(0.0, (0.0, if self.has_cache { highest } else { 0.0 }));
        let all: Vec<_> = engines.iter().chain(&buses).map(|of| (*of, 1.0)).collect();
        problem.add_constraint(all, ComparisonOp::Eq, 1.0);
        for plan in &self.plans {
            let mut row = vec![(height, 1.0)];
            let times = plan.engines.iter().zip(lost).map(|(time, lost)| time + lost);
            row.extend(engines.iter().copied().zip(times.map(|time| -time * scale)));
            row.extend(buses.iter().copied().zip(plan.buses.iter().map(|time| -time * scale)));
            row.extend([(window, -plan.window / self.packets), (cache, -plan.cache / self.packets)]);
            problem.add_constraint(row, ComparisonOp::Le, 0.0);
        }
        let Ok(SolveOutcome::Solution(solution)) = problem.solve() else { return None };
        let value = |of: &Variable| solution[*of].max(0.0);
        let prices = Prices {
            engines: engines.iter().map(value).collect(),
            buses: buses.iter().map(value).collect(),
            window: value(&window) * 1e-6,
            cache: value(&cache) * 1e-6,
        };
        Some((normalised(prices), solution.objective() / scale))
    }
}

/// Fractions that add up to 1 exactly, as a bound needs them.
fn normalised(mut prices: Prices) -> Prices {
    let sum: f64 = prices.engines.iter().chain(&prices.buses).sum();
    prices.engines.iter_mut().chain(&mut prices.buses).for_each(|price| *price /= sum);
    prices
}
