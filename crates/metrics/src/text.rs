//! The exposition: in the text format of Prometheus, version 0.0.4, or as OpenMetrics where that is asked for.

use crate::families::Families;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::fmt::Write;

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The text format of Prometheus, version 0.0.4, which everything reads.
    Plain,
    /// OpenMetrics 1.0, which has units.
    OpenMetrics,
}

impl Format {
    /// What a client takes by its Accept fields (RFC 9110 section 12.5.1): OpenMetrics where it is named and is wanted as much as plain text is.
    pub fn accepted<'a>(fields: impl Iterator<Item = &'a str>) -> Self {
        let (mut open, mut plain) = (0.0, 0.0);
        for range in fields.flat_map(|field| field.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
            match name {
                "application/openmetrics-text" => open = f64::max(open, weight),
                "text/plain" => plain = f64::max(plain, weight),
                _ => {}
            }
        }
        if open > 0.0 && open >= plain { Self::OpenMetrics } else { Self::Plain }
    }

    /// What the text is, for `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The snapshot as text.
    pub fn text(self, families: Families) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(families));
        let mut out = String::new();
        // reason: writing to a string does not fail, and every histogram has buckets.
        encode(&mut out, &registry).expect("a snapshot can be written");
        match self {
            Self::OpenMetrics => out,
            Self::Plain => plain(&out),
        }
    }
}

/// OpenMetrics as the older format has it: counters are declared by the name of their samples, and neither units nor an end are told.
fn plain(open: &str) -> String {
    let mut out = String::with_capacity(open.len());
    // What is said of a family comes before its type.
    let mut help = None;
    for line in open.lines() {
        // Writing to a string does not fail.
        let _ = match line.strip_prefix("# ").map(|said| said.splitn(3, ' ')).map(|mut words| [(); 3].map(|()| words.next())) {
            None => writeln!(out, "{line}"),
            Some([Some("HELP"), name, words]) => {
                help = name.zip(words);
                Ok(())
            }
            Some([Some("TYPE"), Some(name), Some(kind)]) => {
                let end = if kind == "counter" { "_total" } else { "" };
                let said = help.take().filter(|(of, _)| *of == name).map(|(_, words)| format!("# HELP {name}{end} {words}\n"));
                writeln!(out, "{}# TYPE {name}{end} {kind}", said.unwrap_or_default())
            }
            Some(_) => Ok(()),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_openmetrics_gets_it_and_everybody_else_plain_text() {
        let of = |field: &str| Format::accepted([field].into_iter());
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let open =
            [prometheus, "application/openmetrics-text", "text/plain; q=0.9, application/openmetrics-text;version=1.0.0; q=0.9"];
        assert!(open.into_iter().all(|field| of(field) == Format::OpenMetrics));
        let plain = [
            "",
            "*/*",
            "text/plain",
            "text/plain;version=0.0.4",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=0.2, text/plain;q=0.3",
            "application/openmetrics-text;q=x",
            ";,;q=1",
        ];
        assert!(plain.into_iter().all(|field| of(field) == Format::Plain));
        assert_eq!(Format::accepted(std::iter::empty()), Format::Plain);
    }

    #[test]
    fn counters_are_declared_as_their_samples_are_called() {
        let open = "# HELP a What a is.\n# TYPE a counter\n# UNIT a seconds\na_total 1.5\n# HELP b B.\n# TYPE b gauge\nb{c=\"# d\"} 2\n# EOF\n";
        let due = "# HELP a_total What a is.\n# TYPE a_total counter\na_total 1.5\n# HELP b B.\n# TYPE b gauge\nb{c=\"# d\"} 2\n";
        assert_eq!(plain(open), due);
    }
}
