//! How long the programs of a section took: where the time of a run goes.

use std::time::Duration;

/// Programs by their titles, each with its time.
#[derive(Debug, Default)]
pub struct Times(Vec<(String, Duration)>);

impl Times {
    /// The program of this title took so long.
    pub fn add(&mut self, title: String, took: Duration) {
        self.0.push((title, took));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// At most `count` of them in words, those that took longest first.
    pub fn slowest(&self, count: usize) -> String {
        let mut times: Vec<_> = self.0.iter().collect();
        times.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        let words: Vec<_> =
            times.iter().take(count).map(|(title, took)| format!("{title} {:.1} s", took.as_secs_f64())).collect();
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_come_first_and_only_so_many() {
        let mut times = Times::default();
        assert!(times.is_empty());
        for (title, milliseconds) in [("a", 200), ("b", 3100), ("c", 1000)] {
            times.add(title.to_owned(), Duration::from_millis(milliseconds));
        }
        assert_eq!(times.slowest(2), "b 3.1 s, c 1.0 s");
        assert_eq!(times.slowest(9), "b 3.1 s, c 1.0 s, a 0.2 s");
    }
}
