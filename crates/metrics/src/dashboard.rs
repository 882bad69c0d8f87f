//! The page in the browser: what the last second was, and the last hour second by second.

mod look;
mod sample;

use corelane::admin::watch::{ConnectionRow, ProcessFigures, Snapshot};
use corelane_upstreams::Shown;
use hyper::body::Bytes;
use look::{Look, behind};
use sample::{Sample, sample};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Arc;

/// The page: all of it in one file, so that it needs nothing from elsewhere.
pub(crate) const PAGE: &str = include_str!("dashboard/page.html");

/// What the page may do: run its own script, and ask this server.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; \
                                 base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Seconds of the past that are kept: an hour.
const SAMPLES_MAX: usize = 3600;

/// What is known: the last look, and the past.
#[derive(Debug, Default)]
pub(crate) struct Dashboard {
    before: Option<(Snapshot, Arc<[Shown]>)>,
    samples: VecDeque<Sample>,
    look: Bytes,
}

impl Dashboard {
    /// Takes one look more, with the rows of all connections, and upstreams, at this time of the wall clock in milliseconds.
    pub fn add(&mut self, now: Snapshot, (rows, upstreams): (&[(usize, ConnectionRow)], Arc<[Shown]>), unix_milliseconds: u64) {
        let before = self.before.as_ref();
        let since = before.and_then(|(before, _)| now.since(before).ok());
        let earlier = before.map_or(&[][..], |(_, upstreams)| upstreams);
        let (look, sample) = told(since.as_ref().unwrap_or(&now), (rows, &upstreams, earlier), unix_milliseconds);
        self.look = look;
        if let Some(sample) = sample {
            if self.samples.len() == SAMPLES_MAX {
                self.samples.pop_front();
            }
            self.samples.push_back(sample);
            assert!(self.samples.len() <= SAMPLES_MAX, "the past is bounded");
        }
        self.before = Some((now, upstreams));
    }

    /// The last look, as JSON.
    pub fn look(&self) -> Bytes {
        self.look.clone()
    }

    /// The last look as an event of a stream (WHATWG HTML, "Server-sent events"). JSON has no line ends.
    pub fn event(&self) -> Bytes {
        Bytes::from([b"data: ", &*self.look, b"\n\n"].concat())
    }

    /// The past, oldest first, as JSON.
    pub fn history(&self) -> Bytes {
        json(&self.samples)
    }
}

/// The answer of `/look` to the page, without connections (JSON, RFC 8259): a process as it is, with what has changed in the span of `since`.
#[must_use]
pub fn look(since: &Snapshot) -> Vec<u8> {
    told(since, (&[], &[], &[]), 0).0.into()
}

/// The answer to the page, and the second of the past that it becomes if there is a span.
fn told(
    shown: &Snapshot,
    (rows, upstreams, earlier): (&[(usize, ConnectionRow)], &[Shown], &[Shown]),
    unix_milliseconds: u64,
) -> (Bytes, Option<Sample>) {
    let figures = ProcessFigures::of(shown);
    let sample = shown.span_nanoseconds.map(|_| sample(shown, &figures, unix_milliseconds));
    let behind = behind(shown, upstreams, earlier);
    let look = Look::of(shown, &figures, sample.as_ref(), rows).with_upstreams(upstreams.len(), behind);
    (json(&look), sample)
}

fn json(what: &impl Serialize) -> Bytes {
    // reason: all keys are strings, and writing to memory does not fail.
    Bytes::from(serde_json::to_vec(what).expect("a look can be written"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, Page, Reader, ServiceCounter, ServiceName};

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let page = Page::heap(&Description {
            lanes: vec![LaneName::default()],
            services: vec![ServiceName::default()],
            ..Description::default()
        });
        let page = page.unwrap();
        let (reader, row) = (Reader::of(&page).unwrap(), page.service(0, 0).unwrap());
        let mut dashboard = Dashboard::default();
        dashboard.add(reader.snapshot(1), (&[], Arc::default()), 0);
        assert_eq!((&dashboard.history()[..], dashboard.look().is_empty()), (&b"[]"[..], false));
        for second in 1..=SAMPLES_MAX as u64 + 5 {
            row.add(ServiceCounter::Requests, second);
            dashboard.add(reader.snapshot(1 + second * 1_000_000_000), (&[], Arc::default()), second * 1000);
        }
        let past: serde_json::Value = serde_json::from_slice(&dashboard.history()).unwrap();
        let samples = past.as_array().unwrap();
        assert_eq!(
            (samples.len(), samples[0].to_string()),
            (SAMPLES_MAX, "[6000,6.0,0,null,null,0.0,1.0,null,null,null,null]".to_owned())
        );
        assert_eq!(samples[SAMPLES_MAX - 1][1], 3605.0);
        assert!(dashboard.event().starts_with(b"data: {") && dashboard.event().ends_with(b"}\n\n"));
    }
}
