//! One tunnel in `convoy top`: what `convoy show tunnel NAME` prints.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::widgets::Paragraph;

use super::drawn::Drawn;
use super::model::Model;
use super::picture::OwnedTunnelKey;
use crate::show::tunnel_details;

/// Draws a tunnel's details from a line on.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    tunnel: &OwnedTunnelKey,
    line: usize,
) -> Drawn {
    let text = text(model, tunnel);
    let height = usize::from(area.height);
    let last_line = text.lines().count().saturating_sub(height);
    let shown: Vec<&str> = text.lines().skip(line.min(last_line)).take(height).collect();
    frame.render_widget(Paragraph::new(shown.join("\n")), area);
    Drawn { lines: height, last_line }
}

fn text(model: &Model, tunnel: &OwnedTunnelKey) -> String {
    match model.line(tunnel).zip(model.now()) {
        Some((line, now)) => tunnel_details(now, model.interval(), &line.row),
        None => format!("{}: the gateway has no such tunnel any more; Esc goes back", tunnel.0),
    }
}
