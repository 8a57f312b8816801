//! When a worker lets packets accumulate before it reads them, and for how long: interrupt
//! moderation that follows the packet rate, as in network cards.

/// Packets that one wake-up should serve: as many as a `tun` port groups at once. With 32, a packet
/// took a third more CPU time at the highest rate.
const WANTED: u64 = 128;
/// If fewer packets than this would arrive meanwhile, gathering costs more than it saves and delays
/// anyone who waits for answers.
const LEAST: u64 = 3;
/// After gathering this many times the worker waits for input once, to see how soon it arrives.
const PROBE: u32 = 32;
/// Weight of the history in the moving averages: (MEMORY - 1) / MEMORY.
const MEMORY: u64 = 8;

/// The times for which a worker gathers packets. It gathers only if several packets would have
/// woken it in that time: neither at low rates nor with widely spaced bursts, such as those of
/// another gateway that gathers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moderation {
    longest_ns: u64,
    looked_ns: u64,
    /// Recent packets and the time over which they arrived, with the same weights.
    packets: u64,
    span_ns: u64,
    /// Average time until input arrives, times [`MEMORY`].
    wait_ns: u64,
    /// Gathers since the worker last waited for input, up to a bound, and waits since it last
    /// gathered.
    gathered: u32,
    waits: u32,
}

impl Moderation {
    /// Gathers for at most `longest_ns`; 0 switches gathering off.
    pub(crate) fn new(longest_ns: u64) -> Self {
        // Input has to arrive quickly for a while before gathering starts.
        Self { longest_ns, wait_ns: MEMORY * most(longest_ns), ..Self::default() }
    }

    /// Whether gathering is switched on.
    pub(crate) fn is_on(&self) -> bool {
        self.longest_ns > 0
    }

    /// How long to gather from `now_ns`, in ns; 0 means to wait for input instead. `arrived`
    /// packets have arrived since the last call.
    pub(crate) fn next_ns(&mut self, now_ns: u64, arrived: u64) -> u64 {
        let span_ns = (now_ns - self.looked_ns).min(most(self.longest_ns));
        self.looked_ns = now_ns;
        self.packets = self.packets - self.packets / MEMORY + arrived;
        self.span_ns = self.span_ns - self.span_ns / MEMORY + span_ns;
        if self.gathered == PROBE {
            if self.waits < 2 {
                return 0;
            }
            self.gathered = 0;
        }
        let wanted_ns = self.span_ns * WANTED / self.packets.max(1);
        let time_ns = wanted_ns.min(self.longest_ns);
        let comes_soon = self.wait_ns / MEMORY <= time_ns / 2;
        let come = self.packets * time_ns / self.span_ns.max(1);
        if arrived == 0 || !comes_soon || come < LEAST {
            return 0;
        }
        (self.gathered, self.waits) = (self.gathered + 1, 0);
        time_ns
    }

    /// Records how long it took until there was input.
    pub(crate) fn note_wait(&mut self, wait_ns: u64) {
        self.waits = self.waits.saturating_add(1);
        // The first wait after gathering started at a random point between two bursts, and is
        // ignored.
        if self.waits > 1 {
            self.wait_ns = self.wait_ns - self.wait_ns / MEMORY + wait_ns.min(most(self.longest_ns));
        }
    }
}

/// The longest wait that counts, so that a pause is soon forgotten.
fn most(longest_ns: u64) -> u64 {
    8 * longest_ns
}
