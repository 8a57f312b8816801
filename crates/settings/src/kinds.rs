//! Tables of several kinds: `[[engine]]` and `[[port]]`. Which kinds there are is a table that the
//! program passes in.

use std::ops::Range;

use toml::Spanned;

use crate::table::{At, Entries, Table};

/// A kind of table: a row of a [`KindTable`].
pub trait Kind: Copy + 'static {
    /// The keys that only tables of this kind have, as read.
    type Keys;

    /// Its word, the value of `kind`.
    fn word(self) -> &'static str;

    /// The names of its keys.
    fn keys(self) -> &'static [&'static str];

    /// Texts that are added to the error if another kind of table has a key of this kind, each with
    /// its key.
    fn notes(self) -> &'static [(&'static str, &'static str)];

    /// Reads its keys.
    fn take(self, entries: &mut Entries<'_, '_, '_>) -> Self::Keys;

    /// Sets the table's place.
    fn set_at(keys: &mut Self::Keys, at: At);
}

/// The kinds of a table that a program knows.
#[derive(Clone, Copy, Debug)]
pub struct KindTable<K: 'static> {
    /// The kinds, in the order of listings.
    pub rows: &'static [K],
    /// The word to suggest if none is given.
    pub example: &'static str,
    /// The words of kinds that only another program knows.
    pub elsewhere: &'static [&'static str],
    /// For the error about such a word: which program, and how to get it.
    pub where_else: &'static str,
}

impl<K: Kind> KindTable<K> {
    /// The kind with this word.
    pub fn find(&self, word: &str) -> Option<K> {
        self.rows.iter().copied().find(|kind| kind.word() == word)
    }

    /// The words, in the order of listings.
    pub fn words(&self) -> Vec<&'static str> {
        self.rows.iter().map(|kind| kind.word()).collect()
    }

    /// The kinds that have a key, as text for an error; `None` if no kind has it.
    pub(crate) fn kinds_with(&self, key: &str) -> Option<String> {
        let having: Vec<K> = self.rows.iter().copied().filter(|kind| kind.keys().contains(&key)).collect();
        let words: Vec<String> = having.iter().map(|kind| format!("{:?}", kind.word())).collect();
        let notes = having.iter().flat_map(|kind| kind.notes());
        let note = notes.filter(|(of, _)| *of == key).map(|(_, note)| *note).next().unwrap_or_default();
        (!words.is_empty()).then(|| words.join(" or ") + note)
    }

    /// The error about a word that is not in the table.
    pub(crate) fn unknown(&self, word: &str) -> String {
        if self.elsewhere.contains(&word) {
            return format!("{word:?} is {}", self.where_else);
        }
        crate::suggest::unknown_value(word, &self.words())
    }
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

    enum Keys {
        Plain,
        Sized(Sized),
        Both(Both),
    }

    #[derive(Clone, Copy)]
    enum Row {
        Plain,
        Sized,
        Both,
    }

    impl Kind for Row {
        type Keys = Keys;

        fn word(self) -> &'static str {
            match self {
                Self::Plain => "plain",
                Self::Sized => "sized",
                Self::Both => "both",
            }
        }

        fn keys(self) -> &'static [&'static str] {
            match self {
                Self::Plain => Plain::KEYS,
                Self::Sized => Sized::KEYS,
                Self::Both => Both::KEYS,
            }
        }

        fn notes(self) -> &'static [(&'static str, &'static str)] {
            match self {
                Self::Plain => Plain::NOTES,
                Self::Sized => Sized::NOTES,
                Self::Both => Both::NOTES,
            }
        }

        fn take(self, entries: &mut Entries<'_, '_, '_>) -> Keys {
            match self {
                Self::Plain => Keys::Plain,
                Self::Sized => Keys::Sized(Sized::take(entries)),
                Self::Both => Keys::Both(Both::take(entries)),
            }
        }

        fn set_at(_: &mut Keys, _: At) {}
    }

    const TABLE: KindTable<Row> = KindTable {
        rows: &[Row::Plain, Row::Sized, Row::Both],
        example: "plain",
        elsewhere: &["modelled"],
        where_else: "of another program",
    };

    fn read(text: &str) -> (Vec<OfKind<Common, Keys>>, Vec<String>) {
        let source = Source::new("a.toml", text);
        let (mut reader, tables) = Reader::new(&source).unwrap_or_else(|_| panic!("TOML: {text}"));
        let (_, value) = tables.into_iter().next().expect("a table");
        let entries = reader.list_of_kinds("thing", value, &TABLE);
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
            Keys::Plain => None,
        };
        assert_eq!(bytes.map(Spanned::into_inner), Some(7));
    }

    #[test]
    fn a_key_of_other_kinds_says_of_which_and_a_misspelt_one_what_was_meant() {
        let reported = |text: &str| read(&format!("[[thing]]\n{text}")).1.join("\n");
        let of_others = "thing.bytes: it is only for kind = \"sized\" or \"both\"; others have no size";
        assert_eq!(reported("kind = \"plain\"\nbytes = 7\n"), of_others);
        let misspelt = "thing.bites: unknown key; did you mean \"bytes\"?";
        assert_eq!(reported("kind = \"sized\"\nbites = 7\n"), misspelt);
        let none = "thing.colour: unknown key; expected one of kind, name, bytes";
        assert_eq!(reported("kind = \"sized\"\ncolour = 7\n"), none);
    }

    #[test]
    fn without_a_known_kind_its_keys_are_read_all_the_same() {
        let reported = |text: &str| read(&format!("[[thing]]\n{text}")).1.join("\n");
        assert_eq!(reported("bytes = 7\n"), "thing.kind: it is missing; add kind = \"plain\"");
        let wrong = reported("kind = \"sised\"\nbytes = \"x\"\n");
        let (kind, bytes) = wrong.split_once('\n').expect("two problems");
        assert_eq!(
            kind,
            "thing.kind: unknown \"sised\"; did you mean \"sized\"? Possible values: plain, sized, both"
        );
        assert!(bytes.starts_with("thing.bytes: invalid type"), "{bytes}");
    }

    #[test]
    fn a_kind_of_another_program_is_one_error_and_its_keys_are_not_read() {
        let (entries, problems) = read("[[thing]]\nkind = \"modelled\"\nname = \"a\"\nspeed = 7\n");
        assert_eq!(problems, ["thing.kind: \"modelled\" is of another program"]);
        assert!(entries[0].kind.is_none() && entries[0].common.name.is_some());
    }
}
