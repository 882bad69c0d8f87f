//! Beneath which of the roots something lies.

/// The root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// That of the site.
    Site,
    /// That of the pages of errors.
    Errors,
}
