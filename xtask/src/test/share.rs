//! The time that sections have.

use std::time::{Duration, Instant};

/// How long a section may run.
#[derive(Clone, Copy)]
pub struct Share {
    until: Instant,
}

impl Share {
    pub fn new(seconds: u64) -> Self {
        Self { until: Instant::now() + Duration::from_secs(seconds) }
    }

    /// The next section's: so many seconds more, from when this one is over.
    pub fn and(self, seconds: u64) -> Self {
        Self { until: self.until + Duration::from_secs(seconds) }
    }

    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_section_leaves_is_left_to_the_next() {
        let first = Share::new(1000);
        assert_eq!(first.and(500).until, first.until + Duration::from_secs(500));
        assert!(Share::new(0).left().is_zero());
    }
}
