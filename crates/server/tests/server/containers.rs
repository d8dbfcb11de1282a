//! Tests of commands whose first argument is a subcommand: their errors and `HELP`, beside Debian's Redis.

use crate::common::redis::{Redis, Replies, both, resp};
use crate::common::start;
use command::resp::subcommands::{SUBCOMMANDS, Subcommand};
use gannet_server::start::ServerConfig;

/// Returns the containers.
fn containers() -> Vec<&'static str> {
    let mut names: Vec<&str> = SUBCOMMANDS.iter().filter_map(|part| Some(part.name.split_once('|')?.0)).collect();
    names.dedup();
    names
}

/// Returns a request of `count` words.
fn of_words(part: &Subcommand, count: usize) -> String {
    let mut words: Vec<&str> = part.name.split('|').collect();
    words.resize(count, "x");
    words.join(" ").to_uppercase()
}

#[test]
fn wrong_words_of_every_subcommand_get_the_errors_of_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let (mut lines, mut compared) = (Vec::new(), 0);
    for part in SUBCOMMANDS {
        let count = usize::from(part.arity.unsigned_abs());
        lines.extend((part.arity > 0).then(|| of_words(part, count + 1)));
        lines.extend((count > 2).then(|| of_words(part, count - 1)));
    }
    for container in containers() {
        lines.extend([format!("{container} nosuch"), format!("{container} Nosuch x"), container.to_owned()]);
    }
    lines.retain(|line| line != "command");
    lines.extend(
        ["AUTH a b c", "AUTH a b c d", "PUBSUB CHANNELS a b", "ACL CAT a b", "SLOWLOG GET 1 2"].map(str::to_owned),
    );
    // A refused request aborts the transaction.
    lines.extend(["MULTI", "CLIENT NOSUCH", "EXEC", "MULTI", "CLIENT ID x", "EXEC"].map(str::to_owned));
    for line in lines {
        let (ours, theirs) = (ours.text(&line), theirs.text(&line));
        // Redis 7.0 does not know some subcommands of later versions and of this server.
        let is_known = !theirs.starts_with("-ERR unknown subcommand") || line.to_lowercase().contains("such");
        if is_known || line.contains("CHANNELS a b") {
            assert_eq!(ours, theirs, "{line}");
            compared += 1;
        }
    }
    assert!(compared > 80, "{compared} lines compared");
    running.stop();
}

#[test]
fn help_lists_every_supported_subcommand_in_the_form_of_redis() {
    let (redis, running) = (Redis::start(), start(ServerConfig { debug_command: true, ..both() }));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    for container in containers() {
        let line = format!("{container} help");
        let [ours, theirs] = [&mut ours, &mut theirs]
            .map(|client| String::from_utf8(client.ask(&[container.as_bytes(), b"help"])).expect("text"));
        let lines = |all: &str| all.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        let (ours, theirs) = (lines(&ours), lines(&theirs));
        assert_eq!(ours[0], theirs[0], "{line}");
        assert_eq!(ours[ours.len() - 2..], theirs[theirs.len() - 2..], "{line}");
        assert!(ours.iter().all(|line| line.starts_with('+')), "{ours:?}");
        for part in SUBCOMMANDS.iter().filter(|part| part.name.starts_with(&format!("{container}|"))) {
            let word = part.name.split('|').nth(1).expect("a subcommand").to_uppercase();
            let is_listed = ours.iter().any(|line| line[1..].split(' ').next() == Some(&word));
            assert_eq!(is_listed, !part.help.is_empty(), "{}", part.name);
        }
    }
    assert!(ours.text("DEBUG HELP").starts_with("*5 +DEBUG <subcommand>"));
    // Redis has it and this server does not: the error is not that of an old server.
    assert_eq!(ours.text("CLIENT TRACKING ON"), "-ERR command 'CLIENT|TRACKING' is not supported by this server");
    running.stop();
}
