//! A connection between two drivers.

use std::any::Any;
use std::fmt;

/// A connection that [`Driver::detach`](crate::Driver::detach) has taken out of its driver, until another one
/// [adopts](crate::Driver::adopt) it. It is plain data, which any thread of the program may have. Bytes that its peer sends meanwhile wait in the system.
///
/// Dropping it closes the connection, on whatever thread that is.
#[must_use = "dropping it closes the connection"]
pub struct Detached(Box<dyn Any + Send>);

impl Detached {
    /// The connection as a driver knows it. Its drop closes the connection.
    #[doc(hidden)] // A driver calls it, and no program.
    pub fn new(known_by: impl Any + Send) -> Self {
        Self(Box::new(known_by))
    }

    /// The same, for a driver of the kind that has detached it.
    ///
    /// # Errors
    /// The connection comes back if it was a driver of another kind.
    #[doc(hidden)] // A driver calls it, and no program.
    pub fn known_by<T: Any + Send>(self) -> Result<T, Self> {
        self.0.downcast().map(|known_by| *known_by).map_err(Self)
    }
}

impl fmt::Debug for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Detached")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_driver_of_another_kind_gives_it_back_whole() {
        let known_by = Arc::new(7_u8);
        let detached = Detached::new(known_by.clone());
        let detached = detached.known_by::<u32>().unwrap_err();
        assert_eq!(*detached.known_by::<Arc<u8>>().unwrap(), 7);
        drop(Detached::new(known_by.clone()));
        assert_eq!(Arc::strong_count(&known_by), 1, "its drop is that of what it is known by");
    }
}
