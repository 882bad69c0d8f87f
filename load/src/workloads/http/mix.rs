//! Which path is next: in turn, each in proportion to its weight, so that any number of requests has each path as often as its share says.

use super::settings::Wanted;
use crate::error::Error;

/// Most paths, and the most that their weights come to.
pub const PATHS_MAX: usize = 10_000;
const WEIGHTS_MAX: u64 = 100_000;

/// The order of the paths, over and over.
pub struct Mix {
    order: Vec<u16>,
    at: usize,
}

impl Mix {
    /// Whether there are not too many of them.
    pub fn check(wanted: &[Wanted]) -> Result<(), Error> {
        let all: u64 = wanted.iter().map(|one| u64::from(one.weight)).sum();
        if wanted.len() > PATHS_MAX {
            let why = format!("{} paths are over {PATHS_MAX}", wanted.len());
            return Err(Error::Setting { name: "path", why });
        }
        if all > WEIGHTS_MAX {
            let why = format!("the weights come to {all}, which is over {WEIGHTS_MAX}: give smaller ones in the same proportion");
            return Err(Error::Setting { name: "path", why });
        }
        Ok(())
    }

    /// Those wanted, beginning where lane `lane` of `lanes` does: at another place on each.
    pub fn new(wanted: &[Wanted], lane: u64, lanes: u64) -> Self {
        // The k-th of a path with the weight w belongs behind (2k + 1) / 2w of all.
        let mut places: Vec<(u64, u16)> = Vec::new();
        for (path, one) in wanted.iter().enumerate() {
            let weight = u64::from(one.weight);
            places.extend((0..weight).map(|k| (((2 * k + 1) << 32) / (2 * weight), path as u16)));
        }
        places.sort_unstable();
        let order: Vec<u16> = places.into_iter().map(|(_, path)| path).collect();
        assert!(!order.is_empty(), "there is something to ask for");
        let at = (order.len() as u64 * lane / lanes) as usize;
        Self { order, at }
    }

    /// The path of the next request.
    pub fn next(&self) -> usize {
        self.order[self.at].into()
    }

    /// That request was made.
    pub fn take(&mut self) {
        self.at = if self.at + 1 == self.order.len() { 0 } else { self.at + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(weights: &[u32]) -> Vec<Wanted> {
        weights.iter().map(|&weight| Wanted { weight, ..Wanted::new("/") }).collect()
    }

    #[test]
    fn each_path_has_its_share_of_any_number_of_requests() {
        let mut mix = Mix::new(&wanted(&[5, 2, 1]), 0, 1);
        let mut counts = [0_u32; 3];
        for made in 1..=800_u32 {
            counts[mix.next()] += 1;
            mix.take();
            for (count, weight) in counts.iter().zip([5.0, 2.0, 1.0]) {
                let share = f64::from(made) * weight / 8.0;
                assert!((f64::from(*count) - share).abs() <= 1.5, "{counts:?} of {made}");
            }
        }
        assert_eq!(counts, [500, 200, 100]);
    }

    #[test]
    fn lanes_begin_at_places_of_their_own() {
        let begin = |lane| Mix::new(&wanted(&[1, 1, 1, 1]), lane, 4).next();
        assert_eq!([0, 1, 2, 3].map(begin), [0, 1, 2, 3]);
    }

    #[test]
    fn there_is_a_bound() {
        assert!(Mix::check(&wanted(&[50_000, 50_000])).is_ok());
        let said = Mix::check(&wanted(&[50_000, 50_001])).unwrap_err().to_string();
        assert!(said.contains("100001") && said.contains("smaller"), "{said}");
        assert!(Mix::check(&wanted(&vec![1; PATHS_MAX + 1])).is_err());
    }
}
