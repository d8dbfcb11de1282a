//! Tests of signed tokens: what they permit, and how they are issued and replaced.

use crate::common::redis::{Replies, addr};
use crate::common::start;
use crate::grpc_client::{Answer, DATA, Grpc, HEADERS, config, frame, headers, item, key, prefixed};
use crate::grpc_topics::{Event, Events, published, subscription};
use command::clients::endpoint::Protocol;
use command::clients::tokens::{Claims, Grant, TokenKey, TokenKind, TokenRole, permissions};
use gannet_server::start::{Running, ServerConfig};
use protocol::grpc::protobuf::{Encoder, Message};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const SECRET: &[u8] = b"a secret key of at least 32 bytes.";

/// Starts a server whose key is known.
pub(crate) fn with_key(config: ServerConfig) -> (Running, TokenKey) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("gannet-token-key-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, SECRET).expect("a file in the temporary folder");
    let running = start(ServerConfig { token_key_file: Some(path.clone()), ..config });
    std::fs::remove_file(path).expect("the file exists");
    (running, TokenKey::new(SECRET).expect("it is long enough"))
}

pub(crate) fn grant(role: TokenRole, cache: Option<&str>, prefix: Option<&str>) -> Option<Grant> {
    Some(Grant { role, cache: cache.map(Into::into), prefix: prefix.map(Into::into) })
}

/// Returns a token that is valid for an hour.
pub(crate) fn token(key: &TokenKey, permissions: Vec<u8>) -> String {
    token_of(key, permissions, b"", 3_600)
}

fn token_of(key: &TokenKey, permissions: Vec<u8>, issuer: &[u8], valid_secs: i64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let claims = Claims {
        id: "ann".into(),
        issuer: issuer.to_vec(),
        issued_secs: now,
        expires_secs: now.saturating_add_signed(valid_secs),
        valid_secs: 3_600,
        kind: TokenKind::Access,
        permissions,
    };
    key.sign(&claims).expect("it is short")
}

/// A connection whose calls have numbers of their own.
struct Calls {
    grpc: Grpc,
    stream: u32,
}

impl Calls {
    fn connect(running: &Running) -> Self {
        Self { grpc: Grpc::connect(running), stream: 1 }
    }

    fn send(&mut self, path: &str, fields: &[(&str, &str)], message: &[u8]) -> u32 {
        self.stream += 2;
        self.grpc.client.send(&frame(HEADERS, 4, self.stream, &headers(path, fields)));
        self.grpc.client.send(&frame(DATA, 1, self.stream, message));
        self.stream
    }

    fn ask(&mut self, method: &str, token: &str, cache: &str, message: &[u8]) -> Answer {
        let fields = [("authorization", token), ("cache", cache)];
        let stream = self.send(method, &fields[..if cache.is_empty() { 1 } else { 2 }], message);
        self.grpc.answers(&[stream]).remove(0)
    }

    fn status(&mut self, method: &str, token: &str, cache: &str, message: &[u8]) -> String {
        self.ask(&format!("/cache_client.Scs/{method}"), token, cache, message).status
    }

    fn issue(&mut self, method: &str, token: &str, message: &[u8]) -> Answer {
        self.ask(method, token, "", message)
    }
}

fn parts(answer: &Answer) -> Message<'_> {
    assert_eq!(answer.status, "0", "{answer:?}");
    Message::parse(&answer.data[5..]).expect("a message")
}

fn text(message: Message<'_>, number: u32) -> String {
    String::from_utf8(message.bytes(number).to_vec()).expect("a text")
}

fn create(calls: &mut Calls, cache: &str) {
    let message = prefixed(|out| {
        out.bytes(1, cache.as_bytes());
    });
    assert_eq!(calls.ask("/control_client.ScsControl/CreateCache", "", "", &message).status, "0");
}

fn increment(name: &str) -> Vec<u8> {
    prefixed(|out| {
        out.bytes(1, name.as_bytes()).uint(2, 1).uint(3, 60_000);
    })
}

#[test]
fn token_permits_what_its_role_says_for_its_cache_and_keys() {
    let (running, secret) = with_key(config());
    let mut calls = Calls::connect(&running);
    create(&mut calls, "shop");
    create(&mut calls, "other");
    let sign = |role, cache, prefix| token(&secret, permissions(Some((grant(role, cache, prefix), None))));
    let (read, write, both) = (
        sign(TokenRole::Read, Some("shop"), None),
        sign(TokenRole::Write, Some("shop"), Some("a*")),
        sign(TokenRole::ReadWrite, None, Some("a")),
    );
    let admin = token(&secret, permissions(None));
    for (method, token, cache, message, status) in [
        ("Set", &admin, "shop", item("a1", b"v"), "0"),
        ("Get", &read, "shop", key("a1"), "0"),
        ("Get", &read, "shop", key("b"), "0"),
        ("Set", &read, "shop", item("a1", b"w"), "7"),
        ("Get", &read, "other", key("a1"), "7"),
        ("Get", &read, "", key("a1"), "7"),
        ("Delete", &read, "shop", key("a1"), "7"),
        ("Increment", &read, "shop", increment("n"), "7"),
        ("Set", &write, "shop", item("a*1", b"w"), "0"),
        ("Set", &write, "shop", item("a1", b"w"), "7"),
        ("Get", &write, "shop", key("a*1"), "7"),
        ("KeysExist", &write, "shop", key("a*1"), "7"),
        ("Increment", &write, "shop", increment("a*n"), "7"),
        ("Set", &both, "other", item("a", b"v"), "0"),
        ("Get", &both, "other", key("a"), "0"),
        ("Get", &both, "other", key("b"), "7"),
        ("Increment", &both, "shop", increment("an"), "0"),
        ("Get", &read, "shop", key("a1"), "0"),
        ("Get", &admin, "other", key("a"), "0"),
    ] {
        assert_eq!(calls.status(method, token, cache, &message), status, "{method} {cache} {message:?}");
    }
    let names = prefixed(|_| {});
    for (token, status) in [(&both, "7"), (&admin, "0")] {
        assert_eq!(calls.ask("/control_client.ScsControl/ListCaches", token, "", &names).status, status);
    }
    running.stop();
}

#[test]
fn caller_without_the_right_does_not_learn_which_caches_exist() {
    let (running, secret) = with_key(config());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    for rules in ["limited on >pw ~* &* +@all ns=shop", "reader on >pw ~* &* +get", "flusher on >pw ~* &* +flushdb"] {
        redis.text(&format!("ACL SETUSER {rules}"));
    }
    let mut calls = Calls::connect(&running);
    create(&mut calls, "shop");
    create(&mut calls, "other");
    let token = token(&secret, permissions(Some((grant(TokenRole::ReadWrite, None, None), None))));
    let admin = self::token(&secret, permissions(None));
    assert_eq!(calls.status("Set", &admin, "other", &item("k", b"v")), "0");
    let mut ask = |method: &str, token: &str, name: &str| {
        let answer = calls.ask(&format!("/control_client.ScsControl/{method}"), token, "", &key(name));
        (answer.status, answer.text)
    };
    for (method, callers) in [
        ("DeleteCache", vec![&token[..], "limited:pw", "reader:pw", "flusher:pw", "limited:wrong"]),
        ("FlushCache", vec![&token[..], "limited:pw", "reader:pw", "limited:wrong"]),
        ("CreateCache", vec![&token[..], "reader:pw", "flusher:pw", "limited:wrong"]),
    ] {
        for caller in callers {
            let (there, missing) = (ask(method, caller, "other"), ask(method, caller, "none"));
            assert_eq!(there, missing, "{method} by {caller}");
            let status = if caller == "limited:wrong" { "16" } else { "7" };
            assert_eq!(there.0, status, "{method} by {caller}: {}", there.1);
        }
    }
    for (method, caller, name, status) in [
        ("FlushCache", "limited:pw", "shop", "0"),
        ("DeleteCache", "limited:pw", "shop", "0"),
        ("DeleteCache", &admin, "none", "5"),
        ("FlushCache", &admin, "none", "5"),
        ("CreateCache", &admin, "other", "6"),
        ("FlushCache", &admin, "9", "0"),
        ("FlushCache", &admin, "99", "5"),
        ("CreateCache", &admin, "9", "3"),
        ("DeleteCache", &admin, "9", "3"),
    ] {
        assert_eq!(ask(method, caller, name).0, status, "{method} {name} by {caller}");
    }
    assert_eq!(calls.status("Get", &admin, "other", &key("k")), "0");
    assert!(calls.ask("/cache_client.Scs/Get", &admin, "other", &key("k")).value().is_some(), "nothing was deleted");
    running.stop();
}

/// Returns a call of each kind in a cache: its path, the cache for the header, and its message.
fn calls_in(cache: &str) -> Vec<(&'static str, &str, Vec<u8>)> {
    let topic = |out: &mut Encoder| {
        out.bytes(1, cache.as_bytes()).bytes(2, b"t");
    };
    let get_batch = prefixed(|out| {
        out.message(1, |get| {
            get.bytes(1, b"k");
        });
    });
    let dictionary_set = prefixed(|out| {
        out.bytes(1, b"d").message(2, |pair| {
            pair.bytes(1, b"f").bytes(2, b"v");
        });
        out.uint(3, 60_000);
    });
    let publish = prefixed(|out| {
        topic(out);
        out.message(3, |value| {
            value.bytes(1, b"v");
        });
    });
    vec![
        ("/cache_client.Scs/Get", cache, key("k")),
        ("/cache_client.Scs/Set", cache, item("k", b"v")),
        ("/cache_client.Scs/Increment", cache, increment("n")),
        ("/cache_client.Scs/GetBatch", cache, get_batch),
        ("/cache_client.Scs/DictionarySet", cache, dictionary_set),
        ("/gannet.v1.Invalidations/WatchKeys", cache, prefixed(|_| {})),
        ("/gannet.v1.Topics/Publish", "", publish),
        ("/gannet.v1.Topics/Subscribe", "", prefixed(topic)),
    ]
}

/// Regression: a call without a token in a cache that does not exist got NOT_FOUND.
#[test]
fn call_without_the_right_to_a_cache_gets_the_same_if_the_cache_does_not_exist() {
    let (running, secret) = with_key(config());
    let mut calls = Calls::connect(&running);
    create(&mut calls, "shop");
    create(&mut calls, "other");
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    for line in ["ACL SETUSER limited on >pw ~* &* +@all ns=shop", "ACL SETUSER default on >secret"] {
        assert_eq!(redis.text(line), "+OK");
    }
    let of_all = grant(TokenRole::ReadWrite, None, None);
    let all = token(&secret, permissions(Some((of_all.clone(), of_all))));
    let reader = token(&secret, permissions(Some((grant(TokenRole::Read, Some("shop"), None), None))));
    for caller in ["", "wrong", "limited:pw", &reader] {
        // Further wrong passwords are delayed.
        let count = if caller == "wrong" { 1 } else { usize::MAX };
        for (there, missing) in calls_in("other").into_iter().zip(calls_in("none")).take(count) {
            let path = there.0;
            let [there, missing] = [there, missing].map(|(path, cache, message)| {
                let answer = calls.ask(path, caller, cache, &message);
                (answer.status, answer.text)
            });
            assert_eq!(there, missing, "{path} by {caller}");
            assert!(["7", "16"].contains(&&there.0[..]), "{path} by {caller}: {there:?}");
        }
    }
    let admin = token(&secret, permissions(None));
    for caller in ["secret", &all, &admin] {
        for (path, cache, message) in calls_in("none") {
            let answer = calls.ask(path, caller, cache, &message);
            assert_eq!(answer.status, "5", "{path} by {caller}: {}", answer.text);
        }
    }
    running.stop();
}

#[test]
fn plain_calls_with_different_tokens_never_share_rights() {
    let (running, secret) = with_key(config());
    let mut calls = Calls::connect(&running);
    create(&mut calls, "shop");
    let read = token(&secret, permissions(Some((grant(TokenRole::Read, Some("shop"), None), None))));
    let admin = token(&secret, permissions(None));
    let streams: Vec<u32> = (0..40)
        .map(|at| {
            let fields = [("authorization", if at % 2 == 0 { &read[..] } else { &admin }), ("cache", "shop")];
            calls.send("/cache_client.Scs/Set", &fields, &item("k", b"v"))
        })
        .collect();
    let answers = calls.grpc.answers(&streams);
    for (at, answer) in answers.iter().enumerate() {
        assert_eq!(answer.status, if at % 2 == 0 { "7" } else { "0" }, "{at}");
    }
    // The rights of one cache are not those of another one in the same batch.
    let caches = ["shop", "", "shop"];
    let streams = caches.map(|cache| {
        let fields = [("authorization", &read[..]), ("cache", cache)];
        calls.send("/cache_client.Scs/Get", &fields[..if cache.is_empty() { 1 } else { 2 }], &key("k"))
    });
    let statuses = calls.grpc.answers(&streams).into_iter().map(|answer| answer.status);
    assert_eq!(statuses.collect::<Vec<_>>(), ["0", "7", "0"]);
    running.stop();
}

#[test]
fn token_that_is_expired_forged_or_of_a_removed_issuer_is_refused() {
    let (running, secret) = with_key(config());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    redis.text("ACL SETUSER boss on >pw ~* &* +@all");
    let mut calls = Calls::connect(&running);
    let admin = permissions(None);
    let valid = token_of(&secret, admin.clone(), b"boss", 60);
    let expired = token_of(&secret, admin.clone(), b"", -1);
    let other = TokenKey::new(b"another secret key of over 32 bytes").expect("it is long enough");
    let forged = token(&other, admin);
    let unsigned = format!("gannet1.{}", "A".repeat(40));
    for (token, status) in [(&valid, "0"), (&expired, "16"), (&forged, "16"), (&unsigned, "16"), (&valid, "0")] {
        let answer = calls.ask("/cache_client.Scs/Get", token, "", &key("k"));
        assert_eq!(answer.status, status, "{answer:?}");
    }
    redis.text("ACL DELUSER boss");
    assert_eq!(calls.status("Get", &valid, "", &key("k")), "16");
    running.stop();
}

/// Regression: the removal of the user of a connection's last call closed the connection, also for the calls of others.
#[test]
fn removal_of_a_user_ends_no_connection_that_others_use() {
    let running = start(config());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    redis.text("ACL SETUSER ann on >pw ~* +@all");
    redis.text("ACL SETUSER bob on >pw ~* +@all");
    redis.text("ACL SETUSER default resetpass");
    let mut calls = Calls::connect(&running);
    assert_eq!(calls.status("Get", "ann:pw", "", &key("k")), "0");
    redis.text("ACL DELUSER ann");
    // A worker looks for connections without a user several times a second.
    std::thread::sleep(std::time::Duration::from_secs(2));
    for (token, status) in [("bob:pw", "0"), ("ann:pw", "16"), ("bob:pw", "0")] {
        assert_eq!(calls.status("Get", token, "", &key("k")), status, "{token}");
    }
    running.stop();
}

#[test]
fn only_users_with_all_rights_issue_tokens_and_refresh_replaces_them() {
    let (running, secret) = with_key(config());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    redis.text("ACL SETUSER boss on >pw ~* &* +@all");
    redis.text("ACL SETUSER ann on >pw ~* &* +@all ns=shop");
    redis.text("ACL SETUSER default resetpass");
    let mut calls = Calls::connect(&running);
    let request = |secs: u64, permissions: &[u8]| {
        prefixed(|out| {
            out.message(2, |expires| {
                expires.uint(1, secs);
            });
            out.bytes(4, permissions).bytes(5, b"service");
        })
    };
    let read = permissions(Some((grant(TokenRole::Read, None, None), None)));
    let generate = "/auth.Auth/GenerateApiToken";
    for (token, status) in [("ann:pw", "7"), ("", "16"), ("boss:wrong", "16")] {
        assert_eq!(calls.issue(generate, token, &request(60, &read)).status, status, "{token}");
    }
    for (message, status) in [(request(0, &read), "3"), (request(60, b""), "3"), (request(u64::MAX / 2, &read), "3")] {
        assert_eq!(calls.issue(generate, "boss:pw", &message).status, status);
    }
    let answer = calls.issue(generate, "boss:pw", &request(60, &read));
    let (access, refresh) = (text(parts(&answer), 1), text(parts(&answer), 2));
    assert!(parts(&answer).uint(4) > 1_700_000_000);
    assert_eq!(calls.status("Get", &access, "", &key("k")), "0");
    assert_eq!(calls.status("Set", &access, "", &item("k", b"v")), "7");
    assert_eq!(calls.status("Get", &refresh, "", &key("k")), "16", "a refresh token is no token");
    assert_eq!(calls.issue(generate, &access, &request(60, &read)).status, "7", "it has no such right");
    let pair = |access: &str, refresh: &str| {
        prefixed(|out| {
            out.bytes(1, access.as_bytes()).bytes(2, refresh.as_bytes());
        })
    };
    let replace = "/auth.Auth/RefreshApiToken";
    let answer = calls.issue(replace, "", &pair(&access, &refresh));
    assert_eq!(calls.status("Get", &text(parts(&answer), 1), "", &key("k")), "0");
    let stranger = token(&secret, read.clone());
    for (access, refresh) in [(&stranger, &refresh), (&access, &access), (&refresh, &refresh)] {
        assert_eq!(calls.issue(replace, "", &pair(access, refresh)).status, "16");
    }
    for (access, refresh, text) in [
        (&access[..], "", "the request has no refresh token; pass the token and its refresh token"),
        ("", &refresh[..], "the request has no token; pass the token and its refresh token"),
        (&access, "a.b", "the refresh token was not signed with this server's key (listen.token_key); get a new token"),
        ("a.b", &refresh, "the token was not signed with this server's key (listen.token_key); get a new token"),
    ] {
        let answer = calls.issue(replace, "", &pair(access, refresh));
        assert_eq!((&answer.status[..], &answer.text[..]), ("16", text));
    }
    let disposable = prefixed(|out| {
        out.message(1, |expires| {
            expires.uint(1, 60);
        });
        out.bytes(2, b"boss:pw").bytes(3, &read);
    });
    // The caller's token is in the message, as published clients send it.
    let answer = calls.grpc.answer(calls.stream + 2, "/token.Token/GenerateDisposableToken", &disposable);
    calls.stream += 2;
    assert_eq!(calls.status("Get", &text(parts(&answer), 1), "", &key("k")), "0");
    running.stop();
}

#[test]
fn token_of_topics_permits_one_direction_and_names_the_publisher() {
    let (running, secret) = with_key(config());
    let sign = |role, prefix| token(&secret, permissions(Some((None, grant(role, None, Some(prefix))))));
    let (publisher, subscriber) = (sign(TokenRole::Write, "t"), sign(TokenRole::Read, "t"));
    let (mut calls, mut other) = (Calls::connect(&running), Calls::connect(&running));
    let (subscribe, publish) = ("/cache_client.pubsub.Pubsub/Subscribe", "/cache_client.pubsub.Pubsub/Publish");
    let refused = [(&publisher, "t1"), (&subscriber, "u1")].map(|(token, topic)| {
        let stream = calls.send(subscribe, &[("authorization", token)], &subscription(topic, 0, 0));
        calls.grpc.answers(&[stream]).remove(0).status
    });
    assert_eq!(refused, ["7", "7"]);
    let stream = calls.send(subscribe, &[("authorization", &subscriber)], &subscription("t1", 0, 0));
    let mut events = Events::of(stream);
    assert_eq!(events.next_of_any(&mut calls.grpc), Event::Heartbeat);
    for (token, topic, status) in [(&subscriber, "t1", "7"), (&publisher, "u1", "7"), (&publisher, "t1", "0")] {
        assert_eq!(other.ask(publish, token, "", &published(topic, b"v", true)).status, status, "{topic}");
    }
    assert_eq!(events.next(&mut calls.grpc), Event::Item(1, true, b"v".to_vec(), "ann".into()));
    assert_eq!(calls.status("Get", &subscriber, "", &key("k")), "7");
    running.stop();
}

/// Returns the statuses of gets that are sent at once, each with a token and in a cache.
fn burst(calls: &mut Calls, gets: &[(&str, &str)]) -> Vec<String> {
    let send = |(token, cache): &(&str, &str)| {
        let fields = [("authorization", *token), ("cache", *cache)];
        calls.send("/cache_client.Scs/Get", &fields, &key("k"))
    };
    let streams: Vec<u32> = gets.iter().map(send).collect();
    calls.grpc.answers(&streams).into_iter().map(|answer| answer.status).collect()
}

#[test]
fn token_that_was_accepted_is_refused_once_it_expires_or_its_issuer_is_removed() {
    let (running, secret) = with_key(config());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    redis.text("ACL SETUSER boss on >pw ~* &* +@all");
    let mut calls = Calls::connect(&running);
    create(&mut calls, "shop");
    let lasting = token_of(&secret, permissions(None), b"boss", 60);
    let brief = token_of(&secret, permissions(None), b"", 2);
    // The calls of a burst are executed together, also if their tokens alternate.
    let mixed = [(&brief[..], "shop"), (&lasting, "shop"), (&brief, "shop"), (&brief, "shop")];
    assert_eq!(burst(&mut calls, &mixed), ["0"; 4]);
    assert_eq!(burst(&mut calls, &[(&brief, "shop"), (&brief, "shop")]), ["0"; 2]);
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    assert_eq!(burst(&mut calls, &[(&brief, "shop"), (&brief, "shop")]), ["16"; 2]);
    assert_eq!(burst(&mut calls, &mixed), ["16", "0", "16", "16"]);
    assert_eq!(burst(&mut calls, &[(&lasting, "shop"), (&lasting, "shop")]), ["0"; 2]);
    redis.text("ACL DELUSER boss");
    assert_eq!(burst(&mut calls, &[(&lasting, "shop"), (&lasting, "shop")]), ["16"; 2]);
    running.stop();
}

#[test]
fn rights_to_a_cache_are_not_those_to_the_next_cache_with_its_number() {
    let (running, secret) = with_key(config());
    let mut calls = Calls::connect(&running);
    let of_shop = token(&secret, permissions(Some((grant(TokenRole::ReadWrite, Some("shop"), None), None))));
    let name = |cache: &str| {
        prefixed(|out| {
            out.bytes(1, cache.as_bytes());
        })
    };
    for round in 0..3 {
        create(&mut calls, "shop");
        assert_eq!(burst(&mut calls, &[(&of_shop, "shop"), (&of_shop, "shop")]), ["0"; 2], "{round}");
        assert_eq!(calls.status("Set", &of_shop, "shop", &item("k", b"v")), "0");
        assert_eq!(calls.ask("/control_client.ScsControl/DeleteCache", "", "", &name("shop")).status, "0");
        assert_eq!(burst(&mut calls, &[(&of_shop, "shop"), (&of_shop, "shop")]), ["5"; 2], "{round}");
        // The lowest free number is that of the deleted cache.
        create(&mut calls, "other");
        assert_eq!(burst(&mut calls, &[(&of_shop, "other"), (&of_shop, "other")]), ["7"; 2], "{round}");
        assert_eq!(calls.status("Set", &of_shop, "other", &item("k", b"v")), "7");
        assert_eq!(calls.ask("/control_client.ScsControl/DeleteCache", "", "", &name("other")).status, "0");
    }
    running.stop();
}

#[test]
fn each_permission_of_a_token_holds_for_its_own_keys() {
    let (running, secret) = with_key(config());
    let mut calls = Calls::connect(&running);
    let mut mixed = Encoder::new();
    mixed.message(2, |explicit| {
        for (role, prefix) in [(TokenRole::Read, "r:"), (TokenRole::Write, "w:"), (TokenRole::ReadWrite, "b:")] {
            explicit.message(1, |one| {
                one.message(1, |permission| {
                    permission.uint(1, role as u64).message(2, |_| {}).message(5, |selector| {
                        selector.item(2, prefix.as_bytes());
                    });
                });
            });
        }
    });
    let mixed = token(&secret, mixed.as_slice().to_vec());
    for (name, get, set) in [("r:k", "0", "7"), ("w:k", "7", "0"), ("b:k", "0", "0"), ("k", "7", "7")] {
        assert_eq!(calls.status("Get", &mixed, "", &key(name)), get, "{name}");
        assert_eq!(calls.status("Set", &mixed, "", &item(name, b"v")), set, "{name}");
        let change = if name == "b:k" { "9" } else { "7" };
        assert_eq!(calls.status("Increment", &mixed, "", &increment(name)), change, "{name}: no number");
    }
    running.stop();
}
