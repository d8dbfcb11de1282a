//! Tests of records over a socket: typed bins, conditions, several operations at once, and the state after a refused
//! request.

use crate::common::redis::{Replies, resp, running};
use base::prng::Prng;
use gannet_server::start::Running;
use std::collections::BTreeMap;

fn served() -> (Running, Replies) {
    let running = running();
    let replies = resp(&running);
    (running, replies)
}

fn check(redis: &mut Replies, script: &[(&str, &str)]) {
    for (line, reply) in script {
        assert_eq!(redis.shown(line), *reply, "{line}");
    }
}

#[test]
fn bin_is_returned_with_the_type_that_was_stored() {
    let (running, mut redis) = served();
    let put = "REC.PUT r BINS i INT -12 f FLOAT 0.50 t BOOL true u BOOL 0 s STR 5 b BYTES xyz";
    check(
        &mut redis,
        &[
            (put, ":1"),
            (
                "REC.GET r BINS i f t u s b none",
                "*3 :1 :-1 *14 $1 i :-12 $1 f $3 0.5 $1 t :1 $1 u :0 $1 s $1 5 $1 b $3 xyz $4 none $-1",
            ),
            (
                "REC.GET r TYPED BINS s b i",
                "*3 :1 :-1 *6 $1 s *2 $3 STR $1 5 $1 b *2 $5 BYTES $3 xyz $1 i *2 $3 INT :-12",
            ),
        ],
    );
    assert!(redis.shown("HELLO 3").starts_with('%'));
    check(
        &mut redis,
        &[
            ("REC.GET r BINS i f t u none", "*3 :1 :-1 %5 $1 i :-12 $1 f ,0.5 $1 t #t $1 u #f $4 none _"),
            // As a hash all are texts.
            ("HMGET r i f t u s b", "*6 $3 -12 $3 0.5 $1 1 $1 0 $1 5 $3 xyz"),
            ("HINCRBY r s 1", ":6"),
            ("HSET r new 7 text seven", ":2"),
            ("REC.GET r TYPED BINS new text", "*3 :3 :-1 %2 $3 new *2 $3 INT :7 $4 text *2 $3 STR $5 seven"),
            ("REC.GET none", "_"),
            ("REC.EXISTS r", ":3"),
            ("REC.EXISTS none", ":0"),
            ("REC.DEL r", ":1"),
            ("REC.DEL r", ":0"),
            ("HLEN r", ":0"),
        ],
    );
    running.stop();
}

#[test]
fn conditions_hold_or_nothing_is_done() {
    let (running, mut redis) = served();
    check(
        &mut redis,
        &[
            ("REC.PUT r UPDATE BINS a INT 1", "-NOTFOUND record 'r': it does not exist"),
            ("REC.TOUCH r", "-NOTFOUND record 'r': it does not exist"),
            ("REC.PUT r IFREV 1 BINS a INT 1", "-REVISION record 'r': its revision is 0, not 1"),
            ("REC.PUT r CREATE BINS a INT 1", ":1"),
            ("REC.PUT r CREATE BINS a INT 2", "-EXISTS record 'r': it already exists"),
            ("REC.PUT r IFREV 0 BINS a INT 2", "-REVISION record 'r': its revision is 1, not 0"),
            ("REC.PUT r IFREV 1 UPDATE BINS b INT 2", ":2"),
            ("REC.PUT r IFGT 2 BINS b INT 3", "-REVISION record 'r': its revision is 2, not above 2"),
            ("REC.ADD r IFGT 1 BINS b INT 3", ":3"),
            ("REC.GET r", "*3 :3 :-1 *4 $1 a :1 $1 b :5"),
            ("REC.PUT r REPLACE PXAT 4000000000000 BINS c INT 9", ":4"),
            ("REC.GET r", "*3 :4 :4000000000000 *2 $1 c :9"),
            ("REC.PUT r BINS c INT 8", ":5"),
            ("REC.TOUCH r IFREV 5", ":6"),
            ("PEXPIRETIME r", ":4000000000000"),
            ("REC.TOUCH r PERSIST", ":7"),
            ("TTL r", ":-1"),
            ("REC.DEL r IFREV 3", "-REVISION record 'r': its revision is 7, not 3"),
            ("REC.DEL r IFGT 6", ":1"),
            ("REC.DEL r IFREV 7", "-REVISION record 'r': its revision is 0, not 7"),
            ("EXISTS r", ":0"),
        ],
    );
    running.stop();
}

#[test]
fn an_error_names_key_and_bin_and_leaves_the_record_as_it_was() {
    let (running, mut redis) = served();
    let long = "n".repeat(64);
    redis.shown("REC.PUT r BINS i INT 9223372036854775807 f FLOAT 1e308 s STR text b BYTES by t BOOL 1");
    redis.shown("SET string v");
    let before = redis.shown("REC.GET r TYPED");
    check(
        &mut redis,
        &[
            ("REC.ADD r BINS new INT 1 i INT 1", "-BINRANGE record 'r', bin 'i': the sum is out of the range of INT"),
            ("REC.ADD r BINS f FLOAT 1e308", "-BINRANGE record 'r', bin 'f': the sum is out of the range of FLOAT"),
            ("REC.ADD r BINS new INT 1 s INT 1", "-BINTYPE record 'r', bin 's': it holds STR, not INT"),
            ("REC.ADD r BINS i FLOAT 1", "-BINTYPE record 'r', bin 'i': it holds INT, not FLOAT"),
            ("REC.APPEND r BINS new STR x b STR y", "-BINTYPE record 'r', bin 'b': it holds BYTES, not STR"),
            ("REC.ADD r BINS s STR 1", "-BINTYPE record 'r', bin 's': STR is not supported by this operation"),
            ("REC.APPEND r BINS i INT 1", "-BINTYPE record 'r', bin 'i': INT is not supported by this operation"),
            ("REC.PUT r BINS new INT 1 i INT 1.5", "-BINVALUE record 'r', bin 'i': the given value is not of type INT"),
            ("REC.PUT r BINS f FLOAT inf", "-BINVALUE record 'r', bin 'f': the given value is not of type FLOAT"),
            ("REC.PUT r BINS t BOOL yes", "-BINVALUE record 'r', bin 't': the given value is not of type BOOL"),
            (
                "REC.PUT r BINS t TEXT yes",
                "-BINVALUE record 'r', bin 't': unknown type 'TEXT'; the types are INT, FLOAT, BOOL, STR, BYTES, LIST \
                 and MAP",
            ),
            (
                "REC.OPERATE r OPS PUT new INT 1 DEL i ADD s INT 1",
                "-BINTYPE record 'r', bin 's': it holds STR, not INT",
            ),
            ("REC.OPERATE r OPS PUT new INT 1 FOO i", "-ERR syntax error"),
            ("REC.PUT r BINS new INT", "-ERR wrong number of arguments for 'rec.put' command"),
            ("REC.PUT r BINS new INT 1 b", "-ERR syntax error"),
            ("REC.PUT r CREATE UPDATE BINS new INT 1", "-ERR syntax error"),
            ("REC.PUT r EX 0 BINS new INT 1", "-ERR invalid expire time in 'rec.put' command"),
            ("REC.PUT r IFREV x BINS new INT 1", "-ERR value is not an integer or out of range"),
            ("REC.GET string", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("REC.PUT string BINS a INT 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("GET r", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ],
    );
    let reply = redis.shown(&format!("REC.PUT r BINS {long} INT 1"));
    assert_eq!(reply, format!("-BINNAME record 'r', bin '{long}': a name must have 1 to 63 bytes"));
    assert!(redis.shown("REC.GET r BINS ").starts_with("-BINNAME record 'r', bin ''"));
    let huge = crate::common::pattern(1_200_000);
    let words = [&b"REC.PUT"[..], b"r", b"BINS", b"new", b"BYTES", &huge];
    assert!(redis.ask(&words).starts_with(b"-ERR a field with its value would be longer than"));
    // Line ends in names end no line.
    let reply = redis.ask(&[b"REC.ADD", b"r\r\n+OK", b"BINS", b"a\r\nb", b"STR", b"1"]);
    assert_eq!(reply, b"-BINTYPE record 'r  +OK', bin 'a  b': STR is not supported by this operation\r\n");
    assert_eq!(redis.shown("REC.GET r TYPED"), before);
    running.stop();
}

#[test]
fn operations_see_the_effects_of_earlier_operations() {
    let (running, mut redis) = served();
    check(
        &mut redis,
        &[
            (
                "REC.OPERATE r OPS GET n ADD n INT 5 GET n PUT s STR b APPEND s STR c PREPEND s STR a GET s DEL n \
                 DEL n GET n",
                "*2 :1 *10 $-1 :5 :5 +OK +OK +OK $3 abc :1 :0 $-1",
            ),
            ("REC.GET r", "*3 :1 :-1 *2 $1 s $3 abc"),
            // Reading alone is no writing.
            ("REC.OPERATE r OPS GET s DEL none", "*2 :1 *2 $3 abc :0"),
            ("REC.OPERATE none OPS GET s", "*2 :0 *1 $-1"),
            ("EXISTS none", ":0"),
            ("REC.OPERATE r EXAT 4000000000 OPS APPEND b BYTES xy ADD f FLOAT 0.5", "*2 :2 *2 +OK $3 0.5"),
            ("EXPIRETIME r", ":4000000000"),
            ("HPEXPIREAT r 4000000000123 FIELDS 2 f b", "*2 :1 :1"),
            ("REC.OPERATE r OPS ADD f FLOAT 1 APPEND b BYTES z PUT s INT 1", "*2 :4 *3 $3 1.5 +OK +OK"),
            ("HPEXPIRETIME r FIELDS 3 f b s", "*3 :4000000000123 :4000000000123 :-1"),
            ("REC.PUT r BINS f INT 1", ":5"),
            ("HPEXPIRETIME r FIELDS 1 f", "*1 :-1"),
            // With its last bin a record goes.
            ("REC.OPERATE r OPS DEL f DEL b DEL s", "*2 :6 *3 :1 :1 :1"),
            ("REC.EXISTS r", ":0"),
        ],
    );
    running.stop();
}

/// Compares puts, sums, appends and deletions of many bins with a map. Half of the requests fail at one of their
/// operations.
#[test]
fn a_list_of_operations_is_done_whole_or_not_at_all() {
    let (running, mut redis) = served();
    let (mut done, mut refused) = (0, 0);
    for seed in 0..20 {
        println!("seed {seed}");
        let mut prng = Prng::new(seed);
        let key = format!("r{seed}");
        let mut model: BTreeMap<String, String> = BTreeMap::new();
        let mut revision = 0;
        for _ in 0..60 {
            let (mut next, mut line, mut fails) = (model.clone(), format!("REC.OPERATE {key} OPS"), false);
            for _ in 0..=prng.below(5) {
                // Bins with an even number hold sums, the others texts.
                let number = prng.below(8);
                let (bin, sums) = (format!("b{number}"), number.is_multiple_of(2));
                match prng.below(4) {
                    0 => {
                        line += &format!(" PUT {bin} {}", if sums { "INT 10" } else { "STR x" });
                        next.insert(bin, if sums { "10" } else { "x" }.into());
                    }
                    1 => {
                        line += &format!(" ADD {bin} INT 3");
                        let there = next.get(&bin).map_or(Ok(0), |text| text.parse::<i64>());
                        fails |= there.is_err();
                        next.insert(bin, (there.unwrap_or(0) + 3).to_string());
                    }
                    2 => {
                        line += &format!(" DEL {bin}");
                        next.remove(&bin);
                    }
                    _ if sums => line += &format!(" GET {bin}"),
                    _ => {
                        line += &format!(" APPEND {bin} STR y");
                        let there = next.entry(bin).or_default();
                        fails |= there.parse::<i64>().is_ok();
                        there.push('y');
                    }
                }
            }
            let reply = redis.shown(&line);
            assert_eq!(reply.starts_with("-BINTYPE"), fails, "{line}: {reply}");
            if fails {
                refused += 1;
            } else {
                done += 1;
                model = next;
            }
            let replied = redis.shown(&format!("HGETALL {key}"));
            let words: Vec<&str> = replied.split(' ').filter(|word| !word.starts_with(['*', '$'])).collect();
            let replied: BTreeMap<_, _> =
                words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect();
            assert_eq!(replied, model, "{line}");
            let now: u32 = redis.shown(&format!("REC.EXISTS {key}"))[1..].parse().unwrap();
            assert!(now <= revision + 1, "one revision a request: {revision}, {now}");
            assert!(!fails || now == revision, "{line}");
            revision = now;
        }
    }
    assert!(done > 300 && refused > 200, "{done} done, {refused} refused");
    running.stop();
}
