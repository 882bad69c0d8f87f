//! The page that names all metrics.

use crate::names::{Family, Reworded};
use crate::upstreams;
use corelane::admin::watch::{Counter, Declaration, LaneCounter, LaneHistogram, PacketCounter, ServiceCounter};
use std::fmt::Write;

fn told(scope: &str) -> impl Iterator<Item = Family> {
    let start = format!("corelane_{scope}_");
    Reworded::ALL.map(Reworded::family).into_iter().filter(move |family| family.stem.starts_with(&start))
}

/// All names, with what each service counts of its own, as Markdown. Behind the lanes' stand those that a program tells beside its page, under their titles.
pub fn documentation(services: &[(&str, &[Declaration])], more: Vec<(&str, Vec<Family>)>) -> String {
    let mut out = String::new();
    table(&mut out, "The process", told("process"));
    let counters = LaneCounter::ALL.iter().filter_map(|&counter| Family::declared("lane", counter));
    table(&mut out, "Each lane (label `lane`)", told("lane").chain(counters));
    table(&mut out, "Histograms of each lane (label `lane`)", LaneHistogram::ALL.into_iter().map(Family::histogram));
    let packets = PacketCounter::ALL.iter().map(|&counter| Family::of_packets(counter));
    table(&mut out, "The packets of each lane that has some (label `lane`)", packets);
    more.into_iter().for_each(|(title, families)| table(&mut out, title, families.into_iter()));
    let labels = "labels `service`, `url`, `upstream`, `address`";
    let title = format!("Each upstream, all lanes together ({labels}); the first {} are told", upstreams::TOLD_MAX);
    table(&mut out, &title, upstreams::families());
    let counters = ServiceCounter::ALL.iter().filter_map(|&counter| Family::declared("service", counter));
    table(&mut out, "Each service on each lane (labels `lane`, `service`, `url`)", counters);
    for (service, declared) in services.iter().filter(|(_, declared)| !declared.is_empty()) {
        let own = declared.iter().filter_map(|one| Family::own(service, one.name, one.kind, one.unit, one.meaning));
        table(&mut out, &format!("The service `{service}` on each lane, too"), own);
    }
    out
}

fn table(out: &mut String, title: &str, families: impl Iterator<Item = Family>) {
    let _ = writeln!(out, "\n## {title}\n\n| Prometheus | OpenTelemetry | unit | meaning |\n| --- | --- | --- | --- |");
    for family in families {
        let _ =
            writeln!(out, "| `{}` | `{}` | `{}` | {} |", family.prometheus(), family.opentelemetry, family.ucum, family.meaning);
    }
}
