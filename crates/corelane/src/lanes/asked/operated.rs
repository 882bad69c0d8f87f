//! What services of running lanes answer to an operator, as JSON.

use crate::admin::control::of_one;
use crate::lanes::live_services::{Answered, LiveServices};
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// How long all lanes together may take: who asks waits a little longer.
const PATIENCE: Duration = Duration::from_millis(1_500);

#[derive(Serialize)]
struct LaneAnswer<'a> {
    service: &'a str,
    number: usize,
    lane: usize,
    answer: Box<RawValue>,
}

/// Asks each service on each lane, or the one that is named before the words, and returns what they answer, as a list in JSON.
pub(super) fn ask(services: &LiveServices, words: &str) -> Result<String, String> {
    let silent = |lane| format!("lane {lane} does not answer: see `corelane stat` for what it does");
    let answers = match of_one(words) {
        (None, words) => services.ask(words, PATIENCE),
        (Some(number), words) if number < services.names().len() => services.ask_one(number, words, PATIENCE),
        (Some(_), _) => Ok(Vec::new()),
    };
    let answers = answers.map_err(silent)?;
    if answers.is_empty() {
        return Err(unknown(words).to_owned());
    }
    let told = answers.iter().map(told).collect::<Result<Vec<_>, _>>()?;
    serde_json::to_string(&told).map_err(|error| error.to_string())
}

/// Why nobody answers to these words.
fn unknown(words: &str) -> &'static str {
    match of_one(words).1.split(' ').next() {
        // `corelane proxy` asks so.
        Some("upstreams") => "no service of this process passes on to upstreams: start one with to=HOST:PORT",
        _ => "no service of this process knows that",
    }
}

fn told(Answered { service, number, lane, answer }: &Answered) -> Result<LaneAnswer<'_>, String> {
    let wrong = |error| format!("service {service} has answered what is no JSON ({error}), which is its fault");
    Ok(LaneAnswer { service, number: *number, lane: *lane, answer: RawValue::from_string(answer.clone()).map_err(wrong)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_service_is_named_by_its_number() {
        let of = ["upstreams show 0 0", "#3 upstreams drain a b", "#x y", "#3", ""].map(of_one);
        assert_eq!(
            of,
            [(None, "upstreams show 0 0"), (Some(3), "upstreams drain a b"), (None, "#x y"), (None, "#3"), (None, "")]
        );
    }

    #[test]
    fn whoever_asks_of_upstreams_that_are_not_there_is_told_that() {
        let all = ["upstreams show 0 0", "#3 upstreams drain a b", "upstreams", "upstream x", "", "gateway show"].map(unknown);
        let (of_upstreams, of_others) = all.split_at(3);
        assert!(of_upstreams.iter().all(|why| why.ends_with("passes on to upstreams: start one with to=HOST:PORT")), "{all:?}");
        assert!(of_others.iter().all(|why| *why == "no service of this process knows that"), "{all:?}");
    }

    #[test]
    fn names_of_any_signs_are_written_as_json() {
        let of = |service: &str, answer: &str| {
            let answered = Answered { service: service.to_owned(), number: 1, lane: 2, answer: answer.to_owned() };
            told(&answered).map(|told| serde_json::to_string(&told).unwrap())
        };
        let expected = "{\"service\":\"a\\u0001\\\"\",\"number\":1,\"lane\":2,\"answer\":[{\"x\":1}]}";
        assert_eq!(of("a\u{1}\"", "[{\"x\":1}]").as_deref(), Ok(expected));
        assert!(of("a", "yes, it is").unwrap_err().contains("no JSON"));
    }
}
