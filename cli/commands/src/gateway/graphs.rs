//! `corelane gateway graphs`: what a gateway has counted over time, as a page or as JSON.

use crate::print::print;
use anyhow::{Context, Result, anyhow, bail};
use corelane_metrics::graphs::{all_json, document};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(clap::Args)]
pub struct Graphs {
    /// The file in which the gateway keeps them ([graphs] of its CONFIG.toml)
    file: PathBuf,
    /// Write a page for browsers there, which needs nothing else
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
}

/// Writes the page, or prints JSON. The gateway may run or have ended.
pub fn run(Graphs { file, out }: &Graphs, json: bool) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let of_file = |error| anyhow!("{}: {error}", file.display());
    match (out, json) {
        (Some(out), false) => {
            let page = document(file, now).map_err(of_file)?;
            std::fs::write(out, page).with_context(|| format!("{} cannot be written", out.display()))
        }
        (None, true) => print(all_json(file, now).map_err(of_file)?),
        (Some(_), true) => bail!("--out writes a page, and --json prints JSON: choose one"),
        (None, false) => bail!("name the page that is to be written, as in --out gateway.html, or print JSON with --json"),
    }
}
