//! By which names this program may be asked for.
//!
//! A page of another site can have its own name mean an address of this machine (DNS rebinding), and the browser then lets it read what is answered there. The
//! name is in the question (RFC 9110, section 7.2). An address is no name that anybody could point elsewhere, and a name without a dot is no site's.

use hyper::Request;
use hyper::header::HOST;
use std::net::IpAddr;

/// Names beside addresses, and names without a dot, such as localhost.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(Vec<String>);

/// By what a question asks for its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// By one that is its own, or by none, as HTTP/1.0 does and no browser.
    ByName,
    /// By another one.
    ByOther,
    /// By several, or by what is no name.
    TwiceOrNot,
}

impl Names {
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().map(|name| name.trim_end_matches('.').to_ascii_lowercase()).collect())
    }

    /// By what this question asks.
    pub fn judge<B>(&self, request: &Request<B>) -> Asked {
        let mut hosts = request.headers().get_all(HOST).iter();
        let (host, other) = (hosts.next(), hosts.next());
        let Some(host) = host.map(|host| host.to_str().map(without_port)).transpose().ok().filter(|_| other.is_none()) else {
            return Asked::TwiceOrNot;
        };
        match [host, request.uri().host()].into_iter().flatten().all(|host| self.is_own(host)) {
            true => Asked::ByName,
            false => Asked::ByOther,
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = bare.trim_end_matches('.').to_ascii_lowercase();
        let is_local = !name.contains('.') || name.ends_with(".localhost");
        bare.parse::<IpAddr>().is_ok() || is_local || self.0.contains(&name)
    }
}

/// An address of IPv6 without brackets has no port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((host, _)) if host.ends_with(']') || !host.contains(':') => host,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(names: &Names, target: &str, hosts: &[&str]) -> Asked {
        let question = hosts.iter().fold(Request::builder().uri(target), |question, host| question.header(HOST, *host));
        names.judge(&question.body(()).unwrap())
    }

    #[test]
    fn who_asks_by_an_address_or_a_name_of_ours_is_answered_and_a_page_of_another_site_is_not() {
        let names = Names::new(["Metrics.Example.".to_owned()]);
        for host in [
            "127.0.0.1:9100",
            "127.0.0.1",
            "[::1]:9100",
            "[::1]",
            "localhost:9100",
            "x.localhost",
            "corelane:9100",
            "metrics.example:9",
        ] {
            assert_eq!(judged(&names, "/", &[host]), Asked::ByName, "{host}");
        }
        for host in
            ["evil.example:9100", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:9100", "metrics.example.evil"]
        {
            assert_eq!(judged(&names, "/", &[host]), Asked::ByOther, "{host}");
        }
        assert_eq!(judged(&names, "/", &[]), Asked::ByName, "HTTP/1.0 names none");
        assert_eq!(judged(&names, "/", &["127.0.0.1", "127.0.0.1"]), Asked::TwiceOrNot);
        assert_eq!(judged(&names, "http://evil.example/", &["127.0.0.1"]), Asked::ByOther, "the target counts as well");
    }
}
