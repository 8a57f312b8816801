//! Fields of events in a log as text.

use std::error::Error;
use std::fmt::{self, Debug};

use tracing::field::Field;
use tracing_subscriber::field::{RecordFields, Visit, VisitOutput};
use tracing_subscriber::fmt::format::{DefaultVisitor, FormatFields, Writer};

/// The place of a problem, which its message begins with (`convoy_config::log`).
const IN_THE_MESSAGE: [&str; 4] = ["file", "line", "column", "key"];

/// Writes a message and its fields as tracing-subscriber does, without those that are in the
/// message.
pub(crate) struct TextFields;

impl<'writer> FormatFields<'writer> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut visitor = Unrepeated(DefaultVisitor::new(writer, true));
        fields.record(&mut visitor);
        visitor.0.finish()
    }
}

struct Unrepeated<'a>(DefaultVisitor<'a>);

impl Visit for Unrepeated<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if !IN_THE_MESSAGE.contains(&field.name()) {
            self.0.record_debug(field, value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if !IN_THE_MESSAGE.contains(&field.name()) {
            self.0.record_str(field, value);
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.0.record_error(field, value);
    }
}
