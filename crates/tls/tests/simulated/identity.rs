//! One certificate, the same in each run: its key is no secret.

use corelane_tls::{Client, Pem, Server, TimeOfDay, Trust};
use rcgen::{CertificateParams, KeyPair};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

const KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIFDcL63b9vcnuxuaptXzhyxL6Rcn3aHK+sBzRSNXxe9c
-----END PRIVATE KEY-----
";

/// The day on which it is valid: in the year 2033.
pub const DAY: TimeOfDay = TimeOfDay::Since(Duration::from_secs(2_000_000_000));

fn pem() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let path = std::env::temp_dir().join(format!("corelane-tls-simulated-{}.pem", std::process::id()));
        let key = KeyPair::from_pem(KEY).unwrap();
        let mut params = CertificateParams::new(["one.test".to_owned()]).unwrap();
        params.serial_number = Some(1.into());
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2033, 1, 1), rcgen::date_time_ymd(2034, 1, 1));
        std::fs::write(&path, params.self_signed(&key).unwrap().pem() + KEY).unwrap();
        path
    };
    MADE.get_or_init(make).clone()
}

pub fn server() -> Server {
    Server::new([Pem::new(pem(), pem())]).time(DAY)
}

pub fn client() -> Client {
    Client::new(Trust::Authorities(pem())).name("one.test").time(DAY)
}
