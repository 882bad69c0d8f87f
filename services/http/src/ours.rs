//! Field lines that the service writes itself.

/// Whether a field line is ours to write.
pub(crate) fn is_ours(name: &str) -> bool {
    ["Content-Length", "Transfer-Encoding", "Connection", "Date"].iter().any(|ours| name.eq_ignore_ascii_case(ours))
}
