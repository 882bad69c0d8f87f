//! A request whose file, or the page of whose refusal, is not in memory: it waits for that to be looked up, and is answered then.

use super::asked::{Codings, FileRequest, KeptFields};
use super::entity::Entity;
use super::lookup::{Found, Promise};
use super::place::Where;
use super::respond::{self, Response, ResponseKind, Trouble};
use super::state::Files;
use crate::application::{Exchange, Goes, Produced};
use crate::{Parts, Reply};
use corelane::Cx;
use corelane::service::Refused;
use corelane_wire::http1::{Coding, Condition, Scratch, Status, Validators, condition};
use std::rc::Rc;
use std::time::Duration;

/// One such request.
pub(super) struct Visit {
    name: Vec<u8>,
    query: Option<Vec<u8>>,
    kept: KeptFields,
    codings: Codings,
    /// Codings that were looked for, and are not there.
    missing: usize,
    /// The file itself, while one in a coding is looked for.
    plain: Option<Rc<Entity>>,
    waits_for: Option<Rc<Promise>>,
    found: Option<Found>,
    trouble: Option<Trouble>,
    /// Pages of the operator for that which were looked for, and are not there.
    pages_missing: usize,
    sending: Option<Box<dyn Exchange<Files>>>,
}

impl Visit {
    pub fn new(name: &[u8], query: Option<&[u8]>, asked: &FileRequest<'_>) -> Self {
        Self {
            name: name.to_vec(),
            query: query.map(<[u8]>::to_vec),
            kept: asked.keep(),
            codings: asked.codings(),
            missing: 0,
            plain: None,
            waits_for: None,
            found: None,
            trouble: None,
            pages_missing: 0,
            sending: None,
        }
    }

    /// One that is to be refused, and waits for the operator's page for that.
    pub fn refused(trouble: Trouble, asked: &FileRequest<'_>) -> Self {
        Self { trouble: Some(trouble), ..Self::new(b"", None, asked) }
    }

    /// What lies at a name; none if that is waited for.
    fn ask(&mut self, files: &mut Files, cx: &mut Cx<'_>, at: Where, name: &[u8], coding: Coding) -> Option<Found> {
        let found = match self.waits_for.take() {
            Some(promise) => promise.found().cloned().ok_or(promise),
            None => files.finder.look_up(cx, at, name, coding).inspect_err(|promise| promise.wait(cx.id())),
        };
        found.map_err(|promise| self.waits_for = Some(promise)).ok()
    }

    /// Looks for what is to be sent; false if that is waited for.
    fn seek(&mut self, files: &mut Files, cx: &mut Cx<'_>) -> bool {
        while self.found.is_none() {
            let name = std::mem::take(&mut self.name);
            let found = self.ask(files, cx, Where::Site, &name, self.coding());
            self.name = name;
            match found {
                Some(found) => self.take_in(found),
                None => return false,
            }
        }
        true
    }

    /// Looks for the operator's page for what is wrong: of its status, or else of all that begin so. None if that is waited for.
    fn seek_page(&mut self, files: &mut Files, cx: &mut Cx<'_>, status: Status) -> Option<Option<Rc<Entity>>> {
        if files.finder.trees.errors.is_none() {
            return Some(None);
        }
        files.finder.look_after_root(cx, Where::Errors);
        let names = [format!("{}.html", status.code()), format!("{}x.html", status.code() / 10)];
        while let Some(name) = names.get(self.pages_missing) {
            match self.ask(files, cx, Where::Errors, name.as_bytes(), Coding::Identity)? {
                Found::File(page) => return Some(Some(page)),
                _ => self.pages_missing += 1,
            }
        }
        Some(None)
    }

    /// Why nothing of what was found is to be sent, if that is so.
    fn trouble_with(&self, found: &Found, now: Duration) -> Option<Trouble> {
        let mut scratch = Scratch::new();
        match found {
            Found::Not(status) => Some(Trouble::of(*status)),
            Found::Directory => None,
            Found::Listing(_) if self.listed() == Condition::Failed => Some(Trouble::of(Status::PRECONDITION_FAILED)),
            Found::Listing(_) => None,
            Found::File(entity) => match self.kept.asked(&mut scratch).map(|asked| respond::plan(&asked, entity, now)) {
                Ok(ResponseKind::Trouble(trouble)) => Some(trouble),
                Ok(_) => None,
                Err(refusal) => Some(Trouble::of(refusal.status())),
            },
        }
    }

    /// What the conditions come to of a list of names, which is there, and has nothing that tells its states apart.
    fn listed(&self) -> Condition {
        let mut scratch = Scratch::new();
        let unnamed = Validators { tag: None, modified: None, changed: None, is_modified_strong: false };
        let asked = self.kept.asked(&mut scratch);
        asked.map_or(Condition::Holds, |asked| condition(asked.fields, asked.method, Some(&unnamed)))
    }

    /// Answers with what was found, with which there is no trouble.
    fn answer(&self, reply: Reply<'_>, now: Duration) -> Result<Response, Refused> {
        let mut scratch = Scratch::new();
        match self.found.as_ref() {
            Some(Found::Directory) => respond::redirect(reply, &self.name, self.query.as_deref()),
            Some(Found::Listing(_)) if self.listed() == Condition::NotModified => respond::still_there(reply),
            Some(Found::Listing(page)) => respond::listing(reply, page),
            Some(Found::File(entity)) => match self.kept.asked(&mut scratch) {
                Ok(asked) => respond::entity(reply, &asked, entity, &respond::plan(&asked, entity, now), now),
                Err(_) => unreachable!("that would be trouble"),
            },
            Some(Found::Not(_)) | None => unreachable!("something was found"),
        }
    }

    /// What is looked for next.
    fn coding(&self) -> Coding {
        if self.plain.is_none() { Coding::Identity } else { self.codings.as_slice()[self.missing] }
    }

    fn take_in(&mut self, found: Found) {
        match (self.plain.take(), found) {
            (None, Found::File(plain)) if plain.has_codings && !self.codings.as_slice().is_empty() => self.plain = Some(plain),
            (None, found) => self.found = Some(found),
            (Some(plain), Found::File(coded)) if !coded.is_older_than(&plain) => self.found = Some(Found::File(coded)),
            (Some(plain), _) => {
                self.missing += 1;
                match self.missing == self.codings.as_slice().len() {
                    true => self.found = Some(Found::File(plain)),
                    false => self.plain = Some(plain),
                }
            }
        }
    }
}

impl Exchange<Files> for Visit {
    fn go_on(&mut self, files: &mut Files, cx: &mut Cx<'_>, reply: Reply<'_>) -> Result<Goes, Refused> {
        let now = cx.time_of_day();
        if self.trouble.is_none() {
            if !self.seek(files, cx) {
                return Ok(Goes::Wait);
            }
            self.trouble = self.found.as_ref().and_then(|found| self.trouble_with(found, now));
        }
        let response = match self.trouble.as_ref().map(|trouble| trouble.status) {
            None => self.answer(reply, now)?,
            Some(status) => {
                let Some(page) = self.seek_page(files, cx, status) else { return Ok(Goes::Wait) };
                // reason: its status was just read.
                let trouble = self.trouble.as_ref().expect("there is trouble");
                respond::trouble(reply, trouble, page.as_ref())?
            }
        };
        match response {
            Response::Answered(answered) => Ok(answered.into()),
            Response::Begun(begun, sending) => {
                self.sending = Some(sending);
                Ok(Goes::Produce(begun))
            }
        }
    }

    fn produce(&mut self, files: &mut Files, cx: &mut Cx<'_>, parts: &mut Parts<'_>) -> Produced {
        match &mut self.sending {
            Some(sending) => sending.produce(files, cx, parts),
            None => unreachable!("it is sent after it was answered"),
        }
    }
}
