//! Flows that are chosen so that each wanted bucket or lane gets one.

use crate::{Error, Tuple};

/// One flow for each wanted place, which is a bucket or a lane.
///
/// ```
/// use corelane_rss::{Buckets, FlowHasher, HashTypes, Key, FlowPlan, Protocol, Tuple};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Eight clients whose packets, hashed by addresses, fall into eight different buckets.
/// let hasher = FlowHasher::new(&Key::MICROSOFT, HashTypes::DEFAULT);
/// let buckets = Buckets::new(8)?;
/// let clients = (2..=254).map(|host| Tuple::new(([10, 11, 2, host], 0).into(), ([10, 11, 2, 1], 0).into(), Protocol::UDP));
/// let clients = clients.collect::<Result<Vec<_>, _>>()?;
/// let plan = FlowPlan::cover(0..8, clients, |tuple| Some(buckets.of(hasher.tuple(tuple)?.flow).index()))?;
/// assert_eq!(plan.tuple(1).map(|tuple| tuple.source().to_string()), Some("10.11.2.2:0".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    /// Place and flow, in the order in which the places were asked for.
    entries: Vec<(usize, Tuple)>,
}

impl FlowPlan {
    /// Takes for each of `places` the first of `candidates` that `place_of` puts there. Ends as soon as each has one;
    /// candidates that are nowhere (`None`), or at a place that has one or was not asked for, are passed over.
    ///
    /// # Errors
    /// [`Error::Uncovered`] where the candidates end before.
    pub fn cover(
        places: impl IntoIterator<Item = usize>,
        candidates: impl IntoIterator<Item = Tuple>,
        mut place_of: impl FnMut(&Tuple) -> Option<usize>,
    ) -> Result<Self, Error> {
        let mut chosen: Vec<(usize, Option<Tuple>)> = places.into_iter().map(|place| (place, None)).collect();
        let mut tried = 0;
        let mut candidates = candidates.into_iter();
        while let Some(place) = chosen.iter().find_map(|(place, tuple)| tuple.is_none().then_some(*place)) {
            let tuple = candidates.next().ok_or(Error::Uncovered { place, tried })?;
            tried += 1;
            let at = place_of(&tuple);
            if let Some(open) = chosen.iter_mut().find(|(place, tuple)| tuple.is_none() && Some(*place) == at) {
                open.1 = Some(tuple);
            }
        }
        Ok(Self { entries: chosen.into_iter().filter_map(|(place, tuple)| Some((place, tuple?))).collect() })
    }

    /// The flow that was chosen for `place`.
    #[must_use]
    pub fn tuple(&self, place: usize) -> Option<&Tuple> {
        self.entries.iter().find(|entry| entry.0 == place).map(|entry| &entry.1)
    }

    /// Every place and its flow, in the order in which the places were asked for.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Tuple)> {
        self.entries.iter().map(|(place, tuple)| (*place, tuple))
    }
}
