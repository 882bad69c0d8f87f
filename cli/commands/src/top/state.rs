//! What the keys have chosen: a machine with keys in, and what is to be drawn out.

use corelane::admin::watch::{LaneFigures, ProcessFigures, ProcessId, Snapshot};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The longest text to filter by, in characters.
const FILTER_MAX: usize = 40;

/// Lines that page up and page down scroll.
const PAGE: usize = 10;

/// What the program does after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Go,
    End,
}

/// What lanes are sorted by: the largest first, but for their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Lane,
    Work,
    Requests,
    Open,
    Strays,
    TurnP99,
    Memory,
}

impl Sort {
    const ALL: [Self; 7] = [Self::Lane, Self::Work, Self::Requests, Self::Open, Self::Strays, Self::TurnP99, Self::Memory];

    /// The name of its column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lane => "LANE",
            Self::Work => "WORK",
            Self::Requests => "REQUESTS",
            Self::Open => "OPEN",
            Self::Strays => "STRAYS",
            Self::TurnP99 => "TURN P99",
            Self::Memory => "MEMORY",
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|one| *one == self);
        Self::ALL[at.map_or(0, |at| (at + 1) % Self::ALL.len())]
    }

    fn of(self, lane: &LaneFigures) -> u64 {
        match self {
            Self::Lane => 0,
            Self::Work => lane.shares.map_or(0, |shares| (shares.productive * 1e9) as u64),
            Self::Requests => lane.requests.count,
            Self::Open => lane.connections_open,
            Self::Strays => lane.strays.count,
            Self::TurnP99 => lane.turn_nanoseconds.p99.unwrap_or(0),
            Self::Memory => lane.memory_used_bytes,
        }
    }
}

/// What connections are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrowdSort {
    /// Which of them need to be looked at first.
    #[default]
    Need,
    Remote,
    ReceiveQueue,
    SendQueue,
    Age,
}

impl CrowdSort {
    const ALL: [Self; 5] = [Self::Need, Self::Remote, Self::ReceiveQueue, Self::SendQueue, Self::Age];

    /// The name of its column, if it is one's.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Need => None,
            Self::Remote => Some("REMOTE"),
            Self::ReceiveQueue => Some("RECV-Q"),
            Self::SendQueue => Some("SEND-Q"),
            Self::Age => Some("AGE"),
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|one| *one == self);
        Self::ALL[at.map_or(0, |at| (at + 1) % Self::ALL.len())]
    }
}

/// Which of its faces the screen shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Face {
    #[default]
    Process,
    /// The process's connections.
    Connections,
    /// Its upstreams.
    Upstreams,
    /// The list of processes, with one of them marked.
    Choice(usize),
    Help,
}

/// What the keys have chosen.
#[derive(Debug, Default)]
pub struct State {
    pub face: Face,
    /// The face to go back to from help and from the choice: the process, its connections, or its upstreams.
    base: Face,
    pub sort: Sort,
    pub crowd_sort: CrowdSort,
    pub filter: String,
    /// The text to filter by is being typed.
    pub is_typing: bool,
    /// Lanes, or connections, that are scrolled past.
    pub scrolled: usize,
    is_paused: bool,
    chosen: Option<ProcessId>,
    known: Vec<ProcessId>,
}

impl State {
    /// Whether the figures stand still.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Takes note of the processes that there are: of several, one is to be chosen.
    pub fn settle(&mut self, shown: &[&Snapshot]) {
        self.known = shown.iter().map(|snapshot| snapshot.process).collect();
        match (self.chosen, &self.known[..]) {
            (None, [only]) => self.chosen = Some(*only),
            (None, [_, ..]) if self.face == Face::Process => self.face = Face::Choice(0),
            _ => {}
        }
        if self.base == Face::Process {
            let lanes = self.process(shown).map_or(0, |snapshot| snapshot.lanes.len());
            self.scrolled = self.scrolled.min(lanes.saturating_sub(1));
        }
    }

    /// Takes note of how many connections, or upstreams, there are to be scrolled through.
    pub fn settle_rows(&mut self, rows: usize) {
        self.scrolled = self.scrolled.min(rows.saturating_sub(1));
    }

    /// Whether a text contains the one that is filtered by.
    pub fn is_wanted(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.filter.to_lowercase())
    }

    /// The process that was chosen.
    pub fn process<'a>(&self, shown: &[&'a Snapshot]) -> Option<&'a Snapshot> {
        shown.iter().copied().find(|snapshot| Some(snapshot.process) == self.chosen)
    }

    /// The numbers of the lanes, sorted.
    pub fn lanes(&self, figures: &[LaneFigures]) -> Vec<usize> {
        let mut lanes: Vec<usize> = (0..figures.len()).collect();
        lanes.sort_by_key(|&lane| std::cmp::Reverse(self.sort.of(&figures[lane])));
        lanes
    }

    /// The numbers of the services that are not filtered away.
    pub fn services(&self, snapshot: &Snapshot) -> Vec<usize> {
        let services = snapshot.services.iter().enumerate();
        let wanted = services.filter(|(_, one)| self.is_wanted(&one.name.name) || self.is_wanted(&one.name.url));
        wanted.map(|(number, _)| number).collect()
    }

    /// The figures of a process, of the services that are not filtered away.
    pub fn figures<'a>(&self, snapshot: &'a Snapshot) -> ProcessFigures<'a> {
        ProcessFigures::of_services(snapshot, &self.services(snapshot))
    }

    /// A key was pressed.
    pub fn press(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Next::End } else { Next::Go };
        }
        match (self.is_typing, self.face) {
            (true, _) => self.typed(key.code),
            (_, _) if key.code == KeyCode::Char('q') => return Next::End,
            (_, Face::Help) => self.face = self.base,
            (_, Face::Choice(at)) => self.choose(at, key.code),
            (_, Face::Process | Face::Connections | Face::Upstreams) => self.command(key.code),
        }
        Next::Go
    }

    fn typed(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(letter) if self.filter.chars().count() < FILTER_MAX => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            _ => {}
        }
    }

    /// Shows the process, its connections or its upstreams, from the first one on.
    fn turn_to(&mut self, base: Face) {
        assert!(matches!(base, Face::Process | Face::Connections | Face::Upstreams), "help and the choice are gone through");
        (self.face, self.base, self.scrolled) = (base, base, 0);
    }

    fn choose(&mut self, at: usize, code: KeyCode) {
        match code {
            KeyCode::Up => self.face = Face::Choice(at.saturating_sub(1)),
            KeyCode::Down => self.face = Face::Choice((at + 1).min(self.known.len().saturating_sub(1))),
            KeyCode::Enter => self.show(at),
            KeyCode::Char('h' | '?') => self.face = Face::Help,
            KeyCode::Esc if self.chosen.is_some() => self.face = self.base,
            _ => {}
        }
    }

    fn show(&mut self, at: usize) {
        if let Some(process) = self.known.get(at) {
            self.chosen = Some(*process);
            self.turn_to(self.base);
        }
    }

    /// A key while a process, its connections or its upstreams are shown.
    fn command(&mut self, code: KeyCode) {
        let at = self.known.iter().position(|known| Some(*known) == self.chosen).unwrap_or(0);
        let is_crowd = self.base == Face::Connections;
        match code {
            KeyCode::Char('s') if is_crowd => self.crowd_sort = self.crowd_sort.next(),
            // Those that are out of rotation stand first.
            KeyCode::Char('s') if self.base == Face::Upstreams => {}
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('h' | '?') => self.face = Face::Help,
            KeyCode::Char('c') => self.turn_to(if is_crowd { Face::Process } else { Face::Connections }),
            KeyCode::Char('u') if self.base == Face::Upstreams => self.turn_to(Face::Process),
            KeyCode::Char('u') => self.turn_to(Face::Upstreams),
            KeyCode::Char('p') => self.face = Face::Choice(at),
            KeyCode::Char('n') => self.show((at + 1) % self.known.len().max(1)),
            KeyCode::Esc if self.base != Face::Process && self.filter.is_empty() => self.turn_to(Face::Process),
            KeyCode::Esc => self.filter.clear(),
            _ => self.scroll(code),
        }
    }

    /// How far lines are scrolled: no further than the last one, of which [`State::settle`] takes care.
    fn scroll(&mut self, code: KeyCode) {
        self.scrolled = match code {
            KeyCode::Up => self.scrolled.saturating_sub(1),
            KeyCode::Down => self.scrolled.saturating_add(1),
            KeyCode::PageUp => self.scrolled.saturating_sub(PAGE),
            KeyCode::PageDown => self.scrolled.saturating_add(PAGE),
            KeyCode::Home => 0,
            KeyCode::End => usize::MAX,
            _ => self.scrolled,
        };
    }
}
