//! Numbers in a few characters.

/// A count in at most four digits or with an SI prefix: `9999`, `12.3k`, `1.23G`.
pub(crate) fn short(count: f64) -> String {
    const PREFIXES: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if count < 9_999.5 {
        return format!("{count:.0}");
    }
    let mut scaled = count / 1000.0;
    let mut prefixes = PREFIXES.iter();
    let mut prefix = prefixes.next().copied().unwrap_or_default();
    // A value that would be rounded to 1000 gets the next prefix.
    while scaled >= 999.5 {
        let Some(next) = prefixes.next() else { break };
        (scaled, prefix) = (scaled / 1000.0, next);
    }
    let digits = if scaled < 9.995 {
        2
    } else if scaled < 99.95 {
        1
    } else {
        0
    };
    format!("{scaled:.digits$}{prefix}")
}

/// A time in seconds or, if that would exceed two digits, a larger unit: `90s`, `15m`, `30h`,
/// `12d`.
pub(crate) fn time(seconds: f64) -> String {
    let units = [(1.0, "s"), (60.0, "m"), (3_600.0, "h")];
    let unit = units.into_iter().find(|(unit, _)| seconds < 100.0 * unit);
    let (unit, name) = unit.unwrap_or((86_400.0, "d"));
    format!("{:.0}{name}", (seconds / unit).floor())
}

/// A time in seconds since 1970, as the log has it but for fractions: `2026-11-26T02:12:14Z`.
pub(crate) fn utc(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that a leap day is the last of its year (Hinnant,
    // "chrono-Compatible Low-Level Date Algorithms").
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, is_next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + is_next;
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_five_characters_at_most() {
        let cases = [
            (0.0, "0"),
            (9_999.0, "9999"),
            (9_999.6, "10.0k"),
            (12_345.0, "12.3k"),
            (999_499.0, "999k"),
            (999_500.0, "1.00M"),
            (1_234_567_890.0, "1.23G"),
            (9_995_000_000.0, "10.0G"),
            (u64::MAX as f64, "18.4E"),
        ];
        for (count, shown) in cases {
            assert_eq!(short(count), shown);
            assert!(short(count).len() <= 5, "{shown}");
        }
    }

    #[test]
    fn a_time_is_a_date_of_the_calendar() {
        let cases = [
            (0.9, "1970-01-01T00:00:00Z"),
            (951_782_399.0, "2000-02-28T23:59:59Z"),
            (951_782_400.0, "2000-02-29T00:00:00Z"),
            (1_764_121_934.5, "2025-11-26T01:52:14Z"),
            (4_107_542_400.0, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, shown) in cases {
            assert_eq!(utc(seconds), shown);
        }
    }

    #[test]
    fn times_have_the_largest_unit_of_which_there_are_a_few() {
        let cases =
            [(0.4, "0s"), (99.9, "99s"), (100.0, "1m"), (5_999.0, "99m"), (7_200.0, "2h"), (1e6, "11d")];
        for (seconds, shown) in cases {
            assert_eq!(time(seconds), shown);
        }
    }
}
