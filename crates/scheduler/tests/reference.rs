//! The scheduler against MODEL.md's rules 1 to 3 written down as plainly as they can be.

use std::collections::VecDeque;

use convoy_scheduler::{CostModel, Dispatch, EngineModel, Input, Item, Scheduler, SchedulerConfig};
use proptest::prelude::*;

const BYTE_LIMIT: u32 = 3_000;

#[derive(Clone, Copy, Debug)]
struct Packet {
    sa: u32,
    bytes: u32,
}

/// Rules 1 to 3 by scans and sums.
struct Plain {
    window: VecDeque<(usize, Packet)>,
    size: usize,
    models: Vec<(bool, CostModel, usize)>,
    /// Estimates, the one in service first, and when that one began.
    queues: Vec<(VecDeque<u64>, u64)>,
}

impl Plain {
    fn dispatch(&mut self, now: u64, ended: bool) -> Option<(usize, Vec<usize>)> {
        let sa = self.window.front()?.1.sa;
        let mut bytes = 0;
        let mut group = Vec::new();
        for (place, packet) in self.window.iter().filter(|(_, packet)| packet.sa == sa) {
            if !group.is_empty() && bytes + packet.bytes > BYTE_LIMIT {
                break;
            }
            bytes += packet.bytes;
            group.push(*place);
        }
        let all: u32 =
            self.window.iter().filter(|(_, packet)| packet.sa == sa).map(|(_, packet)| packet.bytes).sum();
        if self.window.len() < self.size && !ended && all < BYTE_LIMIT {
            return None;
        }
        let chosen: Vec<Packet> = self
            .window
            .iter()
            .filter(|(place, _)| group.contains(place))
            .map(|(_, packet)| *packet)
            .collect();
        let blocks: u64 = chosen.iter().map(|packet| u64::from(packet.bytes.div_ceil(16))).sum();
        let engine = (0..self.models.len())
            .filter(|engine| self.queues[*engine].0.len() <= self.models[*engine].2)
            .min_by_key(|engine| {
                let (is_cpu, model, _) = self.models[*engine];
                let (queue, began) = &self.queues[*engine];
                let q: u64 = queue.iter().skip(1).sum();
                let r = queue.front().map_or(0, |cost| cost.saturating_sub(now - began));
                let p = model.cost(blocks);
                (q + r + p, is_cpu, p, *engine)
            })?;
        let p = self.models[engine].1.cost(blocks);
        let (queue, began) = &mut self.queues[engine];
        if queue.is_empty() {
            *began = now;
        }
        queue.push_back(p);
        self.window.retain(|(place, _)| !group.contains(place));
        Some((engine, group))
    }

    fn complete(&mut self, now: u64, engine: usize) {
        self.queues[engine].0.pop_front();
        self.queues[engine].1 = now;
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push(Packet),
    Dispatch,
    Complete(usize),
    Advance(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let packet = (0u32..5, prop_oneof![Just(40u32), 1u32..1600]).prop_map(|(sa, bytes)| Packet { sa, bytes });
    let step = prop_oneof![
        5 => packet.prop_map(Step::Push),
        3 => Just(Step::Dispatch),
        2 => (0usize..3).prop_map(Step::Complete),
        1 => (0u64..5_000).prop_map(Step::Advance),
    ];
    proptest::collection::vec(step, 1..300)
}

fn models() -> Vec<(bool, CostModel, usize)> {
    vec![
        (true, CostModel { t_init: 300.0, t_block: 30.0 }, 2),
        (false, CostModel { t_init: 1000.0, t_block: 10.0 }, 3),
        (false, CostModel { t_init: 1000.0, t_block: 10.0 }, 1),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn dispatch_for_dispatch_as_the_rules_say(window in 1usize..12, steps in steps()) {
        let mut plain = Plain {
            window: VecDeque::new(),
            size: window,
            models: models(),
            queues: vec![(VecDeque::new(), 0); 3],
        };
        let engines = models()
            .into_iter()
            .map(|(is_cpu, model, depth)| EngineModel {
                name: String::new(), is_cpu, depth, costs: vec![Some(model)],
            })
            .collect();
        let config = SchedulerConfig { window, byte_limit: BYTE_LIMIT, correct: false, ..SchedulerConfig::default() };
        let mut real = Scheduler::new(config, engines).expect("in range");
        let mut tickets: Vec<VecDeque<u64>> = vec![VecDeque::new(); 3];
        let (mut now, mut place) = (0u64, 0usize);
        let mut left: Vec<usize> = Vec::new();
        let note = |dispatch: &Dispatch<usize>, tickets: &mut Vec<VecDeque<u64>>, left: &mut Vec<usize>| {
            tickets[dispatch.engine].push_back(dispatch.ticket);
            left.extend(&dispatch.items);
        };
        for step in steps {
            match step {
                Step::Push(packet) => {
                    let blocks = packet.bytes.div_ceil(16);
                    let item = Item { sa: packet.sa, algorithm: 0, class: 0, blocks, bytes: packet.bytes, payload: place };
                    let taken = real.push(now, item).is_ok();
                    prop_assert_eq!(taken, plain.window.len() < window);
                    if taken {
                        plain.window.push_back((place, packet));
                        place += 1;
                    }
                }
                Step::Dispatch => {
                    let got = real.dispatch(now, Input::More);
                    if let Some(dispatch) = &got { note(dispatch, &mut tickets, &mut left); }
                    prop_assert_eq!(got.map(|dispatch| (dispatch.engine, dispatch.items)), plain.dispatch(now, false));
                }
                Step::Complete(engine) => {
                    if let Some(ticket) = tickets[engine].pop_front() {
                        real.complete(now, engine, ticket, None);
                        plain.complete(now, engine);
                    }
                }
                Step::Advance(ticks) => now += ticks,
            }
        }
        // The source has ended: everything leaves, nothing twice.
        loop {
            for (engine, tickets) in tickets.iter_mut().enumerate() {
                while let Some(ticket) = tickets.pop_front() {
                    real.complete(now, engine, ticket, None);
                    plain.complete(now, engine);
                }
            }
            let got = real.dispatch(now, Input::Ended);
            let want = plain.dispatch(now, true);
            if let Some(dispatch) = &got { note(dispatch, &mut tickets, &mut left); }
            let is_over = got.is_none();
            prop_assert_eq!(got.map(|dispatch| (dispatch.engine, dispatch.items)), want);
            if is_over { break; }
        }
        prop_assert_eq!(real.waiting(), 0);
        left.sort_unstable();
        prop_assert_eq!(left, (0..place).collect::<Vec<_>>());
    }
}
