//! How long the threads that receive have run on the CPUs of lanes.

/// The threads that receive, and how long they have run beside each lane since they were found.
#[derive(Debug)]
pub(super) struct Spent {
    threads: Vec<Thread>,
    /// Nanoseconds, by lane.
    lanes: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    id: u32,
    /// The lane at whose CPU it runs; none if it runs at those of all lanes.
    lane: Option<usize>,
    /// Its processor time as it was seen last, in nanoseconds; none before.
    ran: Option<u64>,
}

impl Spent {
    /// Of no thread yet, beside so many lanes.
    pub fn beside(lanes: usize) -> Self {
        Self { threads: Vec::new(), lanes: vec![0; lanes] }
    }

    /// These are the threads from now on, each with its lane.
    pub fn found(&mut self, threads: impl IntoIterator<Item = (u32, Option<usize>)>) {
        let ran = |id| self.threads.iter().find(|known| known.id == id).and_then(|known| known.ran);
        self.threads = threads.into_iter().map(|(id, lane)| Thread { id, lane, ran: ran(id) }).collect();
    }

    /// Nanoseconds that threads have run beside each lane, by the processor time of each. A thread of all lanes ran for each of them alike.
    pub fn look(&mut self, cpu_of: impl Fn(u32) -> Option<u64>) -> &[u64] {
        for thread in &mut self.threads {
            // One that is gone is told as news.
            let Some(now) = cpu_of(thread.id) else { continue };
            let more = now.saturating_sub(thread.ran.replace(now).unwrap_or(now));
            match thread.lane {
                Some(lane) => self.lanes[lane] += more,
                None => {
                    let each = more / self.lanes.len() as u64;
                    self.lanes.iter_mut().for_each(|spent| *spent += each);
                }
            }
        }
        &self.lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_has_what_its_thread_ran_since_it_was_found() {
        let mut spent = Spent::beside(2);
        assert_eq!(spent.look(|_| unreachable!("there is none")), [0, 0]);
        spent.found([(7, Some(0)), (8, Some(1))]);
        assert_eq!(spent.look(|id| Some(1000 * u64::from(id))), [0, 0], "what it ran before is nobody's");
        assert_eq!(spent.look(|id| Some(1000 * u64::from(id) + 5)), [5, 5]);
        // One thread goes, another comes, and one stays.
        spent.found([(8, Some(1)), (9, Some(0))]);
        assert_eq!(spent.look(|id| Some(if id == 8 { 8025 } else { 3 })), [5, 25]);
        assert_eq!(spent.look(|id| (id == 9).then_some(13)), [15, 25], "a thread that is gone adds nothing");
        spent.found([(9, None)]);
        assert_eq!(spent.look(|_| Some(33)), [25, 35], "one of all lanes");
        assert_eq!(spent.look(|_| Some(1)), [25, 35], "a number that was given anew");
    }
}
