//! What may be said at most so often.

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// A bucket of tokens: so many a second, and so many at once (RFC 4443, section 2.4 (f)).
#[derive(Debug)]
pub(crate) struct Limiter {
    each: u64,
    most: u64,
    /// Nanoseconds of credit: a token costs `each`.
    credit: u64,
    last: u64,
}

impl Limiter {
    pub const fn new(per_second: u64, at_once: u64) -> Self {
        let each = SECOND / per_second;
        Self { each, most: each * at_once, credit: each * at_once, last: 0 }
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: u64) -> bool {
        self.credit = self.credit.saturating_add(now.saturating_sub(self.last)).min(self.most);
        self.last = self.last.max(now);
        let left = self.credit.checked_sub(self.each);
        self.credit = left.unwrap_or(self.credit);
        assert!(self.credit <= self.most, "no more is said at once than may be");
        left.is_some()
    }
}

/// All that a stack says within bounds.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// ICMP errors and resets of TCP.
    pub errors: Limiter,
    /// Answers to echo requests.
    pub echoes: Limiter,
    /// Questions for neighbours to all of a link.
    pub questions: Limiter,
    /// Words to other lanes of neighbours who have answered, and of those whom nobody has asked.
    pub answers: Limiter,
    pub words: Limiter,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            errors: Limiter::new(1000, 50),
            echoes: Limiter::new(10_000, 500),
            questions: Limiter::new(250, 100),
            answers: Limiter::new(2000, 100),
            words: Limiter::new(2000, 100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_then_so_many_a_second() {
        let mut limiter = Limiter::new(100, 5);
        let taken = |limiter: &mut Limiter, now| (0..1000).filter(|_| limiter.take(now)).count();
        assert_eq!(taken(&mut limiter, 0), 5);
        assert_eq!(taken(&mut limiter, SECOND / 100), 1);
        assert_eq!(taken(&mut limiter, 100 * SECOND), 5, "credit does not grow without bound");
        assert_eq!(taken(&mut limiter, 99 * SECOND), 0, "nor by a clock that was read earlier");
    }
}
