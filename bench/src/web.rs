//! The web servers that come as packages, one process with one thread each, and the files that all serve.

use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::entrants::Peer;
use crate::load::Carrier;
use crate::server::{self, Server, is_installed};

/// The folder of what is served, and of configurations; gone when dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// A folder with a file of each of these lengths, named by it. Their bytes do not repeat within a page.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn with_files(bytes: &[usize]) -> Result<Self> {
        let folder = Self(std::env::temp_dir().join(format!("corelane-web-{}", std::process::id())));
        fs::create_dir_all(folder.files()).with_context(|| folder.0.display().to_string())?;
        for &bytes in bytes {
            let path = folder.files().join(bytes.to_string());
            let mut file = File::create(&path).with_context(|| path.display().to_string())?;
            let line: Vec<u8> = (0..65_521_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            let mut left = bytes;
            while left > 0 {
                let piece = left.min(line.len());
                file.write_all(&line[..piece]).with_context(|| path.display().to_string())?;
                left -= piece;
            }
        }
        Ok(folder)
    }

    /// Puts a certificate for P-256 there, and its key: what servers behind TLS show.
    ///
    /// # Errors
    /// When `openssl` is not there, or cannot write.
    pub fn certify(&self) -> Result<()> {
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
        command.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
        let made = command.arg("-out").arg(self.certificate()).arg("-keyout").arg(self.key()).output();
        let made = made.context("openssl makes the certificate: apt-get install -y openssl")?;
        ensure!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
        Ok(())
    }

    /// The certificate that is shown.
    pub fn certificate(&self) -> PathBuf {
        self.0.join("certificate.pem")
    }

    /// Its key.
    pub fn key(&self) -> PathBuf {
        self.0.join("key.pem")
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What is served.
    pub fn files(&self) -> PathBuf {
        self.0.join("files")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is some files among other temporary ones.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Why a server cannot take part, if it cannot.
pub fn missing(peer: Peer) -> Option<String> {
    let package = if peer == Peer::Nginx { "nginx-light" } else { peer.program() };
    (!is_installed(peer.program())).then(|| format!("it is not installed: apt-get install -y {package}"))
}

/// Starts a server with a configuration of its own in `folder` and a thread on each of `cpus`, and waits until it accepts.
///
/// # Errors
/// When it does not start.
pub fn start(peer: Peer, address: SocketAddr, folder: &Folder, transport: Carrier, cpus: &[usize]) -> Result<Server> {
    ensure!(cpus.len() == 1 || peer == Peer::H2o, "only h2o is set up for several threads");
    ensure!(transport == Carrier::Tcp || peer == Peer::Nginx, "only nginx is set up for TLS");
    let name = format!("{}-{}", peer.program(), address.port());
    let path = folder.0.join(format!("{name}.conf"));
    let text = match transport {
        Carrier::Tls => secure_nginx(address, folder),
        _ => configuration(peer, address, &folder.0, &folder.files(), cpus.len()),
    };
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Server::start_at(command(peer, &path, cpus)?, address)
}

fn command(peer: Peer, configuration: &Path, cpus: &[usize]) -> Result<Command> {
    let mut command = server::on_cpus(cpus, peer.program())?;
    match peer {
        Peer::Nginx => command.args(["-e", "stderr", "-c"]).arg(configuration),
        Peer::Lighttpd => command.args(["-D", "-f"]).arg(configuration),
        _ => command.arg("-c").arg(configuration),
    };
    Ok(command)
}

/// One worker, files from their folder by sendfile, no access log, connections kept for as many requests as come: for each what its documents
/// recommend for speed.
fn configuration(peer: Peer, address: SocketAddr, folder: &Path, files: &Path, threads: usize) -> String {
    let (folder, files, port) = (folder.display(), files.display(), address.port());
    match peer {
        Peer::Nginx => format!(
            "daemon off; master_process off; worker_processes 1; pid {folder}/nginx-{port}.pid; error_log stderr crit;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 1000000000; keepalive_timeout 600;\n\
             open_file_cache max=1000 inactive=600s; open_file_cache_valid 60s; default_type application/octet-stream;\n\
             client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;\n\
             uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
             server {{ listen {address} backlog=4096; root {files}; location = /reply {{ return 200 \"corelane\"; }} }} }}\n"
        ),
        Peer::Lighttpd => format!(
            "server.document-root = \"{files}\"\nserver.port = {port}\nserver.bind = \"{}\"\n\
             server.max-keep-alive-requests = 1000000000\nserver.max-keep-alive-idle = 600\nserver.max-connections = 4096\n\
             server.max-fds = 9000\nserver.listen-backlog = 4096\nserver.stat-cache-engine = \"inotify\"\n\
             server.network-backend = \"sendfile\"\nserver.tag = \"\"\n",
            address.ip()
        ),
        _ => format!(
            "num-threads: {threads}\nuser: {}\nlisten:\n  host: {}\n  port: {port}\nhttp1-request-timeout: 600\n\
             pid-file: {folder}/h2o-{port}.pid\nerror-log: /dev/null\n\
             hosts:\n  default:\n    paths:\n      /:\n        file.dir: {files}\n        file.send-gzip: OFF\n",
            owner(),
            address.ip()
        ),
    }
}

/// nginx as above, behind TLS: the version, suite and curve that are compared, and no session that goes on.
fn secure_nginx(address: SocketAddr, folder: &Folder) -> String {
    let (certificate, key) = (folder.certificate(), folder.key());
    let secure = format!(
        "listen {address} ssl backlog=4096; ssl_certificate {}; ssl_certificate_key {}; ssl_protocols TLSv1.3;\n\
         ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; ssl_ecdh_curve X25519; ssl_session_cache off;",
        certificate.display(),
        key.display()
    );
    let bare = format!("listen {address} backlog=4096;");
    let text = configuration(Peer::Nginx, address, &folder.0, &folder.files(), 1);
    assert!(text.contains(&bare), "what is put behind TLS listens");
    text.replacen(&bare, &secure, 1)
}

/// Whom a server runs as that would otherwise choose somebody who may not write here.
fn owner() -> String {
    let name = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map(|user| user.name);
    name.unwrap_or_else(|| "nobody".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nginx_behind_tls_is_nginx_but_for_that() {
        let folder = Folder(PathBuf::from("/nowhere"));
        let text = secure_nginx(([127, 0, 0, 1], 443).into(), &folder);
        assert!(text.contains("listen 127.0.0.1:443 ssl backlog=4096; ssl_certificate /nowhere/certificate.pem;"));
        assert!(text.contains("location = /reply"));
    }
}
