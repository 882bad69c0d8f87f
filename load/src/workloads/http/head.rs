//! The head of an answer.

use super::kinds::MALFORMED;
use crate::kinds::Kind;
use corelane_wire::http1::{Answer, Framing, Method, Refusal, Responses, Scratch};

/// What the head of an answer says.
#[derive(Clone, Copy)]
pub struct Head {
    pub bytes: usize,
    pub status: u16,
    pub framing: Framing,
    pub stays: bool,
    pub is_interim: bool,
    pub is_redirect: bool,
}

/// Reads a head, if it is whole.
pub fn read(responses: &mut Responses, bytes: &[u8], is_head: bool) -> Result<Option<Head>, Kind> {
    let method = if is_head { Method::Head } else { Method::Get };
    let mut scratch = Scratch::new();
    Ok(match responses.next(bytes, &mut scratch).map_err(malformed)? {
        Answer::More => None,
        Answer::Response { head, bytes } => Some(Head {
            bytes,
            status: head.status.code(),
            framing: head.framing(method),
            stays: head.persists(method),
            is_interim: head.status.is_interim(),
            is_redirect: matches!(head.status.code(), 301 | 302 | 303 | 307 | 308) && head.fields.get("location").is_some(),
        }),
    })
}

/// What is refused is no HTTP.
pub fn malformed(_: Refusal) -> Kind {
    MALFORMED
}
