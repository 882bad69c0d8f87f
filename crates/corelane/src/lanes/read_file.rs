//! A file that is a place ([`AtFile`](crate::service::entry::AtFile)), read whole before there are lanes; what is wrong with it is said with line and column.

use crate::error::Error;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a file at the most: one that is longer is another file.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// A file, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    path: PathBuf,
    text: String,
}

impl ReadFile {
    /// Reads a file of UTF-8.
    ///
    /// # Errors
    /// [`Error::Unreadable`]: it is not there, or this user may not read it. [`Error::Text`]: it is too long, or is no text.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let at = path.display().to_string();
        let refused = |why: &str| Error::Text { at: at.clone(), why: why.to_owned() };
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
        read.map_err(|error| {
            let why = format!("it cannot be read: {error}; name a file that this user may read");
            Error::Unreadable { service: at.clone(), why }
        })?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(refused(&format!("it is longer than {FILE_BYTES_MAX} bytes: name another file")));
        }
        let text = String::from_utf8(bytes).map_err(|_| refused("it is no text of UTF-8: name another file"))?;
        Ok(Self { path: path.to_owned(), text })
    }

    /// One that says this, wherever it came from: `path` is for errors, and for files beside it.
    pub fn of_text(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// Reads one that this one names, from where this one lies.
    ///
    /// # Errors
    /// As of [`ReadFile::of`].
    pub fn beside(&self, name: &str) -> Result<Self, Error> {
        Self::of(&self.path.parent().unwrap_or(Path::new("")).join(name))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The error of something in it, which begins at that byte.
    pub fn wrong(&self, offset: usize, why: impl Display) -> Error {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        self.wrong_at(line, column, why)
    }

    /// The error of something at that line and column, both from 1.
    pub fn wrong_at(&self, line: usize, column: usize, why: impl Display) -> Error {
        Error::Text { at: format!("{}:{line}:{column}", self.path.display()), why: why.to_string() }
    }
}
