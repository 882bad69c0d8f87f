//! The service as it declares itself.

use crate::live::LIVE;
use crate::proxy::Proxy;
use corelane::service::Limits;
use corelane::service::entry::choice::{Choice, OneOf};
use corelane::service::entry::{Asked, Entry, Scheme};
use corelane::{Lanes, Result};
use corelane_proxied::entry as proxied;
use corelane_tls::entry as tls;
use corelane_upstreams::entry as upstreams;
use corelane_wire::proxy::Version;
use std::time::Duration;

/// Where it is served unless said otherwise.
pub const DEFAULT_PORT: u16 = 8_088;
/// Where it is served behind TLS unless said otherwise.
pub const DEFAULT_TLS_PORT: u16 = 8_453;

/// How long an upstream may take to take a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(4);

const NONE: &str = "none";
const V1: &str = "v1";
const V2: &str = "v2";

const SEND_PROXY: OneOf = OneOf::new(
    "send-proxy",
    "VERSION",
    &[NONE, V1, V2],
    "begin each connection to an upstream with a PROXY header that names the client",
);

const OWN: [Choice; 2] = [Choice::OneOf(SEND_PROXY), proxied::OPTION];

/// The upstreams' options, and the proxy's own.
const OPTIONS: [Choice; upstreams::OPTIONS.len() + OWN.len()] = {
    let mut all = [OWN[0]; upstreams::OPTIONS.len() + OWN.len()];
    let mut at = 0;
    while at < upstreams::OPTIONS.len() {
        all[at] = upstreams::OPTIONS[at];
        at += 1;
    }
    (all[at], all[at + 1]) = (OWN[0], OWN[1]);
    all
};

/// Bytes both ways, in plain and behind TLS.
pub static ENTRY: Entry = Entry::new(
    "proxy",
    "passes bytes on to servers behind it, and back",
    &[
        Scheme::connections::<Proxy>("tcp", DEFAULT_PORT, |lanes, asked| proxied::before(plain(lanes, asked)?, asked)),
        Scheme::connections::<Proxy>("tls", DEFAULT_TLS_PORT, |lanes, asked| {
            proxied::before(tls::before(plain(lanes, asked)?, asked, |server| server)?, asked)
        })
        .options(tls::OPTIONS),
    ],
)
.options(&OPTIONS)
.live(LIVE)
.limits(limits);

fn limits(limits: &mut Limits) {
    limits.connect_limit = CONNECT_LIMIT;
}

fn plain(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let missing = "it is missing: write ?to=HOST:PORT,.. for the servers behind";
    let behind = upstreams::behind(asked)?.ok_or_else(|| asked.refuse(upstreams::TO_NAME, missing))?;
    let version = match asked.chosen().one_of(&SEND_PROXY) {
        V1 => Some(Version::V1),
        V2 => Some(Version::V2),
        _ => None,
    };
    let made = move |lane| version.into_iter().fold(Proxy::new(&behind, lane), Proxy::header);
    lanes.serve(&asked.url().to_string(), made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_served_is_said() {
        let of = |place: &str| Lanes::per_core().serve_entry(&ENTRY, place).map(drop).map_err(|error| error.to_string());
        for right in
            ["to=127.0.0.1:1", "to=a.test:1*3,unix:/x&balance=least&check=1s&send-proxy=v2", "to=[::1]:1&proxy-from=10.0.0.0/8"]
        {
            assert_eq!(of(&format!("tcp://127.0.0.1:0?{right}")), Ok(()), "{right}");
        }
        for (wrong, said) in [
            ("", "write ?to=HOST:PORT"),
            ("?balance=least", "means nothing without to=HOST:PORT"),
            ("?to=a", "write HOST:PORT"),
            ("?to=a:1&balance=most", "none of round-robin, least, address, flow"),
            ("?to=a:1&send-proxy=v3", "none of none, v1, v2"),
        ] {
            let error = of(&format!("tcp://127.0.0.1:0{wrong}")).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
