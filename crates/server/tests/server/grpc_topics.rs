//! Tests of topics, leaderboards and the faults of tests.

use crate::common::redis::{Replies, addr};
use crate::common::start;
use crate::grpc_client::{Answer, DATA, Grpc, HEADERS, RST_STREAM, call, config, frame, headers, item, key, prefixed};
use command::clients::endpoint::Protocol;
use gannet_server::start::ServerConfig;
use protocol::grpc::protobuf::{Encoder, Message};
use protocol::http2::FieldName;
use protocol::http2::hpack::FieldList;
use std::time::{Duration, Instant};

const PUBLISH: &str = "/cache_client.pubsub.Pubsub/Publish";
const SUBSCRIBE: &str = "/cache_client.pubsub.Pubsub/Subscribe";
const SUBSCRIBE_OF_GANNET: &str = "/gannet.v1.Topics/Subscribe";

/// A message of a subscription, or its end.
#[derive(Debug, PartialEq)]
pub(crate) enum Event {
    Heartbeat,
    /// A text or binary value with its sequence number, and the id of its publisher.
    Item(u64, bool, Vec<u8>, String),
    /// The last number before a gap, and the number after it.
    Gap(u64, u64),
    /// The status with which the stream ended.
    End(String),
}

pub(crate) fn published(topic: &str, value: &[u8], is_text: bool) -> Vec<u8> {
    prefixed(|out| {
        out.bytes(2, topic.as_bytes()).message(3, |out| {
            out.item(if is_text { 1 } else { 2 }, value);
        });
    })
}

pub(crate) fn subscription(topic: &str, sequence: u64, page: u64) -> Vec<u8> {
    prefixed(|out| {
        out.bytes(2, topic.as_bytes()).uint(3, sequence).uint(4, page);
    })
}

/// Reads the events of one stream.
pub(crate) struct Events {
    stream: u32,
    data: Vec<u8>,
    pub(crate) page: u64,
    /// The position that the last heartbeat named: the sequence number and the page.
    heartbeat: (u64, u64),
}

impl Events {
    pub(crate) fn of(stream: u32) -> Self {
        Self { stream, data: Vec::new(), page: 0, heartbeat: (0, 0) }
    }

    /// Returns the next event, which may be a heartbeat.
    pub(crate) fn next_of_any(&mut self, grpc: &mut Grpc) -> Event {
        loop {
            if let Some(prefix) = self.data.first_chunk::<5>() {
                let end = 5 + u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
                if self.data.len() >= end {
                    let message: Vec<u8> = self.data.drain(..end).skip(5).collect();
                    return self.event(&message);
                }
            }
            let (kind, flags, stream, payload) = grpc.frame().expect("a frame");
            if stream != self.stream {
                continue;
            }
            match kind {
                DATA => self.data.extend_from_slice(&payload),
                HEADERS => {
                    let mut fields = FieldList::new(1 << 20);
                    grpc.decoder.decode(&payload, &mut fields).expect("valid headers");
                    if flags & 1 != 0 {
                        let status = fields.value(FieldName::GrpcStatus).unwrap_or_default();
                        return Event::End(String::from_utf8_lossy(status).into_owned());
                    }
                }
                RST_STREAM => return Event::End("reset".into()),
                _ => {}
            }
        }
    }

    /// Returns the next event other than a heartbeat.
    pub(crate) fn next(&mut self, grpc: &mut Grpc) -> Event {
        loop {
            match self.next_of_any(grpc) {
                Event::Heartbeat => {}
                other => return other,
            }
        }
    }

    fn event(&mut self, message: &[u8]) -> Event {
        let message = Message::parse(message).expect("a message");
        let part = |number| message.message(number).expect("a valid part");
        if let Some(item) = part(1) {
            self.page = item.uint(4);
            let value = item.message(2).expect("a valid value").expect("a value");
            let is_text = value.try_bytes(1).is_some();
            let bytes = value.try_bytes(1).or(value.try_bytes(2)).expect("a text or bytes");
            let publisher = String::from_utf8_lossy(item.bytes(3)).into_owned();
            return Event::Item(item.uint(1), is_text, bytes.to_vec(), publisher);
        }
        if let Some(gap) = part(2) {
            self.page = gap.uint(3);
            return Event::Gap(gap.uint(1), gap.uint(2));
        }
        let heartbeat = part(3).unwrap_or_else(|| panic!("{message:?}"));
        self.heartbeat = (heartbeat.uint(1), heartbeat.uint(2));
        Event::Heartbeat
    }
}

fn text(sequence: u64, value: &str) -> Event {
    Event::Item(sequence, true, value.as_bytes().to_vec(), String::new())
}

/// Subscribes, and waits for the first heartbeat.
pub(crate) fn subscribe(grpc: &mut Grpc, stream: u32, message: &[u8]) -> Events {
    grpc.client.send(&call(stream, SUBSCRIBE, message));
    let mut events = Events::of(stream);
    assert_eq!(events.next_of_any(grpc), Event::Heartbeat);
    events
}

#[test]
fn subscribers_on_all_workers_receive_the_same_messages_in_the_same_order() {
    const MESSAGES: u64 = 300;
    let running = start(ServerConfig { workers: 3, ..config() });
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    let mut clients: Vec<(Grpc, Events)> = (0..6)
        .map(|_| {
            let mut grpc = Grpc::connect(&running);
            let events = subscribe(&mut grpc, 1, &subscription("news", 0, 0));
            (grpc, events)
        })
        .collect();
    let publishers: Vec<_> = (0..3)
        .map(|number| {
            let mut grpc = Grpc::connect(&running);
            std::thread::spawn(move || {
                for at in 0..MESSAGES as u32 / 3 {
                    let value = format!("{number}.{at}");
                    assert_eq!(
                        grpc.answer(2 * at + 1, PUBLISH, &published("news", value.as_bytes(), true)).status,
                        "0"
                    );
                }
            })
        })
        .collect();
    publishers.into_iter().for_each(|publisher| publisher.join().expect("all are published"));
    assert_eq!(redis.text("PUBLISH news last"), ":6");
    let read = |(grpc, events): &mut (Grpc, Events)| (0..=MESSAGES).map(|_| events.next(grpc)).collect::<Vec<_>>();
    let first = read(&mut clients[0]);
    assert_eq!(first.last(), Some(&text(MESSAGES + 1, "last")));
    for (at, event) in first.iter().enumerate() {
        assert!(matches!(event, Event::Item(sequence, ..) if *sequence == at as u64 + 1), "{event:?}");
    }
    clients[1..].iter_mut().for_each(|client| assert!(read(client) == first));
    running.stop();
}

#[test]
fn messages_pass_between_topics_and_channels_with_their_kind() {
    let running = start(config());
    let (mut grpc, mut publisher) = (Grpc::connect(&running), Grpc::connect(&running));
    let (mut redis, mut listener) =
        (Replies::connect(addr(&running, Protocol::Resp)), Replies::connect(addr(&running, Protocol::Resp)));
    listener.text("SUBSCRIBE t");
    let mut events = subscribe(&mut grpc, 1, &subscription("t", 0, 0));
    assert_eq!(publisher.answer(1, PUBLISH, &published("t", b"", false)).status, "0");
    assert_eq!(String::from_utf8(listener.next()).expect("text").replace("\r\n", " "), "*3 $7 message $1 t $0  ");
    assert_eq!(publisher.answer(3, PUBLISH, &published("t", b"\xff\0", false)).status, "0");
    assert_eq!(redis.text("PUBLISH t text"), ":2");
    assert_eq!(redis.text("PUBLISH other text"), ":0");
    redis.text("SELECT 1");
    assert_eq!(redis.text("PUBLISH t elsewhere"), ":1", "the topic belongs to another cache");
    let bytes = |sequence, value: &[u8]| Event::Item(sequence, false, value.to_vec(), String::new());
    assert_eq!(events.next(&mut grpc), bytes(1, b""));
    assert_eq!(events.next(&mut grpc), bytes(2, b"\xff\0"));
    assert_eq!(events.next(&mut grpc), text(3, "text"));
    running.stop();
}

#[test]
fn client_that_connects_again_continues_after_its_last_message() {
    let running = start(config());
    let (mut grpc, mut publisher) = (Grpc::connect(&running), Grpc::connect(&running));
    let mut events = subscribe(&mut grpc, 1, &subscription("t", 0, 0));
    publisher.answer(1, PUBLISH, &published("t", b"one", true));
    assert_eq!(events.next(&mut grpc), text(1, "one"));
    let page = events.page;
    drop(grpc);
    publisher.answer(3, PUBLISH, &published("t", b"two", true));
    let mut grpc = Grpc::connect(&running);
    let mut events = subscribe(&mut grpc, 1, &subscription("t", 2, page));
    assert_eq!(events.next(&mut grpc), text(2, "two"));
    let mut other = subscribe(&mut grpc, 3, &subscription("t", 7, page - 1));
    assert_eq!((other.next(&mut grpc), other.page), (Event::Gap(6, 1), page), "the page is another one");
    let mut whole = subscribe(&mut grpc, 5, &subscription("t", 1, 0));
    assert_eq!(whole.next(&mut grpc), text(1, "one"), "all that there is");
    running.stop();
}

#[test]
fn stream_that_is_cut_before_its_first_message_names_where_to_continue() {
    let running = start(config());
    let (mut grpc, mut publisher) = (Grpc::connect(&running), Grpc::connect(&running));
    let mut lasting = subscribe(&mut grpc, 1, &subscription("t", 0, 0));
    assert_eq!(lasting.heartbeat, (0, 0), "heartbeats of Momento's schema have no fields");
    publisher.answer(1, PUBLISH, &published("t", b"one", true));
    assert_eq!(lasting.next(&mut grpc), text(1, "one"));
    let begun_at = |grpc: &mut Grpc, stream, message: &[u8]| {
        grpc.client.send(&call(stream, SUBSCRIBE_OF_GANNET, message));
        let mut events = Events::of(stream);
        assert_eq!(events.next_of_any(grpc), Event::Heartbeat);
        events
    };
    let cut = begun_at(&mut grpc, 3, &subscription("t", 0, 0));
    assert_eq!(cut.heartbeat, (2, lasting.page));
    publisher.answer(3, PUBLISH, &published("t", b"two", true));
    let (sequence, page) = cut.heartbeat;
    let mut continued = begun_at(&mut grpc, 5, &subscription("t", sequence, page));
    assert_eq!(continued.next(&mut grpc), text(2, "two"));
    // A client that continued at the position after a gap would not learn of the gap.
    let mut behind = begun_at(&mut grpc, 7, &subscription("t", 7, page - 1));
    assert_eq!(behind.heartbeat, (0, 0));
    assert_eq!(behind.next(&mut grpc), Event::Gap(6, 1));
    running.stop();
}

#[test]
fn slow_subscriber_holds_no_memory_and_learns_of_the_gap() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    // A window of 64 KiB, which the client never opens until the end.
    let mut events = subscribe(&mut grpc, 1, &subscription("t", 0, 0));
    let (mut publisher, mut quick) = (Grpc::connect(&running), Grpc::connect(&running));
    let value = vec![b'x'; 30_000];
    for at in 0..200 {
        assert_eq!(publisher.answer(2 * at + 1, PUBLISH, &published("t", &value, true)).status, "0");
    }
    assert_eq!(quick.answer(1, PUBLISH, &published("t", b"last", true)).status, "0");
    let Event::Item(1, ..) = events.next(&mut grpc) else { panic!("the first message") };
    grpc.client.send(&frame(8, 0, 1, &(1u32 << 30).to_be_bytes()));
    let (mut gaps, mut read) = (0, 1);
    loop {
        match events.next(&mut grpc) {
            Event::Gap(last, next) => {
                gaps += 1;
                assert!(next > last + 1 && next > 100, "{last} {next}");
            }
            Event::Item(201, _, value, _) => break assert_eq!(value, b"last"),
            Event::Item(..) => read += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(gaps == 1 && read < 100, "{gaps} {read}");
    running.stop();
}

#[test]
fn subscription_ends_with_its_stream_and_a_stop_informs_subscribers() {
    let running = start(config());
    let (mut grpc, mut redis) = (Grpc::connect(&running), Replies::connect(addr(&running, Protocol::Resp)));
    let mut first = subscribe(&mut grpc, 1, &subscription("t", 0, 0));
    let mut second = subscribe(&mut grpc, 3, &subscription("t", 0, 0));
    assert_eq!(redis.text("PUBLISH t both"), ":1", "one connection");
    assert_eq!((first.next(&mut grpc), second.next(&mut grpc)), (text(1, "both"), text(1, "both")));
    grpc.client.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    // The reply to a later call shows that the reset was handled.
    grpc.answer(5, "/cache_client.Scs/Get", &key("k"));
    assert_eq!(redis.text("PUBLISH t one"), ":1");
    assert_eq!(second.next(&mut grpc), text(2, "one"));
    let end = std::thread::spawn(move || second.next(&mut grpc));
    running.stop();
    assert_eq!(end.join().expect("an end"), Event::End("14".into()));
}

#[test]
fn stream_of_events_ends_at_its_deadline_and_others_continue() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let mut lasting = subscribe(&mut grpc, 1, &subscription("t", 0, 0));
    let begun = Instant::now();
    grpc.client.send(&faulty(3, SUBSCRIBE, &subscription("t", 0, 0), &[("grpc-timeout", "300m")]));
    assert_eq!(Events::of(3).next(&mut grpc), Event::End("4".into()));
    assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
    Grpc::connect(&running).answer(1, PUBLISH, &published("t", b"v", true));
    assert_eq!(lasting.next(&mut grpc), text(1, "v"));
    running.stop();
}

#[test]
fn redis_clients_see_the_subscribers_of_topics() {
    let running = start(config());
    let (mut grpc, mut redis) = (Grpc::connect(&running), Replies::connect(addr(&running, Protocol::Resp)));
    for stream in [1, 3] {
        subscribe(&mut grpc, stream, &subscription("t", 0, 0));
    }
    redis.text("SUBSCRIBE t");
    let mut other = Replies::connect(addr(&running, Protocol::Resp));
    assert_eq!(other.text("PUBSUB NUMSUB t none"), "*4 $1 t :2 $4 none :0");
    other.text("SELECT 1");
    assert_eq!(other.text("PUBSUB NUMSUB t"), "*2 $1 t :1", "a topic belongs to one database");
    running.stop();
}

#[test]
fn delayed_calls_and_streams_of_health_end_with_a_status_when_the_server_stops() {
    let stop_timeout = Duration::from_millis(500);
    let running = start(ServerConfig { test_faults: true, stop_timeout, ..config() });
    let mut grpc = Grpc::connect(&running);
    grpc.client.send(&faulty(1, GET, &key("k"), &[("delay-ms", "60000")]));
    grpc.client.send(&call(3, "/grpc.health.v1.Health/Watch", &key("")));
    assert_eq!(grpc.wait_for(DATA), [0, 0, 0, 0, 2, 8, 1], "the server is serving");
    assert_eq!(grpc.answer(5, GET, &key("k")).status, "0");
    let stopping = std::thread::spawn(move || running.stop());
    let ends = grpc.answers(&[1, 3]);
    assert_eq!((&ends[0].status[..], &ends[1].status[..]), ("14", "14"));
    stopping.join().expect("the server stops");
}

#[test]
fn subscriber_whose_user_loses_the_right_is_told_and_ended() {
    let running = start(config());
    let mut redis = Replies::connect(addr(&running, Protocol::Resp));
    redis.text("ACL SETUSER ann on >pw ~* +@all &t*");
    let mut grpc = Grpc::connect(&running);
    let send = |grpc: &mut Grpc, stream, topic: &str| {
        let fields = headers(SUBSCRIBE, &[("authorization", "ann:pw")]);
        grpc.client.send(&frame(HEADERS, 4, stream, &fields));
        grpc.client.send(&frame(DATA, 1, stream, &subscription(topic, 0, 0)));
    };
    send(&mut grpc, 1, "other");
    assert_eq!(Events::of(1).next(&mut grpc), Event::End("7".into()));
    send(&mut grpc, 3, "t1");
    let mut events = Events::of(3);
    assert_eq!(events.next_of_any(&mut grpc), Event::Heartbeat);
    redis.text("PUBLISH t1 a");
    assert_eq!(events.next(&mut grpc), text(1, "a"));
    redis.text("ACL SETUSER ann resetchannels");
    redis.text("PUBLISH t1 secret");
    assert_eq!(events.next(&mut grpc), Event::End("7".into()));
    running.stop();
}

#[test]
fn a_topic_of_a_cache_that_does_not_exist_and_malformed_requests_are_refused() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    let unknown = prefixed(|out| {
        out.bytes(1, b"none").bytes(2, b"t").message(3, |out| {
            out.bytes(1, b"v");
        });
    });
    let long = "t".repeat(1025);
    for (stream, path, message, status) in [
        (1, PUBLISH, unknown.clone(), "5"),
        (3, SUBSCRIBE, unknown, "5"),
        (5, PUBLISH, published("", b"v", true), "3"),
        (7, PUBLISH, published(&long, b"v", true), "3"),
        (9, PUBLISH, subscription("t", 0, 0), "3"),
        (11, SUBSCRIBE, subscription(&long, 0, 0), "3"),
    ] {
        let answer = grpc.answer(stream, path, &message);
        assert_eq!(answer.status, status, "{stream} {answer:?}");
    }
    running.stop();
}

fn elements(answer: &Answer) -> Vec<(u64, u64, f64)> {
    assert_eq!(answer.status, "0", "{answer:?}");
    let message = Message::parse(&answer.data[5..]).expect("a message");
    let element = |bytes| Message::parse(bytes).expect("an element");
    message.all(1).map(element).map(|of| (of.uint(1), of.uint(3), of.try_double(4).unwrap_or(0.0))).collect()
}

fn board(number: u32, write: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    prefixed(|out| {
        out.bytes(number, b"board");
        write(out);
    })
}

#[test]
fn leaderboard_ranks_elements_in_both_orders_and_by_score() {
    let running = start(config());
    let (mut grpc, mut redis) = (Grpc::connect(&running), Replies::connect(addr(&running, Protocol::Resp)));
    let mut next = 1;
    let mut ask = |method: &str, message: Vec<u8>| {
        next += 2;
        grpc.answer(next, &format!("/leaderboard.Leaderboard/{method}"), &message)
    };
    let scores = [(7, 10.0), (3, 20.5), (9, -1.0), (4, 20.5), (5, 0.0)];
    let upsert = board(2, |out| {
        for (id, score) in scores {
            out.message(3, |element| {
                element.uint(1, id).double(3, score);
            });
        }
    });
    assert_eq!(ask("UpsertElements", upsert).status, "0");
    assert_eq!(redis.text("ZCARD board"), ":5");
    let by_rank = |first, end, order| {
        board(2, |out| {
            out.message(3, |ranks| {
                ranks.uint(1, first).uint(2, end);
            });
            out.uint(4, order);
        })
    };
    assert_eq!(elements(&ask("GetByRank", by_rank(0, 2, 0))), [(9, 0, -1.0), (5, 1, 0.0)]);
    assert_eq!(elements(&ask("GetByRank", by_rank(2, 9, 1))), [(7, 2, 10.0), (5, 3, 0.0), (9, 4, -1.0)]);
    for (first, end) in [(0, 0), (4, 3), (0, 8193)] {
        assert_eq!(ask("GetByRank", by_rank(first, end, 0)).status, "3");
    }
    let ids = |number, order: Option<u64>| {
        move |out: &mut Encoder| {
            out.bytes(number, &[3, 4, 99, 9]);
            order.inspect(|order| {
                out.one_of_uint(number + 1, *order);
            });
        }
    };
    assert_eq!(elements(&ask("GetRank", board(2, ids(3, Some(1))))), [(3, 1, 20.5), (4, 0, 20.5), (9, 4, -1.0)]);
    let competition = ask("GetCompetitionRank", board(1, ids(2, None)));
    assert_eq!(elements(&competition), [(3, 0, 20.5), (4, 0, 20.5), (9, 4, -1.0)]);
    let competition = ask("GetCompetitionRank", board(1, ids(2, Some(0))));
    assert_eq!(elements(&competition), [(3, 3, 20.5), (4, 3, 20.5), (9, 0, -1.0)]);
    let by_score = |least: Option<f64>, end: Option<f64>, offset, order| {
        board(2, |out| {
            out.message(3, |scores| {
                if let Some(least) = least {
                    scores.double(5, least)
                } else {
                    scores.message(1, |_| {})
                };
                if let Some(end) = end {
                    scores.double(6, end)
                } else {
                    scores.message(3, |_| {})
                };
            });
            out.uint(4, offset).uint(5, 2).uint(6, order);
        })
    };
    assert_eq!(elements(&ask("GetByScore", by_score(Some(-0.5), Some(20.5), 0, 0))), [(5, 1, 0.0), (7, 2, 10.0)]);
    assert_eq!(elements(&ask("GetByScore", by_score(None, Some(20.5), 0, 1))), [(7, 2, 10.0), (5, 3, 0.0)]);
    assert_eq!(elements(&ask("GetByScore", by_score(None, None, 3, 1))), [(5, 3, 0.0), (9, 4, -1.0)]);
    assert_eq!(ask("RemoveElements", board(2, ids(3, None))).status, "0");
    let length = ask("GetLeaderboardLength", board(2, |_| {}));
    assert_eq!(Message::parse(&length.data[5..]).expect("a message").uint(1), 2);
    redis.text("ZADD board 1 name");
    assert_eq!(ask("GetByRank", by_rank(0, 9, 0)).status, "9", "a value is no id");
    assert_eq!(ask("DeleteLeaderboard", board(2, |_| {})).status, "0");
    assert_eq!(redis.text("EXISTS board"), ":0");
    redis.text("SET board v");
    assert_eq!(ask("DeleteLeaderboard", board(2, |_| {})).status, "9", "an item of another type stays");
    assert_eq!(redis.text("EXISTS board"), ":1");
    running.stop();
}

fn faulty(stream: u32, path: &str, message: &[u8], fields: &[(&str, &str)]) -> Vec<u8> {
    [frame(HEADERS, 4, stream, &headers(path, fields)), frame(DATA, 1, stream, message)].concat()
}

const GET: &str = "/cache_client.Scs/Get";
const SET: &str = "/cache_client.Scs/Set";

#[test]
fn faults_fail_a_number_of_calls_and_delay_only_the_calls_that_ask() {
    let running = start(ServerConfig { test_faults: true, ..config() });
    let mut grpc = Grpc::connect(&running);
    let errors =
        [("request-id", "one"), ("return-error", "unavailable"), ("error-rpcs", "get set"), ("error-count", "2")];
    assert_eq!(grpc.answer(1, SET, &item("k", b"v")).status, "0");
    let statuses: Vec<String> = [3, 5, 7]
        .map(|stream| {
            grpc.client.send(&faulty(stream, GET, &key("k"), &errors));
            grpc.answers(&[stream]).remove(0).status
        })
        .into();
    assert_eq!(statuses, ["14", "14", "0"]);
    let delay = [("delay-rpcs", "get"), ("delay-ms", "300")];
    let begun = Instant::now();
    grpc.client.send(&faulty(9, GET, &key("k"), &delay));
    assert_eq!(grpc.answer(11, GET, &key("k")).value(), Some(b"v".to_vec()));
    assert!(begun.elapsed() < Duration::from_millis(250), "the other call does not wait");
    assert_eq!(grpc.answers(&[9]).remove(0).value(), Some(b"v".to_vec()));
    assert!(begun.elapsed() >= Duration::from_millis(290));
    let late = [("delay-ms", "300"), ("grpc-timeout", "50m")];
    grpc.client.send(&faulty(13, GET, &key("k"), &late));
    assert_eq!(grpc.answers(&[13])[0].status, "4");
    running.stop();
}

#[test]
fn a_fault_cuts_streams_after_a_number_of_messages() {
    let running = start(ServerConfig { test_faults: true, ..config() });
    let mut grpc = Grpc::connect(&running);
    let cut = [
        ("stream-error-rpcs", "get-batch topic-subscribe"),
        ("stream-error", "internal"),
        ("stream-error-message-limit", "2"),
    ];
    let batch = prefixed(|out| {
        for name in [b"a", b"b", b"c"] {
            out.message(1, |get| {
                get.bytes(1, name);
            });
        }
    });
    grpc.client.send(&faulty(1, "/cache_client.Scs/GetBatch", &batch, &cut));
    let answer = grpc.answers(&[1]).remove(0);
    assert_eq!((answer.status.as_str(), answer.data.len()), ("13", 2 * 7), "{answer:?}");
    grpc.client.send(&faulty(3, SUBSCRIBE, &subscription("t", 0, 0), &cut));
    let mut events = Events::of(3);
    assert_eq!(events.next_of_any(&mut grpc), Event::Heartbeat);
    let mut publisher = Grpc::connect(&running);
    for at in 0..3 {
        publisher.answer(2 * at + 1, PUBLISH, &published("t", b"v", true));
    }
    assert_eq!((events.next(&mut grpc), events.next(&mut grpc)), (text(1, "v"), text(2, "v")));
    assert_eq!(events.next(&mut grpc), Event::End("13".into()));
    running.stop();
}

#[test]
fn faults_are_ignored_unless_the_server_permits_them() {
    let running = start(config());
    let mut grpc = Grpc::connect(&running);
    grpc.client.send(&faulty(1, GET, &key("k"), &[("return-error", "unavailable"), ("delay-ms", "60000")]));
    assert_eq!(grpc.answers(&[1])[0].status, "0");
    running.stop();
}
