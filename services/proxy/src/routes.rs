//! Which upstreams a client gets by the name that it asks for in TLS.

use corelane_upstreams::{TargetError, Targets};
use std::collections::BTreeMap;

/// Names, and the group of upstreams of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    names: BTreeMap<String, u16>,
    /// Of `*.example`, without the star.
    beside: BTreeMap<String, u16>,
    /// Those of other names, and of clients that ask for none.
    has_default: bool,
}

impl Routes {
    /// Reads `NAME>HOST:PORT,..`, behind the upstreams for all others, which are group 0, if there are any. A name with several upstreams stands before each of them.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub fn read(text: &str, all_others: Option<&Targets>) -> Result<(Self, Targets), TargetError> {
        let mut routes = Self { has_default: all_others.is_some(), ..Self::default() };
        let mut targets = all_others.cloned().unwrap_or_else(Targets::none);
        for part in text.split(',') {
            let wrong = |why: &str| TargetError { text: part.to_owned(), why: why.to_owned() };
            let (name, target) = part.split_once('>').ok_or_else(|| wrong("write NAME>HOST:PORT"))?;
            let name = name.to_ascii_lowercase();
            let (name, is_beside) = name.strip_prefix("*.").map_or((&name[..], false), |name| (name, true));
            let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_fit) {
                return Err(wrong("before > stands a name, such as shop.example or *.example"));
            }
            // There are no more names than upstreams.
            let next = 1 + (routes.names.len() + routes.beside.len()) as u16;
            let names = if is_beside { &mut routes.beside } else { &mut routes.names };
            let group = *names.entry(name.to_owned()).or_insert(next);
            targets.add(target, group)?;
        }
        Ok((routes, targets))
    }

    /// The group for a name; none where nobody serves it.
    pub(crate) fn group(&self, name: Option<&str>) -> Option<u16> {
        let of_name = |name: &str| self.names.get(name).or_else(|| self.beside(name)).copied();
        name.and_then(of_name).or(self.has_default.then_some(0))
    }

    /// Of those that stand for all that ends so, the one with the most labels.
    fn beside(&self, name: &str) -> Option<&u16> {
        name.match_indices('.').find_map(|(dot, _)| self.beside.get(&name[dot + 1..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_groups() {
        let others: Targets = "d:1".parse().unwrap();
        let text = "a.test>x:1,a.test>y:1*2,*.test>z:1,*.b.test>x:1,B.test>w:1";
        let (routes, targets) = Routes::read(text, Some(&others)).unwrap();
        let group = |name: &str| routes.group(Some(name)).unwrap();
        let groups = ["a.test", "c.test", "x.b.test", "b.test", "test", "x.y.z.test"].map(group);
        assert_eq!((groups, routes.group(None)), ([1, 2, 3, 4, 0, 2], Some(0)));
        let of: Vec<u16> = targets.all().iter().map(|target| target.group()).collect();
        assert_eq!(of, [0, 1, 1, 2, 3, 4]);
        let (routes, _) = Routes::read("a.test>x:1", None).unwrap();
        assert_eq!((routes.group(Some("b.test")), routes.group(None), routes.group(Some("a.test"))), (None, None, Some(1)));
        for (wrong, said) in
            [("a.test", "write NAME>"), (">x:1", "stands a name"), ("a b>x:1", "stands a name"), ("a>x", "write HOST:PORT")]
        {
            assert!(Routes::read(wrong, None).unwrap_err().to_string().contains(said), "{wrong}");
        }
    }
}
