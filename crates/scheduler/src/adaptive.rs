//! The adaptive window, by the rule in the crate's documentation.

/// Multi-packets between two decisions.
const PERIOD: u32 = 64;

/// The controller of one window.
#[derive(Clone, Debug)]
pub(crate) struct AdaptiveWindow {
    least: usize,
    most: usize,
    multi_packets: u32,
    saved_ticks: f64,
    lost_ticks: f64,
}

impl AdaptiveWindow {
    /// A controller that keeps the window between `least` and `most` packets.
    pub(crate) fn new(least: usize, most: usize) -> Self {
        Self { least, most, multi_packets: 0, saved_ticks: 0.0, lost_ticks: 0.0 }
    }

    /// Records a multi-packet: its packets, the cost of one initialisation, and the total time for
    /// which its packets stood in the window while the engine was idle; both in ticks. Returns the
    /// new window if it is time for a decision.
    #[inline(never)]
    pub(crate) fn note(&mut self, window: usize, packets: u32, t_init: f64, lost: u64) -> Option<usize> {
        self.multi_packets += 1;
        self.saved_ticks += t_init * f64::from(packets.saturating_sub(1));
        self.lost_ticks += lost as f64;
        if self.multi_packets < PERIOD {
            return None;
        }
        let next = match self.saved_ticks.total_cmp(&self.lost_ticks) {
            std::cmp::Ordering::Greater => window * 2,
            std::cmp::Ordering::Equal => window,
            std::cmp::Ordering::Less => window / 2,
        };
        *self = Self::new(self.least, self.most);
        Some(next.clamp(self.least, self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window_after(mut window: usize, packets: u32, t_init: f64, lost: u64) -> usize {
        let mut controller = AdaptiveWindow::new(2, 128);
        for _ in 0..PERIOD * 10 {
            let next = controller.note(window, packets, t_init, lost);
            window = next.unwrap_or(window);
        }
        window
    }

    #[test]
    fn the_window_grows_while_it_saves_and_shrinks_when_it_only_delays() {
        assert_eq!(window_after(16, 4, 1000.0, 40), 128);
        assert_eq!(window_after(16, 4, 10.0, 4_000), 2);
    }

    #[test]
    fn without_gain_or_loss_the_window_stays() {
        assert_eq!(window_after(16, 1, 1000.0, 0), 16);
    }
}
