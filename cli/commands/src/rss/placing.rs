//! The key and the table that flows are placed by where no process is asked: from options alone.

use anyhow::{Context, Result};
use corelane::admin::rss::{Buckets, Key, Table};

/// What decides about a flow where no process is asked.
#[derive(clap::Args)]
pub struct Placing {
    /// The key of the hash: default (Microsoft's), or 40 or 52 bytes as 6d:5a:...
    #[arg(long, value_name = "KEY", default_value = "default")]
    key: String,
    /// Lanes that share the buckets evenly; by default as many as `serve` starts here
    #[arg(long, value_name = "N")]
    pub lanes: Option<usize>,
}

impl Placing {
    /// The key of the hash.
    pub fn key(&self) -> Result<Key> {
        match self.key.as_str() {
            "default" => Ok(Key::default()),
            text => text.parse().context("--key"),
        }
    }

    /// The even table of so many buckets.
    pub fn table(&self, buckets: usize, option: &'static str) -> Result<Table> {
        let buckets = Buckets::new(buckets).context(option)?;
        let lanes = match self.lanes {
            Some(lanes) => lanes,
            // Who only wants buckets need not know how many CPUs there are.
            None => corelane::lanes::lanes_for_this_machine()?.min(buckets.count()),
        };
        Table::even(buckets, lanes).context("--lanes")
    }
}
