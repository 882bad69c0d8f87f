//! A run's progress where standard error is no terminal: a line every few seconds.

use super::facts;
use super::flow::Field;
use crate::print::note;
use crate::wrap::legible;
use corelane_load::report::Progress;
use std::time::{Duration, Instant};

/// Time between lines of one phase.
const PAUSE: Duration = Duration::from_secs(5);

/// Prints a line to standard error when a phase begins and every 5 seconds.
#[derive(Debug, Default)]
pub struct Lines {
    last: Option<(Instant, String, (u64, u64))>,
}

impl Lines {
    /// Prints how far the run is, if it is time. Lines that cannot be written are lost.
    pub fn show(&mut self, progress: &Progress) {
        let text = self.due(progress, Instant::now());
        if !text.is_empty() {
            note(text);
        }
    }

    /// What there is to print now.
    fn due(&mut self, progress: &Progress, now: Instant) -> String {
        let waited = |last: &Instant| now.saturating_duration_since(*last) >= PAUSE;
        let begun = match &self.last {
            Some((last, phase, run)) if *phase == progress.phase && *run == progress.run && !waited(last) => {
                return String::new();
            }
            Some(_) => String::new(),
            None => format!("{}\n", legible(&progress.what)),
        };
        self.last = Some((now, progress.phase.clone(), progress.run));
        format!("{begun}{}\n", line(progress))
    }
}

fn line(progress: &Progress) -> String {
    let mut parts = vec![joined(&facts::phase(progress))];
    parts.extend(facts::left(progress));
    let told = [facts::rates, facts::latency, facts::state].map(|of| joined(&of(progress)));
    parts.extend(told.into_iter().filter(|text| text != facts::NOTHING));
    parts.push(format!("errors: {}", joined(&facts::failures(progress))));
    legible(&parts.join("; "))
}

fn joined(fields: &[Field]) -> String {
    fields.iter().map(|field| field.text.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_load::report::Second;

    fn progress(phase: &str) -> Progress {
        Progress { phase: phase.to_owned(), what: "echo\u{7}".to_owned(), ..Progress::default() }
    }

    #[test]
    fn a_line_for_each_phase_and_every_five_seconds() {
        let mut lines = Lines::default();
        let start = Instant::now();
        let mut printed = |phase: &str, after_ms: u64| {
            let text = lines.due(&progress(phase), start + Duration::from_millis(after_ms));
            text.lines().map(|line| line.split(';').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(printed("connecting", 0), ["echo?", "connecting"]);
        assert!(printed("connecting", 4_999).is_empty());
        assert_eq!(printed("measuring", 4_999), ["measuring"]);
        assert!(printed("measuring", 9_998).is_empty());
        assert_eq!(printed("measuring", 9_999), ["measuring"]);
    }

    #[test]
    fn what_was_not_measured_yet_is_left_out() {
        assert_eq!(line(&progress("connecting")), "connecting; 0 answered, 0 of 0 connections; errors: none");
    }

    #[test]
    fn a_line_says_it_all() {
        let progress = Progress {
            phase: "measuring".to_owned(),
            elapsed_s: 12.0,
            left_s: Some(18.0),
            connections: (64, 64),
            series: vec![Second { length_s: 1.0, requests_per_second: 101_234.0, ..Second::default() }],
            requests: 1_214_808,
            rate: Some(100_000.0),
            latency_us: [("50".to_owned(), 12.3), ("max".to_owned(), 4_500.0)].into(),
            errors: [("reset".to_owned(), 3), ("lost".to_owned(), 0)].into(),
            lag_us: Some(0.5),
            run: (2, 5),
            ..Progress::default()
        };
        assert_eq!(
            line(&progress),
            "measuring, run 2 of 5, 12 s measured; 18 s left; 101,234/s now, 101,234/s mean, 100,000/s offered; p50 12.3 us, max 4.50 ms; \
             1,214,808 answered, 64 of 64 connections, send lag 500 ns; errors: reset 3"
        );
    }
}
