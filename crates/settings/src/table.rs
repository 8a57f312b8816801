//! Tables as written. Each key is read by itself, so that an invalid one hides none of the others.

use std::ops::Range;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue, ValueDeserializer};

use crate::kinds::{Kind, KindTable, OfKind};
use crate::problem::{Problem, Source};
use crate::suggest::{nearest, unknown};

/// Reads tables and collects their problems.
pub struct Reader<'a> {
    source: &'a Source<'a>,
    problems: Vec<Problem>,
}

/// A table being read: keys left over at the end are unknown.
pub struct Entries<'a, 'r, 't> {
    reader: &'a mut Reader<'r>,
    path: &'a str,
    left: DeTable<'t>,
    unread: Vec<&'static str>,
}

/// The place of a table.
#[derive(Clone, Debug, Default)]
pub struct At {
    /// The table, in bytes.
    pub span: Range<usize>,
    /// Keys that are present, but misspelt or invalid, which has been reported.
    pub unread: Vec<&'static str>,
}

impl At {
    /// Whether a key is absent from the table; `is_there` says whether its value was read.
    pub fn lacks(&self, key: &str, is_there: bool) -> bool {
        !is_there && !self.unread.contains(&key)
    }
}

/// A table of the file; [`tables!`](crate::tables) declares it.
pub trait Table: Sized {
    /// The keys that may be in it.
    const KEYS: &'static [&'static str];
    /// For keys that only one kind of table has: the text that is added to the error when another
    /// kind has it.
    const NOTES: &'static [(&'static str, &'static str)];

    /// Reads each key.
    fn take(entries: &mut Entries<'_, '_, '_>) -> Self;

    /// Its place.
    fn at(&self) -> &At;

    /// Sets its place.
    fn set_at(&mut self, at: At);
}

/// Declares tables: each key with its type, behind `;` the nested tables, and behind another `;`
/// those of which there may be several. A key that is missing
/// from the file or invalid is `None`; the checker decides what is required. In a table of one kind
/// among several, `=>` adds a note to the error that other kinds get for this key:
/// `mtu: u16 => "; outside, mtu of [gateway] applies"`.
#[macro_export]
macro_rules! tables {
    ($(
        $(#[$doc:meta])* $vis:vis $name:ident {
            $($key:ident: $kind:ty $(=> $note:literal)?,)* $(; $($inner:ident: $table:ty,)* $(; $($list:ident: $item:ty,)*)?)?
        }
    )*) => { $(
        $(#[$doc])*
        #[derive(Default)]
        $vis struct $name {
            /// The table's place in the file.
            $vis at: $crate::At,
            $(
                #[doc = concat!("The key `", stringify!($key), "`.")]
                $vis $key: Option<$crate::Spanned<$kind>>,
            )*
            $($(
                #[doc = concat!("The table `", stringify!($inner), "`.")]
                $vis $inner: Option<$table>,
            )* $($(
                #[doc = concat!("The tables `", stringify!($list), "`.")]
                $vis $list: Vec<$item>,
            )*)?)?
        }

        impl $crate::Table for $name {
            const KEYS: &'static [&'static str] = &[
                $(stringify!($key),)*
                $($(stringify!($inner),)* $($(stringify!($list),)*)?)?
            ];
            const NOTES: &'static [(&'static str, &'static str)] =
                &[$($((stringify!($key), $note),)?)*];

            fn take(_entries: &mut $crate::Entries<'_, '_, '_>) -> Self {
                Self {
                    at: $crate::At::default(),
                    $($key: _entries.value(stringify!($key)),)*
                    $($($inner: _entries.table(stringify!($inner)),)* $($($list: _entries.list(stringify!($list)),)*)?)?
                }
            }

            fn at(&self) -> &$crate::At {
                &self.at
            }

            fn set_at(&mut self, at: $crate::At) {
                self.at = at;
            }
        }
    )* };
}

impl<'a> Reader<'a> {
    /// A reader of this text, and the parsed document.
    ///
    /// # Errors
    /// All TOML errors; nothing else is reported then.
    pub fn new(source: &'a Source<'a>) -> Result<(Self, DeTable<'a>), Vec<Problem>> {
        let (table, errors) = DeTable::parse_recoverable(source.text());
        if !errors.is_empty() {
            return Err(errors.iter().map(|error| source.toml_problem(error)).collect());
        }
        Ok((Self { source, problems: Vec::new() }, table.into_inner()))
    }

    /// The problems so far.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Records a problem.
    pub fn add(&mut self, span: &Range<usize>, key: &str, what: &str) {
        self.problems.push(self.source.problem(span, key, what));
    }

    /// Reads the table `path`; `None`, with a problem, if the value is no table.
    pub fn table<T: Table>(&mut self, path: &str, value: Spanned<DeValue<'_>>) -> Option<T> {
        let span = value.span();
        let left = self.is_table(path, value)?;
        let mut entries = Entries { reader: self, path, left, unread: Vec::new() };
        let mut table = T::take(&mut entries);
        let unread = entries.finish(|entries, key, _| entries.add_unknown(key, T::KEYS, T::KEYS));
        table.set_at(At { span, unread });
        Some(table)
    }

    /// Reads all tables `[[name]]`.
    pub fn list<T: Table>(&mut self, name: &str, value: Spanned<DeValue<'_>>) -> Vec<T> {
        self.items(name, value).into_iter().filter_map(|item| self.table(name, item)).collect()
    }

    /// Reads all tables `[[name]]`, each with the keys of its kind.
    pub fn list_of_kinds<C: Table, K: Kind>(
        &mut self,
        name: &str,
        value: Spanned<DeValue<'_>>,
        kinds: &KindTable<K>,
    ) -> Vec<OfKind<C, K::Keys>> {
        self.items(name, value).into_iter().filter_map(|item| self.of_kind(name, item, kinds)).collect()
    }

    fn items<'t>(&mut self, name: &str, value: Spanned<DeValue<'t>>) -> Vec<Spanned<DeValue<'t>>> {
        let span = value.span();
        let DeValue::Array(items) = value.into_inner() else {
            self.add(&span, name, &format!("there may be several; write [[{name}]], with two brackets"));
            return Vec::new();
        };
        items.into_iter().collect()
    }

    fn is_table<'t>(&mut self, path: &str, value: Spanned<DeValue<'t>>) -> Option<DeTable<'t>> {
        let span = value.span();
        let DeValue::Table(left) = value.into_inner() else {
            let name = path.rsplit('.').next().unwrap_or(path);
            self.add(&span, path, &format!("it is a table; write [{path}], or {name} = {{ ... }}"));
            return None;
        };
        Some(left)
    }

    fn of_kind<C: Table, K: Kind>(
        &mut self,
        path: &str,
        value: Spanned<DeValue<'_>>,
        kinds: &KindTable<K>,
    ) -> Option<OfKind<C, K::Keys>> {
        let span = value.span();
        let left = self.is_table(path, value)?;
        let mut entries = Entries { reader: self, path, left, unread: Vec::new() };
        let word: Option<Spanned<String>> = entries.value("kind");
        let mut common = C::take(&mut entries);
        let found = word.as_ref().and_then(|word| kinds.find(word.get_ref()));
        let mut kind = found.map(|kind| kind.take(&mut entries));
        match (&word, &kind) {
            (Some(word), None) => entries.add("kind", &word.span(), &kinds.unknown(word.get_ref())),
            (None, None) if !entries.unread.contains(&"kind") => {
                let what = format!("it is missing; add kind = \"{}\"", kinds.example);
                entries.reader.add(&span, &format!("{path}.kind"), &what);
            }
            _ => {}
        }
        if word.as_ref().is_some_and(|word| kinds.elsewhere.contains(&word.get_ref().as_str())) {
            // Its keys are that program's.
            entries.left.clear();
        } else if kind.is_none() {
            // The kind is unknown, so keys of any kind are read to check their types.
            kinds.rows.iter().for_each(|kind| drop(kind.take(&mut entries)));
        }
        let of_kind: &[&str] = found.map_or(&[], K::keys);
        let own = [&["kind"], C::KEYS, of_kind].concat();
        let all = kinds.rows.iter().fold(own.clone(), |all, kind| [&all, kind.keys()].concat());
        let unread = entries.finish(|entries, key, value| match kinds.kinds_with(key.get_ref()) {
            Some(kinds) => entries.add(key.get_ref(), value, &format!("it is only for kind = {kinds}")),
            None => entries.add_unknown(key, &own, &all),
        });
        let at = At { span, unread };
        if let Some(kind) = &mut kind {
            K::set_at(kind, at.clone());
        }
        common.set_at(at);
        Some(OfKind { common, word, kind })
    }
}

impl Entries<'_, '_, '_> {
    /// Reads the value of a key, if it is there.
    pub fn value<T: DeserializeOwned>(&mut self, key: &'static str) -> Option<Spanned<T>> {
        let value = self.left.remove(key)?;
        let span = value.span();
        match Spanned::deserialize(ValueDeserializer::from(value)) {
            Ok(read) => Some(read),
            Err(error) => {
                let path = format!("{}.{key}", self.path);
                self.reader.add(&error.span().unwrap_or(span), &path, error.message().trim());
                self.unread.push(key);
                None
            }
        }
    }

    /// Reads a nested table, if it is there.
    pub fn table<T: Table>(&mut self, key: &'static str) -> Option<T> {
        let value = self.left.remove(key)?;
        let table = self.reader.table(&format!("{}.{key}", self.path), value);
        if table.is_none() {
            self.unread.push(key);
        }
        table
    }

    /// Reads the nested tables of a key.
    pub fn list<T: Table>(&mut self, key: &'static str) -> Vec<T> {
        let value = self.left.remove(key);
        value.map_or_else(Vec::new, |value| self.reader.list(&format!("{}.{key}", self.path), value))
    }

    fn add(&mut self, key: &str, span: &Range<usize>, what: &str) {
        self.reader.add(span, &format!("{}.{key}", self.path), what);
    }

    /// Reports a key that is not one of `own`; it may be meant to be one of `all`.
    fn add_unknown(&mut self, key: &Spanned<DeString<'_>>, own: &[&'static str], all: &[&'static str]) {
        let (span, key) = (key.span(), key.get_ref());
        let known = if nearest(key, own).is_none() && nearest(key, all).is_some() { all } else { own };
        self.add(key, &span, &unknown("key", key, known));
        self.unread.extend(nearest(key, known));
    }

    /// Reports leftover keys, each with the place of its value, and returns the keys that are
    /// present but could not be read.
    fn finish(
        mut self,
        mut report: impl FnMut(&mut Self, &Spanned<DeString<'_>>, &Range<usize>),
    ) -> Vec<&'static str> {
        for (key, value) in std::mem::take(&mut self.left) {
            report(&mut self, &key, &value.span());
        }
        self.unread
    }
}
