//! Who uses whom, and where that leads back.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;

/// Who uses whom by name, and where it is seen.
pub type Uses<'a> = BTreeMap<String, BTreeMap<String, (&'a Source, usize)>>;

/// The shortest way from a module over others back to itself.
pub fn way_back(uses: &Uses<'_>, first: &String) -> Vec<String> {
    let mut ways = vec![vec![first.clone()]];
    let mut seen = BTreeSet::new();
    for at in 0.. {
        let Some(way) = ways.get(at).cloned() else { break };
        for next in way.last().and_then(|last| uses.get(last)).into_iter().flat_map(BTreeMap::keys) {
            let mut longer = way.clone();
            longer.push(next.clone());
            if next == first {
                return longer;
            }
            if seen.insert(next.clone()) {
                ways.push(longer);
            }
        }
    }
    // reason: asked only about modules that a search has found in a circle.
    unreachable!("{first} is in no circle")
}

/// The groups that all lead to each other, each of two at least.
pub fn circles(uses: &Uses<'_>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = uses.keys().map(|from| (from, reached(uses, from))).collect();
    let mut done = BTreeSet::new();
    let mut circles = Vec::new();
    for from in uses.keys() {
        let back = |to: &&&String| reached.get(**to).is_some_and(|back| back.contains(from));
        let circle: Vec<String> = reached[from].iter().filter(back).map(|name| (*name).clone()).collect();
        if circle.iter().all(|name| done.insert(name.clone())) && !circle.is_empty() {
            circles.push(circle);
        }
    }
    circles
}

fn reached<'a>(uses: &'a Uses<'_>, from: &String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut todo: Vec<&String> = uses[from].keys().collect();
    while let Some(next) = todo.pop() {
        if found.insert(next) {
            todo.extend(uses.get(next).into_iter().flat_map(BTreeMap::keys));
        }
    }
    found
}
