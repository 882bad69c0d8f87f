//! Which of many places is due first: a binary heap in which every place knows where it stands, so that it can be taken out early.

/// Says of a place that it is not in the heap.
const ABSENT: u32 = u32::MAX;

/// Places with the time at which each is due. As many entries as places at most; nothing is allocated after it is made.
#[derive(Debug)]
pub(super) struct Due {
    /// Time and place; no entry is due before its parent, which stands at (index - 1) / 2.
    heap: Vec<(u64, u32)>,
    /// Where each place stands in the heap.
    at: Box<[u32]>,
}

impl Due {
    /// Room for `places`, fewer than 2^32.
    pub(super) fn new(places: usize) -> Self {
        Self { heap: Vec::with_capacity(places), at: vec![ABSENT; places].into_boxed_slice() }
    }

    /// The earliest.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, usize)> {
        self.heap.first().map(|&(due, place)| (due, place as usize))
    }

    /// Adds a place that is not there.
    #[inline]
    pub(super) fn add(&mut self, place: usize, due: u64) {
        debug_assert_eq!(self.at[place], ABSENT);
        self.heap.push((due, place as u32));
        self.rise(self.heap.len() - 1);
    }

    /// Changes when a place is due.
    pub(super) fn change(&mut self, place: usize, due: u64) {
        let index = self.at[place] as usize;
        if let Some(entry) = self.heap.get_mut(index) {
            entry.0 = due;
            let index = self.rise(index);
            self.sink(index);
        }
    }

    /// Takes a place out, if it is there.
    #[inline]
    pub(super) fn remove(&mut self, place: usize) {
        let index = std::mem::replace(&mut self.at[place], ABSENT) as usize;
        if index >= self.heap.len() {
            return;
        }
        self.heap.swap_remove(index);
        if index < self.heap.len() {
            let index = self.rise(index);
            self.sink(index);
        }
    }

    /// Takes all out.
    pub(super) fn clear(&mut self) {
        self.heap.clear();
        self.at.fill(ABSENT);
    }

    /// Moves an entry towards the front until its parent is not later, and says where it stands then.
    fn rise(&mut self, index: usize) -> usize {
        let (mut index, entry) = (index, self.heap[index]);
        while let Some(parent) = index.checked_sub(1).map(|below| below / 2).filter(|&parent| entry.0 < self.heap[parent].0) {
            self.put(index, self.heap[parent]);
            index = parent;
        }
        self.put(index, entry);
        index
    }

    /// Moves an entry towards the end until no child is earlier.
    fn sink(&mut self, index: usize) {
        let (mut index, entry) = (index, self.heap[index]);
        loop {
            let children = 2 * index + 1..(2 * index + 3).min(self.heap.len());
            let Some(child) = children.min_by_key(|&child| self.heap[child].0).filter(|&child| self.heap[child].0 < entry.0)
            else {
                break;
            };
            self.put(index, self.heap[child]);
            index = child;
        }
        self.put(index, entry);
    }

    fn put(&mut self, index: usize, entry: (u64, u32)) {
        self.heap[index] = entry;
        self.at[entry.1 as usize] = index as u32;
    }
}
