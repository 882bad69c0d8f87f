//! An authority that signs certificates for one test, in a folder of its own.

use corelane_tls::Pem;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder for one test's files, and an authority that signs.
pub struct Authority {
    pub folder: TempDir,
    pub issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(test: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, test);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.path().join("authority"), issuer.pem()).unwrap();
        Self { folder, issuer }
    }

    /// Writes the two files of a certificate for these names under `file`.
    pub fn sign(&self, file: &str, names: &[&str], tune: impl FnOnce(&mut CertificateParams)) -> Pem {
        self.sign_for(&KeyPair::generate().unwrap(), file, names, tune)
    }

    /// The same for this key.
    pub fn sign_for(&self, key: &KeyPair, file: &str, names: &[&str], tune: impl FnOnce(&mut CertificateParams)) -> Pem {
        let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        tune(&mut params);
        let made = params.signed_by(key, &self.issuer).unwrap();
        let (certificate, key_file) = (self.path(file), self.path(&format!("{file}.key")));
        // As who knows how does it: whole files take the place of others.
        replace(&key_file, &key.serialize_pem());
        replace(&certificate, &made.pem());
        Pem::new(certificate, key_file)
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }
}

pub fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}
