//! Reading what the kernel tells in files, /proc above all, with errors in words.

use std::{fs, io};

/// The bytes of a file. Those of /proc are made while they are read, and bounded by the kernel.
///
/// # Errors
/// As of [`text`].
pub fn bytes(path: &str) -> io::Result<Vec<u8>> {
    fs::read(path).map_err(|error| in_words(path, &error))
}

/// A file as text. A process's own words in it, such as its name, may be no UTF-8: such bytes are replaced.
///
/// # Errors
/// The path and a remedy, in words: `NotFound` for what is not there or has ended, `PermissionDenied` for what is another user's, or
/// what the system says.
pub fn text(path: &str) -> io::Result<String> {
    let bytes = bytes(path)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The entries of a folder whose names are numbers: processes, threads, descriptors.
///
/// # Errors
/// As of [`text`].
pub fn numbers(folder: &str) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| in_words(folder, &error))? {
        let name = entry.map_err(|error| in_words(folder, &error))?.file_name();
        found.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(found)
}

/// The numbers of a folder's entries that are named `prefix` and a number, lowest first; none where there is no such folder.
pub fn numbered(folder: &str, prefix: &str) -> Vec<usize> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut found: Vec<usize> = names.filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
    found.sort_unstable();
    found
}

/// That a file does not hold what proc(5) says.
pub fn lacking(path: &str, expected: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{path}: expected {expected}: is this kernel's /proc mounted there?"))
}

/// Whether an error says that what was asked for is not there, or has ended between the opening and the reading (ESRCH).
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The error with its path and a remedy: `NotFound` for what is not there or has ended, `PermissionDenied` for what is
/// another user's, or what the system says.
fn in_words(path: &str, error: &io::Error) -> io::Error {
    match error.kind() {
        _ if is_gone(error) => io::Error::new(io::ErrorKind::NotFound, format!("{path} is not there: ended, or not mounted")),
        io::ErrorKind::PermissionDenied => io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{path} is not for this user: run as the one whose process it is, or with CAP_SYS_PTRACE"),
        ),
        kind => io::Error::new(kind, format!("{path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_path_and_keep_their_kind() {
        let error = text("/proc/0/stat").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("/proc/0/stat"), "{error}");
        let ended = in_words("/proc/1/stat", &io::Error::from_raw_os_error(libc::ESRCH));
        assert_eq!(ended.kind(), io::ErrorKind::NotFound);
        let denied = in_words("/proc/1/fd", &io::Error::from_raw_os_error(libc::EACCES));
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
        assert!(denied.to_string().contains("CAP_SYS_PTRACE"));
        let other = in_words("/proc/1/fd", &io::Error::from_raw_os_error(libc::EMFILE));
        assert!(other.to_string().starts_with("/proc/1/fd: "), "{other}");
    }

    #[test]
    fn numbered_entries_are_found_in_order() {
        let cpus = numbered("/sys/devices/system/cpu", "cpu");
        assert!(cpus.is_sorted() && cpus.first() == Some(&0), "{cpus:?}");
        assert!(numbered("/sys/devices/system/cpu", "no-such-thing").is_empty());
        assert!(numbered("/no/such/folder", "").is_empty());
    }

    #[test]
    fn only_numbers_are_listed() {
        let processes = numbers("/proc").unwrap();
        assert!(processes.contains(&std::process::id()));
        assert!(numbers("/proc/0").is_err());
    }
}
