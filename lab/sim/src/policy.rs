//! Names of policies: those of the gateway, and their rivals from the literature.

use convoy_scheduler::Policy;

/// The gateway's policy of this name; `None` for a [rival](convoy_rivals::ALL).
///
/// # Errors
/// A message with all names, if this is none of them.
pub fn named(name: &str) -> Result<Option<Policy>, String> {
    if convoy_rivals::by_name(name).is_some() {
        return Ok(None);
    }
    name.parse().map(Some).map_err(|error| format!("{error}; rivals from the literature: {}", rivals()))
}

/// The names of all rivals, for messages.
pub fn rivals() -> String {
    convoy_rivals::ALL.map(|rival| rival.name).join(", ")
}
