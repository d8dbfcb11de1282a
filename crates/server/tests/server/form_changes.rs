//! Tests of commands that take several visits, while another client shrinks, deletes or replaces the value that they
//! read: a value has another form then, and none of them may take it for damaged.

use crate::common::config;
use crate::common::redis::{reply_len, request, words};
use crate::sim::World;
use command::clients::endpoint::Protocol;
use gannet_server::start::ServerConfig;
use io::sim::{Faults, SimClient};

/// The number of elements of a large value.
const ELEMENTS: usize = 700;

impl World {
    /// Sends a request, and returns its reply after the iterations that it needs.
    fn reply(&mut self, client: &SimClient, line: &str) -> Vec<u8> {
        client.send(&request(&words(line)));
        self.rest_of_reply(client, line, Vec::new())
    }

    /// Returns the reply to a request, of which `got` was received already.
    fn rest_of_reply(&mut self, client: &SimClient, line: &str, mut got: Vec<u8>) -> Vec<u8> {
        for _ in 0..20_000 {
            got.extend(client.take(usize::MAX));
            if reply_len(&got) == Some(got.len()) {
                return got;
            }
            self.guard();
        }
        panic!("{line} has no reply");
    }
}

/// Returns the request that stores a large value under the key `k`.
fn fill(kind: &str) -> String {
    let elements = |element: &dyn Fn(usize) -> String| (0..ELEMENTS).map(element).collect::<Vec<_>>().join(" ");
    match kind {
        "zset" => format!("ZADD k {}", elements(&|number| format!("{} member-{number}", number / 3))),
        "hash" => format!("HSET k {}", elements(&|number| format!("field-{number} value-{number}"))),
        "set" => format!("SADD k {}", elements(&|number| format!("member-{number}"))),
        _ => format!("RPUSH k {}", elements(&|number| format!("element-{number}"))),
    }
}

/// Returns the request that leaves few elements of the value.
fn shrink(kind: &str) -> String {
    let names = |name: &str| (8..ELEMENTS).map(|number| format!("{name}-{number}")).collect::<Vec<_>>().join(" ");
    match kind {
        "zset" => "ZREMRANGEBYRANK k 8 -1".to_owned(),
        "hash" => format!("HDEL k {}", names("field")),
        "set" => format!("SREM k {}", names("member")),
        _ => "LTRIM k 0 7".to_owned(),
    }
}

const READS: [(&str, &[&str]); 4] = [
    (
        "zset",
        &[
            "ZSCAN k 0",
            "ZSCAN k 0 COUNT 4000",
            "ZSCAN k 0 MATCH *9",
            "ZRANGE k 0 -1 WITHSCORES",
            "ZRANGEBYLEX k - +",
            "ZREVRANGEBYSCORE k +inf -inf",
            "ZRANDMEMBER k 300",
            "ZRANDMEMBER k -300 WITHSCORES",
            "ZUNION 2 k k",
            "ZINTER 2 k k",
            "ZDIFF 2 k none",
            "ZINTERCARD 2 k k",
            "ZUNIONSTORE d 2 k k",
            "ZRANGESTORE d k 0 -1",
            "SORT k ALPHA",
            "SORT k BY nosort",
        ],
    ),
    (
        "hash",
        &[
            "HSCAN k 0",
            "HSCAN k 0 COUNT 4000",
            "HGETALL k",
            "HKEYS k",
            "HVALS k",
            "HRANDFIELD k 300",
            "HRANDFIELD k -300",
        ],
    ),
    (
        "set",
        &[
            "SSCAN k 0",
            "SSCAN k 0 COUNT 4000",
            "SMEMBERS k",
            "SRANDMEMBER k 300",
            "SRANDMEMBER k -300",
            "SUNION k k",
            "SINTER k k",
            "SDIFF k none",
            "SINTERCARD 2 k k",
            "SUNIONSTORE d k k",
            "SINTERSTORE d k k",
            "SDIFFSTORE d k none",
            "SORT k ALPHA",
        ],
    ),
    (
        "list",
        &["LRANGE k 0 -1", "LPOS k element-9 COUNT 0", "SORT k ALPHA", "SORT k BY nosort", "LINSERT k AFTER none x"],
    ),
];

#[test]
fn value_that_changes_its_form_between_visits_of_a_read_is_not_taken_for_damaged() {
    let mut world = World::new(1, Faults::NONE, ServerConfig { connections_max: 16, ..config() });
    let [reader, writer] = [(); 2].map(|()| world.connect(Protocol::Resp));
    let mut late = 0;
    for (kind, reads) in READS {
        let common = ["DUMP k", "MEMORY USAGE k SAMPLES 0", "OBJECT ENCODING k", "COPY k d REPLACE"];
        for read in reads.iter().chain(&common) {
            for change in [&shrink(kind)[..], "DEL k", "SET k text"] {
                for iterations in 0..4 {
                    world.reply(&writer, "DEL k d");
                    assert_eq!(world.reply(&writer, &fill(kind))[0], b':');
                    reader.send(&request(&words(read)));
                    world.iterations(iterations);
                    let early = reader.take(usize::MAX);
                    late += usize::from(early.is_empty());
                    let changed = world.reply(&writer, change);
                    assert_ne!(changed[0], b'-', "{change}");
                    let reply = world.rest_of_reply(&reader, read, early);
                    let shown = reply[..reply.len().min(60)].escape_ascii().to_string();
                    assert!(!shown.contains("damaged"), "{read} beside {:.20}: {shown}", change);
                    assert_eq!(world.reply(&reader, "PING"), b"+PONG\r\n");
                }
            }
        }
    }
    assert!(late > 100, "{late} reads ended after the change began");
}
