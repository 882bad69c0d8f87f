//! Options that can change while it serves.

use crate::routes::Routes;
use corelane::service::entry::choice::{Choice, Chosen, Text};
use corelane_upstreams::{Targets, entry, entry::uses};

/// Names, and the upstreams of each.
pub(crate) const SNI: Text = Text::new(
    "sni",
    "NAME>HOST:PORT,..",
    |text| Routes::read(text, None).map(drop).map_err(|error| error.to_string()),
    "give clients that ask for this name in TLS, or one that ends so (*.NAME), these upstreams, without opening their TLS; all others get those of to=, or are broken off",
)
.naming(|text| Routes::read(text, None).as_ref().map_or_else(|_| Vec::new(), |(_, targets)| uses(targets)));

/// What can change while it serves.
pub(crate) const LIVE: &[Choice] = &[entry::TARGETS, Choice::Text(SNI)];

/// The upstreams of that, for clients that were told apart so before.
pub(crate) fn live(options: &str, before: &Routes) -> Option<(Routes, Targets)> {
    let chosen = Chosen::read(LIVE, options).ok()?;
    let all_others = entry::targets(&chosen);
    before.next(chosen.text(&SNI), all_others.as_ref()).ok().filter(|(_, targets)| !targets.all().is_empty())
}
