//! Which handlers a controller calls.

use std::fmt;

/// Handlers of a controller at most.
pub const HANDLERS_MAX: usize = 128;

/// The numbers of handlers, in the order in which they are called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Handlers(Vec<u32>);

impl Handlers {
    pub(super) fn all(&self) -> &[u32] {
        &self.0
    }

    pub(super) fn register(&mut self, handler: u32) -> Result<(), HandlerError> {
        if self.0.contains(&handler) {
            return Err(HandlerError::Registered(handler));
        }
        if self.0.len() == HANDLERS_MAX {
            return Err(HandlerError::Full(handler));
        }
        self.0.push(handler);
        Ok(())
    }

    pub(super) fn remove(&mut self, handler: u32) -> Result<(), HandlerError> {
        let place = self.0.iter().position(|other| *other == handler).ok_or(HandlerError::Unknown(handler))?;
        self.0.swap_remove(place);
        Ok(())
    }
}

/// A handler that cannot be registered or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerError {
    /// It is registered: EEXIST.
    Registered(u32),
    /// [`HANDLERS_MAX`] are registered: ENOMEM.
    Full(u32),
    /// It is not registered: ENOENT.
    Unknown(u32),
}

impl HandlerError {
    /// The original's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Registered(_) => "EEXIST",
            Self::Full(_) => "ENOMEM",
            Self::Unknown(_) => "ENOENT",
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered(handler) => write!(f, "handler {handler} is registered already"),
            Self::Full(handler) => {
                write!(f, "handler {handler} is one too many: {HANDLERS_MAX} are registered; remove one first")
            }
            Self::Unknown(handler) => write!(f, "handler {handler} is not registered"),
        }?;
        write!(f, " ({})", self.name())
    }
}

impl std::error::Error for HandlerError {}
