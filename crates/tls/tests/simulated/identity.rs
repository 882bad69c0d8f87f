//! One certificate, the same in each run, which is valid on the days of the simulation alone; its key is no secret.

use corelane_tls::rustls::pki_types::CertificateDer;
use corelane_tls::rustls::pki_types::pem::PemObject;
use corelane_tls::{Client, Pem, Server, Trust};
use rcgen::{CertificateParams, KeyPair};
use std::path::PathBuf;
use std::sync::OnceLock;

const KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIFDcL63b9vcnuxuaptXzhyxL6Rcn3aHK+sBzRSNXxe9c
-----END PRIVATE KEY-----
";

fn pem() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let path = std::env::temp_dir().join(format!("corelane-tls-simulated-{}.pem", std::process::id()));
        let key = KeyPair::from_pem(KEY).unwrap();
        let mut params = CertificateParams::new(["one.test".to_owned()]).unwrap();
        params.serial_number = Some(1.into());
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2025, 12, 31), rcgen::date_time_ymd(2026, 2, 1));
        std::fs::write(&path, params.self_signed(&key).unwrap().pem() + KEY).unwrap();
        path
    };
    MADE.get_or_init(make).clone()
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
