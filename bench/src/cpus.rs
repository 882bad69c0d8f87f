//! Which CPU is whose.

use anyhow::{Context, Result, ensure};
use corelane_machine::topology::{self, Cpu};

/// The CPU that servers run on; the generator has [`GENERATOR_CPU`] to itself.
pub const SERVER_CPU: usize = 0;

/// The CPU of the generator.
pub const GENERATOR_CPU: usize = 1;

/// CPUs beside both that share no core with the server's, at most so many.
///
/// # Errors
/// When they cannot be read.
pub fn helpers(most: usize) -> Result<Vec<usize>> {
    Ok(beside(&topology::online().context("reading which CPUs there are")?, most))
}

fn beside(online: &[Cpu], most: usize) -> Vec<usize> {
    let core = online.iter().find(|cpu| cpu.number == SERVER_CPU).map(|cpu| cpu.first_sibling);
    let is_free = |cpu: &&Cpu| cpu.number != GENERATOR_CPU && Some(cpu.first_sibling) != core;
    online.iter().filter(is_free).map(|cpu| cpu.number).take(most).collect()
}

/// The CPUs of a server and those of the generator that loads it: as many, and none of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    /// A lane or a thread of the server on each.
    pub server: Vec<usize>,
    /// A lane of the generator on each.
    pub generator: Vec<usize>,
}

impl Sides {
    /// One CPU each.
    pub fn of_one() -> Self {
        Self { server: vec![SERVER_CPU], generator: vec![GENERATOR_CPU] }
    }

    /// So many CPUs each, of those that this machine has.
    ///
    /// # Errors
    /// When there are too few, or they cannot be read.
    pub fn of(lanes: usize) -> Result<Self> {
        let online = topology::online().context("reading which CPUs there are")?;
        ensure!(
            2 * lanes <= online.len(),
            "{lanes} lanes and a generator of {lanes} take {} CPUs: there are {}",
            2 * lanes,
            online.len()
        );
        Ok(Self::among(&online, lanes))
    }

    /// Servers with one CPU each, all of which are asked from all CPUs of the generators, as the lanes of one server are.
    pub fn apart(&self) -> Vec<Self> {
        self.server.iter().map(|&server| Self { server: vec![server], generator: self.generator.clone() }).collect()
    }

    /// A server's lanes have cores of their own as far as there are cores. Where two CPUs share a core, the generator has the other one, however many lanes there are,
    /// so that a lane has the same neighbour alone and among eight.
    fn among(online: &[Cpu], lanes: usize) -> Self {
        let mut order: Vec<(usize, usize)> = online.iter().map(|cpu| (rank(online, cpu), cpu.number)).collect();
        order.sort_unstable();
        let of = |half: &[(usize, usize)]| half.iter().take(lanes).map(|&(_, number)| number).collect();
        let (server, generator) = order.split_at(order.len() / 2);
        Self { server: of(server), generator: of(generator) }
    }
}

/// How many CPUs of lower number share its core.
fn rank(online: &[Cpu], cpu: &Cpu) -> usize {
    online.iter().filter(|other| other.first_sibling == cpu.first_sibling && other.number < cpu.number).count()
}

/// CPUs as options name them: `0,2,4`.
pub fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn online(siblings: usize) -> Vec<Cpu> {
        (0..8).map(|number| Cpu { number, node: 0, first_sibling: number - number % siblings }).collect()
    }

    #[test]
    fn lanes_have_cores_of_their_own_and_the_same_neighbours_however_many_they_are() {
        let threads = |lanes| Sides::among(&online(2), lanes);
        assert_eq!(threads(4), Sides { server: vec![0, 2, 4, 6], generator: vec![1, 3, 5, 7] });
        assert_eq!(threads(2), Sides { server: vec![0, 2], generator: vec![1, 3] });
        assert_eq!(Sides::among(&online(1), 2), Sides { server: vec![0, 1], generator: vec![4, 5] });
        assert_eq!(Sides::among(&online(2)[..2], 1), Sides::of_one());
    }

    #[test]
    fn helpers_leave_the_server_its_core() {
        assert_eq!(beside(&online(1), 3), [2, 3, 4]);
        assert_eq!(beside(&online(4), 3), [4, 5, 6]);
        assert_eq!(beside(&online(1)[..2], 3), [0; 0]);
    }

    #[test]
    fn servers_apart_are_asked_from_where_one_is() {
        let whole = Sides::among(&online(2), 2);
        let apart = whole.apart();
        assert_eq!(apart.iter().map(|sides| sides.server[0]).collect::<Vec<_>>(), whole.server);
        assert!(apart.iter().all(|sides| sides.server.len() == 1 && sides.generator == whole.generator));
    }

    #[test]
    fn too_many_lanes_are_refused_by_number() {
        let error = Sides::of(100_000).expect_err("nobody has that many").to_string();
        assert!(error.contains("200000 CPUs"), "{error}");
        assert_eq!(list(&[0, 2, 10]), "0,2,10");
    }
}
