//! Certificates: selection by name, reload, and errors of files.

use crate::files::{Ca, Folder, client, replace, settings};
use crate::world::{SMOOTH, World, echo};
use gannet_tls::{CertificateFiles, ClientAuth, Loaded, Reloaded, TlsSettings};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

fn served_name(world: &mut World, config: &Arc<rustls::ClientConfig>, host: &str) -> Vec<u8> {
    let mut one = world.connect(config, host);
    echo(world, &mut one, b"x");
    one.tls.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn certificate_is_selected_by_the_requested_name() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let mut settings = settings(&folder, &ca);
    settings.certificates.push(ca.issue_files(&folder, "second", &["cache.example", "*.example.org"]));
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings, 1, SMOOTH);
    let first = served_name(&mut world, &config, "localhost");
    let second = served_name(&mut world, &config, "cache.example");
    assert_ne!(first, second);
    assert_eq!(served_name(&mut world, &config, "a.example.org"), second);
    assert_eq!(served_name(&mut world, &config, "x.sub.test"), first);
    let mut unknown = world.connect(&config, "unknown.example");
    world.run(&mut [&mut unknown], |_, clients| clients[0].error.is_some());
    assert_eq!(world.tls.current().certificates[1].names, ["cache.example", "*.example.org"]);
}

#[test]
fn changed_files_are_used_by_the_next_handshake_and_broken_ones_are_not() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let settings = settings(&folder, &ca);
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings, 1, SMOOTH);
    let mut old = world.connect(&config, "localhost");
    echo(&mut world, &mut old, b"x");
    let first = served_name(&mut world, &config, "localhost");
    assert_eq!(world.tls.reload_changed(), None);

    let new = ca.issue_files(&folder, "new", &["localhost"]);
    let files = settings.certificates[0].clone();
    replace(&new.chain, &files.chain);
    // Only one file of the pair is replaced yet.
    let Some(Reloaded::Kept(faults)) = world.tls.reload_changed() else { panic!("a broken pair was accepted") };
    assert!(faults[0].to_string().contains("is not the key of the certificate"), "{faults:?}");
    assert_eq!(world.tls.reload_changed(), None, "a fault is reported once");
    assert_eq!(served_name(&mut world, &config, "localhost"), first);
    replace(&new.key, &files.key);
    assert_eq!(world.tls.reload_changed(), Some(Reloaded::Replaced));
    // A session of the earlier certificate is resumed, so a client without sessions is needed.
    assert_ne!(served_name(&mut world, &client(&ca.pem, None), "localhost"), first);
    assert_eq!(echo(&mut world, &mut old, b"still here"), b"still here");
    let figures = &world.tls.figures;
    assert_eq!((figures.reloads.load(Relaxed), figures.reloads_failed.load(Relaxed)), (1, 1));

    std::fs::remove_file(&files.key).unwrap();
    let Some(Reloaded::Kept(faults)) = world.tls.reload_changed() else { panic!("a missing key was accepted") };
    assert!(faults[0].to_string().contains("name a file that exists"), "{faults:?}");
    replace(&new.key, &files.key);
    assert_eq!(world.tls.reload_changed(), Some(Reloaded::Replaced));
}

#[test]
fn sessions_do_not_outlive_the_ca_of_clients() {
    let (folder, ca, next) = (Folder::new(), Ca::new("ca"), Ca::new("next"));
    let client_ca = folder.write("clients.crt", &ca.pem);
    let settings =
        TlsSettings { client_ca: Some(client_ca.clone()), client_auth: ClientAuth::Required, ..settings(&folder, &ca) };
    let config = client(&ca.pem, Some(ca.issue(&[], |_| {})));
    let mut world = World::new(&settings, 1, SMOOTH);
    for _ in 0..2 {
        served_name(&mut world, &config, "localhost");
    }
    assert_eq!(world.tls.figures.resumed.load(Relaxed), 1);
    replace(&folder.write("next.crt", &next.pem), &client_ca);
    assert_eq!(world.tls.reload_changed(), Some(Reloaded::Replaced));
    let mut one = world.connect(&config, "localhost");
    world.run(&mut [&mut one], |_, clients| clients[0].error.is_some());
}

#[test]
fn each_broken_file_has_one_line_with_the_remedy() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let good = settings(&folder, &ca);
    let files = &good.certificates[0];
    let with = |chain: &std::path::Path, key: &std::path::Path| TlsSettings {
        certificates: vec![CertificateFiles { chain: chain.to_owned(), key: key.to_owned() }],
        ..good.clone()
    };
    let empty = folder.write("empty", "");
    let der = folder.write("der", "\x30\x01\x02");
    let garbage = folder.write("garbage", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n");
    let locked =
        folder.write("locked", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n");
    let other = ca.issue_files(&folder, "other", &["other"]);
    let no_certificate = TlsSettings { certificates: Vec::new(), ..good.clone() };
    let no_ca = TlsSettings { client_auth: ClientAuth::Required, ..good.clone() };
    let cipher = TlsSettings { ciphers: vec!["RC4".to_owned()], ..good.clone() };
    // The test's certificates have ECDSA keys.
    let rsa_only = TlsSettings { ciphers: vec!["ECDHE-RSA-AES128-GCM-SHA256".to_owned()], ..good.clone() };
    let cut = |path: &std::path::Path, name: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        folder.write(name, &text[..text.len() - 40])
    };
    let (cut_chain, cut_key) = (cut(&files.chain, "cut.crt"), cut(&files.key, "cut.key"));
    for (settings, parts) in [
        (rsa_only, ["tls.ciphers: no allowed cipher suite fits the key", "leave the list empty"]),
        (with(&cut_chain, &files.key), ["tls.cert: ", "the file is not whole; copy the whole file"]),
        (with(&files.chain, &cut_key), ["tls.key: ", "the file is not whole; copy the whole file"]),
        (with(&folder.file("missing"), &files.key), ["tls.cert: cannot read", "name a file that exists"]),
        (with(&empty, &files.key), ["contains no certificate", "BEGIN CERTIFICATE"]),
        (with(&der, &files.key), ["contains no certificate", "openssl x509 -inform der"]),
        (with(&garbage, &files.key), ["not valid PEM", "export the certificate again"]),
        (with(&files.chain, &empty), ["tls.key: ", "contains no key"]),
        (with(&files.chain, &locked), ["encrypted with a passphrase", "openssl pkey"]),
        (with(&files.chain, &other.key), ["is not the key of the certificate", "was issued for"]),
        (no_certificate, ["there is no certificate", "tls.key"]),
        (no_ca, ["tls.client_ca: ", "name a PEM file"]),
        (cipher, ["tls.ciphers: 'RC4'", "TLS_AES_128_GCM_SHA256"]),
    ] {
        let faults = Loaded::read(&settings, None).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        let line = faults[0].to_string();
        assert!(parts.iter().all(|part| line.contains(part)) && !line.contains('\n'), "{line}");
    }
}
