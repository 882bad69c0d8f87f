//! Faults in words that say whose they are.

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, OtherError};

/// The finding of rustls; `them` is who sits at the other end: "the server", "the client".
pub(crate) fn said(error: &Error, them: &str) -> String {
    match error {
        Error::AlertReceived(alert) => format!("{them} has refused: {}", alerted(*alert)),
        Error::InvalidCertificate(error) => uncertified(error, them),
        Error::NoCertificatesPresented => format!("{them} shows no certificate, and must"),
        Error::NoApplicationProtocol => format!("{them} speaks none of the protocols that were named here"),
        Error::PeerIncompatible(what) => format!("{them} and this side have nothing that both speak: {what:?}"),
        Error::PeerMisbehaved(what) => format!("{them} breaks the rules of TLS: {what:?}"),
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            format!("{them} breaks the rules of TLS: {error}")
        }
        Error::InvalidMessage(InvalidMessage::MessageTooLarge) | Error::PeerSentOversizedRecord => {
            format!("{them} has sent a record that is longer than one may be")
        }
        Error::InvalidMessage(what) => format!("{them} has sent what is no message of TLS: {what:?}"),
        Error::DecryptError => format!("{them} has sent a record that does not open: somebody has changed it on its way"),
        other => other.to_string(),
    }
}

fn uncertified(error: &CertificateError, them: &str) -> String {
    use CertificateError as Why;
    match error {
        Why::Expired | Why::ExpiredContext { .. } => {
            format!("{them}'s certificate has expired: it needs a new one, if the clock here is right")
        }
        Why::NotValidYet | Why::NotValidYetContext { .. } => {
            format!("{them}'s certificate is not valid yet: the clock there or here is wrong")
        }
        Why::UnknownIssuer => format!("{them}'s certificate is signed by nobody who is trusted here"),
        Why::NotValidForNameContext { expected, presented } => {
            // They come as `DnsName("one.test")`.
            let names: Vec<_> = presented.iter().map(|name| name.split('"').nth(1).unwrap_or(name)).collect();
            format!("{them}'s certificate is not for {}: it is for {}", expected.to_str(), names.join(", "))
        }
        Why::InvalidPurpose | Why::InvalidPurposeContext { .. } => format!("{them}'s certificate is not for this use"),
        Why::Other(other) if is_of_old_version(other) => format!(
            "{them}'s certificate is of an old version: it needs one of version 3, which openssl x509 -req makes only with -extfile"
        ),
        Why::Other(other) if is_authority(other) => format!(
            "{them}'s certificate is an authority's own, and none that a server or client may show: it needs one with basicConstraints=CA:FALSE"
        ),
        other => format!("{them}'s certificate is unfit: {other}"),
    }
}

/// Whether a certificate says of itself that it signs others, as those do that openssl-req(1) makes unless it is told otherwise (RFC 5280 section 4.2.1.9).
pub(crate) fn is_authority(error: &OtherError) -> bool {
    matches!(error.0.downcast_ref::<webpki::Error>(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Whether a certificate is of version 1 or 2, in which nothing says what it is for (RFC 5280 section 4.1.2.1).
fn is_of_old_version(error: &OtherError) -> bool {
    matches!(error.0.downcast_ref::<webpki::Error>(), Some(webpki::Error::UnsupportedCertVersion))
}

fn alerted(alert: AlertDescription) -> String {
    use AlertDescription as Alert;
    let words = match alert {
        Alert::NoApplicationProtocol => "it speaks none of the protocols that were named here",
        Alert::CertificateRequired => "it wants a certificate, and was shown none",
        Alert::UnknownCA => "it does not trust who has signed the certificate that it was shown",
        Alert::CertificateExpired => "the certificate that it was shown has expired",
        Alert::BadCertificate | Alert::CertificateUnknown | Alert::UnsupportedCertificate | Alert::AccessDenied => {
            "it does not accept the certificate that it was shown"
        }
        Alert::DecryptError => "a signature that it was shown is wrong: of a certificate, or of the handshake",
        Alert::ProtocolVersion => "it speaks none of the versions of TLS that are spoken here",
        Alert::HandshakeFailure => "it has found nothing that both speak",
        Alert::UnrecognisedName => "it does not serve the name that it was asked for",
        other => return format!("alert {other:?}"),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_is_unfit_in_a_certificate_is_said_without_the_names_of_its_errors() {
        for (error, words) in [
            (webpki::Error::UnsupportedCertVersion, "it needs one of version 3"),
            (webpki::Error::CaUsedAsEndEntity, "basicConstraints=CA:FALSE"),
        ] {
            let other = CertificateError::Other(OtherError(Arc::new(error)));
            let said = said(&Error::InvalidCertificate(other), "the client");
            assert!(said.starts_with("the client's certificate is ") && said.contains(words), "{said}");
        }
    }
}
