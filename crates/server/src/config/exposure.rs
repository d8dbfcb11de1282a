//! The exposure of listeners: whether clients on other machines can use one without authenticating.
//!
//! ```text
//!   listener ──> Local        Unix socket or loopback address                         served
//!            ──> Certificates TLS, tls.client_auth = "required"                       served
//!            ──> EncryptedUsers  TLS, listen.auth_file                                served
//!            ──> EncryptedProtected  TLS, protected as below                          served
//!            ──> Users        listen.auth_file                                        served, with a note
//!            ──> Protected    Redis clients, listen.protected                         served, with a note
//!            ──> Protected    memcached clients, listen.acl_file, not listen.unprotected   served, with a note
//!            ──> Open         Redis clients with protected = false                    served, with a note
//!            └─> Open         memcached clients        served only with listen.unprotected, and a note
//! ```

use std::net::IpAddr;

use super::kinds::ListenAddress;
use super::settings::Settings;
use command::clients::endpoint::Protocol;
use tls::ClientAuth;

/// The reason why a listener can, or cannot, be used by clients that do not authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Only processes on this machine can connect.
    Local,
    /// Every client must have a certificate (`tls.client_auth = "required"`).
    Certificates,
    /// Every client must authenticate as a user of `listen.auth_file`, over TLS.
    EncryptedUsers,
    /// Every client must authenticate as a user of `listen.auth_file`.
    Users,
    /// Clients on other machines may do nothing but authenticate (`listen.protected`, or no `listen.unprotected`).
    Protected,
    /// The same, over TLS.
    EncryptedProtected,
    /// Clients on other machines may execute every command.
    Open,
}

/// Returns true if only processes on this machine can reach `ip`. An IPv4 loopback address in the form of an IPv6
/// address, such as `::ffff:127.0.0.1`, is such an address too.
pub fn is_local(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Returns the exposure of a listener for `protocol` on `address`.
pub fn exposure(settings: &Settings, protocol: Protocol, address: &ListenAddress) -> Exposure {
    let is_tls = matches!(address, ListenAddress::Tls(_));
    let is_protected = match protocol {
        Protocol::Resp | Protocol::Grpc => settings.protected,
        Protocol::Memcache => settings.acl_file.0.is_some() && !settings.unprotected,
    };
    match (address.ip(), protocol) {
        (None, _) => Exposure::Local,
        (Some(address), _) if is_local(address.ip()) => Exposure::Local,
        _ if is_tls && settings.tls_client_auth == ClientAuth::Required => Exposure::Certificates,
        _ if is_tls && settings.auth_file.0.is_some() => Exposure::EncryptedUsers,
        _ if settings.auth_file.0.is_some() => Exposure::Users,
        _ if is_tls && is_protected => Exposure::EncryptedProtected,
        _ if is_protected => Exposure::Protected,
        _ => Exposure::Open,
    }
}

impl Exposure {
    /// Returns true if the server must not start with a listener of this exposure. `listen.protected` is false only if
    /// the operator has set it, so that an open listener for Redis clients is the operator's choice already.
    pub fn is_refused(self, settings: &Settings, protocol: Protocol) -> bool {
        self == Self::Open && protocol == Protocol::Memcache && !settings.unprotected
    }

    /// Returns the risk of a listener that the server starts with, as a part of a sentence. Returns `None` if there is
    /// none.
    pub fn risk(self, protocol: Protocol) -> Option<&'static str> {
        match (self, protocol) {
            (Self::Local | Self::Certificates | Self::EncryptedUsers | Self::EncryptedProtected, _) => None,
            (Self::Users, _) => Some("passwords are sent unencrypted"),
            (Self::Protected, Protocol::Resp) => {
                Some("Redis clients there must authenticate (listen.protected), with unencrypted passwords")
            }
            (Self::Protected, Protocol::Grpc) => {
                Some("gRPC clients there must authenticate (listen.protected), with unencrypted tokens")
            }
            (Self::Protected, Protocol::Memcache) => {
                Some("memcached clients there must authenticate (listen.acl_file), with unencrypted passwords")
            }
            (Self::Open, Protocol::Memcache) => Some("clients need no password"),
            (Self::Open, Protocol::Resp | Protocol::Grpc) => {
                Some("clients need no password unless the default user has one")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table::setting;

    fn of(protocol: Protocol, address: &str, values: &[(&str, &str)]) -> (Exposure, bool) {
        let mut settings = Settings::default();
        for (path, text) in values {
            setting(path).unwrap().set(&mut settings, &[text]).unwrap();
        }
        let exposure = exposure(&settings, protocol, &address.parse().unwrap());
        (exposure, exposure.is_refused(&settings, protocol))
    }

    #[test]
    fn required_certificates_protect_listeners_with_tls_only() {
        let required = [("tls.client_auth", "required")];
        for protocol in [Protocol::Memcache, Protocol::Resp] {
            assert_eq!(of(protocol, "tls:0.0.0.0:1", &required), (Exposure::Certificates, false));
            let users = [("listen.auth_file", "/etc/users")];
            assert_eq!(of(protocol, "tls:0.0.0.0:1", &users), (Exposure::EncryptedUsers, false));
        }
        assert_eq!(of(Protocol::Memcache, "0.0.0.0:1", &required), (Exposure::Open, true));
        let acl = [("listen.acl_file", "/etc/acl")];
        assert_eq!(of(Protocol::Memcache, "tls:0.0.0.0:1", &acl), (Exposure::EncryptedProtected, false));
        assert_eq!(of(Protocol::Resp, "tls:0.0.0.0:1", &[]), (Exposure::EncryptedProtected, false));
        for values in [&[][..], &[("tls.client_auth", "optional")]] {
            assert_eq!(of(Protocol::Memcache, "tls:0.0.0.0:1", values), (Exposure::Open, true));
        }
    }

    #[test]
    fn only_an_open_memcached_listener_is_refused() {
        let (users, trusting) = (("listen.auth_file", "/etc/users"), ("listen.protected", "false"));
        let acl = ("listen.acl_file", "/etc/acl");
        for (protocol, values, expected) in [
            (Protocol::Memcache, &[][..], (Exposure::Open, true)),
            (Protocol::Memcache, &[("listen.unprotected", "true")], (Exposure::Open, false)),
            (Protocol::Memcache, &[users], (Exposure::Users, false)),
            (Protocol::Memcache, &[acl], (Exposure::Protected, false)),
            (Protocol::Memcache, &[acl, ("listen.unprotected", "true")], (Exposure::Open, false)),
            (Protocol::Resp, &[], (Exposure::Protected, false)),
            (Protocol::Resp, &[users, trusting], (Exposure::Users, false)),
            (Protocol::Resp, &[trusting], (Exposure::Open, false)),
        ] {
            for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:0", "[::ffff:192.0.2.1]:1", "[fe80::1]:1"] {
                assert_eq!(of(protocol, address, values), expected, "{protocol:?} {address} {values:?}");
            }
            for address in
                ["127.0.0.1:1", "tls:127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/run/x"]
            {
                assert_eq!(
                    of(protocol, address, values),
                    (Exposure::Local, false),
                    "{protocol:?} {address} {values:?}"
                );
            }
        }
    }
}
