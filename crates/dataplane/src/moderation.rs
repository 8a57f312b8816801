//! When a worker gathers packets before it reads them, and for how long: interrupt moderation that
//! follows the rate, as network cards have it.

/// Packets that one wake is to serve, as many as a `tun` groups at once. With 32, a packet took a
/// third more of the CPU at the highest rate.
const WANTED: u64 = 128;
/// Where fewer packets than this would come meanwhile, gathering them costs more than it saves, and
/// holds up what waits for answers.
const LEAST: u64 = 3;
/// After so many times it waits for input again, to see how soon that comes.
const PROBE: u32 = 32;
/// The weight of what was before the last value is this part less one of it.
const MEMORY: u64 = 8;

/// The times for which a worker gathers packets. It does so only where several times packets would
/// have woken it meanwhile: not at low rates, and not with bursts that come far apart, such as
/// those of another gateway that gathers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moderation {
    longest_ns: u64,
    looked_ns: u64,
    /// Packets of late, and the time in which they came, both by the same weights.
    packets: u64,
    span_ns: u64,
    /// How long it takes of late until input comes, times [`MEMORY`].
    wait_ns: u64,
    /// How often it has gathered since it last waited for input, as far as it counts, and how often
    /// it has waited since it gathered.
    gathered: u32,
    waits: u32,
}

impl Moderation {
    /// Gathering for `longest_ns` at most; 0 is never.
    pub(crate) fn new(longest_ns: u64) -> Self {
        // Input has to come soon for some time before it begins.
        Self { longest_ns, wait_ns: MEMORY * most(longest_ns), ..Self::default() }
    }

    /// Whether it is ever done.
    pub(crate) fn is_on(&self) -> bool {
        self.longest_ns > 0
    }

    /// How long to gather packets at `now_ns`, in ns; 0 is to wait for input instead. `arrived`
    /// packets came since the last call.
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

    /// Notes how long it took until there was input.
    pub(crate) fn note_wait(&mut self, wait_ns: u64) {
        self.waits = self.waits.saturating_add(1);
        // The first wait after packets were gathered began at any time between two bursts.
        if self.waits > 1 {
            self.wait_ns = self.wait_ns - self.wait_ns / MEMORY + wait_ns.min(most(self.longest_ns));
        }
    }
}

/// The longest time that counts, so that a pause is soon forgotten.
fn most(longest_ns: u64) -> u64 {
    8 * longest_ns
}
