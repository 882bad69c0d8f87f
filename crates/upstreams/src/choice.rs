//! Which of several candidates is next. Pure: each way sees what the candidates are, and one of them has its standing.

use crate::settings::Balance;
use corelane::service::Random;

/// One that may be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Its place in the table.
    pub index: u16,
    /// Its weight, with its share of a slow start; never 0.
    pub weight: u32,
    /// Its weight without that.
    pub whole_weight: u16,
    /// Uses of it that have not ended.
    pub uses: u32,
    /// What it is known by to the choice by key.
    pub mark: u64,
    /// Its standing in the round.
    pub standing: i64,
    /// When it was taken last, in choices.
    pub taken_at: u64,
}

/// Chooses one, and changes the standings in the round. None of nobody.
pub(crate) fn choose(balance: Balance, candidates: &mut [Candidate], key: u64) -> Option<u16> {
    match balance {
        Balance::RoundRobin => in_turn(candidates),
        Balance::Least => least(candidates),
        Balance::Hash => by_key(candidates, key),
    }
}

/// Each gains its weight, the first of them is taken, and loses the weight of all: smooth weighted round robin, as nginx has it since 1.3.1.
fn in_turn(candidates: &mut [Candidate]) -> Option<u16> {
    let all: i64 = candidates.iter().map(|one| i64::from(one.weight)).sum();
    candidates.iter_mut().for_each(|one| one.standing += i64::from(one.weight));
    let next = candidates.iter_mut().max_by_key(|one| (one.standing, std::cmp::Reverse(one.index)))?;
    next.standing -= all;
    Some(next.index)
}

/// The one that would have the fewest uses for its weight; of equals the one that was not taken for longest.
fn least(candidates: &[Candidate]) -> Option<u16> {
    let next = candidates.iter().min_by(|a, b| {
        let (load_a, load_b) = (u64::from(a.uses) + 1, u64::from(b.uses) + 1);
        let loads = (load_a * u64::from(b.weight)).cmp(&(load_b * u64::from(a.weight)));
        loads.then((a.taken_at, a.index).cmp(&(b.taken_at, b.index)))
    })?;
    Some(next.index)
}

/// The one whose mark goes best with the key.
fn by_key(candidates: &[Candidate], key: u64) -> Option<u16> {
    let score = |one: &Candidate| {
        let drawn = Random::new(key ^ one.mark).unit();
        // A draw of 0 has no logarithm.
        f64::from(one.whole_weight) / -(drawn.max(f64::MIN_POSITIVE)).ln()
    };
    candidates.iter().max_by(|a, b| score(a).total_cmp(&score(b)).then(b.mark.cmp(&a.mark))).map(|one| one.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidates(weights: &[u16]) -> Vec<Candidate> {
        let one = |(index, weight): (usize, &u16)| Candidate {
            index: index as u16,
            weight: u32::from(*weight),
            whole_weight: *weight,
            uses: 0,
            mark: Random::new(index as u64).bits(),
            standing: 0,
            taken_at: 0,
        };
        weights.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_heavier_ones_are_spread_among_the_others() {
        let mut all = candidates(&[5, 1, 1]);
        let taken: Vec<u16> = (0..14).map(|_| in_turn(&mut all).unwrap()).collect();
        assert_eq!(taken, [0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn nobody_is_chosen_of_nobody() {
        for balance in [Balance::RoundRobin, Balance::Least, Balance::Hash] {
            assert_eq!(choose(balance, &mut [], 7), None);
        }
    }

    proptest! {
        #[test]
        fn in_each_round_each_has_its_weight(weights in prop::collection::vec(1_u16..40, 1..20), rounds in 1_usize..4) {
            let mut all = candidates(&weights);
            let sum = weights.iter().map(|weight| usize::from(*weight)).sum::<usize>();
            let mut taken = vec![0; weights.len()];
            for _ in 0..rounds * sum {
                taken[usize::from(in_turn(&mut all).unwrap())] += 1;
            }
            let due: Vec<usize> = weights.iter().map(|weight| usize::from(*weight) * rounds).collect();
            prop_assert_eq!(taken, due);
            prop_assert!(all.iter().all(|one| one.standing == 0));
        }

        #[test]
        fn uses_stay_within_one_of_their_part(weights in prop::collection::vec(1_u16..40, 1..20), uses in 1_usize..2_000) {
            let mut all = candidates(&weights);
            for at in 1..=uses {
                let next = usize::from(least(&all).unwrap());
                (all[next].uses, all[next].taken_at) = (all[next].uses + 1, at as u64);
            }
            let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
            for one in &all {
                let due = uses as f64 * f64::from(one.whole_weight) / sum;
                prop_assert!((f64::from(one.uses) - due).abs() <= weights.len() as f64, "{} of {due}", one.uses);
            }
        }

        #[test]
        fn a_key_moves_only_with_its_upstream(weights in prop::collection::vec(1_u16..40, 2..20), gone: prop::sample::Index, keys in prop::collection::vec(any::<u64>(), 50)) {
            let all = candidates(&weights);
            let gone = gone.index(all.len());
            let mut rest = all.clone();
            rest.remove(gone);
            rest.reverse();
            for key in keys {
                let (before, after) = (by_key(&all, key).unwrap(), by_key(&rest, key).unwrap());
                prop_assert!(before == after || usize::from(before) == gone);
            }
        }
    }

    #[test]
    fn keys_are_spread_by_weight() {
        let all = candidates(&[1, 2, 5]);
        let mut taken = [0; 3];
        let mut keys = Random::new(1);
        (0..80_000).for_each(|_| taken[usize::from(by_key(&all, keys.bits()).unwrap())] += 1);
        for (taken, due) in taken.into_iter().zip([10_000, 20_000, 50_000]) {
            assert!(i32::abs(taken - due) < 700, "{taken} of {due}");
        }
    }
}
