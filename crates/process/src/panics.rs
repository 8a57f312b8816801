//! What a panic said.

use std::any::Any;

/// The message of a panic.
pub fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn message_of_a_panic_is_kept_with_and_without_parameters() {
        let said = |panic: Box<dyn Any + Send>| words(&*panic).to_owned();
        let number = 7;
        assert_eq!(said(catch_unwind(|| panic!("plain")).expect_err("a panic")), "plain");
        assert_eq!(said(catch_unwind(|| panic!("number {number}")).expect_err("a panic")), "number 7");
    }
}
