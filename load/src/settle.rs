//! What a plan must be to be carried out, and what follows from what it says.

use crate::aim::Aimed;
use crate::arrivals::LONGEST;
use crate::error::Error;
use crate::plan::{CONNECTIONS_MAX, CONNECTIONS_PER_SOURCE, Extent, Mode, Plan};
use corelane::lanes::Transport;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// How long a port is not used again after its connection (TIME_WAIT of Linux, tcp(7)), in seconds, and the most sources for that.
const PORT_RESTS_S: f64 = 60.0;
const RESTING_SOURCES_MAX: f64 = 200.0;

const DEPTH_MAX: u32 = 65_536;
const RATE_MIN: f64 = 0.001;
const RATE_MAX: f64 = 1e9;

impl Plan {
    /// Checks the whole, and settles what follows from the rest: no more lanes than connections, and source addresses where one
    /// has too few ports.
    ///
    /// # Errors
    /// [`Error::Setting`] with the setting that cannot be met.
    pub fn settled(mut self) -> Result<Self, Error> {
        let wrong = |name, why: String| Err(Error::Setting { name, why });
        if self.connections == 0 || self.connections > CONNECTIONS_MAX {
            return wrong("connections", format!("{} is not between 1 and {CONNECTIONS_MAX}", self.connections));
        }
        if self.depth == 0 || self.depth > DEPTH_MAX {
            return wrong("depth", format!("{} is not between 1 and {DEPTH_MAX}", self.depth));
        }
        if let Some(rate) = self.rate().filter(|rate| !(*rate >= RATE_MIN && *rate <= RATE_MAX)) {
            return wrong("rate", format!("{rate:?} a second is not between {RATE_MIN} and {RATE_MAX}"));
        }
        if self.timeout.is_zero() || self.timeout > LONGEST {
            return wrong("timeout", format!("{:?} is not between a nanosecond and {LONGEST:?}", self.timeout));
        }
        if self.warm_up > LONGEST || matches!(self.extent, Extent::For(length) if length.is_zero() || length > LONGEST) {
            return wrong(
                "duration",
                format!("it and the warm-up must be at most {LONGEST:?}, and the duration more than nothing"),
            );
        }
        if self.extent == Extent::Requests(0) {
            return wrong("requests", "there is nothing to do: ask for at least one".to_owned());
        }
        if self.mode == Mode::Flood && self.transport != Transport::Udp {
            return wrong("mode", "a flood is for datagrams: connections push back".to_owned());
        }
        if self.mode == Mode::Sink && self.transport == Transport::Udp {
            return wrong("mode", "only over connections a peer can send by itself".to_owned());
        }
        if self.mode == Mode::Sink && matches!(self.extent, Extent::Requests(_)) {
            return wrong("requests", "none are made, and the peer sends for ever: give a --duration".to_owned());
        }
        if let Some(rate) = self.opening_rate.filter(|rate| !(*rate >= 1.0 && *rate <= RATE_MAX)) {
            return wrong("opening-rate", format!("{rate:?} connections a second are not between 1 and {RATE_MAX}"));
        }
        if self.requests_each.is_some() && (self.mode != Mode::Closed || self.transport == Transport::Udp) {
            let why = "it is for a closed loop over connections: give these a rate with --connection-rate".to_owned();
            return wrong("requests-per-connection", why);
        }
        if self.requests_each == Some(0) {
            return wrong("requests-per-connection", "a connection makes one request at least".to_owned());
        }
        if self.target.unix().is_some() && !self.sources.is_empty() {
            return wrong("source", format!("{} has no network that an address could be of: leave it out", self.url));
        }
        if self.target.inet().is_some_and(|target| target.port() == 0) {
            return wrong("URL", format!("{} names no port", self.url));
        }
        if let Some(source) = self.sources.iter().find(|source| source.is_ipv4() != self.target.is_ipv4()) {
            return wrong("source", format!("{source} cannot reach {}: it is of the other IP version", self.target));
        }
        self.lanes = self.lanes.clamp(1, self.connections as usize);
        self.add_loopback_sources();
        self.aimed = self.aim.as_ref().map(|aim| Aimed::new(aim, &self)).transpose()?.map(Arc::new);
        Ok(self)
    }

    /// On loopback every address of 127.0.0.0/8 is this machine's (RFC 1122 section 3.2.1.3), so more ports are to be had.
    fn add_loopback_sources(&mut self) {
        let resting = match &self.mode {
            Mode::Connections { .. } => self.rate().unwrap_or(0.0) * PORT_RESTS_S / f64::from(CONNECTIONS_PER_SOURCE),
            _ if self.requests_each.is_some() => RESTING_SOURCES_MAX,
            _ => 0.0,
        };
        let wanted = self.connections.div_ceil(CONNECTIONS_PER_SOURCE).max(resting.min(RESTING_SOURCES_MAX).ceil() as u32);
        let is_loopback = matches!(self.target.ip(), Some(IpAddr::V4(address)) if address.is_loopback());
        if self.sources.is_empty() && is_loopback && wanted > 1 {
            let first = u32::from(Ipv4Addr::LOCALHOST);
            self.sources = (0..wanted).map(|number| Ipv4Addr::from(first + number).into()).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::Arrivals;
    use std::time::Duration;

    fn plan() -> Plan {
        Plan::new("echo", "tcp://127.0.0.1:7", "127.0.0.1:7".parse::<corelane::Address>().unwrap())
    }

    #[test]
    fn many_connections_on_loopback_come_from_several_addresses() {
        let settled = Plan { connections: 70_000, ..plan() }.settled().unwrap();
        assert_eq!(settled.sources.len(), 7);
        assert_eq!(settled.source_of(8, 3).unwrap().to_string(), "127.0.0.2:0");
        assert_eq!(plan().settled().unwrap().source_of(5, 0), None);
    }

    #[test]
    fn impossible_settings_are_named() {
        let open = |rate| Mode::Open { rate, arrivals: Arrivals::Fixed };
        for (plan, name) in [
            (Plan { connections: 0, ..plan() }, "connections"),
            (Plan { depth: 0, ..plan() }, "depth"),
            (Plan { mode: open(0.0), ..plan() }, "rate"),
            (Plan { mode: open(f64::NAN), ..plan() }, "rate"),
            (Plan { extent: Extent::Requests(0), ..plan() }, "requests"),
            (Plan { extent: Extent::For(Duration::ZERO), ..plan() }, "duration"),
            (Plan { timeout: Duration::ZERO, ..plan() }, "timeout"),
            (Plan { target: "127.0.0.1:0".parse().unwrap(), ..plan() }, "URL"),
            (Plan { sources: vec!["::1".parse().unwrap()], ..plan() }, "source"),
            (Plan { mode: Mode::Flood, ..plan() }, "datagrams"),
            (Plan { mode: Mode::Sink, extent: Extent::Requests(5), ..plan() }, "requests"),
            (Plan { mode: Mode::Sink, transport: Transport::Udp, ..plan() }, "mode"),
            (Plan { opening_rate: Some(0.5), ..plan() }, "opening-rate"),
            (Plan { opening_rate: Some(f64::NAN), ..plan() }, "opening-rate"),
            (Plan { requests_each: Some(0), ..plan() }, "requests-per-connection"),
            (Plan { requests_each: Some(1), mode: open(1.0), ..plan() }, "requests-per-connection"),
        ] {
            let error = plan.settled().unwrap_err().to_string();
            assert!(error.contains(name), "{name}: {error}");
        }
        assert_eq!(Plan { lanes: 8, connections: 3, ..plan() }.settled().unwrap().lanes, 3);
    }
}
