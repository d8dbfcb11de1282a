//! Compares the generator with other generators: equal requests to the same server, measured by the server's counters.

use std::process::{Command, Output, Stdio};

use super::common::{Server, Where, load, since, workload};

const REQUESTS: u64 = 4_000;

fn succeeds(command: &mut Command) {
    let output: Output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn as_many_requests_as_redis_benchmark_sends_are_as_many_to_the_server() {
    let server = Server::redis(Where::Tcp, &[]);
    let port = server.target.rsplit(':').next().expect("HOST:PORT");
    for (verb, counter) in [("set", "set.calls"), ("get", "get.calls")] {
        let text = format!(
            "protocol = \"resp\"\n[connections]\ncount = 10\ndepth = 4\n[[keys]]\ncount = 100000\nprefix = \"key:\"\n\
             verbs = [{{ verb = \"{verb}\" }}]\n"
        );
        let before = server.counts();
        let args = ["-h", "127.0.0.1", "-p", port, "-t", verb, "-c", "10", "-P", "4", "-r", "100000", "-q", "-n"];
        succeeds(Command::new("redis-benchmark").args(args).arg(REQUESTS.to_string()));
        let between = server.counts();
        assert_eq!(since(&before, &between)(counter), REQUESTS, "{verb}: redis-benchmark");
        let outcome = load(&workload(&text, &[&server]), REQUESTS);
        let ours = since(&between, &server.counts());
        assert_eq!((ours(counter), outcome.all(verb)), (REQUESTS, REQUESTS), "{verb}");
        let found = (ours("keyspace_hits"), ours("keyspace_misses"));
        assert_eq!(found, (outcome.of("get hit"), outcome.of("get miss")), "the keys are those of redis-benchmark");
        assert!(verb == "set" || found.0 > REQUESTS / 100, "some keys were stored by either generator: {found:?}");
    }
}

#[test]
fn as_many_requests_as_memcaslap_sends_are_as_many_to_the_server() {
    let server = Server::memcached(Where::Tcp, &[]);
    let before = server.counts();
    let args = ["-s", &server.target, "-T", "1", "-c", "8", "-w", "1k", "-x"];
    succeeds(Command::new("memcaslap").args(args).arg(REQUESTS.to_string()));
    let between = server.counts();
    let theirs = since(&before, &between);
    // memcaslap first stores the keys of every connection's window, then sends nine gets per set.
    assert!(theirs("cmd_get") > 0 && theirs("cmd_get") <= REQUESTS + 64, "{}", theirs("cmd_get"));
    let text = "protocol = \"memcache\"\nverify = true\n[connections]\ncount = 8\n[[keys]]\ncount = 8192\n\
                key_bytes = \"64B\"\nvalue_bytes = \"1KiB\"\n\
                verbs = [{ verb = \"set\", weight = 1 }, { verb = \"get\", weight = 9 }]\n";
    let outcome = load(&workload(text, &[&server]), REQUESTS);
    let ours = since(&between, &server.counts());
    assert_eq!((ours("cmd_get"), ours("cmd_set")), (outcome.all("get"), outcome.all("set")));
    assert_eq!(ours("cmd_get") + ours("cmd_set"), REQUESTS);
    assert_eq!((ours("get_hits"), outcome.run.bulk.totals.wrong), (outcome.of("get hit"), 0));
}
