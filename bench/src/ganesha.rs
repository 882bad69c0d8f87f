//! nfs-ganesha with NFS version 3 and no export: its null procedure needs none. It does not start where it cannot register its
//! programs, so a portmapper is started with it. Only for a network of its own, because it cannot be bound to one address of
//! its choice, and the port of a portmapper is fixed.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::cpus::SERVER_CPU;
use super::server::{self, Server, is_installed};

/// Where a portmapper is asked (RFC 1833 section 3).
const PORTMAPPER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 111);

/// What it needs around it, gone when dropped. To be dropped after it.
pub struct Surroundings {
    _portmapper: Server,
    _folder: Folder,
}

/// Its configuration and its log.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is a few small files among other temporary ones.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Why it cannot take part, if it cannot.
pub fn missing() -> Option<&'static str> {
    let is_here = ["ganesha.nfsd", "rpcbind"].into_iter().all(is_installed);
    (!is_here).then_some("it is not installed: apt-get install -y nfs-ganesha rpcbind")
}

/// Starts it at the port of `address`, and waits until it accepts.
///
/// # Errors
/// When it, or the portmapper, does not start; with the last line of its log.
pub fn start(address: SocketAddr) -> Result<(Server, Surroundings)> {
    let mut portmapper = server::on_cpus(&[SERVER_CPU], "rpcbind")?;
    portmapper.arg("-f");
    let portmapper = Server::start_at(portmapper, PORTMAPPER)?;
    let folder = Folder(std::env::temp_dir().join(format!("corelane-ganesha-{}", std::process::id())));
    fs::create_dir_all(&folder.0).with_context(|| folder.0.display().to_string())?;
    let [configuration, log, pid] = ["conf", "log", "pid"].map(|name| folder.0.join(name));
    fs::write(&configuration, self::configuration(address.port())).with_context(|| configuration.display().to_string())?;
    let mut command = server::on_cpus(&[SERVER_CPU], "ganesha.nfsd")?;
    command.arg("-F").arg("-f").arg(configuration).arg("-L").arg(&log).arg("-p").arg(pid);
    let server = Server::start_at(command, address).with_context(|| last_words(&log))?;
    Ok((server, Surroundings { _portmapper: portmapper, _folder: folder }))
}

/// The end of its log.
fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or("it says nothing in its log").to_owned()
}

/// Nothing that calls of procedure 0 do not need. Its own choice of threads and buffers stays.
fn configuration(port: u16) -> String {
    format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {port}; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}\n"
    )
}
