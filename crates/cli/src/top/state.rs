//! What the user of `convoy top` has chosen, by keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::picture::OwnedTunnelKey;

/// The order of tunnels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TopSort {
    /// Bits per second in both directions.
    #[default]
    Rate,
    In,
    Out,
    Dropped,
    /// Those that were not heard for the longest time first.
    Heard,
    /// Those that are not up first.
    State,
    Name,
}

impl TopSort {
    const ALL: [Self; 7] =
        [Self::Rate, Self::In, Self::Out, Self::Dropped, Self::Heard, Self::State, Self::Name];

    /// In a word.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::In => "in",
            Self::Out => "out",
            Self::Dropped => "dropped",
            Self::Heard => "heard",
            Self::State => "state",
            Self::Name => "name",
        }
    }

    fn moved(self, by: usize) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or_default();
        Self::ALL[(at + by) % Self::ALL.len()]
    }
}

/// What is shown below the rates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum TopPage {
    /// Tunnels, engines, windows and drops.
    #[default]
    Overview,
    /// One tunnel, from this line of its details on.
    Tunnel(OwnedTunnelKey, usize),
    Help,
}

/// The user's choices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TopState {
    pub(super) sort: TopSort,
    pub(super) is_reversed: bool,
    /// What names or addresses of shown tunnels contain.
    pub(super) filter: String,
    /// Whether the filter is being typed.
    pub(super) is_typing: bool,
    pub(super) selected: Option<OwnedTunnelKey>,
    pub(super) page: TopPage,
}

/// What follows from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterKey {
    GoOn,
    Quit,
}

impl TopState {
    /// Takes a key. `tunnels` are those that are shown, in order, and `lines` is how many lines a
    /// page has.
    pub(super) fn press(&mut self, key: KeyEvent, tunnels: &[OwnedTunnelKey], lines: usize) -> AfterKey {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if has_control && key.code == KeyCode::Char('c') {
            return AfterKey::Quit;
        }
        if self.is_typing {
            self.type_key(key.code);
            return AfterKey::GoOn;
        }
        match key.code {
            KeyCode::Char('q') => return AfterKey::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => {
                self.page = if self.page == TopPage::Help { TopPage::Overview } else { TopPage::Help };
            }
            KeyCode::Esc => self.go_back(),
            KeyCode::Backspace | KeyCode::Left => self.page = TopPage::Overview,
            KeyCode::Up | KeyCode::Char('k') => self.go(tunnels, -1),
            KeyCode::Down | KeyCode::Char('j') => self.go(tunnels, 1),
            KeyCode::PageUp => self.go(tunnels, -(lines.max(1) as isize)),
            KeyCode::PageDown => self.go(tunnels, lines.max(1) as isize),
            KeyCode::Home | KeyCode::Char('g') => self.go(tunnels, isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.go(tunnels, isize::MAX),
            code if self.page == TopPage::Overview => self.choose(code, tunnels),
            _ => {}
        }
        AfterKey::GoOn
    }

    /// Keeps the details from being scrolled behind this line.
    pub(super) fn scroll_to_at_most(&mut self, last: usize) {
        if let TopPage::Tunnel(_, line) = &mut self.page {
            *line = last.min(*line);
        }
    }

    /// Takes a key of the overview.
    fn choose(&mut self, code: KeyCode, tunnels: &[OwnedTunnelKey]) {
        match code {
            KeyCode::Char('s') => self.sort = self.sort.moved(1),
            KeyCode::Char('S') => self.sort = self.sort.moved(TopSort::ALL.len() - 1),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Enter | KeyCode::Right => {
                let selected = self.selected.as_ref().filter(|selected| tunnels.contains(selected));
                if let Some(tunnel) = selected.or(tunnels.first()).cloned() {
                    self.selected = Some(tunnel.clone());
                    self.page = TopPage::Tunnel(tunnel, 0);
                }
            }
            _ => {}
        }
    }

    /// Takes a key of the filter.
    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
    }

    /// Closes what is open, or else ends the filter.
    fn go_back(&mut self) {
        if self.page == TopPage::Overview {
            self.filter.clear();
        }
        self.page = TopPage::Overview;
    }

    /// Moves the selection, or scrolls through a tunnel's details.
    fn go(&mut self, tunnels: &[OwnedTunnelKey], by: isize) {
        match &mut self.page {
            TopPage::Tunnel(_, line) => *line = line.saturating_add_signed(by),
            TopPage::Help => {}
            TopPage::Overview => {
                let at = self.selected.as_ref().and_then(|key| tunnels.iter().position(|other| other == key));
                let next = match at {
                    Some(at) => at.saturating_add_signed(by),
                    // The first key selects the first tunnel.
                    None if by == isize::MAX => usize::MAX,
                    None => 0,
                };
                self.selected = tunnels.get(next.min(tunnels.len().saturating_sub(1))).cloned();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Vec<OwnedTunnelKey> {
        (0..30).map(|number| (format!("t{number}"), Some(number))).collect()
    }

    fn press(state: &mut TopState, codes: &[KeyCode]) -> AfterKey {
        let mut next = AfterKey::GoOn;
        for code in codes {
            next = state.press(KeyEvent::from(*code), &keys(), 10);
        }
        next
    }

    fn selected(state: &TopState) -> Option<u32> {
        state.selected.as_ref().and_then(|(_, number)| *number)
    }

    #[test]
    fn the_selection_moves_and_stays_in_the_list() {
        let mut state = TopState::default();
        for (code, expected) in [
            (KeyCode::Down, 0),
            (KeyCode::Char('j'), 1),
            (KeyCode::PageDown, 11),
            (KeyCode::Up, 10),
            (KeyCode::End, 29),
            (KeyCode::Down, 29),
            (KeyCode::PageUp, 19),
            (KeyCode::Home, 0),
            (KeyCode::Up, 0),
        ] {
            press(&mut state, &[code]);
            assert_eq!(selected(&state), Some(expected), "{code:?}");
        }
        // A tunnel that is gone is selected no more.
        state.press(KeyEvent::from(KeyCode::Down), &keys()[5..], 10);
        assert_eq!(selected(&state), Some(5));
        state.press(KeyEvent::from(KeyCode::Down), &[], 10);
        assert_eq!(state.selected, None);
    }

    #[test]
    fn a_tunnel_is_opened_scrolled_and_closed() {
        let mut state = TopState::default();
        press(&mut state, &[KeyCode::Down, KeyCode::Down, KeyCode::Enter]);
        assert_eq!(state.page, TopPage::Tunnel(("t1".to_owned(), Some(1)), 0));
        press(&mut state, &[KeyCode::Down, KeyCode::PageDown, KeyCode::Char('s')]);
        assert_eq!(state.page, TopPage::Tunnel(("t1".to_owned(), Some(1)), 11));
        assert_eq!(state.sort, TopSort::Rate, "keys of the overview do nothing here");
        press(&mut state, &[KeyCode::Esc]);
        assert_eq!((state.page.clone(), selected(&state)), (TopPage::Overview, Some(1)));
    }

    #[test]
    fn letters_belong_to_the_filter_while_it_is_typed() {
        let mut state = TopState::default();
        let typed = ['/', 'q', 's', 'x'].map(KeyCode::Char);
        assert_eq!(press(&mut state, &typed), AfterKey::GoOn);
        press(&mut state, &[KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!((state.filter.as_str(), state.is_typing, state.sort), ("qs", false, TopSort::Rate));
        press(&mut state, &[KeyCode::Esc]);
        assert_eq!(state.filter, "");
        press(&mut state, &['/', 'a'].map(KeyCode::Char));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.press(interrupt, &keys(), 10), AfterKey::Quit);
    }

    #[test]
    fn every_order_is_reached_and_q_quits() {
        let mut state = TopState::default();
        let mut seen = Vec::new();
        for _ in TopSort::ALL {
            seen.push(state.sort.name());
            press(&mut state, &[KeyCode::Char('s')]);
        }
        assert_eq!((state.sort, seen.len()), (TopSort::Rate, 7));
        press(&mut state, &['S', 'r'].map(KeyCode::Char));
        assert_eq!((state.sort, state.is_reversed), (TopSort::Name, true));
        press(&mut state, &[KeyCode::Char('?')]);
        assert_eq!(state.page, TopPage::Help);
        press(&mut state, &[KeyCode::Esc]);
        assert_eq!(press(&mut state, &[KeyCode::Char('q')]), AfterKey::Quit);
    }
}
