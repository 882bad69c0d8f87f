//! One certificate, the same in each run, which is valid on the days of the simulation alone; its key is no secret.

use corelane_tls::rustls::pki_types::CertificateDer;
use corelane_tls::rustls::pki_types::pem::PemObject;
use corelane_tls::{Client, Pem, Server, Trust};
use rcgen::{CertificateParams, KeyPair};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::OnceLock;

const KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIFDcL63b9vcnuxuaptXzhyxL6Rcn3aHK+sBzRSNXxe9c
-----END PRIVATE KEY-----
";

/// A file without a name, which goes with this process.
fn pem() -> PathBuf {
    static MADE: OnceLock<File> = OnceLock::new();
    let make = || {
        let key = KeyPair::from_pem(KEY).unwrap();
        let mut params = CertificateParams::new(["one.test".to_owned()]).unwrap();
        params.serial_number = Some(1.into());
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2025, 12, 31), rcgen::date_time_ymd(2026, 2, 1));
        let mut file = tempfile::tempfile().unwrap();
        file.write_all((params.self_signed(&key).unwrap().pem() + KEY).as_bytes()).unwrap();
        file
    };
    PathBuf::from(format!("/proc/self/fd/{}", MADE.get_or_init(make).as_raw_fd()))
}

pub fn server() -> Server {
    Server::new([Pem::new(pem(), pem())])
}

pub fn client() -> Client {
    Client::new(Trust::Authorities(pem())).name("one.test")
}

pub fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_file(pem()).unwrap()
}
