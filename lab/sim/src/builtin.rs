//! Platforms that come with the program: the files of `platforms/`, by name.

use std::path::Path;

use crate::platform::{Platform, PlatformError};

/// Name and text of each platform.
const BUILT_IN: [(&str, &str); 8] = [
    ("bluefield-3", include_str!("../../../platforms/bluefield-3.toml")),
    ("connectx-7", include_str!("../../../platforms/connectx-7.toml")),
    ("grip", include_str!("../../../platforms/grip.toml")),
    ("grip-inline", include_str!("../../../platforms/grip-inline.toml")),
    ("ixp425", include_str!("../../../platforms/ixp425.toml")),
    ("pci-accelerators", include_str!("../../../platforms/pci-accelerators.toml")),
    ("pentium3", include_str!("../../../platforms/pentium3.toml")),
    ("qat-gen4", include_str!("../../../platforms/qat-gen4.toml")),
];

impl Platform {
    /// The names that [`open`](Self::open) accepts without a file.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Reads a file, or, if there is no such file, the platform of this name that comes with the
    /// program, such as `grip` or `pci-accelerators`.
    ///
    /// # Errors
    /// [`PlatformError`] has all of them, each with file, line, column, key and what was expected.
    pub fn open(name: &str) -> Result<Self, PlatformError> {
        let path = Path::new(name);
        let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
        match built_in {
            Some((known, text)) if !path.exists() => Self::from_toml(known, text),
            _ if path.exists() => Self::load(path),
            _ => {
                let known: Vec<&str> = Self::built_in_names().collect();
                let what = format!("there is no such file; the built-in platforms are {}", known.join(", "));
                Err(PlatformError::whole_file(name, &what))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_platform_of_the_folder_comes_with_the_program_and_is_good() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../platforms");
        let files = std::fs::read_dir(folder).expect("the folder of platforms");
        let mut names: Vec<String> = files
            .map(|file| file.expect("readable").path())
            .filter(|path| path.extension().is_some_and(|end| end == "toml"))
            .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(names, Platform::built_in_names().collect::<Vec<_>>());
        assert!(names.iter().all(|name| Platform::open(name).is_ok()));
    }

    #[test]
    fn a_name_that_is_neither_file_nor_built_in_is_reported_what_there_is() {
        let error = Platform::open("pci-accelerator").expect_err("no such platform");
        assert!(error.to_string().contains("pci-accelerators"), "{error}");
    }
}
