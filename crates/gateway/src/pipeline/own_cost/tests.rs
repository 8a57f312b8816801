use super::*;

/// One round: packets taken in, its time and that of engines on the core, in ns.
struct Round(usize, u64, u64);

/// A core that lives by its rounds, and the last cost that it was told.
#[derive(Default)]
struct Core {
    cost: OwnCost,
    now_ns: u64,
    work: Work,
}

impl Core {
    fn live(&mut self, rounds: impl IntoIterator<Item = Round>) -> u64 {
        for Round(packets, took_ns, inline_ns) in rounds {
            self.cost.begin_round(self.now_ns, self.work);
            self.cost.took_in(packets);
            self.now_ns += took_ns;
            self.work.inline_ns += inline_ns;
            self.cost.end_round(packets > 0);
        }
        self.cost.begin_round(self.now_ns, self.work).own_ns
    }
}

/// What a packet costs on a core that has an engine beside it, in ns.
struct Beside {
    own_ns: u64,
    /// More for a packet that is handed over.
    handoff_ns: u64,
    /// The time of the engine on the core.
    inline_ns: u64,
}

impl Core {
    /// Lives through rounds of 32 packets. A round is given away as far as the engine elsewhere has room, which is every second time, where the core is
    /// told that it costs less to hand a packet over than to do it. How many packets were given away in all, and the last costs.
    fn share(&mut self, beside: &Beside, rounds: usize) -> (u64, PerPacket) {
        let (mut told, before) = (PerPacket::default(), self.work.given);
        for round in 0..rounds {
            told = self.cost.begin_round(self.now_ns, self.work);
            let gives = told.handoff_ns < beside.inline_ns && round % 2 == 0;
            self.work.is_out = gives;
            self.cost.took_in(32);
            let more_ns = if gives { beside.handoff_ns } else { beside.inline_ns };
            self.now_ns += 32 * (beside.own_ns + more_ns);
            if gives {
                self.work.given += 32;
            } else {
                self.work.inline_ns += 32 * beside.inline_ns;
            }
            self.cost.end_round(true);
        }
        (self.work.given - before, told)
    }
}

#[test]
fn it_is_the_time_of_rounds_less_that_of_engines_on_the_core_by_packets() {
    let mut core = Core::default();
    assert_eq!(core.live([Round(63, 100_000, 40_000)]), 0, "too few packets");
    let mut core = Core::default();
    assert_eq!(core.live([Round(64, 100_000, 36_000)]), 1_000);
    // Engines that say they took longer than the rounds do not make it negative.
    assert_eq!(Core::default().live([Round(64, 1_000, 36_000)]), 0);
}

#[test]
fn it_follows_packets_that_become_dearer_and_cheaper() {
    let mut core = Core::default();
    core.live([Round(64, 64_000, 0)]);
    assert_eq!(core.live((0..100).map(|_| Round(64, 640_000, 0))), 10_000);
    assert!((500..=510).contains(&core.live((0..100).map(|_| Round(64, 32_000, 0)))));
}

#[test]
fn rounds_in_which_nothing_moved_do_not_count_and_a_lost_core_counts_for_little() {
    let mut core = Core::default();
    assert_eq!(core.live([Round(64, 64_000, 0), Round(0, 500_000_000, 0)]), 1_000);
    assert_eq!(core.live([Round(64, 64_000, 0)]), 1_000);
    // Four milliseconds without the core would be 63 us a packet.
    assert_eq!(core.live([Round(64, 4_000_000, 0)]), 1_125);
}

#[test]
fn it_is_forgotten_after_a_second_without_packets() {
    let mut core = Core::default();
    assert_eq!(core.live([Round(64, 64_000, 0)]), 1_000);
    assert_eq!(core.live([Round(0, FORGOTTEN_NS, 0)]), 1_000);
    assert_eq!(core.live([Round(0, 1, 0)]), 0);
    assert_eq!(core.live([Round(64, 128_000, 0)]), 2_000);
}

#[test]
fn what_handing_over_costs_is_learned_beside_the_own_cost_and_followed() {
    let mut core = Core::default();
    let cheap = Beside { own_ns: 200, handoff_ns: 40, inline_ns: 300 };
    let (given, told) = core.share(&cheap, 4_096);
    assert_eq!(told.own_ns, 200);
    assert!((35..=45).contains(&told.handoff_ns), "{told:?}");
    // All that there was room for elsewhere, but for the trials.
    assert!((60_000..=65_536).contains(&given), "{given} of 131072");
    let (_, told) = core.share(&Beside { own_ns: 100, handoff_ns: 160, ..cheap }, 4_096);
    assert_eq!(told.own_ns, 100);
    assert!((155..=165).contains(&told.handoff_ns), "{told:?}");
}

#[test]
fn where_handing_over_does_not_pay_hardly_a_packet_is_given_away_until_it_does() {
    let mut core = Core::default();
    let dear = Beside { own_ns: 200, handoff_ns: 150, inline_ns: 100 };
    core.share(&dear, 1_024);
    let (given, told) = core.share(&dear, 16_384);
    assert!((145..=155).contains(&told.handoff_ns), "{told:?}");
    let of_all = given as f64 / (16_384.0 * 32.0);
    assert!(given > 0 && of_all < 0.01, "{of_all}");
    // Now packets are longer, and it pays.
    let (given, _) = core.share(&Beside { inline_ns: 400, ..dear }, 1_024);
    assert!(given > 12_000, "{given} of 32768");
}

#[test]
fn where_no_packet_ever_stays_the_own_cost_is_that_of_all() {
    let mut core = Core::default();
    for _ in 0..64 {
        let told = core.cost.begin_round(core.now_ns, core.work);
        assert_eq!(told.handoff_ns % 300, 0, "a trial or nothing");
        core.cost.took_in(32);
        core.now_ns += 32 * 300;
        core.work.given += 32;
        core.work.is_out = true;
        core.cost.end_round(true);
    }
    assert_eq!(core.cost.begin_round(core.now_ns, core.work).own_ns, 300);
}

#[test]
fn what_handing_over_costs_is_remembered_while_no_packets_come() {
    let mut core = Core::default();
    let dear = Beside { own_ns: 200, handoff_ns: 150, inline_ns: 100 };
    core.share(&dear, 1_024);
    core.cost.begin_round(core.now_ns, core.work);
    core.now_ns += FORGOTTEN_NS + 1;
    core.cost.end_round(false);
    let told = core.cost.begin_round(core.now_ns, core.work);
    assert_eq!(told.own_ns, 0);
    assert!((145..=155).contains(&told.handoff_ns), "{told:?}");
}

#[test]
fn a_thread_that_lost_its_core_while_others_worked_for_it_does_not_think_that_dear() {
    let mut core = Core::default();
    let cheap = Beside { own_ns: 200, handoff_ns: 40, inline_ns: 300 };
    core.share(&cheap, 4_096);
    core.cost.begin_round(core.now_ns, core.work);
    core.cost.took_in(32);
    core.work.given += 32;
    core.now_ns += 4_000_000;
    core.cost.end_round(true);
    let (_, told) = core.share(&cheap, 64);
    assert!((35..=45).contains(&told.handoff_ns), "{told:?}");
}
