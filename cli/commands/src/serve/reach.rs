//! Whether upstreams can be reached, which `--check` warns of: they may come up later, so nothing is refused for it.

use super::settings::Setting;
use corelane::Lanes;
use corelane::service::entry::choice::Use;
use corelane_upstreams::{Listing, Place, Source, Target, Targets};
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How long all upstreams together are waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long one address may take to take a connection.
const CONNECT: Duration = Duration::from_secs(2);

/// Upstreams that are tried side by side: the resolver may let each wait.
const THREADS: usize = 16;

/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 16;

/// A warning for each upstream of these lanes that has no address, or takes no connection, with the place where it is set.
pub fn warnings(lanes: &Lanes, settings: &[Setting]) -> Vec<String> {
    let upstream = |used: Use| match used {
        Use::Upstream(name) => Some((name, true)),
        Use::Named(name) => Some((name, false)),
        _ => None,
    };
    let mut left: BTreeSet<(String, bool)> = lanes.uses().into_iter().filter_map(upstream).collect();
    let mut warnings: Vec<String> = Vec::new();
    let mut warn = |name: &str, why: &str| {
        let at = settings
            .iter()
            .find(|setting| setting.has(name))
            .map_or_else(String::new, |setting| format!("{}: ", setting.place_of(name)));
        warnings.push(format!("{at}upstream {name}: {why}"));
    };
    let (tell, told) = channel();
    let names = Arc::new(Mutex::new(left.iter().cloned().collect::<Vec<(String, bool)>>()));
    for _ in 0..THREADS.min(left.len()) {
        let (names, tell) = (names.clone(), tell.clone());
        // They may outlive this function, and end with the program. Without any, each upstream is told as not answered.
        let _ = Builder::new().name("upstreams".to_owned()).spawn(move || try_all(&names, &tell));
    }
    drop(tell);
    let due = Instant::now() + PATIENCE;
    while let Ok((asked, faults)) = told.recv_timeout(due.saturating_duration_since(Instant::now())) {
        left.remove(&asked);
        faults.iter().for_each(|why| warn(&asked.0, why));
    }
    left.iter().for_each(|(name, _)| warn(name, &format!("neither its name nor its address has answered within {PATIENCE:?}")));
    warnings.sort();
    warnings
}

/// An upstream, and whether it is to take connections.
type Named = (String, bool);

fn try_all(names: &Mutex<Vec<Named>>, tell: &Sender<(Named, Vec<String>)>) {
    loop {
        let next = names.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(name) = next else { return };
        let faults = faults(&name.0, name.1);
        // Nobody waits for what is late.
        if tell.send((name, faults)).is_err() {
            return;
        }
    }
}

/// Obstacles to connections to an upstream of this name, or to those that a source of it names.
fn faults(name: &str, takes_connections: bool) -> Vec<String> {
    match name.parse::<Targets>().ok().and_then(|targets| targets.all().first().cloned()) {
        Some(target) => match target.place() {
            Place::Source(source) => faults_of(source, target.tls().is_some(), takes_connections),
            _ => faults_at(name.trim_start_matches("tls://"), takes_connections),
        },
        None => faults_at(name, takes_connections),
    }
}

/// Obstacles to a source, and to those that it names.
fn faults_of(source: &Source, is_tls: bool, takes_connections: bool) -> Vec<String> {
    match Listing::of(source, None, is_tls).targets {
        Err(why) => vec![why],
        Ok(targets) => {
            let of_target = |target: &Target| {
                let name = target.name().to_owned();
                faults_at(name.trim_start_matches("tls://"), takes_connections)
                    .into_iter()
                    .map(move |why| format!("{name}: {why}"))
                    .collect::<Vec<_>>()
            };
            targets.unwrap_or_default().iter().take(ADDRESSES_MAX).flat_map(of_target).collect()
        }
    }
}

fn faults_at(name: &str, takes_connections: bool) -> Vec<String> {
    let said =
        |error: io::Error| format!("it takes no connection: {error}; see that it runs, and that nothing between refuses it");
    if let Some(path) = name.strip_prefix("unix:") {
        return unix(path).err().map(said).into_iter().collect();
    }
    let addresses = match name.to_socket_addrs() {
        Ok(addresses) => addresses.collect::<BTreeSet<SocketAddr>>(),
        Err(error) => return vec![format!("its name is not resolved: {error}; see that the name and the resolver are right")],
    };
    if !takes_connections {
        return Vec::new();
    }
    let refused = |address: SocketAddr| Some((address, TcpStream::connect_timeout(&address, CONNECT).err()?));
    let refused = addresses.into_iter().take(ADDRESSES_MAX).filter_map(refused);
    refused.map(|(address, error)| format!("at {address}, {}", said(error))).collect()
}

fn unix(path: &str) -> io::Result<()> {
    let address = match path.strip_prefix('@') {
        Some(name) => UnixAddr::from_abstract_name(name)?,
        None => UnixAddr::from_pathname(path)?,
    };
    UnixStream::connect_addr(&address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_takes_connections_is_passed_over_and_what_does_not_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let well = listener.local_addr().unwrap().to_string();
        assert_eq!(faults(&well, true), Vec::<String>::new());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let socket = format!("unix:{}", path.display());
        assert!(faults(&socket, true)[0].contains("takes no connection: No such file"));
        let _socket = UnixListener::bind(&path).unwrap();
        assert_eq!(faults(&socket, true), Vec::<String>::new());
        drop(listener);
        assert!(faults(&well, true)[0].starts_with(&format!("at {well}, it takes no connection: Connection refused")));
        assert_eq!(faults(&well, false), Vec::<String>::new(), "nothing can be asked of who takes datagrams");
        assert!(faults("no-such-name.invalid:80", false)[0].starts_with("its name is not resolved: "));
        assert!(faults(&format!("unix:@corelane-nobody-{}", std::process::id()), true)[0].contains("Connection refused"));
    }
}
