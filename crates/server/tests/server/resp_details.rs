//! Details of replies, errors and key events, compared row by row with those of Debian's Redis.

use crate::common::redis::{Redis, Replies, both, resp, words};
use crate::common::start;

/// Sends each line to Redis and to this server, as one client each. Fails with all lines whose replies differ. In a
/// line, `''` is an empty word and `_` in a word a space.
fn same_replies(lines: &[&str]) {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let mut differences = Vec::new();
    for line in lines {
        let texts: Vec<String> = line.split(' ').map(|word| word.replace("''", "").replace('_', " ")).collect();
        let words: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let [ours, theirs] = [&mut ours, &mut theirs].map(|client| client.ask(&words).escape_ascii().to_string());
        if ours != theirs {
            differences.push(format!("{line}\n  ours:   {ours}\n  theirs: {theirs}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    running.stop();
}

/// Returns the messages to `subscriber` up to that of an end, which `client` publishes.
fn events(subscriber: &mut Replies, client: &mut Replies) -> Vec<String> {
    client.ask(&[b"PUBLISH", b"__key__:", b"end"]);
    let mut events = Vec::new();
    loop {
        let message = subscriber.next().escape_ascii().to_string().replace("\\r\\n", " ");
        if message.ends_with("$3 end ") {
            return events;
        }
        events.push(message);
    }
}

/// Sends each line to Redis and to this server, with all key events switched on. Fails with all lines whose events
/// differ, also in their order. At least `events_min` events must be compared.
fn same_events(lines: &[&str], events_min: usize) {
    let (redis, running) = (Redis::start(), start(both()));
    let [mut ours, mut theirs] = [resp(&running), Replies::connect(redis.addr)];
    let [mut our_events, mut their_events] = [resp(&running), Replies::connect(redis.addr)];
    for client in [&mut ours, &mut theirs] {
        assert_eq!(client.ask(&words("CONFIG SET notify-keyspace-events KEAnm")), b"+OK\r\n");
    }
    for subscriber in [&mut our_events, &mut their_events] {
        assert!(subscriber.ask(&words("PSUBSCRIBE __key*__:*")).starts_with(b"*3"));
    }
    let (mut compared, mut differences) = (0, Vec::new());
    for line in lines {
        let texts: Vec<String> = line.split(' ').map(|word| word.replace('_', " ")).collect();
        let words: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        ours.ask(&words);
        theirs.ask(&words);
        let [ours, theirs] = [events(&mut our_events, &mut ours), events(&mut their_events, &mut theirs)];
        compared += theirs.len();
        if ours != theirs {
            differences.push(format!("{line}\n  ours:   {ours:#?}\n  theirs: {theirs:#?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(compared >= events_min, "{compared} events");
    running.stop();
}

#[test]
fn an_element_at_longitude_180_finds_itself() {
    same_replies(&[
        "GEOADD g 180 10 a",
        "GEORADIUSBYMEMBER g a 0 m",
        "GEORADIUSBYMEMBER g a 1 km ASC",
        "GEORADIUSBYMEMBER g a 1000 km",
        "GEOADD g 179.9999 10 c",
        "GEORADIUSBYMEMBER g a 1 km ASC",
        "GEOSEARCH g FROMLONLAT 180 10 BYBOX 1 1 km ASC WITHDIST",
        "GEOSEARCH g FROMLONLAT 180 10 BYRADIUS 100 m ASC WITHCOORD",
    ]);
}

#[test]
fn a_move_between_lists_publishes_the_push_before_the_pop() {
    same_events(
        &[
            "RPUSH a 1 2 3 4",
            "RPOPLPUSH a b",
            "LMOVE a b LEFT RIGHT",
            "LMOVE a a LEFT RIGHT",
            "BLMOVE a b RIGHT LEFT 0",
            "BRPOPLPUSH a b 0",
            "RPOPLPUSH b b",
            "EVAL redis.call('RPUSH','c','1')_redis.call('RPOPLPUSH','c','d') 0",
        ],
        30,
    );
}

#[test]
fn getex_publishes_only_what_it_changes_and_deletes_at_a_time_in_the_past() {
    same_events(
        &[
            "SET a 1",
            "GETEX a PERSIST",
            "GETEX a EX 100",
            "GETEX a PERSIST",
            "GETEX a PERSIST",
            "GETEX a PXAT 1",
            "GETEX a",
            "SET a 1",
            "GETEX a EXAT 1",
        ],
        12,
    );
    same_replies(&["SET a 1", "GETEX a PXAT 1", "EXISTS a", "DBSIZE", "SET a 1 EX 5", "GETEX a PERSIST", "TTL a"]);
}

#[test]
fn scripts_publish_new_keys_and_misses() {
    same_events(
        &[
            "EVAL redis.call('GET','a')_redis.call('SET','a','1')_redis.call('GET','a') 0",
            "EVAL redis.call('GET',KEYS[1])_redis.call('GETSET',KEYS[2],'1') 2 x y",
            "EVAL return_1 1 none",
            "EVAL_RO return_1 1 none",
            "EVAL_RO return_redis.call('GET',KEYS[1]) 1 none",
            "EVAL redis.call('MGET','a','none','b')_redis.call('LPUSH','list','1')_redis.call('LPUSH','list','2') 0",
            "EVAL redis.call('DEL','list')_redis.call('LPUSH','list','1') 0",
        ],
        30,
    );
}

#[test]
fn commands_that_store_a_result_publish_misses_of_their_sources() {
    same_events(
        &[
            "SORT none STORE to",
            "SORT none",
            "SUNIONSTORE to none1 none2",
            "SINTERSTORE to none1 none2",
            "SDIFFSTORE to none1 none2",
            "ZUNIONSTORE to 2 none1 none2",
            "ZINTERSTORE to 2 none1 none2",
            "ZDIFFSTORE to 2 none1 none2",
            "ZRANGESTORE to none 0 -1",
            "GEOSEARCHSTORE to none FROMLONLAT 1 1 BYRADIUS 1 m",
            "GEORADIUS none 1 1 1 m STORE to",
            "GEORADIUSBYMEMBER none a 1 m STORE to",
            "SADD s 1",
            "SUNIONSTORE to none s",
            "XINFO STREAM none",
        ],
        30,
    );
}

#[test]
fn a_choice_of_no_elements_from_another_type_is_an_error() {
    same_replies(&[
        "SET a 1",
        "SRANDMEMBER a 0",
        "ZRANDMEMBER a 0",
        "HRANDFIELD a 0",
        "MULTI",
        "SRANDMEMBER a 0",
        "ZRANDMEMBER a 0",
        "HRANDFIELD a 0",
        "SRANDMEMBER none 0",
        "EXEC",
        "EVAL return_redis.pcall('SRANDMEMBER','none',0) 0",
        "EVAL return_redis.pcall('ZRANDMEMBER','a',0) 0",
    ]);
}

#[test]
fn numbers_are_parsed_as_the_c_library_does() {
    same_replies(&[
        "ZADD z -0 a",
        "ZRANGE z 0 -1 WITHSCORES",
        "ZADD z 0x10 b",
        "ZINCRBY z 0x10 b",
        "ZADD z _1 c",
        "ZADD z 1_ c",
        "ZADD z 0x x",
        "ZADD z 0x1p3 d",
        "ZADD z -0x1.8p1 e",
        "ZADD z 1e400 f",
        "ZADD z 1e-400 f",
        "ZADD z inf f",
        "ZADD z nan f",
        "ZADD z '' f",
        "ZRANGE z 0 -1 WITHSCORES",
        "ZRANGEBYSCORE z _1 _20",
        "ZRANGEBYSCORE z (_1 0x20",
        "ZRANGEBYSCORE z '' 5",
        "ZRANGEBYSCORE z _ 5",
        "ZRANGEBYSCORE z -1e400 1e400",
        "ZCOUNT z 1_ 5",
        "ZREMRANGEBYSCORE z _(1 5",
        "ZUNION 1 z WEIGHTS 0x2 WITHSCORES",
        "ZUNION 1 z WEIGHTS 1e400 WITHSCORES",
        "INCRBYFLOAT f 0x10",
        "INCRBYFLOAT f _1",
        "INCRBYFLOAT f -0x1.8p1",
        "HINCRBYFLOAT h f 0x10",
        "HINCRBYFLOAT h f _1",
        "BLPOP none 0x",
        "GEOADD g 1e400 10 a",
        "GEOADD g inf 10 a",
        "GEOADD g _1 10 a",
        "GEOADD g 0x1 10 a",
        "GEOPOS g a",
        "GEORADIUS g 1 1 1e400 m",
        "GEORADIUS g 1 1 inf m",
        "GEORADIUS g 1 10 0x10 km",
        "GEOSEARCH g FROMLONLAT 1 10 BYBOX 1e400 1 m",
        "GEOSEARCH g FROMLONLAT 1 10 BYBOX 0x1 0x1 m",
    ]);
}

#[test]
fn malformed_options_for_missing_keys_get_the_same_replies_as_from_redis() {
    same_replies(&[
        "SET s x",
        "SADD set 1",
        "ZADD z 1 a",
        "HSET h f v",
        "RPUSH l 1",
        "XADD x 1-1 a b",
        "SETBIT s 99999999999999 5",
        "SETBIT s 0 x",
        "SETBIT s 0 2",
        "SETBIT s a x",
        "SETBIT s -1 2",
        "SETBIT s 4294967296 1",
        "GETBIT s 4294967296",
        "SETBIT l 0 x",
        "SETBIT l x 0",
        "BITCOUNT none a b",
        "BITCOUNT none 1 2 x",
        "BITCOUNT none 1 2 BIT x",
        "BITCOUNT s a b",
        "BITCOUNT l a b",
        "BITPOS none 1 a",
        "BITPOS none 0 0 x",
        "BITPOS none 2 x",
        "BITPOS none x x",
        "BITPOS none 1 0 1 x",
        "BITPOS none 1 0 1 BIT x",
        "BITPOS s 1 a",
        "BITPOS s 1 0 a",
        "BITPOS l 1 a",
        "BITPOS l 2 a",
        "SSCAN none 0 COUNT x",
        "SSCAN none 0 COUNT 0",
        "SSCAN none 0 nosuch",
        "SSCAN none x",
        "SSCAN l 0 COUNT x",
        "SSCAN set 0 COUNT 0",
        "SSCAN set 0 COUNT x",
        "SSCAN set 0 MATCH",
        "SSCAN set +0",
        "SSCAN set 18446744073709551616",
        "SSCAN set --1",
        "ZSCAN none 0 COUNT x",
        "ZSCAN none 0 COUNT 0",
        "ZSCAN none -1",
        "ZSCAN z 0 COUNT 0",
        "ZSCAN l 0 COUNT 0",
        "HSCAN none 0 COUNT x",
        "HSCAN none -1",
        "HSCAN h 0 COUNT 0",
        "SCAN x",
        "SCAN 0 COUNT 0",
        "XINFO STREAM none FULL COUNT x",
        "XINFO STREAM none FULL CNT x",
        "XINFO STREAM x FULL COUNT x",
        "XINFO STREAM x FULL COUNT -1",
        "XINFO STREAM l FULL COUNT x",
        "GETEX s PERSIST PERSIST",
        "GETEX s PERSIST EX 10",
        "GETEX s EX 10 PERSIST",
        "GETEX none PERSIST EX 10",
        "COMMAND INFO nosuch",
        "COMMAND INFO nosuch get|nosuch",
        "MULTI",
        "MONITOR",
        "SET d e",
        "EXEC",
    ]);
}

#[test]
fn a_script_learns_of_wrong_numbers_of_arguments_before_refused_commands() {
    same_replies(&[
        "EVAL return_redis.call('BLPOP','k') 0",
        "EVAL return_redis.call('SUBSCRIBE') 0",
        "EVAL return_redis.call('SUBSCRIBE','a') 0",
        "EVAL return_redis.call('CONFIG') 0",
        "EVAL return_redis.call('CONFIG','nosuch') 0",
        "EVAL return_redis.call('CONFIG','get','a') 0",
        "EVAL return_redis.call('MULTI','a') 0",
        "EVAL return_redis.call('MULTI') 0",
        "EVAL return_redis.call('nosuch') 0",
    ]);
}

/// In Redis, rights do not matter for the commands that end or change the user of a connection.
#[test]
fn commands_that_every_user_may_send_pass_a_dry_run() {
    same_replies(&[
        "ACL SETUSER dry on nopass +get ~a*",
        "ACL DRYRUN dry AUTH x",
        "ACL DRYRUN dry auth x y",
        "ACL DRYRUN dry AUTH",
        "ACL DRYRUN dry HELLO",
        "ACL DRYRUN dry HELLO 3",
        "ACL DRYRUN dry QUIT",
        "ACL DRYRUN dry RESET",
        "ACL DRYRUN dry RESET x",
        "ACL DRYRUN dry GET a",
        "ACL DRYRUN dry GET b",
        "ACL DRYRUN dry PING",
        "ACL SETUSER dry +@all -auth -hello -reset -quit",
        "ACL DRYRUN dry AUTH x",
        "ACL DRYRUN dry HELLO",
        "ACL DRYRUN dry QUIT",
        "ACL DRYRUN dry RESET",
    ]);
}

#[test]
fn a_script_that_would_wait_for_entries_gets_an_error_with_the_name_that_it_wrote() {
    same_replies(&[
        "XADD s 1-1 a b",
        "XGROUP CREATE s g 0",
        "EVAL return_redis.call('XREAD','BLOCK','100','STREAMS','s','0') 0",
        "EVAL return_redis.call('xread','block','100','streams','s','0') 0",
        "EVAL return_redis.pcall('XReadGroup','GROUP','g','c','BLOCK','100','STREAMS','s','>') 0",
        "EVAL return_redis.call('XREAD','BLOCK','abc','STREAMS') 0",
        "EVAL return_redis.call('XREAD','COUNT','x','BLOCK','100','STREAMS','s','0') 0",
    ]);
}

/// Redis 7.0 does not have `+`: the wanted replies are those of Redis 7.4.
#[test]
fn a_plus_in_xread_stands_for_the_last_entry_and_waits_for_the_first() {
    let running = start(both());
    let (mut client, mut waiting) = (resp(&running), resp(&running));
    for (line, reply) in [
        ("XADD s 1-1 a b", "$3 1-1"),
        ("XADD s 2-1 c d", "$3 2-1"),
        ("XREAD STREAMS s +", "*1 *2 $1 s *1 *2 $3 2-1 *2 $1 c $1 d"),
        ("XREAD COUNT 5 STREAMS s s + 1-1", "*2 *2 $1 s *1 *2 $3 2-1 *2 $1 c $1 d *2 $1 s *1 *2 $3 2-1 *2 $1 c $1 d"),
        ("XREAD STREAMS none +", "*-1"),
        ("XDEL s 2-1", ":1"),
        ("XREAD BLOCK 1 STREAMS s +", "*1 *2 $1 s *1 *2 $3 1-1 *2 $1 a $1 b"),
        ("XDEL s 1-1", ":1"),
        ("XREAD STREAMS s +", "*-1"),
        ("EVAL return_redis.call('xread','streams','s','+') 0", "$-1"),
    ] {
        let texts: Vec<String> = line.split(' ').map(|word| word.replace('_', " ")).collect();
        let words: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let replied = String::from_utf8(client.ask(&words)).expect("text").trim_end().replace("\r\n", " ");
        assert_eq!(replied, reply, "{line}");
    }
    waiting.client.send(&crate::common::redis::request(&words("XREAD BLOCK 0 STREAMS s +")));
    while !client.text("INFO clients").contains("blocked_clients:1") {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    client.text("XADD s 3-1 e f");
    assert_eq!(
        waiting.next().escape_ascii().to_string().replace("\\r\\n", " "),
        "*1 *2 $1 s *1 *2 $3 3-1 *2 $1 e $1 f "
    );
    running.stop();
}

#[test]
fn requests_of_provisioning_tools_and_probes_get_the_replies_of_redis() {
    same_replies(&[
        "PFADD log a",
        "OBJECT ENCODING log",
        "SET almost HYLL",
        "OBJECT ENCODING almost",
        "CONFIG SET maxmemory-policy noeviction",
        "MSET small 5 greatest 9999 great 10000 negative -1 text a",
        "OBJECT REFCOUNT small",
        "OBJECT REFCOUNT greatest",
        "OBJECT REFCOUNT great",
        "OBJECT REFCOUNT negative",
        "OBJECT REFCOUNT text",
        "OBJECT REFCOUNT none",
        "INCR greatest",
        "OBJECT REFCOUNT greatest",
        "CONFIG SET maxmemory 80mb maxmemory-policy allkeys-lfu",
        "SET small 5",
        "OBJECT REFCOUNT small",
        "RESTORE copy x bad",
        "RESTORE copy -1 bad",
        "RESTORE copy 0 bad",
        "RESTORE copy 9223372036854775807 bad",
        "RESTORE copy 9223372036854775807 bad ABSTTL",
        "RESTORE copy -1 bad foo",
        "RESTORE small -1 bad",
        "XADD log2 5-1 a 1",
        "XTRIM log2 MINID +",
        "XTRIM log2 MINID -",
        "XTRIM log2 MINID + -",
        "XTRIM log2 MINID ~ +",
        "XADD log2 MINID + 6-1 a 1",
        "XADD log2 MINID + * a 1",
        "XADD log2 MINID +",
        "XLEN log2",
        "FUNCTION FLUSH a b",
        "FUNCTION FLUSH SYNC ASYNC",
        "FUNCTION flush SYNC ASYNC",
        "FUNCTION FLUSH a",
        "FUNCTION FLUSH SYNC",
        "FUNCTION FLUSH",
        "CLIENT LIST ID 0",
        "CLIENT LIST ID -1 -9223372036854775808",
        "CLIENT LIST ID 9223372036854775808",
        "FUNCTION RESTORE a replace b",
        "FUNCTION RESTORE a b c d",
        "ACL CAT 9223372036854775808",
        "ACL CAT Nosuch",
        "SSCAN none ''",
        "HSCAN none ''",
        "ZSCAN none ''",
        "SSCAN none +",
        "GETEX small EX 100 EX 200",
        "GETEX small EX EX EX 300",
        "GETEX small EX 100 PX 200",
        "GETEX small PERSIST EX 100",
        "GETEX small EX 100 PERSIST",
        "GETEX small EX",
        "GETEX small PERSIST PERSIST",
        "SETBIT bits 4294967295 2",
        "SETBIT bits 4294967296 1",
        "SETBIT bits -1 1",
        "GETBIT bits 4294967295",
        "EXISTS bits",
        "MODULE LIST",
        "module list",
        "MODULE",
        "MODULE LIST a",
        "MODULE NOSUCH",
        "CONFIG SET client-output-buffer-limit ''",
        "CONFIG SET client-output-buffer-limit abc",
        "ACL SETUSER u +client|id|x",
        "ACL SETUSER u -client|id|x",
        "ACL SETUSER u +client|",
        "ACL SETUSER u -client|",
        "ACL SETUSER u +get|x|y",
        "ACL SETUSER u +nosuch|",
        "ACL SETUSER u +|x",
        "ACL SETUSER u +client|nosuch",
        "ACL SETUSER u +client|id",
        "CONFIG SET slowlog-max-len 1000",
        "CONFIG SET slowlog-max-len 10000",
        "CONFIG SET slowlog-max-len 9223372036854775807",
        "CONFIG SET slowlog-max-len 9223372036854775808",
        "CONFIG SET slowlog-max-len -1",
        "CONFIG SET slowlog-max-len 100",
        "CONFIG GET slowlog-max-len",
    ]);
}

#[test]
fn offset_of_a_bit_behind_the_longest_item_is_refused_with_the_name_of_the_limit() {
    let running = start(both());
    let mut client = resp(&running);
    let reply = client.text("SETBIT bits 4294967295 1");
    assert_eq!(reply, "-ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    assert_eq!(client.text("EXISTS bits"), ":0");
    running.stop();
}

#[test]
fn slow_log_retains_what_fits_of_a_greater_maximum() {
    let running = start(both());
    let mut client = resp(&running);
    assert_eq!(client.text("CONFIG SET slowlog-max-len 10000"), "+OK");
    let retained = client.text("CONFIG GET slowlog-max-len");
    assert!(retained.ends_with("$3 128"), "{retained}");
    assert_eq!(client.text("CONFIG SET slowlog-log-slower-than 0"), "+OK");
    (0..300).for_each(|_| assert_eq!(client.text("PING"), "+PONG"));
    assert_eq!(client.text("SLOWLOG LEN"), ":128");
    running.stop();
}

#[test]
fn time_and_monitor_report_microseconds() {
    let running = start(both());
    let (mut client, mut watcher) = (resp(&running), resp(&running));
    assert_eq!(watcher.text("MONITOR"), "+OK");
    let (mut odd, mut last) = ([0, 0], 0);
    for _ in 0..20 {
        let reply = client.text("TIME");
        let words: Vec<u64> = reply.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [secs, us] = words[..] else { panic!("{reply}") };
        let line = String::from_utf8(watcher.next()).unwrap();
        let stamp = line.strip_prefix('+').and_then(|line| line.split(' ').next()).expect("a line");
        let (line_secs, line_us) = stamp.split_once('.').expect("a point");
        assert!(line_us.len() == 6 && us < 1_000_000, "{line} {reply}");
        let now = secs * 1_000_000 + us;
        let monitored = line_secs.parse::<u64>().unwrap() * 1_000_000 + line_us.parse::<u64>().unwrap();
        assert!(now >= last && monitored.abs_diff(now) < 5_000_000, "{line} {reply}");
        assert!(now.abs_diff(base::clock::UnixMillis::now().0 * 1000) < 5_000_000, "{reply}");
        last = now;
        odd = [odd[0] + u32::from(us % 1000 > 0), odd[1] + u32::from(!line_us.ends_with("000"))];
    }
    assert!(odd.iter().all(|odd| *odd > 10), "{odd:?}");
    running.stop();
}

#[test]
fn info_and_config_report_true_facts_on_the_process() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let field = |client: &mut Replies, name: &str| -> String {
        let text = String::from_utf8(client.ask(&[b"INFO", b"server"])).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    let program = std::env::current_exe().unwrap();
    assert_eq!(field(&mut ours, "executable"), program.display().to_string());
    assert_eq!(field(&mut ours, "config_file"), "");
    assert!(["epoll", "io_uring"].contains(&&field(&mut ours, "multiplexing_api")[..]));
    for name in ["redis_git_sha1", "redis_git_dirty", "process_supervised", "monotonic_clock"] {
        assert_eq!(field(&mut ours, name), field(&mut theirs, name), "{name}");
    }
    let [ours_at, theirs_at] = [&mut ours, &mut theirs].map(|it| field(it, "lru_clock").parse::<i64>().unwrap());
    assert!(ours_at.abs_diff(theirs_at) < 10, "{ours_at} {theirs_at}");
    assert_eq!(ours.text("CONFIG GET hz"), format!("*2 $2 hz $2 {}", field(&mut ours, "configured_hz")));
    let folder = std::env::current_dir().unwrap().display().to_string();
    assert_eq!(ours.text("CONFIG GET dir"), format!("*2 $3 dir ${} {folder}", folder.len()));
    running.stop();
}
#[test]
fn expiry_that_the_store_has_rounded_or_shortened_is_not_later_the_second_time() {
    same_replies(&[
        "SET k v EX 100",
        "EXPIREAT k 99999999999 GT",
        "EXPIREAT k 99999999999 GT",
        "EXPIREAT k 99999999999 LT",
        "PEXPIREAT k 4102444800123 LT",
        "PEXPIREAT k 4102444800123 LT",
        "PEXPIREAT k 4102444800123 GT",
        "PEXPIREAT k 4102444802123 GT",
        "PEXPIREAT k 4102444802123 GT",
        "PEXPIREAT k 4102444802123 XX",
        "PERSIST k",
        "EXPIREAT k 99999999999 GT",
        "EXPIREAT k 1 GT",
        "EXISTS k",
    ]);
}

/// Returns a request of `count` words behind `head`.
fn many(head: &str, count: usize, word: impl Fn(usize) -> String) -> String {
    (0..count).fold(head.to_owned(), |line, number| line + " " + &word(number))
}

#[test]
fn command_that_takes_many_steps_sends_each_event_once() {
    let (member, scored) = (|n: usize| format!("m{n}"), |n: usize| format!("{n} m{n}"));
    let lines = [
        many("RPUSH l", 3000, member),
        "LPOP l 1000".to_owned(),
        "RPOP l 100000".to_owned(),
        many("RPUSH l", 3000, |n| format!("e{}", n % 3)),
        "LREM l 0 e1".to_owned(),
        "LREM l -900 e2".to_owned(),
        "LMPOP 1 l LEFT COUNT 600".to_owned(),
        many("SADD s", 3000, member),
        many("SADD s", 3001, member),
        many("SREM s", 500, member),
        "SPOP s 1000".to_owned(),
        "SPOP s 100000".to_owned(),
        many("ZADD z", 3000, scored),
        many("ZREM z", 500, member),
        "ZPOPMIN z 1000".to_owned(),
        "ZMPOP 1 z MAX COUNT 500".to_owned(),
        "ZPOPMAX z 100000".to_owned(),
        many("SADD s", 200, member),
        many("SREM s", 200, member),
        "LPOP l".to_owned(),
        "LPOP l 2".to_owned(),
    ];
    same_events(&lines.each_ref().map(String::as_str), 40);
}

#[test]
fn zero_with_a_sign_that_is_added_to_a_new_element_keeps_it_in_the_reply() {
    same_replies(&[
        "ZINCRBY z -0 a",
        "ZSCORE z a",
        "ZINCRBY z -0 a",
        "ZADD z INCR -0 b",
        "ZADD z -0 c",
        "ZRANGE z 0 -1 WITHSCORES",
        "ZINCRBY z -1 a",
        "ZINCRBY z 1 a",
    ]);
}

#[test]
fn member_with_the_name_of_an_option_names_no_key() {
    same_replies(&[
        "GEOADD g 1 1 store 1 1.001 storedist",
        "COMMAND GETKEYS GEORADIUSBYMEMBER g store 1 km",
        "COMMAND GETKEYS GEORADIUSBYMEMBER g storedist 1 km ASC",
        "COMMAND GETKEYS GEORADIUSBYMEMBER g store 1 km STORE d",
        "COMMAND GETKEYS GEORADIUSBYMEMBER g a 1 km STOREDIST d",
        "COMMAND GETKEYS GEORADIUS g 1 1 1 km STORE d",
        "COMMAND GETKEYS SORT store BY store GET store",
        "ACL SETUSER u on nopass +@all ~g ~d",
        "AUTH u x",
        "GEORADIUSBYMEMBER g store 1 km ASC",
        "GEORADIUSBYMEMBER g store 1 km STORE d",
        "GEORADIUSBYMEMBER g storedist 1 km STOREDIST e",
        "ZRANGE d 0 -1",
    ]);
}
