//! A request whose file is not in memory: it waits for it to be looked up, and is answered then.

use super::Files;
use super::asked::{Asked, Codings, Kept};
use super::entity::Entity;
use super::lookup::{Found, Promise};
use super::respond::{self, Response};
use super::sending::Sending;
use super::tree::Where;
use crate::application::{Exchange, Goes, Produced};
use crate::{Parts, Reply};
use corelane::Cx;
use corelane::service::Refused;
use corelane_wire::http1::{Coding, Scratch, Status};
use std::rc::Rc;

/// One such request.
pub(super) struct Visit {
    name: Vec<u8>,
    query: Option<Vec<u8>>,
    kept: Kept,
    codings: Codings,
    /// Codings that were looked for, and are not there.
    missing: usize,
    /// The file itself, while one in a coding is looked for.
    plain: Option<Rc<Entity>>,
    waits_for: Option<Rc<Promise>>,
    found: Option<Found>,
    sending: Option<Sending>,
}

impl Visit {
    pub fn new(name: &[u8], query: Option<&[u8]>, asked: &Asked<'_>) -> Self {
        let (name, query) = (name.to_vec(), query.map(<[u8]>::to_vec));
        let (kept, codings) = (asked.keep(), asked.codings());
        Self { name, query, kept, codings, missing: 0, plain: None, waits_for: None, found: None, sending: None }
    }

    /// Looks for what is to be sent; false if that is waited for.
    fn seek(&mut self, files: &mut Files, cx: &mut Cx<'_>) -> bool {
        while self.found.is_none() {
            let found = match self.waits_for.take() {
                Some(promise) => promise.found().cloned().ok_or(promise),
                None => {
                    let looked_up = files.look_up(cx, Where::Site, &self.name, self.coding());
                    looked_up.inspect_err(|promise| promise.wait(cx.id()))
                }
            };
            match found {
                Ok(found) => self.take_in(found),
                Err(promise) => {
                    self.waits_for = Some(promise);
                    return false;
                }
            }
        }
        true
    }

    /// What is looked for next.
    fn coding(&self) -> Coding {
        if self.plain.is_none() { Coding::Identity } else { self.codings.as_slice()[self.missing] }
    }

    fn take_in(&mut self, found: Found) {
        match (self.plain.take(), found) {
            (None, Found::File(plain)) if plain.has_codings && !self.codings.as_slice().is_empty() => self.plain = Some(plain),
            (None, found) | (Some(_), found @ Found::File(_)) => self.found = Some(found),
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
        if !self.seek(files, cx) {
            return Ok(Goes::Wait);
        }
        let Some(found) = &self.found else { unreachable!("it was found") };
        let mut scratch = Scratch::new();
        let Ok(asked) = self.kept.asked(&mut scratch) else {
            return respond::status(reply, Status::BAD_REQUEST);
        };
        match respond::found(reply, &asked, found, &self.name, self.query.as_deref(), cx.time_of_day())? {
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
