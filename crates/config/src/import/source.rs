//! Files that are imported, and the files that they include.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::findings::{FileLine, Finding};
use zeroize::Zeroizing;

/// The most bytes of a file, so that a device or a mistake does not fill the memory.
const MOST_BYTES: u64 = 1 << 20;
/// The most files that include each other.
const DEEPEST: usize = 10;

/// A file's name and text.
pub struct ImportSource {
    path: PathBuf,
    pub(super) name: Rc<str>,
    pub(super) text: Zeroizing<String>,
    /// How many files lead to this one.
    depth: usize,
}

impl ImportSource {
    /// A text that stands for a file.
    pub fn new(path: &Path, text: &str) -> Self {
        Self::at(path, Zeroizing::new(text.to_owned()), 0)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The system's, and that it is too large or no text.
    pub fn read(path: &Path) -> Result<Self, Finding> {
        let name = path.display().to_string().into();
        let text = text_of(path).map_err(|error| FileLine::new(&name, 0).finding("", cannot(&error)))?;
        Ok(Self::at(path, text, 0))
    }

    fn at(path: &Path, text: Zeroizing<String>, depth: usize) -> Self {
        Self { path: path.to_owned(), name: path.display().to_string().into(), text, depth }
    }

    /// A line of it, from 1 on.
    pub(super) fn place(&self, line: usize) -> FileLine {
        FileLine::new(&self.name, line)
    }

    /// The files that a line includes, in the order of their names. A pattern may have `*` and `?`
    /// in its last part; without these, the file has to exist.
    ///
    /// # Errors
    /// The system's, and files that include each other in a circle.
    pub(super) fn included(&self, pattern: &str, line: usize) -> Result<Vec<Self>, Finding> {
        let wrong = |what: String| self.place(line).finding("include", format!("{pattern:?}: {what}"));
        if self.depth == DEEPEST {
            return Err(wrong(format!("more than {DEEPEST} files include each other; remove a circle")));
        }
        let whole = self.path.parent().unwrap_or_else(|| Path::new("")).join(pattern);
        let name = whole.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let folder = whole.parent().unwrap_or_else(|| Path::new(""));
        if folder.to_string_lossy().contains(['*', '?', '[']) {
            return Err(wrong("a pattern in the last part alone is expected; name the folder".to_owned()));
        }
        let paths = if name.contains(['*', '?']) {
            matching(folder, name).map_err(|error| wrong(cannot(&error)))?
        } else {
            vec![whole.clone()]
        };
        let read = |path: PathBuf| {
            let text = text_of(&path).map_err(|error| wrong(cannot(&error)))?;
            Ok(Self::at(&path, text, self.depth + 1))
        };
        paths.into_iter().map(read).collect()
    }
}

fn cannot(error: &io::Error) -> String {
    format!("it cannot be read: {error}; a text file of at most {MOST_BYTES} bytes is expected")
}

fn text_of(path: &Path) -> io::Result<Zeroizing<String>> {
    let file = crate::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = Zeroizing::new(String::new());
    if file.take(MOST_BYTES + 1).read_to_string(&mut text)? as u64 > MOST_BYTES {
        return Err(io::Error::other("it is too large"));
    }
    Ok(text)
}

/// The files of a folder whose names fit a pattern; none if the folder does not exist.
fn matching(folder: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with('.') && fits(name.as_bytes(), pattern.as_bytes()) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Whether a name fits a pattern with `*` and `?`, in time that grows with their product alone.
fn fits(name: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut next, mut last_star) = (0, 0, None);
    while at < name.len() {
        match pattern.get(next) {
            Some(b'*') => {
                last_star = Some((next, at));
                next += 1;
            }
            Some(one) if *one == b'?' || *one == name[at] => {
                at += 1;
                next += 1;
            }
            _ => {
                let Some((star, from)) = last_star else { return false };
                last_star = Some((star, from + 1));
                at = from + 1;
                next = star + 1;
            }
        }
    }
    pattern[next..].iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_fits_names_by_stars_and_question_marks() {
        for (name, pattern, expected) in [
            ("site.conf", "*.conf", true),
            ("site.conf.bak", "*.conf", false),
            ("a1.conf", "a?.conf", true),
            ("a.conf", "a?.conf", false),
            ("aaaaaaaaaaaaaaaaaaaaaaaaab", "*a*a*a*a*a*a*c", false),
            ("", "*", true),
        ] {
            assert_eq!(fits(name.as_bytes(), pattern.as_bytes()), expected, "{name} {pattern}");
        }
    }

    #[test]
    fn included_files_come_in_order_and_a_missing_one_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b.conf", "a.conf", "c.txt"] {
            fs::write(folder.path().join(name), name).expect("written");
        }
        let source = ImportSource::new(&folder.path().join("swanctl.conf"), "");
        let texts = source.included("*.conf", 1).expect("readable");
        let texts: Vec<&str> = texts.iter().map(|source| source.text.as_str()).collect();
        assert_eq!(texts, ["a.conf", "b.conf"]);
        assert!(source.included("none/*.conf", 1).is_ok_and(|files| files.is_empty()));
        let reported = source.included("d.conf", 7).err().expect("missing").to_string();
        assert!(reported.contains("swanctl.conf:7: include: \"d.conf\": it cannot be read"), "{reported}");
    }
}
