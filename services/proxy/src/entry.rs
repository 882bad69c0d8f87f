//! The service as it declares itself.

use crate::live::{LIVE, SNI};
use crate::log::ProxyLog;
use crate::proxy::Proxy;
use crate::routes::Routes;
use crate::udp::{UdpProxy, unfit};
use corelane::service::Limits;
use corelane::service::entry::choice::{Choice, Flag, OneOf, Text, Time, any, joined};
use corelane::service::entry::{Asked, Entry, Scheme};
use corelane::{Lanes, Result};
use corelane_proxied::entry as proxied;
use corelane_tls::entry as tls;
use corelane_upstreams::{Targets, entry as upstreams};
use corelane_wire::proxy::Version;
use std::time::Duration;

/// Where it is served unless said otherwise.
pub const DEFAULT_PORT: u16 = 8_088;
/// Where it is served behind TLS unless said otherwise.
pub const DEFAULT_TLS_PORT: u16 = 8_453;
/// Where datagrams are taken unless said otherwise.
pub const DEFAULT_UDP_PORT: u16 = 8_089;

/// How long an upstream may take to take a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(4);

/// Sockets of datagrams on each lane: seven of eight are for sessions.
const DATAGRAM_SOCKETS_MAX: u32 = 4_096;

const MISSING: &str = "it is missing: write ?to=HOST:PORT,.. for the servers behind";

const NONE: &str = "none";
const V1: &str = "v1";
const V2: &str = "v2";

const SEND_PROXY: OneOf = OneOf::new(
    "send-proxy",
    "VERSION",
    &[NONE, V1, V2],
    "begin each connection to an upstream with a PROXY header that names the client",
);

const LOG: Text = Text::new(
    "log",
    "FILE",
    any,
    "log each client, or session over UDP, to this file at its end; it is opened anew at SIGUSR1 and SIGHUP, and when it was moved",
)
.writing();

const IN_KERNEL: Flag = Flag::new(
    "in-kernel",
    "have the kernel pass on small messages by itself (a sockmap), which takes CAP_BPF and CAP_NET_ADMIN; without them lanes do",
);

const SESSION_IDLE: Time = Time::new("session-idle", "how long nothing may come for a session before it ends").between(
    Duration::from_millis(100),
    Duration::from_secs(86_400),
    UdpProxy::IDLE,
);

/// Options of connections, and of what is only known over one: they mean nothing to datagrams.
const OF_CONNECTIONS: [(&str, &str); 10] = [
    (SNI.name, "names are those of TLS over TCP"),
    (IN_KERNEL.name, "the kernel passes on streams alone"),
    (SEND_PROXY.name, "the header begins a connection"),
    (proxied::OPTION.name(), "the header begins a connection"),
    (tls::UPSTREAM_OPTIONS[0].name(), "datagrams are not passed on by TLS"),
    (tls::UPSTREAM_OPTIONS[1].name(), "datagrams are not passed on by TLS"),
    (
        upstreams::CHECK_NAMES[0],
        "nothing tells whether a server takes datagrams; one that the network says is not there is left out",
    ),
    (upstreams::CONNECTIONS_NAME, "sessions are bounded by datagram_sockets_max"),
    (upstreams::CHECK_NAMES[1], "nothing is asked by datagrams"),
    (upstreams::CHECK_NAMES[2], "nothing is asked by datagrams"),
];

const OWN: [Choice; 7] = [
    Choice::Text(LOG),
    Choice::Text(SNI),
    Choice::OneOf(SEND_PROXY),
    Choice::Flag(IN_KERNEL),
    proxied::OPTION,
    tls::UPSTREAM_OPTIONS[0],
    tls::UPSTREAM_OPTIONS[1],
];

/// The upstreams' options, and the proxy's own.
const OPTIONS: [Choice; upstreams::OPTIONS.len() + OWN.len()] = joined(upstreams::OPTIONS, &OWN);

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
        Scheme::datagrams::<UdpProxy>("udp", DEFAULT_UDP_PORT, datagrams).options(&[Choice::Time(SESSION_IDLE)]),
    ],
)
.options(&OPTIONS)
.live(LIVE)
.limits(limits);

fn limits(limits: &mut Limits) {
    limits.connect_limit = CONNECT_LIMIT;
    limits.datagram_sockets_max = DATAGRAM_SOCKETS_MAX;
}

/// Sessions over UDP.
fn datagrams(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let chosen = asked.chosen();
    if let Some((option, why)) = OF_CONNECTIONS.into_iter().find(|(option, _)| chosen.has(option)) {
        return Err(asked.refuse(option, format!("it means nothing with udp://: {why}")));
    }
    let behind = upstreams::behind(asked)?.ok_or_else(|| asked.refuse(upstreams::TO_NAME, MISSING))?;
    if let Some(why) = unfit(behind.targets.all()) {
        return Err(asked.refuse(upstreams::TO_NAME, why));
    }
    let (idle, log) = (chosen.time(&SESSION_IDLE), log(asked)?);
    let of_lanes = log.clone();
    let made = move |lane| of_lanes.iter().fold(UdpProxy::new(&behind, lane).idle(idle), UdpProxy::log);
    let lanes = lanes.serve_datagrams(&asked.url().to_string(), made)?;
    Ok(log.into_iter().fold(lanes, |lanes, log| log.beside(lanes)))
}

/// The log that is asked for, opened.
fn log(asked: &Asked) -> Result<Option<ProxyLog>> {
    let open = |path: &str| {
        let unfit = |error| asked.refuse(LOG.name, format!("{path} cannot be opened: {error}"));
        ProxyLog::open(path).map_err(unfit)
    };
    asked.chosen().text(&LOG).map(open).transpose()
}

fn plain(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let names = asked.chosen().text(&SNI);
    let behind = match names {
        None => upstreams::behind(asked)?.ok_or_else(|| asked.refuse(upstreams::TO_NAME, MISSING))?,
        Some(_) => upstreams::behind_or(asked, Targets::none())?,
    };
    let others = (!behind.targets.all().is_empty()).then_some(&behind.targets);
    let routed = Routes::default().next(names, others);
    let (routes, targets) = routed.map_err(|error| asked.refuse(SNI.name, error.to_string()))?;
    let behind = upstreams::Behind { targets, ..behind };
    let version = match asked.chosen().one_of(&SEND_PROXY) {
        V1 => Some(Version::V1),
        V2 => Some(Version::V2),
        _ => None,
    };
    let log = log(asked)?;
    let of_lanes = log.clone();
    let speak_tls = behind.targets.speak_tls();
    let in_kernel = asked.chosen().flag(&IN_KERNEL);
    let lanes = if in_kernel { lanes.bridging() } else { lanes };
    let made = move |lane| {
        let proxy = Proxy::new(&behind, lane).in_kernel(in_kernel).routes(routes.clone());
        let proxy = version.into_iter().fold(proxy, Proxy::header);
        of_lanes.iter().fold(proxy, Proxy::log)
    };
    let lanes = tls::towards(lanes.serve(&asked.url().to_string(), made)?, asked, speak_tls, |client| client)?;
    Ok(log.into_iter().fold(lanes, |lanes, log| log.beside(lanes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::service::entry::choice::Use;

    #[test]
    fn what_is_served_is_said() {
        let of = |place: &str| Lanes::per_core().serve_entry(&ENTRY, place).map(drop).map_err(|error| error.to_string());
        for right in [
            "to=127.0.0.1:1",
            "to=a.test:1*3,unix:/x&balance=least&check=1s&send-proxy=v2",
            "to=[::1]:1&proxy-from=10.0.0.0/8",
            "to=[::1]:1&in-kernel",
            "sni=a.test>b:1,*.test>[::1]:2&balance=least",
        ] {
            assert_eq!(of(&format!("tcp://127.0.0.1:0?{right}")), Ok(()), "{right}");
        }
        let lanes = Lanes::per_core().serve_entry(&ENTRY, "tcp://127.0.0.1:0?sni=a.test>file:/list,b.test>c:7").unwrap();
        let used = [Use::Read("/list".into()), Use::ConnectedToAny, Use::Connected(7)];
        assert!(used.iter().all(|used| lanes.uses().contains(used)), "a sandbox is to let it");
        assert_eq!(of("udp://127.0.0.1:0?to=a.test:53,127.0.0.1:1*3&balance=flow&session-idle=5s"), Ok(()));
        for (wrong, said) in [
            ("", "write ?to=HOST:PORT"),
            ("?to=a:1&check=1s", "option \"check\": it means nothing with udp://"),
            ("?to=a:1&check-path=/", "option \"check-path\": it means nothing with udp://"),
            ("?to=a:1&upstream-connections=9", "option \"upstream-connections\": it means nothing with udp://"),
            ("?to=a:1&log=/nowhere/x", "option \"log\": /nowhere/x cannot be opened"),
            ("?to=a:1&send-proxy=v2", "option \"send-proxy\": it means nothing with udp://"),
            ("?to=a:1&proxy-from=10.0.0.0/8", "option \"proxy-from\": it means nothing with udp://"),
            ("?to=a:1&in-kernel", "option \"in-kernel\": it means nothing with udp://"),
            ("?to=a:1&sni=a>b:1", "option \"sni\": it means nothing with udp://"),
            ("?to=a:1&upstream-name=a", "option \"upstream-name\": it means nothing with udp://"),
            ("?to=tls://a:1", "not passed on by TLS"),
            ("?to=a:1,unix:/x", "unix:/x: datagrams are passed on by UDP alone"),
            ("?to=a:1&session-idle=1ms", "session-idle"),
        ] {
            let error = of(&format!("udp://127.0.0.1:0{wrong}")).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
        assert!(of("tcp://127.0.0.1:0?to=a:1&session-idle=1s").unwrap_err().contains("session-idle"));
        for (wrong, said) in [
            ("", "write ?to=HOST:PORT"),
            ("?balance=least", "means nothing without to=HOST:PORT"),
            ("?to=a", "write HOST:PORT"),
            ("?to=a:1&balance=most", "none of round-robin, least, address, flow"),
            ("?to=a:1&upstream-name=b", "means nothing without to=tls://"),
            ("?to=tls://a:1&upstream-ca=/nowhere", "/nowhere: No such file"),
            ("?to=tls://a:1&upstream-name=a%20b", "no name of a server"),
            ("?sni=a.test", "write NAME>HOST:PORT"),
            ("?to=a:1&send-proxy=v3", "none of none, v1, v2"),
        ] {
            let error = of(&format!("tcp://127.0.0.1:0{wrong}")).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }
}
