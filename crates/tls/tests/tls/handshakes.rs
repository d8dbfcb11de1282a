//! Handshakes: their limits, their failures, resumption.

use crate::files::{Ca, Folder, client, client_names, settings};
use crate::world::{HINT, LIMITS, SMOOTH, World, echo};
use gannet_tls::{ClientAuth, FailureKind, HandshakeLimits, TlsSettings, UserFrom, Versions};
use io::sim::SimClient;
use rustls::client::{Resumption, Tls12Resumption};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn sessions_are_resumed_in_both_versions() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        let (folder, ca) = (Folder::new(), Ca::new("ca"));
        let settings = TlsSettings { versions, ..settings(&folder, &ca) };
        let config = client(&ca.pem, None);
        let mut world = World::new(&settings, 1, SMOOTH);
        for _ in 0..3 {
            let mut one = world.connect(&config, "localhost");
            assert_eq!(echo(&mut world, &mut one, b"hello"), b"hello");
        }
        let figures = &world.tls.figures;
        assert_eq!((figures.full.load(Relaxed), figures.resumed.load(Relaxed)), (1, 2), "{versions:?}");
        let unresumable = TlsSettings { resumption: false, ..settings };
        let mut world = World::new(&unresumable, 1, SMOOTH);
        for _ in 0..2 {
            let mut one = world.connect(&config, "localhost");
            assert_eq!(echo(&mut world, &mut one, b"hello"), b"hello");
        }
        assert_eq!(world.tls.figures.full.load(Relaxed), 2, "{versions:?}");
    }
}

#[test]
fn client_without_tls_gets_a_line_and_is_closed() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let mut world = World::new(&settings(&folder, &ca), 1, SMOOTH);
    let raw = world.connect_raw();
    raw.send(b"PING\r\n");
    let mut got = Vec::new();
    for _ in 0..20 {
        world.turn();
        got.extend(raw.take(100));
    }
    assert_eq!(got, HINT);
    raw.close_send();
    (0..5).for_each(|_| world.turn());
    assert!(world.is_closed(0));
    let failure = world.failures.lock().unwrap()[0].clone();
    assert_eq!(failure.kind, FailureKind::NotTls);
    assert!(failure.what.contains("connect with TLS"), "{failure}");
    assert_eq!(world.tls.figures.under_way.load(Relaxed), 0);
}

#[test]
fn failed_client_that_stays_is_closed_after_a_second() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let mut world = World::new(&settings(&folder, &ca), 1, SMOOTH);
    let raw = world.connect_raw();
    raw.send(b"PING\r\n");
    (0..20).for_each(|_| world.turn());
    assert!(!world.is_closed(0), "the peer has time to read");
    std::thread::sleep(Duration::from_millis(1050));
    (0..5).for_each(|_| world.turn());
    assert!(world.is_closed(0));
}

#[test]
fn silent_handshakes_end_at_their_timeout_and_hold_no_memory() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let limits = HandshakeLimits { handshake_timeout: Duration::from_millis(50), ..LIMITS };
    let mut world = World::with_limits(&settings(&folder, &ca), 1, SMOOTH, limits);
    for _ in 0..10 {
        // The beginning of a record with a client's first message.
        world.connect_raw().send(&[22, 3, 1, 2, 0, 1, 0]);
    }
    (0..20).for_each(|_| world.turn());
    assert_eq!(world.tls.figures.under_way.load(Relaxed), 10);
    assert!(world.memory.used.load(Relaxed) > 0);
    std::thread::sleep(Duration::from_millis(60));
    (0..20).for_each(|_| world.turn());
    assert!((0..10).all(|at| world.is_closed(at)));
    assert_eq!(world.tls.figures.failed[FailureKind::TimedOut as usize].load(Relaxed), 10);
    assert_eq!((world.tls.figures.under_way.load(Relaxed), world.memory.used.load(Relaxed)), (0, 0));
}

#[test]
fn handshakes_beyond_the_maximum_wait_and_take_the_place_of_silent_ones() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = client(&ca.pem, None);
    let limits = HandshakeLimits { handshakes_max: 3, ..LIMITS };
    let mut world = World::with_limits(&settings(&folder, &ca), 1, SMOOTH, limits);
    let silent: Vec<_> = (0..3).map(|_| world.connect_raw()).collect();
    silent.iter().for_each(|raw| raw.send(&[22, 3, 1, 2, 0, 1]));
    (0..10).for_each(|_| world.turn());
    let mut one = world.connect(&config, "localhost");
    for _ in 0..10 {
        one.turn();
        world.turn();
    }
    let figures = &world.tls.figures;
    assert_eq!((figures.under_way.load(Relaxed), figures.waiting.load(Relaxed)), (3, 1));
    // One of the silent handshakes ends: the one that waits begins.
    silent[1].reset();
    assert_eq!(echo(&mut world, &mut one, b"hello"), b"hello");
    assert_eq!(world.tls.figures.waiting.load(Relaxed), 0);
    silent[1].reset();
    let again = world.connect_raw();
    again.send(&[22, 3, 1, 2, 0, 1]);
    (0..10).for_each(|_| world.turn());
    std::thread::sleep(Duration::from_millis(1050));
    let mut two = world.connect(&config, "localhost");
    assert_eq!(echo(&mut world, &mut two, b"hello"), b"hello", "a silent handshake makes room after a second");
}

/// Begins two handshakes that never end, of which the second waits for the first. Returns their clients.
fn two_silent(world: &mut World) -> [SimClient; 2] {
    [(); 2].map(|()| {
        let silent = world.connect_raw();
        silent.send(&[22, 3, 1, 2, 0, 1]);
        (0..5).for_each(|_| world.turn());
        silent
    })
}

#[test]
fn client_that_hangs_up_while_it_waits_is_closed() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let limits = HandshakeLimits { handshakes_max: 1, ..LIMITS };
    let mut world = World::with_limits(&settings(&folder, &ca), 1, SMOOTH, limits);
    let [first, second] = two_silent(&mut world);
    second.close_send();
    (0..5).for_each(|_| world.turn());
    assert!(world.is_closed(1) && !world.is_closed(0));
    first.close_send();
    (0..5).for_each(|_| world.turn());
    assert!(world.is_closed(0));
    assert_eq!(world.tls.figures.under_way.load(Relaxed), 0);
}

#[test]
fn iteration_computes_few_steps_of_handshakes() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings(&folder, &ca), 1, SMOOTH);
    let mut clients: Vec<_> = (0..20).map(|_| world.connect(&config, "localhost")).collect();
    clients.iter_mut().for_each(|client| client.turn());
    world.turn();
    assert!(world.tls.figures.under_way.load(Relaxed) <= gannet_tls::STEPS_PER_ITERATION as u64);
    assert!(world.tls.figures.postponed.load(Relaxed) >= 18);
    let mut clients: Vec<_> = clients.iter_mut().collect();
    clients.iter_mut().for_each(|client| client.write(b"x"));
    let mut got = vec![0; 20];
    world.run(&mut clients, |_, clients| {
        clients.iter_mut().zip(&mut got).for_each(|(client, got)| *got += client.read().len());
        got.iter().all(|count| *count == 1)
    });
}

#[test]
fn exhausted_memory_ends_incomplete_requests_only() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings(&folder, &ca), 1, SMOOTH);
    let mut one = world.connect(&config, "localhost");
    echo(&mut world, &mut one, b"x");
    assert_eq!(world.memory.used.load(Relaxed), 0, "an idle connection holds no buffer");
    world.memory.max.store(0, Relaxed);
    // The beginning of a record with a client's first message.
    world.connect_raw().send(&[22, 3, 1, 2, 0, 1, 0]);
    (0..5).for_each(|_| world.turn());
    assert!(world.is_closed(1));
    assert_eq!(world.tls.figures.failed[FailureKind::NoMemory as usize].load(Relaxed), 1);
    assert_eq!(echo(&mut world, &mut one, b"hello"), b"hello");
    let mut two = world.connect(&config, "localhost");
    assert_eq!(echo(&mut world, &mut two, b"hello"), b"hello");
}

#[test]
fn client_certificates_are_verified_and_name_users() {
    let (folder, ca, other) = (Folder::new(), Ca::new("ca"), Ca::new("other"));
    let own = |common: &str, uris: &[&str]| Some(ca.issue(&[], |params| client_names(params, common, uris)));
    let client_ca = Some(folder.write("clients.crt", &ca.pem));
    for (client_auth, user_from) in
        [(ClientAuth::Required, UserFrom::CommonName), (ClientAuth::Optional, UserFrom::SanUri)]
    {
        let settings = TlsSettings { client_ca: client_ca.clone(), client_auth, user_from, ..settings(&folder, &ca) };
        let mut world = World::new(&settings, 1, SMOOTH);
        let mut named = world.connect(&client(&ca.pem, own("alice", &["urn:x", "spiffe://d/alice"])), "localhost");
        echo(&mut world, &mut named, b"x");
        let wanted = match user_from {
            UserFrom::SanUri => vec!["urn:x".to_owned(), "spiffe://d/alice".to_owned()],
            _ => vec!["alice".to_owned()],
        };
        assert_eq!(world.users, [wanted]);
        world.users.clear();
        let mut anonymous = world.connect(&client(&ca.pem, None), "localhost");
        if client_auth == ClientAuth::Optional {
            echo(&mut world, &mut anonymous, b"x");
            assert!(world.users.is_empty(), "without a certificate there are no names");
        } else {
            world.run(&mut [&mut anonymous], |_, clients| clients[0].error.is_some());
            assert_eq!(world.failures.lock().unwrap()[0].kind, FailureKind::NoCertificate);
            let wanted = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
            assert_eq!(anonymous.error, Some(wanted));
        }
        let stranger = other.issue(&[], |params| client_names(params, "alice", &[]));
        let mut stranger = world.connect(&client(&ca.pem, Some(stranger)), "localhost");
        world.run(&mut [&mut stranger], |_, clients| clients[0].error.is_some());
        assert_eq!(stranger.error, Some(rustls::Error::AlertReceived(rustls::AlertDescription::UnknownCA)));
        assert_eq!(world.tls.figures.failed[FailureKind::BadCertificate as usize].load(Relaxed), 1);
    }
}

/// Regression: a session outlived the client's certificate, for ever, because each resumption stored the session again.
#[test]
fn session_ends_when_the_certificate_of_its_client_expires() {
    const SESSION_IDS: Tls12Resumption = Tls12Resumption::SessionIdOnly;
    const TICKETS: Tls12Resumption = Tls12Resumption::SessionIdOrTickets;
    std::thread::scope(|scope| {
        for (versions, way) in [(Versions::Tls13, TICKETS), (Versions::Tls12, TICKETS), (Versions::Tls12, SESSION_IDS)]
        {
            scope.spawn(move || resume_until_expiry(versions, way));
        }
    });
}

fn resume_until_expiry(versions: Versions, way: Tls12Resumption) {
    const VALID_SECS: u64 = 3;
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let client_ca = Some(folder.write("clients.crt", &ca.pem));
    let (client_auth, user_from) = (ClientAuth::Required, UserFrom::CommonName);
    let settings = TlsSettings { versions, client_ca, client_auth, user_from, ..settings(&folder, &ca) };
    let mut world = World::new(&settings, 1, SMOOTH);
    let (since, own) = (SystemTime::now(), |params: &mut _| client_names(params, "ann", &[]));
    let ends = since.duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(VALID_SECS);
    let short = ca.issue(&[], |params| {
        own(params);
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + ends;
    });
    let mut config = (*client(&ca.pem, Some(short))).clone();
    config.resumption = Resumption::in_memory_sessions(8).tls12_resumption(way);
    let config = Arc::new(config);
    let mut resumed = 0;
    let mut full = world.connect(&config, "localhost");
    assert_eq!(echo(&mut world, &mut full, b"hello"), b"hello");
    while since.elapsed().unwrap() < Duration::from_secs(VALID_SECS) - Duration::from_millis(500) {
        let mut one = world.connect(&config, "localhost");
        assert_eq!(echo(&mut world, &mut one, b"hello"), b"hello");
        resumed += 1;
        assert_eq!(world.tls.figures.resumed.load(Relaxed), resumed, "{versions:?} {way:?}");
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(resumed > 2 && world.users.iter().all(|users| users == &["ann"]));
    // The certificate is valid until the end of its last second.
    std::thread::sleep(Duration::from_millis(2000));
    let mut late = world.connect(&config, "localhost");
    let expired = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateExpired);
    world.run(&mut [&mut late], |world, clients| {
        clients[0].error.is_some() || world.tls.figures.resumed.load(Relaxed) > resumed
    });
    assert_eq!(late.error, Some(expired), "{versions:?} {way:?}");
    assert_eq!(world.tls.figures.failed[FailureKind::BadCertificate as usize].load(Relaxed), 1);
    // A client that has a new certificate makes a full handshake, and resumes its session.
    let mut renewed = (*client(&ca.pem, Some(ca.issue(&[], own)))).clone();
    renewed.resumption = config.resumption.clone();
    let (renewed, full) = (Arc::new(renewed), world.tls.figures.full.load(Relaxed));
    for _ in 0..2 {
        let mut one = world.connect(&renewed, "localhost");
        assert_eq!(echo(&mut world, &mut one, b"hello"), b"hello");
    }
    let figures = &world.tls.figures;
    let counts = (figures.full.load(Relaxed), figures.resumed.load(Relaxed));
    assert_eq!(counts, (full + 1, resumed + 1), "{versions:?} {way:?}");
}

#[test]
fn client_without_a_common_cipher_gets_handshake_failure() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let mut world = World::new(&settings(&folder, &ca), 1, SMOOTH);
    let suites = vec![rustls::crypto::ring::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256];
    let provider = rustls::crypto::CryptoProvider { cipher_suites: suites, ..rustls::crypto::ring::default_provider() };
    // The certificate of the server is for ECDSA.
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS12]).unwrap();
    let config = builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let mut one = world.connect(&Arc::new(config), "localhost");
    world.run(&mut [&mut one], |_, clients| clients[0].error.is_some());
    assert_eq!(one.error, Some(rustls::Error::AlertReceived(rustls::AlertDescription::HandshakeFailure)));
    assert_eq!(world.failures.lock().unwrap()[0].kind, FailureKind::Cipher);
}

#[test]
fn failures_of_the_clients_side_are_described() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let mut world = World::new(&settings(&folder, &ca), 1, SMOOTH);
    let mut distrustful = world.connect(&client(&Ca::new("else").pem, None), "localhost");
    world.run(&mut [&mut distrustful], |world, _| !world.failures.lock().unwrap().is_empty());
    let failure = world.failures.lock().unwrap()[0].clone();
    assert_eq!(failure.kind, FailureKind::RefusedByClient);
    assert!(failure.what.contains("does not know the CA"), "{failure}");
}

#[test]
fn connections_that_wait_begin_though_those_before_them_are_gone() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = client(&ca.pem, None);
    let limits = HandshakeLimits { handshakes_max: 1, ..LIMITS };
    let mut world = World::with_limits(&settings(&folder, &ca), 1, SMOOTH, limits);
    let [first, second] = two_silent(&mut world);
    let mut third = world.connect(&config, "localhost");
    for _ in 0..5 {
        third.turn();
        world.turn();
    }
    assert_eq!(world.tls.figures.waiting.load(Relaxed), 2);
    // The first ends, and the second is reset before its handshake begins.
    second.reset();
    first.reset();
    assert_eq!(echo(&mut world, &mut third, b"hello"), b"hello");
}

#[test]
fn queues_stay_short_though_connections_come_and_go() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let limits = HandshakeLimits { handshakes_max: 1, ..LIMITS };
    let mut world = World::with_limits(&settings(&folder, &ca), 1, SMOOTH, limits);
    let [first, _second] = two_silent(&mut world);
    for _ in 0..1000 {
        let passing = world.reconnect_raw();
        passing.send(&[22, 3, 1, 2, 0, 1]);
        (0..3).for_each(|_| world.turn());
        passing.reset();
        (0..2).for_each(|_| world.turn());
    }
    // The gauge counts the queue, those that are gone included.
    let waiting = world.tls.figures.waiting.load(Relaxed);
    assert!((1..=200).contains(&waiting), "{waiting} wait");
    drop(first);
}
