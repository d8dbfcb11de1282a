//! Tests `gannet load` over TLS, against Debian's redis-server and memcached: the verification of certificates, the
//! resumption of sessions, and error messages. The tests check counts, not times.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use load::result::RunResult;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair, date_time_ymd,
};

use crate::common::{free_port, run};
use crate::peers::{Folder, LIMITED, Peer};

fn called(name: &str) -> DistinguishedName {
    let mut whole = DistinguishedName::new();
    whole.push(DnType::CommonName, name);
    whole
}

/// Returns a directory with certificates: `ca.pem`, and `server`, `expired` and `client`, each as `.pem` with its
/// `.key`.
pub fn certified(name: &str) -> Folder {
    let folder = Folder::new(name);
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = called(&format!("the CA of {name}"));
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    folder.written("ca.pem", &ca.pem());
    for (name, names) in [("server", ["localhost", "127.0.0.1"]), ("expired", ["localhost", "127.0.0.1"])]
        .into_iter()
        .chain([("client", ["client", "client.example"])])
    {
        let mut params = CertificateParams::new(names.map(str::to_owned).to_vec()).unwrap();
        params.distinguished_name = called(name);
        if name == "expired" {
            (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        }
        let key = KeyPair::generate().unwrap();
        folder.written(&format!("{name}.pem"), &params.signed_by(&key, &ca).unwrap().pem());
        folder.written(&format!("{name}.key"), &key.serialize_pem());
    }
    folder
}

/// Starts a redis-server that requires a client certificate.
fn redis(folder: &Folder) -> Option<Peer> {
    let port = free_port();
    let [text, ca, certificate, key] =
        [port.to_string(), folder.file("ca.pem"), folder.file("server.pem"), folder.file("server.key")];
    let args = ["--port", "0", "--tls-port", &text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let tls = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    Peer::start_at(port, "redis-server", &[&args[..], &tls[..]].concat())
}

/// Starts a memcached with the certificate `name`, which accepts all clients.
fn memcached(folder: &Folder, name: &str) -> Option<Peer> {
    let help = Command::new("memcached").arg("-h").output();
    if !help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--enable-ssl")) {
        println!("SKIPPED: there is no memcached with TLS; install it to run this test");
        return None;
    }
    let port = free_port();
    let (certificate, key) = (folder.file(&format!("{name}.pem")), folder.file(&format!("{name}.key")));
    let tls = format!("ssl_chain_cert={certificate},ssl_key={key}");
    let text = port.to_string();
    let args = ["-l", "127.0.0.1", "-p", &text, "-U", "0", "-u", "nobody", "-t", "1", "-Z", "-o", &tls];
    Peer::start_at(port, "memcached", &args)
}

/// Returns the server's address with another name of this host.
fn at(peer: &Peer, host: &str) -> String {
    format!("{host}:{}", peer.port)
}

const SHORT: [&str; 8] = ["--connections", "4", "--keys", "300", "--warm-up", "100ms", "--quiet", "--verify"];

/// Runs `gannet load`, which must end with figures. Returns the output and the result.
fn measured(folder: &Folder, args: &[&str]) -> (String, RunResult) {
    let json = folder.file("out.json");
    let (code, out, err) = run(&[&["load"], args, &["--json", &json]].concat());
    assert!(code == 0 || code == LIMITED, "{args:?} ended with {code}: {out}\n{err}");
    (out, folder.result("out.json"))
}

/// Checks that there were replies, and that every value was the stored one. Requests in flight at the end may have no
/// reply.
fn assert_whole(result: &RunResult) {
    let (counts, faults) = (&result.figures.counts, &result.figures.faults);
    assert!(counts.answered > 0 && counts.unanswered <= 4, "{counts:?} {faults:?}");
    assert_eq!((counts.misses, counts.errors, counts.wrong), (0, 0, 0), "{counts:?} {faults:?}");
}

#[test]
fn reconnecting_client_resumes_its_tls_session() {
    let folder = certified("resume");
    let Some(redis) = redis(&folder) else { return };
    let target = at(&redis, "localhost");
    let [ca, certificate, key] = ["ca.pem", "client.pem", "client.key"].map(|name| folder.file(name));
    let tls = ["--tls-ca", &ca, "--tls-cert", &certificate, "--tls-key", &key];
    let args = ["--target", &target, "--protocol", "resp", "--closed", "--duration", "1500ms"];
    for (versions, spoken) in [("1.3", "TLS 1.3"), ("1.2", "TLS 1.2")] {
        let (page, prom) = (folder.file("out.html"), folder.file("out.prom"));
        let files = ["--report", &page, "--prometheus", &prom, "--tls-versions", versions, "--reconnect", "20"];
        let (out, result) = measured(&folder, &[&args[..], &tls[..], &SHORT[..], &files[..]].concat());
        assert_whole(&result);
        let [sessions] = &result.figures.connections.tls[..] else { panic!("{:?}", result.figures.connections.tls) };
        assert_eq!(sessions.version, spoken);
        assert!(sessions.full + sessions.resumed >= result.figures.counts.connects, "{sessions:?}");
        assert!(sessions.full >= 1 && sessions.resumed >= 1, "{sessions:?}");
        assert_eq!(result.figures.connections.handshake.count, sessions.full + sessions.resumed);
        assert!(result.figures.connections.time.p50_ns >= result.figures.connections.handshake.min_ns);
        assert!(out.contains(&format!("over {spoken}")) && out.contains("TLS handshake"), "{out}");
        let asked = result.tls.unwrap();
        assert_eq!(
            (asked.ca.as_deref(), asked.versions.as_str(), asked.insecure),
            (Some(ca.as_str()), versions, false)
        );
        let [page, prom] = [page, prom].map(|path| std::fs::read_to_string(path).unwrap());
        assert!(page.contains(&sessions.words()) && page.contains(&format!("over {spoken}")));
        assert!(prom.contains(&format!("kind=\"resumed\"}} {}\n", sessions.resumed)), "{prom}");
    }
    let anew = ["--tls-no-resume", "--reconnect", "20"];
    let (_, result) = measured(&folder, &[&args[..], &tls[..], &SHORT[..], &anew[..]].concat());
    assert_whole(&result);
    assert!(result.figures.connections.tls.iter().all(|sessions| sessions.resumed == 0));
}

#[test]
fn large_values_both_ways_through_many_records_are_whole() {
    let folder = certified("large");
    let Some(memcached) = memcached(&folder, "server") else { return };
    let (target, ca) = (at(&memcached, "127.0.0.1"), folder.file("ca.pem"));
    let args = ["--target", &target, "--tls-ca", &ca, "--closed", "--depth", "16", "--value-bytes", "300KiB"];
    let short = ["--duration", "800ms", "--connections", "3", "--keys", "40", "--reads", "60%", "--quiet", "--verify"];
    let (_, result) = measured(&folder, &[&args[..], &short[..]].concat());
    let counts = &result.figures.counts;
    assert!(counts.answered > 0 && (counts.errors, counts.wrong) == (0, 0), "{counts:?} {:?}", result.figures.faults);
    assert!(result.targets[0].server.as_ref().is_some_and(|server| server.contains("version")), "asked over TLS too");
}

#[test]
fn tls_from_a_workload_file_is_used_and_unverified_servers_are_labelled() {
    let folder = certified("file");
    let Some(memcached) = memcached(&folder, "expired") else { return };
    let target = at(&memcached, "127.0.0.1");
    let text = format!("[targets]\naddresses = [\"{target}\"]\n[targets.tls]\ninsecure = true\n");
    let workload = folder.written("w.toml", &text);
    let args = ["--workload", &workload, "--closed", "--duration", "300ms", "--keys", "100", "--quiet"];
    let (out, result) = measured(&folder, &args);
    assert!(out.contains("the server was NOT verified: any certificate is accepted"), "{out}");
    assert!(result.tls.is_some_and(|tls| tls.insecure) && result.figures.counts.answered > 0);
}

/// Runs `gannet load`, which must fail before the measurement. Returns the error text.
fn refused(args: &[&str]) -> String {
    let (code, out, err) = run(&[&["load", "--closed", "--duration", "300ms", "--keys", "10"], args].concat());
    assert_eq!(code, 1, "{args:?}: {out}{err}");
    err
}

#[test]
fn failed_tls_handshake_is_reported_with_cause_and_remedy() {
    let folder = certified("refused");
    let (Some(redis), Some(memcached), Some(expired)) =
        (redis(&folder), memcached(&folder, "server"), memcached(&folder, "expired"))
    else {
        return;
    };
    let ca = folder.file("ca.pem");
    let other = certified("other");
    let (other_ca, stranger) = (other.file("ca.pem"), other.file("client.pem"));
    let key = other.file("client.key");
    let [redis, plain, late] = [at(&redis, "localhost"), at(&memcached, "127.0.0.1"), at(&expired, "127.0.0.1")];
    let by_name = ["--target", &plain, "--tls-ca", &ca, "--tls-server-name", "cache.example"];
    let strange = ["--tls-cert", &stranger, "--tls-key", &key];
    let resp = ["--target", &redis, "--protocol", "resp", "--tls-ca", &ca];
    for (args, parts) in [
        (&["--target", &plain, "--tls"][..], ["none of this system's CAs has signed", "--tls-ca FILE"]),
        (&["--target", &plain, "--tls-ca", &other_ca], ["no CA in ", "has signed the server's certificate"]),
        (&by_name, ["is for localhost, 127.0.0.1, not for cache.example", "--tls-server-name"]),
        (&["--target", &late, "--tls-ca", &ca], ["the server's certificate expired", "renew it there"]),
        (&resp, ["requires a client certificate", "pass one with --tls-cert and --tls-key"]),
        (&[&resp[..], &["--tls-versions", "1.2"]].concat(), ["requires a client certificate", "--tls-cert"]),
        (&[&resp[..], &strange].concat(), ["the server refused the certificate in ", "client.pem"]),
        (&["--target", &plain], ["this port uses TLS", "pass --tls-ca FILE"]),
        (&["--target", &plain, "--tls-ca", "/no/such.pem"], ["targets.tls.ca: '/no/such.pem'", "cannot open the file"]),
    ] {
        let err = match args.contains(&"/no/such.pem") {
            true => run(&[&["load", "--closed"], args].concat()).2,
            false => refused(args),
        };
        assert!(parts.iter().all(|part| err.contains(part)), "{args:?}: {parts:?}: {err}");
    }
    let (code, _, err) = run(&["load", "--closed", "--target", "unix:/run/cache.sock", "--tls"]);
    assert!(code == 2 && err.contains("unix sockets cannot use TLS; write the target as HOST:PORT"), "{err}");
}

#[test]
fn server_without_tls_is_distinguished_from_a_silent_server() {
    let folder = certified("plain");
    let ca = folder.file("ca.pem");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    // The server replies with an error to everything that it receives, as a server of line-based requests does. The
    // connections of the load engine follow the first connection.
    let server = std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            match stream.read(&mut bytes) {
                Ok(4) if bytes.starts_with(b"stop") => return,
                Ok(count) if count > 0 => stream.write_all(b"ERROR\r\n").unwrap(),
                _ => {}
            }
        }
    });
    let err = refused(&["--target", &target, "--tls-ca", &ca]);
    assert!(err.contains("this port does not use TLS; use the server's TLS port"), "{err}");
    // The ping protocol does not request the server's statistics, so the engine is the first to connect.
    let pings = folder.written("ping.toml", "protocol = \"ping\"\n");
    let err = refused(&["--target", &target, "--tls-ca", &ca, "--workload", &pings]);
    assert!(
        err.contains("the server replied to a TLS handshake with \"ERROR\\r\\n\"") && err.contains("remove --tls"),
        "{err}"
    );
    TcpStream::connect(&target).unwrap().write_all(b"stop").unwrap();
    server.join().unwrap();
}

#[test]
fn other_tools_words_for_tls_mean_the_same() {
    let folder = certified("tools");
    let (Some(redis), Some(memcached)) = (redis(&folder), memcached(&folder, "server")) else {
        return;
    };
    let [ca, certificate, key] = ["ca.pem", "client.pem", "client.key"].map(|name| folder.file(name));
    let port = redis.port.to_string();
    let json = folder.file("out.json");
    let check = |args: &[&str]| {
        let (code, out, err) = run(&[&["load"], args].concat());
        assert!(code == 0 || code == LIMITED, "{args:?} ended with {code}: {out}\n{err}");
        let result = folder.result("out.json");
        assert!(result.figures.counts.answered > 0, "{args:?}: {out}");
        assert_eq!(result.figures.connections.label(), "TLS 1.3", "{args:?}");
        std::fs::remove_file(&json).unwrap();
    };
    let memtier = ["memtier", "--json", &json, "-s", "localhost", "-p", &port, "-t", "1", "-c", "2", "-n", "50"];
    check(&[&memtier[..], &["--tls", "--cert", &certificate, "--key", &key, "--cacert", &ca]].concat());
    let java = ["aerospike", "--json", &json, "--tls-ca", &ca, "--tls-cert", &certificate, "--tls-key", &key];
    let words = ["-h", "127.0.0.1:localhost:6379", "-k", "20", "-o", "S:10", "-b", "2", "-w", "I", "-z", "2", "-tls"];
    let words = words.map(|word| word.replace("6379", &port));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    check(&[&java[..], &words].concat());
    let asbench = ["aerospike", "--json", &json, "-h", "localhost", "-p", &port, "-k", "20", "-w", "I", "-z", "2"];
    let tls = ["--tls-enable", "--tls-cafile", &ca, "--tls-certfile", &certificate, "--tls-keyfile", &key];
    check(&[&asbench[..], &tls].concat());
    let text = format!(
        "[general]\nprotocol = \"memcache\"\n[tls]\nca_file = \"{ca}\"\n[target]\nendpoints = [\"{}\"]\n[connection]\n\
         poolsize = 2\n[request]\nratelimit = 300\n[[keyspace]]\nlength = 4\ncardinality = 100\n\
         commands = [{{ verb = \"get\", weight = 1 }}]\nvalues = [{{ length = 10 }}]\n",
        at(&memcached, "localhost")
    );
    let file = folder.written("rpc.toml", &text);
    check(&["rpc-perf", &file, "--json", &json, "--duration", "500ms"]);
}

#[test]
fn keys_are_copied_over_tls_and_a_wrong_ca_is_reported_immediately() {
    let folder = certified("migrate");
    let (Some(redis), Some(memcached)) = (redis(&folder), memcached(&folder, "server")) else { return };
    let [ca, certificate, key] = ["ca.pem", "client.pem", "client.key"].map(|name| folder.file(name));
    let tls = ["--tls-ca", &ca, "--tls-cert", &certificate, "--tls-key", &key];
    let target = at(&redis, "localhost");
    let stored = ["--target", &target, "--protocol", "resp", "--closed", "--duration", "100ms", "--keys", "300"];
    // The values are longer than a TLS record's 16 KiB, and together exceed a socket's buffer.
    measured(&folder, &[&stored[..], &tls, &["--value-bytes", "60KiB", "--quiet", "--reads", "100%"]].concat());
    let (from, to) = (format!("rediss://{target}"), format!("memcacheds://{}", at(&memcached, "127.0.0.1")));
    let places = ["migrate", "--from", &from, "--to", &to, "--verify", "all"];
    let (code, out, err) = run(&[&places[..], &tls].concat());
    assert_eq!(code, 0, "{out}{err}");
    let done = |what: &str, count: &str| {
        out.lines().any(|line| line.trim_start().starts_with(what) && line.split_whitespace().nth(1) == Some(count))
    };
    assert!(done("copied", "300") && out.contains("verified 300 keys at both ends: all are equal"), "{out}");

    let other = certified("warm-other");
    let (code, _, err) = run(&[&places[..], &["--tls-ca", &other.file("ca.pem")]].concat());
    assert!(code == 1 && err.contains("has signed the server's certificate") && !err.contains("attempt"), "{err}");
    let (code, _, err) = run(&["migrate", "--from", &target, "--to", "h:1", "--tls-ca", &ca]);
    assert!(code == 2 && err.contains("write rediss:// or memcacheds://"), "{err}");
}
