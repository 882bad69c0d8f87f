//! Connections that a rule of the system brings to a listener, though they were made to another address (TPROXY): that is told as their own.

use corelane_drivers::{EpollDriver, Probes, UringDriver};
use corelane_os::testing::{network, set, skip};
use corelane_seam::{Address, Arena, Driver, Handle, Listen, Outcome, StreamOp, StreamOptions, StreamOutcome, Tuning, Wait};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Whom clients ask.
const MEANT: &str = "10.9.9.9:80";

/// What a machine says that does not let this program do something, or has no part of the kernel for it. All else is a fault.
fn is_refusal(words: &str) -> bool {
    ["Operation not permitted", "Operation not supported", "Protocol not supported"].iter().any(|refusal| words.contains(refusal))
}

/// Has all who ask [`MEANT`] come to this port.
///
/// # Errors
/// That this machine refuses it.
fn redirect(port: u16) -> Result<(), String> {
    network::ip(&["link set lo up".to_owned(), "route add local 10.9.9.0/24 dev lo".to_owned()]).unwrap();
    for line in [
        "add table ip near".to_owned(),
        "add chain ip near inward { type filter hook prerouting priority mangle; }".to_owned(),
        format!("add rule ip near inward ip daddr 10.9.9.9 tcp dport 80 tproxy to 127.0.0.1:{port}"),
    ] {
        let output = Command::new("nft").arg(&line).output().unwrap();
        let words = format!("nft {line}: {}", String::from_utf8_lossy(&output.stderr));
        if is_refusal(&words) {
            return Err(words);
        }
        assert!(output.status.success(), "{words}");
    }
    Ok(())
}

/// Where the next connection was accepted.
fn accepted(driver: &mut dyn Driver) -> SocketAddr {
    let give_up = driver.now() + PATIENCE.as_nanos() as u64;
    let mut completions = Vec::new();
    loop {
        driver.collect(Wait::Until(give_up), 64, &mut completions);
        for completion in completions.drain(..) {
            if let Outcome::Stream(StreamOutcome::Accepted { local, .. }) = completion.outcome {
                return local.inet().unwrap();
            }
        }
        assert!(driver.now() < give_up, "nobody has come");
    }
}

/// Drives the case with a driver.
///
/// # Errors
/// That this machine refuses what it takes.
fn told_by(mut driver: impl Driver) -> Result<(), String> {
    let _space = match network::unshared() {
        Err(why) if is_refusal(&why) => return Err(why),
        space => space.unwrap(),
    };
    network::ip(&["link set lo up".to_owned()]).unwrap();
    let socket: OwnedFd = TcpListener::bind("127.0.0.1:0").unwrap().into();
    set(&socket, libc::SOL_IP, libc::IP_TRANSPARENT, 1);
    let listener = TcpListener::from(socket);
    let itself = listener.local_addr().unwrap();
    redirect(itself.port())?;
    listener.set_nonblocking(true).unwrap();
    let address = Address::from(itself);
    driver.give(&address, listener.into());
    let stream = StreamOptions::default();
    let listener = driver.listen(&Listen { address, backlog: 64, share_port: false, v6_only: false, stream }).unwrap();
    driver.push(Handle::new(1, 1, 0), StreamOp::Accept { listener }.into());
    for place in [MEANT.parse().unwrap(), itself] {
        let _client = TcpStream::connect_timeout(&place, PATIENCE).unwrap();
        assert_eq!(accepted(&mut driver), place);
    }
    Ok(())
}

#[test]
fn a_connection_behind_a_transparent_proxys_rule_has_the_address_that_was_meant() {
    let test = "transparent::a_connection_behind_a_transparent_proxys_rule_has_the_address_that_was_meant";
    let alone = network::alone();
    let has_nft = Command::new("nft").arg("--version").output().is_ok();
    drop(alone);
    if !has_nft {
        return skip(test, "there is no nft: apt-get install -y nftables");
    }
    network::on_thread(test, || {
        let arena = || Arena::new(1 << 20).unwrap();
        let (tuning, probes) = (Tuning::default(), Probes::default());
        let told = told_by(EpollDriver::new(arena(), tuning, probes).unwrap())
            .and_then(|()| told_by(UringDriver::new(arena(), tuning, probes).unwrap()));
        told.unwrap_or_else(|why| skip(test, &why));
    });
}
