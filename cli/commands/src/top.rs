//! `corelane top`: running processes on a whole terminal, once a second.
//!
//! pages --look--> [`looks::Looks`] (two snapshots a process) --[`state::State`] (keys)--> [`draw::draw`] --> terminal. Nothing is asked of the
//! processes, so this works while their lanes hang, while they are stopped, and after they died.

mod behind;
mod draw;
mod looks;
mod record;
mod state;

use crate::exit::Exit;
use crate::stat;
use crate::terminal::{Tty, give_back, is_open};
use anyhow::{Result, bail};
use behind::Behind;
use corelane::lanes::Signals;
use draw::Beside;
use looks::{Crowd, Looks};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use state::{Face, Next, State};
use std::time::{Duration, Instant};

/// Shows what running processes do, once a second, on the whole terminal
///
/// Lanes with the shares of time in which they worked, looked for work in vain, and slept; services; which lane serves which bucket; and what is
/// wrong. All figures are for the last second; graphs show the minutes before, where there is room for them. The terminal has at least 80 columns and 24
/// lines; a larger one shows more.
///
/// Keys: q ends. s sorts by the next column. / takes a text that names or URLs of services contain. Space pauses and goes on. Up, down, page up, page
/// down, home and end scroll. c shows the connections, as `stat -R` does, u the upstreams, as `proxy show` does, and the lanes again. n shows the next process, p lets you choose one. h or ? shows
/// the keys.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only this process, running or not; by default all that run, of which you choose one
    #[arg(long, value_parser = crate::stat::process_number)]
    pid: Option<u32>,
}

/// The time between two frames.
const FRAME: Duration = Duration::from_secs(1);

/// Shows them until `q`.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let mut looks = Looks::new(arguments.pid, stat::some(arguments.pid)?);
    end_by_signal(Signals::block()?);
    let Some(mut tty) = Tty::open() else {
        bail!("top needs a terminal as its standard error, and to be in the foreground there: use `corelane stat --every 1s`");
    };
    let (mut state, mut crowd) = (State::default(), (Crowd::default(), Behind::default()));
    while is_open() {
        look(&mut looks, &state, corelane::now().nanoseconds());
        if heard(&mut state, &looks, &mut crowd, &mut tty)? == Next::End {
            break;
        }
    }
    Ok(Exit::Done)
}

/// Looks again, unless the figures are to stand still.
fn look(looks: &mut Looks, state: &State, at_nanoseconds: u64) {
    if !state.is_paused() {
        looks.look(at_nanoseconds);
    }
}

/// Draws, and again after each key, until it is time for the next frame.
fn heard(state: &mut State, looks: &Looks, (crowd, behind): &mut (Crowd, Behind), tty: &mut Tty) -> Result<Next> {
    let due = Instant::now() + FRAME;
    loop {
        let shown = looks.shown();
        state.settle(&shown);
        if let (Face::Connections, Some(snapshot)) = (state.face, state.process(&shown)) {
            if !state.is_paused() || !crowd.is_of(snapshot.process) {
                crowd.look(looks, snapshot.process, corelane::now().nanoseconds());
            }
            state.settle_rows(draw::wanted(state, crowd).len());
        }
        if let (Face::Upstreams, Some(snapshot)) = (state.face, state.process(&shown)) {
            if !state.is_paused() || !behind.is_of(snapshot.process) {
                behind.look(snapshot);
            }
            state.settle_rows(draw::upstreams::count(state, behind));
        }
        let record = state.process(&shown).and_then(|snapshot| looks.record(snapshot.process));
        tty.draw(|frame| draw::draw(frame, state, &shown, &Beside { crowd, behind, record }));
        let left = due.saturating_duration_since(Instant::now());
        if !event::poll(left)? {
            return Ok(Next::Go);
        }
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release && state.press(key) == Next::End => return Ok(Next::End),
            _ => {}
        }
    }
}

/// The first SIGINT or SIGTERM gives the terminal back and ends the program.
fn end_by_signal(signals: Signals) {
    std::thread::spawn(move || {
        let _ = signals.wait_for_end();
        give_back();
        std::process::exit(Exit::Interrupted.code().into());
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, Page, Reader, ServiceCounter, ServiceName};
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    #[test]
    fn figures_stand_still_in_a_pause_and_go_on_after_it() {
        let page = Page::heap(&Description {
            lanes: vec![LaneName::default()],
            services: vec![ServiceName::default()],
            ..Description::default()
        });
        let page = page.unwrap();
        let mut looks = Looks::new(Some(0), vec![Reader::of(&page).unwrap()]);
        let mut state = State::default();
        let mut seconds = 1..;
        let mut requests_after_one_more = |looks: &mut Looks, state: &State| {
            page.service(0, 0).unwrap().add(ServiceCounter::Requests, 1);
            look(looks, state, seconds.next().unwrap_or(0) * 1_000_000_000);
            looks.shown().first().map(|shown| (shown.services[0].values.get(ServiceCounter::Requests), shown.span_nanoseconds))
        };
        assert_eq!(requests_after_one_more(&mut looks, &state), Some((1, None)));
        assert_eq!(requests_after_one_more(&mut looks, &state), Some((1, Some(1_000_000_000))));
        state.press(KeyEvent::new(KeyCode::Char(' '), KeyModifiers::NONE));
        for _ in 0..3 {
            assert_eq!(requests_after_one_more(&mut looks, &state), Some((1, Some(1_000_000_000))));
        }
        state.press(KeyEvent::new(KeyCode::Char(' '), KeyModifiers::NONE));
        assert_eq!(requests_after_one_more(&mut looks, &state), Some((4, Some(4_000_000_000))));
    }
}
