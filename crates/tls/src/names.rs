//! The names and the validity of a certificate.

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The facts of a certificate that the server needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CertificateNames {
    /// The subject's common names, usually one.
    pub(crate) common_names: Vec<String>,
    /// The DNS names and IP addresses of the subject, in lower case.
    pub(crate) hosts: Vec<String>,
    /// The URIs of the subject.
    pub(crate) uris: Vec<String>,
    /// The serial number, in hexadecimal.
    pub(crate) serial: String,
    /// The instant from which the certificate is valid, in Unix seconds.
    pub(crate) not_before: i64,
    /// The instant until which the certificate is valid, in Unix seconds.
    pub(crate) not_after: i64,
}

/// Reads a certificate in DER. Returns `None` if it cannot be parsed.
pub(crate) fn read(der: &[u8]) -> Option<CertificateNames> {
    let (_, parsed) = X509Certificate::from_der(der).ok()?;
    let text = |name: &x509_parser::x509::AttributeTypeAndValue<'_>| name.as_str().ok().map(str::to_owned);
    let mut names = CertificateNames {
        common_names: parsed.subject().iter_common_name().filter_map(text).collect(),
        serial: parsed.tbs_certificate.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect(),
        not_before: parsed.validity().not_before.timestamp(),
        not_after: parsed.validity().not_after.timestamp(),
        ..CertificateNames::default()
    };
    let alternative = parsed.subject_alternative_name().ok().flatten();
    for name in alternative.iter().flat_map(|extension| &extension.value.general_names) {
        match name {
            GeneralName::DNSName(host) => names.hosts.push(host.to_ascii_lowercase()),
            GeneralName::URI(uri) => names.uris.push((*uri).to_owned()),
            GeneralName::IPAddress(bytes) => names.hosts.extend(address(bytes)),
            _ => {}
        }
    }
    Some(names)
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(std::net::IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes).ok().map(std::net::IpAddr::from);
    v4.or_else(v6).map(|address| address.to_string())
}

/// Returns true if `host`, in lower case, is one of the names in `patterns`. A pattern `*.rest` stands for one label.
pub(crate) fn covers(patterns: &[String], host: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_prefix("*.") {
        None => pattern == host,
        Some(rest) => host.split_once('.').is_some_and(|(label, tail)| !label.is_empty() && tail == rest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_covers_one_label() {
        let patterns = ["*.example.org".to_owned(), "cache.test".to_owned()];
        for (host, wanted) in [
            ("a.example.org", true),
            ("a.b.example.org", false),
            ("example.org", false),
            (".example.org", false),
            ("cache.test", true),
            ("x.cache.test", false),
        ] {
            assert_eq!(covers(&patterns, host), wanted, "{host}");
        }
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_names() {
        assert_eq!(read(b"\x30\x03\x02\x01\x01"), None);
        assert_eq!(read(&[]), None);
    }
}
