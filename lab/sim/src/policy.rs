//! Names of policies: those of the gateway, and their rivals.

use convoy_scheduler::SchedulingPolicy;

/// The gateway's policy of this name; `None` for a [rival](convoy_rivals::ALL).
///
/// # Errors
/// A message with all names, if this is none of them.
pub fn named(name: &str) -> Result<Option<SchedulingPolicy>, String> {
    if convoy_rivals::by_name(name).is_some() {
        return Ok(None);
    }
    name.parse().map(Some).map_err(|error| format!("{error}; their rivals: {}", rivals()))
}

/// The names of all rivals, for messages.
pub fn rivals() -> String {
    convoy_rivals::ALL.map(|rival| rival.name).join(", ")
}

/// The names of all policies of the gateway, and then of their rivals.
pub fn names() -> impl Iterator<Item = &'static str> {
    SchedulingPolicy::ALL
        .map(SchedulingPolicy::name)
        .into_iter()
        .chain(convoy_rivals::ALL.map(|rival| rival.name))
}
