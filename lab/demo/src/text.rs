//! Tables and paragraphs of at most 100 columns.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table, TableComponent};
use convoy_workbench::Spread;

/// Longest line, in characters.
pub(crate) const COLUMNS: usize = 100;

/// An empty table with this header: a line below it, numbers at the right from column
/// `first_number` on.
pub(crate) fn new_table(header: &[&str], first_number: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(header.to_vec());
    for component in [TableComponent::HeaderLines, TableComponent::MiddleHeaderIntersections] {
        table.set_style(component, '─');
    }
    for column in table.column_iter_mut().skip(first_number) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Median, lowest and highest for a table, with so many digits behind the point.
pub(crate) fn cell(spread: Spread, digits: usize) -> String {
    let Spread { median, lowest, highest } = spread;
    format!("{median:.digits$} ({lowest:.digits$}-{highest:.digits$})")
}

/// A paragraph, broken between words; its first line and the others begin with so many spaces.
pub(crate) fn paragraph(first: usize, others: usize, text: &str) -> String {
    let (mut lines, mut line) = (String::new(), " ".repeat(first));
    let mut is_empty = true;
    for word in text.split_ascii_whitespace() {
        let width = line.chars().count() + usize::from(!is_empty) + word.chars().count();
        if !is_empty && width > COLUMNS {
            lines += &line;
            lines.push('\n');
            line = " ".repeat(others);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paragraph_is_broken_between_words_within_100_columns() {
        let text = "packets ".repeat(40);
        let broken = paragraph(2, 4, &text);
        let lines: Vec<&str> = broken.lines().collect();
        assert!(lines.len() > 3 && lines.iter().all(|line| line.chars().count() <= COLUMNS), "{broken}");
        assert!(lines[0].starts_with("  packets") && lines[1].starts_with("    packets"), "{broken}");
        assert_eq!(broken.split_ascii_whitespace().count(), 40);
    }

    #[test]
    fn short_paragraph_is_one_line() {
        assert_eq!(paragraph(0, 2, "as it is"), "as it is\n");
    }

    #[test]
    fn table_has_one_rule_and_numbers_at_the_right() {
        let mut table = new_table(&["policy", "packets/s"], 1);
        table.add_row(["round-robin", "1"]).add_row(["cpu-only", "22"]);
        let text = table.trim_fmt();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].chars().all(|c| c == '─'), "{text}");
        assert_eq!(lines[2].len(), lines[3].len(), "{text}");
    }

    #[test]
    fn cell_has_median_lowest_and_highest() {
        assert_eq!(cell(Spread { median: 2.0, lowest: 1.0, highest: 12.345 }, 1), "2.0 (1.0-12.3)");
    }
}
