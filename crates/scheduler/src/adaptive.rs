//! A window that adapts itself.
//!
//! Bundling saves each packet `t_init * (1 - 1/m)`, with `m` packets per multi-packet, and costs it the time for
//! which it stands in the window. Every 64 multi-packets the controller compares the two means: the window
//! doubles while the gain is larger, and halves when the wait is.

/// Multi-packets between two decisions.
const PERIOD: u32 = 64;

/// The controller of one window.
#[derive(Clone, Debug)]
pub struct AdaptiveWindow {
    least: usize,
    most: usize,
    multi_packets: u32,
    packets: u64,
    gain: f64,
    wait: u64,
}

impl AdaptiveWindow {
    /// A controller that keeps the window between `least` and `most` packets.
    pub fn new(least: usize, most: usize) -> Self {
        Self { least, most, multi_packets: 0, packets: 0, gain: 0.0, wait: 0 }
    }

    /// Notes a multi-packet: its packets, what one initialisation costs, and how long its packets waited in sum, both
    /// in ticks. Returns the window that should be from now on, if it is time to decide.
    pub fn note(&mut self, window: usize, packets: u32, t_init: f64, wait: u64) -> Option<usize> {
        self.multi_packets += 1;
        self.packets += u64::from(packets);
        self.gain += t_init * f64::from(packets.saturating_sub(1));
        self.wait += wait;
        if self.multi_packets < PERIOD {
            return None;
        }
        let next = if self.gain >= self.wait as f64 { window * 2 } else { window / 2 };
        *self = Self::new(self.least, self.most);
        Some(next.clamp(self.least, self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(mut window: usize, t_init: f64, wait_per_packet: u64) -> usize {
        let mut controller = AdaptiveWindow::new(2, 128);
        for _ in 0..PERIOD * 10 {
            let next = controller.note(window, 4, t_init, 4 * wait_per_packet);
            window = next.unwrap_or(window);
        }
        window
    }

    #[test]
    fn the_window_grows_while_it_gains_and_shrinks_when_it_only_waits() {
        assert_eq!(settle(16, 1000.0, 10), 128);
        assert_eq!(settle(16, 10.0, 1000), 2);
    }
}
