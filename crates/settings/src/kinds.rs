//! Tables of several kinds: `[[engine]]` and `[[port]]`.

use std::ops::Range;

use toml::Spanned;

use crate::table::{At, Entries, Table};

/// The kinds of a table, as an enum that holds the keys of one. The registries of engines and ports
/// declare theirs.
pub trait Kinds: Sized {
    /// The words of `kind`, in the order of listings.
    const WORDS: &'static [&'static str];
    /// The word to suggest if none is given.
    const EXAMPLE: &'static str;

    /// The keys that only tables of this kind have, by its index in [`WORDS`](Self::WORDS).
    fn keys(kind: usize) -> &'static [&'static str];

    /// Texts that are added to the error if another kind of table has a key of this kind, each with
    /// its key.
    fn notes(kind: usize) -> &'static [(&'static str, &'static str)];

    /// Reads the keys of this kind.
    fn take(kind: usize, entries: &mut Entries<'_, '_, '_>) -> Self;

    /// Sets the table's place.
    fn set_at(&mut self, at: At);

    /// The index of a word in [`WORDS`](Self::WORDS).
    fn find(word: &str) -> Option<usize> {
        Self::WORDS.iter().position(|other| *other == word)
    }

    /// The kinds that have a key, as text for an error; `None` if no kind has it.
    fn kinds_with(key: &str) -> Option<String> {
        let having: Vec<usize> =
            (0..Self::WORDS.len()).filter(|kind| Self::keys(*kind).contains(&key)).collect();
        let words: Vec<String> = having.iter().map(|kind| format!("{:?}", Self::WORDS[*kind])).collect();
        let notes = having.iter().flat_map(|kind| Self::notes(*kind));
        let note = notes.filter(|(of, _)| *of == key).map(|(_, note)| *note).next().unwrap_or_default();
        (!words.is_empty()).then(|| words.join(" or ") + note)
    }
}

/// Declares the [`Kinds`] of a table: each with its word and its keys, which are a [`Table`].
/// `like` is the word to suggest where none is given.
///
/// ```
/// convoy_settings::tables! {
///     Circle { radius: u16, }
///     Square { side: u16, }
/// }
/// convoy_settings::kinds! {
///     enum Shape like "circle" {
///         Circle "circle" => Circle,
///         Square "square" => Square,
///     }
/// }
/// assert_eq!(<Shape as convoy_settings::Kinds>::find("square"), Some(1));
/// ```
#[macro_export]
macro_rules! kinds {
    ($(#[$about:meta])* $visible:vis enum $name:ident like $example:literal {
        $($(#[$doc:meta])* $kind:ident $word:literal => $keys:ty,)*
    }) => {
        $(#[$about])*
        $visible enum $name { $($(#[$doc])* $kind($keys),)* }

        impl $crate::Kinds for $name {
            const WORDS: &'static [&'static str] = &[$($word,)*];
            const EXAMPLE: &'static str = $example;

            fn keys(kind: usize) -> &'static [&'static str] {
                [$(<$keys as $crate::Table>::KEYS,)*][kind]
            }

            fn notes(kind: usize) -> &'static [(&'static str, &'static str)] {
                [$(<$keys as $crate::Table>::NOTES,)*][kind]
            }

            fn take(kind: usize, entries: &mut $crate::Entries<'_, '_, '_>) -> Self {
                let take: &[fn(&mut $crate::Entries<'_, '_, '_>) -> Self] =
                    &[$(|entries| Self::$kind($crate::Table::take(entries)),)*];
                take[kind](entries)
            }

            fn set_at(&mut self, at: $crate::At) {
                match self { $(Self::$kind(keys) => $crate::Table::set_at(keys, at),)* }
            }
        }
    };
}

/// A table of one kind among several.
pub struct OfKind<C, K> {
    /// The keys that all kinds have.
    pub common: C,
    /// The value of `kind`.
    pub word: Option<Spanned<String>>,
    /// The keys of its kind; `None` if the word is missing or unknown, which was reported.
    pub kind: Option<K>,
}

impl<C: Table, K> OfKind<C, K> {
    /// The place of its kind's word, or of the whole table.
    pub fn span(&self) -> Range<usize> {
        match &self.word {
            Some(word) => word.span(),
            None => self.common.at().span.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reader, Source, Text, tables};

    tables! {
        Common { name: String, }
        Plain {}
        Sized { bytes: u16 => "; others have no size", }
        Both { bytes: u16, }
    }

    crate::kinds! {
        enum Keys like "plain" {
            Plain "plain" => Plain,
            Sized "sized" => Sized,
            Both "both" => Both,
        }
    }

    fn read(text: &str) -> (Vec<OfKind<Common, Keys>>, Vec<String>) {
        let source = Source::new("a.toml", text);
        let (mut reader, tables) = Reader::new(&source).unwrap_or_else(|_| panic!("TOML: {text}"));
        let (_, value) = tables.into_iter().next().expect("a table");
        let entries = reader.list_of_kinds("thing", value);
        let problems = reader.into_problems();
        (entries, problems.iter().map(|problem| format!("{}: {}", problem.key, problem.what)).collect())
    }

    #[test]
    fn each_kind_has_the_keys_of_all_and_its_own() {
        let (mut entries, problems) = read("[[thing]]\nkind = \"sized\"\nname = \"a\"\nbytes = 7\n");
        assert_eq!(problems, [""; 0]);
        let entry = entries.remove(0);
        assert_eq!(entry.common.name.as_ref().map(|name: &Text| name.get_ref().as_str()), Some("a"));
        let bytes = match entry.kind.expect("a kind") {
            Keys::Sized(keys) => keys.bytes,
            Keys::Both(keys) => keys.bytes.filter(|_| false),
            Keys::Plain(_) => None,
        };
        assert_eq!(bytes.map(Spanned::into_inner), Some(7));
    }

    #[test]
    fn a_key_of_other_kinds_says_of_which_and_a_misspelt_one_what_was_meant() {
        let told = |text: &str| read(&format!("[[thing]]\n{text}")).1.join("\n");
        let of_others = "thing.bytes: it is only for kind = \"sized\" or \"both\"; others have no size";
        assert_eq!(told("kind = \"plain\"\nbytes = 7\n"), of_others);
        let misspelt = "thing.bites: unknown key; did you mean \"bytes\"?";
        assert_eq!(told("kind = \"sized\"\nbites = 7\n"), misspelt);
        let none = "thing.colour: unknown key; expected one of kind, name, bytes";
        assert_eq!(told("kind = \"sized\"\ncolour = 7\n"), none);
    }

    #[test]
    fn without_a_known_kind_its_keys_are_read_all_the_same() {
        let told = |text: &str| read(&format!("[[thing]]\n{text}")).1.join("\n");
        assert_eq!(told("bytes = 7\n"), "thing.kind: it is missing; add kind = \"plain\"");
        let wrong = told("kind = \"sised\"\nbytes = \"x\"\n");
        let (kind, bytes) = wrong.split_once('\n').expect("two problems");
        assert_eq!(
            kind,
            "thing.kind: unknown \"sised\"; did you mean \"sized\"? Possible values: plain, sized, both"
        );
        assert!(bytes.starts_with("thing.bytes: invalid type"), "{bytes}");
    }
}
