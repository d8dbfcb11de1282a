//! Tests of libraries of functions (`FUNCTION`, `FCALL`): comparisons of replies with Debian's Redis, dumps, restarts.

use crate::common::redis::{Redis, Replies, both, resp, running};
use crate::common::start;
use crate::scripts::show;
use gannet_server::start::ServerConfig;

/// Texts of libraries, most of them invalid, without their first lines.
const LIBRARY_TEXTS: &[&str] = &[
    "return 1",
    "x y",
    "redis.call('get', 'x')",
    "redis.register_function('f1', function() end)",
    "redis.register_function('g-1', function() end)",
    "redis.register_function('g1')",
    "redis.register_function('g1', 1)",
    "redis.register_function()",
    "redis.register_function{}",
    "redis.register_function{function_name='x'}",
    "redis.register_function{callback=function() end}",
    "redis.register_function{function_name='x', callback=1}",
    "redis.register_function{function_name='x', callback=function() end, foo=1}",
    "redis.register_function{function_name='x', callback=function() end, flags={'x'}}",
    "redis.register_function{function_name='x', callback=function() end, flags=1}",
    "redis.register_function{function_name={}, callback=function() end}",
    "redis.register_function{[1]='x', callback=function() end}",
    "redis.register_function('g1', function() end) redis.register_function('g1', function() end)",
    "x = 1",
    "local a = KEYS",
    "local a = redis.pcall",
    "redis.register_function('a', function() end, 3)",
    "redis.register_function('', function() end)",
    "local t = {} t.x()",
    "while true do end",
];

/// A library whose functions have all properties.
const LIBRARY: &str = "#!lua name=lib1\nlocal n = 0\n\
    redis.register_function('f1', function(keys, args) return {keys[1], args[1], #keys, #args} end)\n\
    redis.register_function{function_name='f2', callback=function(keys, args) n = n + 1 \
    return redis.call('set', keys[1], n) end, description='a text'}\n\
    redis.register_function{function_name='f3', callback=function(keys) return redis.call('get', keys[1]) end, \
    flags={'no-writes'}}\n\
    redis.register_function('f4', function() return redis.call('nope') end)\n\
    redis.register_function('f5', function()\n error('y') end)\n\
    redis.register_function('f6', function() x = 1 end)\n\
    redis.register_function('f7', function() return redis.register_function end)\n\
    redis.register_function('f8', function() return KEYS end)\n\
    redis.register_function{function_name='f9', callback=function(keys) return redis.call('set', keys[1], 1) end, \
    flags={'no-writes'}}";

#[test]
fn functions_reply_as_those_of_redis() {
    let (redis, server) = (Redis::start(), running());
    let (mut ours, mut theirs) = (resp(&server), Replies::connect(redis.addr));
    let mut wrong = Vec::new();
    let mut compare = |words: &[&[u8]]| {
        let (ours, theirs) = (ours.ask(words), theirs.ask(words));
        if ours != theirs {
            let words = show(&words.join(&b' '));
            wrong.push(format!("{words}\n  ours   {}\n  theirs {}", show(&ours), show(&theirs)));
        }
    };
    compare(&[b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]);
    for line in [
        "FCALL f1 1 k a",
        "FCALL f2 1 k",
        "FCALL F2 1 k",
        "FCALL F4 0",
        "FCALL f3 1 k",
        "FCALL_RO f3 1 k",
        "FCALL_RO f2 1 k",
        "FCALL f4 0",
        "FCALL f5 0",
        "FCALL f6 0",
        "FCALL f7 0",
        "FCALL f8 0",
        "FCALL f9 1 k",
        "FCALL none 0",
        "FCALL f1 x",
        "FCALL f1 -1",
        "FCALL f1 5 a",
        "FUNCTION LIST x",
        "FUNCTION LIST LIBRARYNAME",
        "FUNCTION LIST LIBRARYNAME none",
        "FUNCTION LIST LIBRARYNAME a LIBRARYNAME b",
        "FUNCTION LIST WITHCODE WITHCODE",
        "FUNCTION STATS",
        "FUNCTION DELETE none",
        "FUNCTION FLUSH x",
        "FUNCTION RESTORE xx",
        "FUNCTION RESTORE abcdefghijklmnop",
        "FUNCTION RESTORE x FOO",
        "FUNCTION LOAD",
        "FUNCTION KILL",
        "MULTI",
        "FCALL f1 1 k b",
        "FCALL f4 0",
        "EXEC",
    ] {
        compare(&crate::common::redis::words(line));
    }
    compare(&[b"FUNCTION", b"LOAD", LIBRARY.as_bytes()]);
    compare(&[b"FUNCTION", b"LOAD", b"REPLACE", LIBRARY.as_bytes()]);
    compare(&[b"FUNCTION", b"LOAD", b"replace", b"x", LIBRARY.as_bytes()]);
    compare(&[b"EVAL", b"return redis.register_function", b"0"]);
    let heads = [
        "no",
        "#!lua\n",
        "#!lua name=a b\n",
        "#!lua name=a-b\n",
        "#!lua name=\n",
        "#!js name=a\n",
        "#!lua name=l x=y\n",
        "#!lua name=l name=m\n",
    ];
    heads.iter().for_each(|head| compare(&[b"FUNCTION", b"LOAD", head.as_bytes()]));
    for text in LIBRARY_TEXTS {
        compare(&[b"FUNCTION", b"LOAD", format!("#!lua name=lib2\n{text}").as_bytes()]);
    }
    compare(&[b"FUNCTION", b"FLUSH", b"SYNC"]);
    compare(&[
        b"FUNCTION",
        b"LOAD",
        b"#!lua name=one\nredis.register_function{function_name='only', \
              callback=function() end, description='d', flags={'no-writes', 'allow-oom'}}",
    ]);
    compare(&[b"FUNCTION", b"LIST", b"WITHCODE", b"LIBRARYNAME", b"o*"]);
    let dump = bulk(&theirs.ask(&[b"FUNCTION", b"DUMP"]));
    let mut compare = |words: &[&[u8]]| assert_eq!(show(&ours.ask(words)), show(&theirs.ask(words)));
    compare(&[b"FUNCTION", b"RESTORE", &dump]);
    compare(&[b"FUNCTION", b"RESTORE", &dump, b"APPEND"]);
    compare(&[b"FUNCTION", b"LOAD", b"#!lua name=ONE\nredis.register_function('Only', function() end)"]);
    compare(&[b"FUNCTION", b"DELETE", b"one"]);
    compare(&[b"FUNCTION", b"LOAD", b"#!lua name=two\nredis.register_function('Only', function() end)"]);
    compare(&[b"FCALL", b"oNLY", b"0"]);
    compare(&[b"FUNCTION", b"RESTORE", &dump]);
    compare(&[b"FUNCTION", b"RESTORE", &dump, b"REPLACE"]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    server.stop();
}

/// Returns the bytes of a bulk reply.
fn bulk(reply: &[u8]) -> Vec<u8> {
    let start = reply.windows(2).position(|pair| pair == b"\r\n").expect("a bulk string") + 2;
    reply[start..reply.len() - 2].to_vec()
}

#[test]
fn dumps_of_functions_are_restored_by_the_other_server() {
    let (redis, server) = (Redis::start(), running());
    let (mut ours, mut theirs) = (resp(&server), Replies::connect(redis.addr));
    let second =
        format!("#!lua name=lib2\n{}redis.register_function('h', function() return 'h' end)", "-- x\n".repeat(99));
    for text in [LIBRARY, &second] {
        ours.ask(&[b"FUNCTION", b"LOAD", text.as_bytes()]);
    }
    let dump = bulk(&ours.ask(&[b"FUNCTION", b"DUMP"]));
    assert_eq!(theirs.ask(&[b"FUNCTION", b"RESTORE", &dump]), b"+OK\r\n");
    assert_eq!(theirs.ask(&[b"FCALL", b"h", b"0"]), b"$1\r\nh\r\n");
    // The other server compresses.
    let dump = bulk(&theirs.ask(&[b"FUNCTION", b"DUMP"]));
    assert!(dump.len() < second.len(), "{} bytes", dump.len());
    assert!(show(&ours.ask(&[b"FUNCTION", b"RESTORE", &dump])).contains("already exists"));
    assert_eq!(ours.ask(&[b"FUNCTION", b"RESTORE", &dump, b"REPLACE"]), b"+OK\r\n");
    assert_eq!(ours.ask(&[b"FUNCTION", b"RESTORE", &dump, b"FLUSH"]), b"+OK\r\n");
    assert_eq!(ours.ask(&[b"FCALL", b"h", b"0"]), b"$1\r\nh\r\n");
    let damaged = [&dump[..9], b"x", &dump[10..]].concat();
    assert!(ours.ask(&[b"FUNCTION", b"RESTORE", &damaged, b"FLUSH"]).starts_with(b"-ERR DUMP payload"));
    assert_eq!(ours.ask(&[b"FCALL", b"h", b"0"]), b"$1\r\nh\r\n");
    server.stop();
}

/// Each library alone takes less than the limit of one library. Others waited for the sum of all of them.
#[test]
fn the_restoring_of_many_slow_libraries_is_given_up() {
    let server = start(both());
    let mut client = resp(&server);
    let load = |client: &mut Replies, number: u32, rounds: u32| {
        let text = format!(
            "#!lua name=l{number}\nfor i = 1, {rounds} do end redis.register_function('f{number}', function() end)"
        );
        assert!(client.ask(&[b"FUNCTION", b"LOAD", text.as_bytes()]).starts_with(b"$"), "{text}");
    };
    for (rounds, count, is_restored) in [(1, 100, true), (500_000, 30, false)] {
        (0..count).for_each(|number| load(&mut client, number, rounds));
        let dump = bulk(&client.ask(&[b"FUNCTION", b"DUMP"]));
        assert_eq!(client.ask(&[b"FUNCTION", b"FLUSH"]), b"+OK\r\n");
        let reply = client.ask(&[b"FUNCTION", b"RESTORE", &dump]);
        let want: &[u8] =
            if is_restored { b"+OK" } else { b"-ERR Error registering functions: ERR FUNCTION LOAD timeout" };
        assert!(reply.starts_with(want), "{}", show(&reply));
        assert_eq!(client.ask(&[b"FCALL", b"f1", b"0"]).starts_with(b"-"), !is_restored);
        assert_eq!(client.ask(&[b"FUNCTION", b"FLUSH"]), b"+OK\r\n");
    }
    server.stop();
}

#[test]
fn functions_survive_a_restart_with_a_memory_file() {
    let path = std::env::temp_dir().join(format!("gannet-functions-{}", std::process::id()));
    let config = || ServerConfig { file: Some(path.clone()), ..both() };
    let server = start(config());
    let mut client = resp(&server);
    for name in ["kept", "removed"] {
        let text = format!("#!lua name={name}\nredis.register_function('{name}', function() return 1 end)");
        assert!(client.ask(&[b"FUNCTION", b"LOAD", text.as_bytes()]).starts_with(b"$"));
    }
    assert_eq!(client.ask(&[b"FUNCTION", b"DELETE", b"removed"]), b"+OK\r\n");
    server.stop();
    for _ in 0..2 {
        let server = start(config());
        let mut client = resp(&server);
        assert_eq!(client.ask(&[b"FCALL", b"kept", b"0"]), b":1\r\n");
        assert_eq!(client.ask(&[b"FCALL", b"removed", b"0"]), b"-ERR Function not found\r\n");
        server.stop();
    }
    let _ = std::fs::remove_file(&path);
}
