//! Which upstreams a client gets by the name that it asks for in TLS.

use corelane_upstreams::{TargetError, Targets};
use std::collections::BTreeMap;

/// Names, and the group of upstreams of each. By default clients are not told apart: all get group 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    names: BTreeMap<String, u32>,
    /// Of `*.example`, without the star.
    beside: BTreeMap<String, u32>,
    /// Those of other names, and of clients that ask for none, are group 0.
    has_default: bool,
    /// The greatest number of a group so far. None is used for two names: clients may wait for upstreams of a group whose name is gone.
    given: u32,
}

impl Default for Routes {
    fn default() -> Self {
        Self { names: BTreeMap::new(), beside: BTreeMap::new(), has_default: true, given: 0 }
    }
}

impl Routes {
    /// Reads `NAME>HOST:PORT,..`, behind the upstreams for all others, which are group 0, if there are any. A name with several upstreams stands before each of them.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub fn read(text: &str, all_others: Option<&Targets>) -> Result<(Self, Targets), TargetError> {
        Self::default().next(Some(text), all_others)
    }

    /// Those behind these, of another text or of none: a name that there was before keeps its group.
    ///
    /// # Errors
    /// As of [`Routes::read`].
    pub fn next(&self, text: Option<&str>, all_others: Option<&Targets>) -> Result<(Self, Targets), TargetError> {
        let mut routes = Self { has_default: all_others.is_some(), given: self.given, ..Self::default() };
        let mut targets = all_others.cloned().unwrap_or_else(Targets::none);
        for part in text.into_iter().flat_map(|text| text.split(',')) {
            let wrong = |why: &str| TargetError { text: part.to_owned(), why: why.to_owned() };
            let (name, target) = part.split_once('>').ok_or_else(|| wrong("write NAME>HOST:PORT"))?;
            let name = name.to_ascii_lowercase();
            let (name, is_beside) = name.strip_prefix("*.").map_or((&name[..], false), |name| (name, true));
            let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_fit) {
                return Err(wrong("before > stands a name, such as shop.example or *.example"));
            }
            let (names, before) = if is_beside { (&mut routes.beside, &self.beside) } else { (&mut routes.names, &self.names) };
            let group = *names.entry(name.to_owned()).or_insert_with(|| {
                before.get(name).copied().unwrap_or_else(|| {
                    routes.given += 1;
                    routes.given
                })
            });
            targets.add(target, group)?;
        }
        Ok((routes, targets))
    }

    /// Whether clients are told apart, and so are to say whom they ask for.
    pub(crate) fn tell_apart(&self) -> bool {
        !(self.names.is_empty() && self.beside.is_empty())
    }

    /// The group for a name; none where nobody serves it.
    pub(crate) fn group(&self, name: Option<&str>) -> Option<u32> {
        let of_name = |name: &str| self.names.get(name).or_else(|| self.beside(name)).copied();
        name.and_then(of_name).or(self.has_default.then_some(0))
    }

    /// Of those that stand for all that ends so, the one with the most labels.
    fn beside(&self, name: &str) -> Option<&u32> {
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
        let of: Vec<u32> = targets.all().iter().map(|target| target.group()).collect();
        assert_eq!(of, [0, 1, 1, 2, 3, 4]);
        let (routes, _) = Routes::read("a.test>x:1", None).unwrap();
        assert_eq!((routes.group(Some("b.test")), routes.group(None), routes.group(Some("a.test"))), (None, None, Some(1)));
        let next = |routes: &Routes, text| routes.next(text, None).unwrap().0;
        let other = next(&routes, Some("b.test>x:1,*.a.test>x:1,a.test>y:1"));
        assert_eq!(["b.test", "c.a.test", "a.test"].map(|name| other.group(Some(name))), [Some(2), Some(3), Some(1)]);
        let back = next(&next(&other, None), Some("b.test>x:1"));
        assert_eq!((back.group(Some("b.test")), other.tell_apart(), next(&other, None).tell_apart()), (Some(4), true, false));
        assert_eq!(Routes::default().group(None), Some(0), "all are one group");
        for (wrong, said) in
            [("a.test", "write NAME>"), (">x:1", "stands a name"), ("a b>x:1", "stands a name"), ("a>x", "write HOST:PORT")]
        {
            assert!(Routes::read(wrong, None).unwrap_err().to_string().contains(said), "{wrong}");
        }
    }
}
