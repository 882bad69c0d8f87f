//! Styles: the options and the print of older load programs, on the engines and the counting of `corelane load`. One file each, beside
//! what they have in common. Each is the face of a program that spoke one protocol, so these files, and no others of this program, name
//! workloads (load/DESIGN.md).

mod echotest;
mod httperf;
mod iapp;
mod measure;
mod rpctest;
mod style;
mod suffix;
mod udp_clt;

use crate::exit::Exit;
use anyhow::{Result, bail};
use corelane::service::did_you_mean;
use style::Style;

/// All styles.
pub const ALL: &[Style] = &[echotest::STYLE, httperf::STYLE, iapp::CLT, iapp::UDP_CLT, rpctest::STYLE, udp_clt::STYLE];

/// Carries out `--style NAME WORDS...`.
pub fn run(words: &[String]) -> Result<Exit> {
    let names: Vec<&str> = ALL.iter().map(|style| style.name).collect();
    let (name, rest) = words.split_first().map_or(("", words), |(name, rest)| (name, rest));
    match ALL.iter().find(|style| style.name == name) {
        Some(style) => (style.run)(rest),
        None => bail!(
            "--style: there is no style {name:?}{}: use one of {}",
            did_you_mean(name, names.iter().copied()),
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_has_a_name_of_its_own_and_a_line() {
        for (index, style) in ALL.iter().enumerate() {
            assert!(!style.about.is_empty() && ALL[..index].iter().all(|other| other.name < style.name), "{}", style.name);
        }
    }
}
