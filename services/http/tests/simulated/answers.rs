//! What a client hears, told apart.

use corelane_http::http1::{Answer, Body, Limits, Method, Part, Responses, Scratch};

/// An answer, as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub status: u16,
    pub content: Vec<u8>,
    pub is_last: bool,
}

/// The whole answers in `bytes` to requests with these methods, without interim ones; the bytes that are left, and how many interim ones there were.
pub fn answers<'b>(mut bytes: &'b [u8], methods: &[Method<'static>], is_over: bool) -> (Vec<Heard>, &'b [u8], usize) {
    let (mut heard, mut interim) = (Vec::new(), 0);
    while heard.len() < methods.len() {
        let (method, mut scratch) = (methods[heard.len()], Scratch::new());
        let next = Responses::new(Limits::default()).next(bytes, &mut scratch);
        let Answer::Response { head, bytes: length } = next.unwrap_or_else(|refusal| panic!("{refusal}: {:?}", text(bytes)))
        else {
            break;
        };
        if head.status.is_interim() {
            (bytes, interim) = (&bytes[length..], interim + 1);
            continue;
        }
        let Some((content, behind)) = content(Body::new(head.framing(method), 1 << 30).unwrap(), &bytes[length..], is_over)
        else {
            break;
        };
        heard.push(Heard { status: head.status.code(), content, is_last: !head.persists(method) });
        bytes = behind;
    }
    (heard, bytes, interim)
}

fn content(mut body: Body, mut bytes: &[u8], is_over: bool) -> Option<(Vec<u8>, &[u8])> {
    let mut content = Vec::new();
    loop {
        match body.next(bytes).unwrap() {
            Part::Data(range) => {
                content.extend_from_slice(&bytes[range.clone()]);
                bytes = &bytes[range.end..];
            }
            Part::Trailers(range) => bytes = &bytes[range.end..],
            Part::End(drop) => return Some((content, &bytes[drop..])),
            Part::More(drop) => {
                bytes = &bytes[drop..];
                return (is_over && body.finish().is_ok()).then_some((content, bytes));
            }
        }
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned()
}
