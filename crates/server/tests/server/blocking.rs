//! Blocking commands, with several clients on several workers. Fixed interleavings are compared with Debian's Redis.

use crate::common::redis::{Redis, Replies, both, request, resp, resp_addr, words};
use crate::common::{Client, PATIENCE, start, tcp, wait_until};
use base::prng::Prng;
use gannet_server::start::{Running, ServerConfig};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Interleavings: each line is a client's name and its request. `!`: the client waits, and its reply is read by a later
/// line `NAME?`. A line `NAME-` closes the client.
const SCENARIOS: &[&[&str]] = &[
    // The longest waiting client is served first, and keys in the order in which they were filled.
    &[
        "a! BLPOP k 0",
        "b! BRPOP k 0",
        "c! BLPOP k 0",
        "p RPUSH k 1 2",
        "a?",
        "b?",
        "p RPUSH k 3 4",
        "c?",
        "p LRANGE k 0 -1",
    ],
    &["p RPUSH k 1 2", "a BLPOP none k 0", "a BRPOP k none 1", "p EXISTS k", "a BLPOP k 0.01", "a BRPOP k 0.000001"],
    &["a! BLPOP k1 k2 k3 0", "p MULTI", "p RPUSH k3 c", "p RPUSH k1 a", "p EXEC", "a?", "p LLEN k1", "p LLEN k3"],
    &["a! BLPOP k k k 0", "p LPUSH k x", "a?", "p EXISTS k", "a! BLPOP k 0", "p LPUSH k y", "a?"],
    // A key of another type fails a new request, although a client waits for it.
    &["a! BLPOP k 0", "p ZADD k 1 m", "b BLPOP k 0", "b BLMOVE k l LEFT LEFT 0", "b BLMPOP 0 1 k LEFT", "a-"],
    &["a! BZPOPMIN k 0", "p RPUSH k x", "b BZPOPMAX k 0", "b BZMPOP 0 1 k MIN", "b BLPOP k 0", "a-"],
    &["a! BLPOP k 0", "p SET k v", "b BLPOP none k 0", "p RPUSH l x", "b BLPOP k l 0", "b BLPOP l k 0", "a-"],
    &["a! XREAD BLOCK 0 STREAMS k 0", "p SADD k m", "b XREAD BLOCK 0 STREAMS k 0", "b BLPOP k 0", "a-"],
    // `SWAPDB` exchanges what clients wait for, watch and are notified of.
    &["a! BLPOP k 0", "p SELECT 1", "p RPUSH k x", "p SWAPDB 0 1", "a?", "p EXISTS k", "p SELECT 0", "p EXISTS k"],
    &[
        "a! BLPOP k 0",
        "b! BLPOP none k 0",
        "c! BLPOP k none 0",
        "p SELECT 1",
        "p RPUSH k x y",
        "p SWAPDB 1 0",
        "a?",
        "b?",
        "p SELECT 0",
        "p RPUSH k z",
        "c?",
        "p EXISTS k",
    ],
    &["p SELECT 2", "a SELECT 2", "a! BZPOPMIN k 0", "p SWAPDB 2 3", "p ZADD k 1 x", "a?", "p SWAPDB 2 3", "a PING"],
    &[
        "a! BLPOP k 0",
        "b SELECT 1",
        "b! BLPOP k 0",
        "p SWAPDB 0 1",
        "p RPUSH k x",
        "a?",
        "p SELECT 1",
        "p RPUSH k y",
        "b?",
    ],
    &["a! XREAD BLOCK 0 STREAMS s 0", "p SELECT 1", "p XADD s 1-1 f v", "p SWAPDB 0 1", "a?"],
    &["a! BLPOP k 0.4", "p SWAPDB 0 1", "a?", "a! BLPOP k 0", "p SWAPDB 0 1", "p UNBLOCK a ERROR", "a?"],
    &["a! BLPOP k 0", "p SWAPDB 0 1", "a-", "p RPUSH k x", "p LRANGE k 0 -1"],
    &["p SWAPDB 0", "p SWAPDB a 1", "p SWAPDB 0 b", "p SWAPDB a b", "p SWAPDB 0 16", "p SWAPDB -1 0", "p SWAPDB 1 1"],
    &["p SWAPDB 0 99999999999", "p SWAPDB 99999999999 0", "p SWAPDB 00 1", "p SWAPDB 16 16", "p SWAPDB 0 1 2"],
    &["a WATCH k", "p SWAPDB 0 1", "a MULTI", "a PING", "a EXEC"],
    &["p SET k v", "a WATCH k", "p SWAPDB 0 1", "a MULTI", "a PING", "a EXEC"],
    &["p SELECT 1", "p SET k v", "a WATCH k", "p SWAPDB 0 1", "a MULTI", "a PING", "a EXEC"],
    &["p SELECT 5", "a SELECT 5", "p SET k v", "a WATCH k", "p SWAPDB 0 1", "a MULTI", "a PING", "a EXEC"],
    &["a MULTI", "a SET k v", "p SWAPDB 0 1", "a GET k", "a EXEC", "p EXISTS k", "p SELECT 1", "p EXISTS k"],
    &[
        "p SET k zero",
        "a MULTI",
        "a SET m 1",
        "a SWAPDB 0 1",
        "a GET k",
        "a SET n 2",
        "a SELECT 1",
        "a GET k",
        "a GET m",
        "a EXEC",
        "p EXISTS k m n",
        "p SELECT 1",
        "p EXISTS k m n",
        "a EXISTS k m n",
    ],
    &[
        "p CONFIG SET notify-keyspace-events Kg$",
        "s PSUBSCRIBE __key*",
        "p SWAPDB 0 1",
        "p SET k v",
        "s?",
        "p SELECT 1",
        "p SET k w",
        "s?",
        "p CONFIG SET notify-keyspace-events t",
    ],
    &[
        "p SET k v",
        "p SWAPDB 0 1",
        "p COPY k l DB 0",
        "p SELECT 1",
        "p COPY k k DB 0",
        "p MOVE k 3",
        "p EXISTS k",
        "p SELECT 3",
        "p GET k",
        "p SELECT 0",
        "p GET k",
        "p RESET",
        "p GET k",
    ],
    // What a transaction removes again wakes nobody.
    &["a! BLPOP k 0", "p MULTI", "p LPUSH k x", "p DEL k", "p EXEC", "p LPUSH k y", "a?"],
    &["a! BLPOP k 0", "p MULTI", "p LPUSH k x", "p LPUSH k y", "p LPUSH k z", "p EXEC", "a?", "p LRANGE k 0 -1"],
    &[
        "a MULTI",
        "a BLPOP k 0",
        "a BRPOPLPUSH k l 0",
        "a BLMOVE k l LEFT LEFT 0",
        "a BLMPOP 0 1 k LEFT",
        "a BZPOPMIN k 0",
        "a BZMPOP 0 1 k MIN",
        "a WAIT 1 0",
        "a EXEC",
    ],
    // Other types do not serve, and stay.
    &[
        "a! BLPOP k 0",
        "p SET k text",
        "p DEL k",
        "p SADD k m",
        "p DEL k",
        "p ZADD k 1 m",
        "p DEL k",
        "p RPUSH k x",
        "a?",
    ],
    &["a! BLPOP k 0", "b! BZPOPMIN k 0", "p ZADD k 1 m", "b?", "p RPUSH k x", "a?"],
    &[
        "p SET k text",
        "a BLPOP k 0",
        "a BLPOP none k 0.01",
        "a BZPOPMIN k 0",
        "a BLMOVE k l LEFT LEFT 0",
        "a BLMPOP 0 1 k LEFT",
    ],
    // The ways in which a key appears.
    &["p RPUSH other x y", "a! BLPOP k 0", "p RENAME other k", "a?", "p LRANGE k 0 -1"],
    // Keys that arrive from another database, and one that leaves.
    &[
        "p SELECT 1",
        "p RPUSH other x y",
        "p RPUSH k z",
        "a! BLPOP k 0",
        "b! BLPOP k 0",
        "p COPY other k DB 0",
        "a?",
        "b?",
        "c! BLPOP k 0",
        "p MOVE k 0",
        "c?",
        "p EXISTS k",
    ],
    &["p XGROUP CREATE s g $ MKSTREAM", "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "p MOVE s 1", "a?"],
    &["p RPUSH other x", "a! BLPOP k 0", "p COPY other k", "a?"],
    &[
        "p RPUSH other x y",
        "a! BLPOP k 0",
        "p LMOVE other k LEFT LEFT",
        "a?",
        "a! BLPOP k 0",
        "p RPOPLPUSH other k",
        "a?",
    ],
    &[
        "a! BLPOP k 0",
        "p EVAL redis.call('rpush',KEYS[1],'x','y')return(redis.call('llen',KEYS[1])) 1 k",
        "a?",
        "p LLEN k",
    ],
    &["a! BZPOPMAX k 0", "p ZADD other 1 a 2 b", "p ZUNIONSTORE k 1 other", "a?", "p ZRANGE k 0 -1"],
    &["a! BLPOP k 0", "p LPUSHX k x", "p RPUSH k y", "a?"],
    // Moves.
    &["a! BLMOVE k l LEFT RIGHT 0", "p RPUSH k x", "p LRANGE l 0 -1", "a?", "p EXISTS k"],
    &["a! BRPOPLPUSH k k 0", "p RPUSH k x", "p LRANGE k 0 -1", "a?"],
    &[
        "a! BLMOVE l1 l2 RIGHT LEFT 0",
        "b! BLMOVE l2 l3 LEFT RIGHT 0",
        "p RPUSH l1 foo",
        "p LRANGE l1 0 -1",
        "p LRANGE l2 0 -1",
        "p LRANGE l3 0 -1",
        "a?",
        "b?",
    ],
    &[
        "a! BRPOPLPUSH l1 l2 0",
        "b! BRPOPLPUSH l2 l1 0",
        "p RPUSH l1 foo",
        "p LRANGE l1 0 -1",
        "p LRANGE l2 0 -1",
        "a?",
        "b?",
    ],
    &["p SET l text", "a! BLMOVE k l LEFT LEFT 0", "p RPUSH k x", "a?", "p LRANGE k 0 -1", "a BLMOVE k l LEFT LEFT 0"],
    &["p SET l text", "a! BLMOVE k l LEFT LEFT 0", "b! BLPOP k 0", "p RPUSH k x", "a?", "b?"],
    &[
        "p RPUSH k x y",
        "a BLMOVE k l RIGHT LEFT 0",
        "a BRPOPLPUSH k l 0",
        "p LRANGE l 0 -1",
        "a BLMOVE k l LEFT LEFT 0.01",
        "a BRPOPLPUSH k l 0.01",
    ],
    // Several elements, and sorted sets.
    &[
        "a! BLMPOP 0 2 k l RIGHT COUNT 3",
        "p RPUSH l 1 2 3 4",
        "a?",
        "p LRANGE l 0 -1",
        "a BLMPOP 0.01 1 none LEFT",
        "a BLMPOP 1 1 l LEFT COUNT 10",
    ],
    &["a! BZPOPMIN k l 0", "b! BZPOPMAX k 0", "p ZADD k 1 a 2 b 3 c", "a?", "b?", "p ZRANGE k 0 -1"],
    &[
        "a! BZMPOP 0 2 k l MAX COUNT 2",
        "p ZADD l 1 a 2.5 b 3 c",
        "a?",
        "p ZRANGE l 0 -1",
        "a BZMPOP 0.01 1 none MIN",
        "a BZMPOP 1 1 l MIN COUNT 10",
    ],
    &["p ZADD k 1 a 2 b", "a BZPOPMIN none k 0", "a BZPOPMAX k 0", "p EXISTS k", "a BZPOPMIN k 0.01"],
    &[
        "a HELLO 3",
        "a! BZPOPMIN k 0",
        "p ZADD k 1.5 a",
        "a?",
        "a! BLPOP k 0.02",
        "a?",
        "a! BZMPOP 0 1 k MIN",
        "p ZADD k 1 a",
        "a?",
        "a! BLMOVE k l LEFT LEFT 0.02",
        "a?",
    ],
    // Elements that others take first.
    &["a! BLPOP k 0", "b- ", "p RPUSH k 1", "c LPOP k", "a?"],
    &["a! BLPOP k 0", "b! BLPOP k 0", "a-", "p RPUSH k 1", "b?", "p LLEN k"],
    &["a! BLPOP k 0", "b! BLPOP k 0", "c! BLPOP k 0", "b-", "p RPUSH k 1", "p RPUSH k 2", "a?", "c?"],
    &["p MULTI", "a! BLPOP k 0", "p RPUSH k 1 2", "p LPOP k", "p EXEC", "a?", "p LLEN k"],
    // Databases, FLUSHALL and expiry.
    &["a SELECT 3", "a! BLPOP k 0", "b! BLPOP k 0", "p RPUSH k 0", "b?", "p SELECT 3", "p RPUSH k 3", "a?"],
    &["a! BLPOP k 0", "p FLUSHALL", "p RPUSH k x", "a?"],
    // Requests behind a waiting one.
    &["a! BLPOP k 0|SET done yes|GET done", "p GET done", "p RPUSH k x", "a?", "a?", "a?"],
    &["p SET n 1", "a! INCR n|BLPOP k 0|INCR n", "p GET n", "a?", "p RPUSH k x", "a?", "a?"],
    &["a CLIENT REPLY SKIP|BLPOP k 0.01|PING", "p RPUSH k x", "a CLIENT REPLY SKIP|BLPOP k 0|PING", "p LLEN k"],
    // Errors.
    &[
        "a BLPOP k -1",
        "a BLPOP k abc",
        "a BLPOP k 1e30",
        "a BLPOP k inf",
        "a BLPOP k",
        "a BLPOP k nan",
        "a BLPOP k -inf",
        "a BLMOVE k l UP LEFT 0",
        "a BLMOVE k l UP LEFT abc",
        "a BRPOPLPUSH k l abc",
        "a BRPOPLPUSH k l -1",
        "a BLMPOP abc 1 k LEFT",
        "a BLMPOP 1 0 k LEFT",
        "a BLMPOP 1 1 k UP",
        "a BLMPOP 1 1 k LEFT COUNT 0",
        "a BLMPOP 1 2 k LEFT",
        "a BLMPOP -1 0 k LEFT",
        "a BZMPOP abc 1 k MIN",
        "a BZMPOP 1 0 k MIN",
        "a BZMPOP 1 1 k UP",
        "a BZMPOP 1 1 k MIN COUNT 0",
        "a BZPOPMIN k -1",
        "a BZPOPMAX k abc",
        "a BLPOP k 9223372036854776",
    ],
    &[
        "a EVAL return(redis.pcall('blpop','k',0)) 0",
        "a EVAL return(redis.call('blmpop',0,1,'k','LEFT')) 0",
        "a EVAL return(redis.call('bzmpop',0,1,'k','MIN')) 0",
    ],
    // WAIT and CLIENT UNBLOCK.
    &[
        "a WAIT 0 0",
        "a WAIT 1 20",
        "a WAIT -5 0",
        "a WAIT 1 abc",
        "a WAIT x -1",
        "a WAIT 1 -1",
        "a! WAIT 2 0",
        "p UNBLOCK a",
        "a?",
    ],
    &[
        "a! BLPOP k 0",
        "p UNBLOCK a",
        "a?",
        "p UNBLOCK a",
        "a! BLPOP k 0",
        "p UNBLOCK a ERROR",
        "a?",
        "a! BLMOVE k l LEFT LEFT 0",
        "p UNBLOCK a TIMEOUT",
        "a?",
        "a PING",
        "p UNBLOCK a other",
        "p CLIENT UNBLOCK abc",
        "p CLIENT UNBLOCK 99999 ERROR",
        "p RPUSH k x",
        "p LLEN k",
        "p CLIENT UNBLOCK abc other",
        "p CLIENT UNBLOCK -1",
    ],
    &["a! BZPOPMIN k 0", "b! BZPOPMIN k 0", "p UNBLOCK a ERROR", "a?", "p ZADD k 1 m", "b?"],
    // Streams: all readers get new entries, and one consumer of each group.
    &[
        "a! XREAD BLOCK 0 STREAMS s $",
        "b! XREAD COUNT 1 BLOCK 0 STREAMS s 0",
        "c! XREAD BLOCK 0 STREAMS s 5-0",
        "p MULTI",
        "p XADD s 1-1 f v",
        "p XADD s 1-2 f v",
        "p EXEC",
        "a?",
        "b?",
        "a XREAD BLOCK 0 STREAMS s 0",
        "a XREAD BLOCK 10 STREAMS s $",
        "p XADD s 6-0 g w",
        "c?",
    ],
    &[
        "a! XREAD BLOCK 0 STREAMS s t u $ $ 0",
        "p MULTI",
        "p XADD t 1-1 a b",
        "p XADD s 1-1 a b",
        "p EXEC",
        "a?",
        "a! XREAD BLOCK 0 STREAMS s s 1-1 $",
        "p XADD s 2-1 a b",
        "a?",
    ],
    &[
        "p XADD s 3-3 f v",
        "a! XREAD BLOCK 0 STREAMS s $",
        "p XDEL s 3-3",
        "p DEL s",
        "p SET s text",
        "p DEL s",
        "p XADD s 2-0 f v",
        "p XADD s 4-0 f v",
        "a?",
    ],
    &[
        "p XGROUP CREATE s g $ MKSTREAM",
        "a! XREADGROUP GROUP g c1 BLOCK 0 STREAMS s >",
        "b! XREADGROUP GROUP g c2 BLOCK 0 STREAMS s >",
        "p XADD s 1-1 f v",
        "a?",
        "p XADD s 1-2 f v",
        "b?",
        "a XREADGROUP GROUP g c1 BLOCK 0 STREAMS s 0",
        "a XREADGROUP GROUP g c1 BLOCK 0 STREAMS s 9",
        "p XPENDING s g",
        "a! XREADGROUP GROUP g c1 NOACK BLOCK 0 STREAMS s >",
        "p XADD s 1-3 f v",
        "a?",
        "p XPENDING s g",
        "a XREADGROUP GROUP g c1 BLOCK 10 STREAMS s >",
        "p XINFO GROUPS s",
    ],
    &[
        "p XGROUP CREATE s g1 $ MKSTREAM",
        "p XGROUP CREATE s g2 $",
        "a! XREADGROUP GROUP g1 c BLOCK 0 COUNT 2 STREAMS s >",
        "b! XREADGROUP GROUP g2 c BLOCK 0 STREAMS s >",
        "c! XREAD BLOCK 0 STREAMS s $",
        "d! XREADGROUP GROUP g1 d BLOCK 0 STREAMS s >",
        "p MULTI",
        "p XADD s 1-1 f v",
        "p XADD s 1-2 f v",
        "p XADD s 1-3 f v",
        "p EXEC",
        "a?",
        "b?",
        "c?",
        "d?",
        "p XPENDING s g1",
    ],
    &[
        "p XGROUP CREATE s g $ MKSTREAM",
        "p XGROUP CREATE t g $ MKSTREAM",
        "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s t > >",
        "p XADD t 1-1 f v",
        "a?",
        "p XADD s 1-1 f v",
        "a XREADGROUP GROUP g c BLOCK 0 STREAMS t s > >",
        "a XREADGROUP GROUP none c BLOCK 0 STREAMS s >",
        "a XREADGROUP GROUP g c BLOCK 0 STREAMS none >",
    ],
    // A client that waits for a group learns that it has ended.
    &["p XGROUP CREATE s g $ MKSTREAM", "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "p DEL s", "a?"],
    &[
        "p XGROUP CREATE s g $ MKSTREAM",
        "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
        "b! XREADGROUP GROUP g d BLOCK 0 STREAMS s >",
        "c! XREAD BLOCK 0 STREAMS s $",
        "p XGROUP DESTROY s g",
        "a?",
        "b?",
        "p XADD s 1-1 f v",
        "c?",
    ],
    &["p XGROUP CREATE s g $ MKSTREAM", "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "p SET s x", "a?"],
    // A stream that expires ends the wait of the members of its groups, whether it was to expire before or not.
    &["p XGROUP CREATE s g $ MKSTREAM", "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "p PEXPIRE s 30", "a?"],
    &[
        "p XGROUP CREATE s g $ MKSTREAM",
        "p XGROUP CREATE t g $ MKSTREAM",
        "p PEXPIRE t 1000",
        "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s t > >",
        "b! XREADGROUP GROUP g d BLOCK 0 STREAMS t >",
        "a?",
        "b?",
    ],
    &[
        "p XGROUP CREATE s g $ MKSTREAM",
        "p PEXPIRE s 60000",
        "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
        "p PEXPIRE s 20 LT",
        "a?",
    ],
    &[
        "p XGROUP CREATE s g $ MKSTREAM",
        "p PEXPIRE s 1000",
        "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
        "p PERSIST s",
        "p XADD s 1-1 f v",
        "a?",
    ],
    &["p XGROUP CREATE s g $ MKSTREAM", "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "p RENAME s t", "a?"],
    &["p XGROUP CREATE s g $ MKSTREAM", "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "p FLUSHALL", "a?"],
    &["p XGROUP CREATE s g $ MKSTREAM", "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "p FLUSHDB", "a?"],
    &[
        "p XGROUP CREATE s g $ MKSTREAM",
        "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
        "p MULTI",
        "p DEL s",
        "p XADD s 1-1 f v",
        "p EXEC",
        "a?",
    ],
    &[
        "p XGROUP CREATE s g $ MKSTREAM",
        "p SADD set m",
        "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
        "p SUNIONSTORE s set",
        "a?",
    ],
    &["a! XREAD BLOCK 0 STREAMS s $", "b! BLPOP s 0", "p XADD s 1-1 f v", "a?", "p DEL s", "p RPUSH s x", "b?"],
    &[
        "p XGROUP CREATE s g $ MKSTREAM",
        "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
        "b! XREADGROUP GROUP g d BLOCK 0 STREAMS s >",
        "a-",
        "p XADD s 1-1 f v",
        "b?",
    ],
    &[
        "a HELLO 3",
        "a! XREAD BLOCK 0 STREAMS s $",
        "p XADD s 1-1 f v",
        "a?",
        "a! XREAD BLOCK 0.02 STREAMS s $",
        "a?",
        "a! XREAD BLOCK 0 STREAMS s $",
        "p UNBLOCK a",
        "a?",
        "a! XREAD BLOCK 0 STREAMS s $",
        "p UNBLOCK a ERROR",
        "a?",
        "p XGROUP CREATE s g $",
        "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
        "p UNBLOCK a",
        "a?",
        "a! XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
        "p XADD s 1-2 f v",
        "a?",
    ],
    &[
        "a MULTI",
        "a XREAD BLOCK 0 STREAMS s $",
        "a EXEC",
        "a EVAL return(redis.pcall('xread','BLOCK','0','STREAMS','s','$')) 0",
        "a EVAL return(redis.pcall('xreadgroup','GROUP','g','c','BLOCK','0','STREAMS','s','>')) 0",
        "a XREAD BLOCK -1 STREAMS s $",
        "a XREAD BLOCK abc STREAMS s $",
        "a XREAD BLOCK 1.5 STREAMS s $",
        "a XREAD BLOCK STREAMS s $",
        "p SET s text",
        "a XREAD BLOCK 0 STREAMS s $",
        "a XREADGROUP GROUP g c BLOCK 0 STREAMS s >",
    ],
    &["a! XREAD BLOCK 0 STREAMS s 0|PING", "p XADD s 1-1 f v", "a?", "a?"],
    &["p XADD t 1-1 f v", "a! XREAD BLOCK 0 STREAMS s 0", "p RENAME t s", "a?"],
    // Watched keys, and notifications of what a wait has changed.
    &["b WATCH l", "a! BRPOPLPUSH k l 0", "p RPUSH k x", "a?", "b MULTI", "b PING", "b EXEC"],
];

/// A server with named clients.
struct Scene {
    addr: SocketAddr,
    clients: BTreeMap<String, Replies>,
    ids: BTreeMap<String, String>,
    control: Replies,
    lines: Vec<String>,
}

fn blocked(control: &mut Replies) -> usize {
    let info = control.text("INFO clients");
    let at = info.find("blocked_clients:").expect("the field");
    info[at..].split([' ', ':']).nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

impl Scene {
    fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            clients: BTreeMap::new(),
            ids: BTreeMap::new(),
            control: Replies::connect(addr),
            lines: Vec::new(),
        }
    }

    fn client(&mut self, name: &str) -> &mut Replies {
        if !self.clients.contains_key(name) {
            let mut client = Replies::connect(self.addr);
            let id = client.text("CLIENT ID").trim_start_matches(':').to_owned();
            self.ids.insert(name.to_owned(), id);
            self.clients.insert(name.to_owned(), client);
        }
        self.clients.get_mut(name).expect("a client")
    }

    fn run(&mut self, line: &str) {
        let name = &line[..1];
        let before = blocked(&mut self.control);
        match &line[1..2] {
            "?" => {
                let reply = self.client(name).next().escape_ascii().to_string();
                self.lines.push(format!("{line} {reply}"));
            }
            "-" => {
                let was_there = self.clients.remove(name).is_some();
                wait_until("the client has left", || blocked(&mut self.control) == before - usize::from(was_there));
            }
            "!" => {
                let requests: Vec<u8> = line[3..].split('|').flat_map(|line| request(&words(line))).collect();
                self.client(name).client.send(&requests);
                wait_until(line, || blocked(&mut self.control) > before || line.contains("0.02"));
            }
            _ => {
                let text = match line[2..].strip_prefix("UNBLOCK ") {
                    Some(rest) => format!("CLIENT UNBLOCK {}{}", self.ids[&rest[..1]], &rest[1..]),
                    None => line[2..].to_owned(),
                };
                let requests: Vec<u8> = text.split('|').flat_map(|line| request(&words(line))).collect();
                self.client(name).client.send(&requests);
                let reply = self.client(name).next().escape_ascii().to_string();
                // The version of the server differs.
                let reply = if line.contains("HELLO") { String::new() } else { reply };
                self.lines.push(format!("{line} -> {reply}"));
            }
        }
    }
}

fn several_workers(workers: usize) -> Running {
    start(ServerConfig { workers, ..both() })
}

#[test]
fn fixed_interleavings_of_waiting_clients_get_the_replies_of_redis() {
    let redis = Redis::start();
    for workers in [1, 3] {
        let running = several_workers(workers);
        for scenario in SCENARIOS {
            let [ours, theirs] = [resp_addr(&running), redis.addr].map(|addr| {
                let mut scene = Scene::new(addr);
                scene.control.text("FLUSHALL");
                scenario.iter().for_each(|line| scene.run(line));
                drop(std::mem::take(&mut scene.clients));
                wait_until("all clients have left", || blocked(&mut scene.control) == 0);
                scene.lines
            });
            assert_eq!(ours, theirs, "{workers} workers: {scenario:?}");
        }
    }
}

#[test]
fn members_of_a_group_learn_of_flushes_by_memcached_clients() {
    let running = several_workers(2);
    let (mut control, mut memcached) = (resp(&running), Client::connect(tcp(&running)));
    let mut members = [resp(&running), resp(&running)];
    for (flush, reply) in [(&b"flush_all\r\n"[..], &b"OK\r\n"[..]), (b"flush_all 1\r\n", b"OK\r\n")] {
        assert_eq!(control.text("XGROUP CREATE s g $ MKSTREAM"), "+OK");
        for member in &mut members {
            member.client.send(&request(&words("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")));
        }
        wait_until("both wait", || blocked(&mut control) == 2);
        memcached.ask(flush, reply);
        for member in &mut members {
            let reply = member.next();
            assert!(reply.starts_with(b"-UNBLOCKED the stream key no longer exists"), "{}", reply.escape_ascii());
        }
    }
    running.stop();
}

/// What a memcached client removes, replaces, empties or lets expire.
#[test]
fn members_of_a_group_learn_of_streams_that_memcached_clients_remove_or_replace() {
    let running = several_workers(2);
    let (mut control, mut memcached) = (resp(&running), Client::connect(tcp(&running)));
    let mut member = resp(&running);
    for (change, line) in [
        ("delete s", "DELETED"),
        ("md s", "HD"),
        ("md s x", "HD"),
        ("set s 0 0 1\r\nx", "STORED"),
        ("replace s 0 0 1\r\nx", "STORED"),
        ("ms s 1\r\nx", "HD"),
        ("touch s -1", "TOUCHED"),
        ("touch s 1", "TOUCHED"),
        ("gat 1 s", "END"),
        ("mg s T1", "EN"),
        ("md s I T1", "HD"),
    ] {
        assert_eq!(control.text("XGROUP CREATE s g $ MKSTREAM"), "+OK");
        member.client.send(&request(&words("XREADGROUP GROUP g c BLOCK 0 STREAMS s >")));
        wait_until("the member waits", || blocked(&mut control) == 1);
        memcached.ask(format!("{change}\r\n").as_bytes(), format!("{line}\r\n").as_bytes());
        let reply = member.next();
        assert!(reply.starts_with(b"-UNBLOCKED the stream key no longer exists"), "{change}: {}", reply.escape_ascii());
        control.text("DEL s");
    }
    running.stop();
}

#[test]
fn waiters_of_all_workers_are_served_in_the_order_in_which_they_came() {
    let running = several_workers(4);
    let mut control = resp(&running);
    for pushes in [1, 5, 40] {
        let mut clients: Vec<Replies> = (0..40).map(|_| resp(&running)).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.client.send(&request(&words("BLPOP k 0")));
            wait_until("the client waits", || blocked(&mut control) == number + 1);
        }
        for first in (0..40).step_by(pushes) {
            let elements: Vec<String> = (first..first + pushes).map(|number| number.to_string()).collect();
            assert_eq!(control.text(&format!("RPUSH k {}", elements.join(" "))), format!(":{pushes}"));
            assert_eq!(control.text("EXISTS k"), ":0", "the reply to the push comes after the pops");
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let text = number.to_string();
            assert_eq!(client.next(), format!("*2\r\n$1\r\nk\r\n${}\r\n{text}\r\n", text.len()).into_bytes());
        }
    }
}

/// Clients of one group take entries from each other, in their order. Other clients read all entries.
#[test]
fn many_readers_of_a_stream_get_each_entry_and_consumers_of_a_group_one_each() {
    const READERS: usize = 150;
    let running = several_workers(4);
    let mut control = resp(&running);
    control.text("XGROUP CREATE s g $ MKSTREAM");
    let mut clients: Vec<Replies> = (0..READERS).map(|_| resp(&running)).collect();
    for round in 1..=3 {
        for (number, client) in clients.iter_mut().enumerate() {
            let (is_consumer, name) = (number % 2 == 0, format!("c{number}"));
            let line = if is_consumer {
                format!("XREADGROUP GROUP g {name} COUNT 1 BLOCK 0 STREAMS s >")
            } else {
                "XREAD COUNT 1 BLOCK 0 STREAMS s $".to_owned()
            };
            client.client.send(&request(&words(&line)));
            wait_until("the client waits", || blocked(&mut control) == number + 1);
        }
        let entries: Vec<u8> =
            (0..READERS / 2).flat_map(|n| request(&words(&format!("XADD s {round}-{n} f v")))).collect();
        control.client.send(&entries);
        (0..READERS / 2).for_each(|_| drop(control.next()));
        for (number, client) in clients.iter_mut().enumerate() {
            let entry = if number % 2 == 0 { number / 2 } else { 0 };
            let expected = format!("{round}-{entry}\r\n");
            let reply = client.next().escape_ascii().to_string();
            assert!(reply.contains(&expected.escape_default().to_string()), "{number}: {reply}");
        }
        assert_eq!(blocked(&mut control), 0);
    }
    running.stop();
}

/// A request over more keys than are changed together goes on after the change of a key for which a client waits.
#[test]
fn long_requests_over_keys_with_waiting_clients_are_done_whole() {
    let running = several_workers(2);
    let (mut control, mut consumer, mut popper) = (resp(&running), resp(&running), resp(&running));
    let id = popper.text("CLIENT ID");
    for name in ["DEL", "UNLINK", "MSET"] {
        control.text("XGROUP CREATE k500 g $ MKSTREAM");
        consumer.client.send(&request(&words("XREADGROUP GROUP g c BLOCK 0 STREAMS k500 >")));
        popper.client.send(&request(&words("BLPOP k7 0")));
        wait_until("the clients wait", || blocked(&mut control) == 2);
        let keys = (0..20_000).map(|n| if name == "MSET" { format!("k{n} v") } else { format!("k{n}") });
        let keys: Vec<String> = keys.filter(|key| name != "MSET" || !key.starts_with("k500 ")).collect();
        let reply = control.text(&format!("{name} {} {}", keys.join(" "), if name == "MSET" { "k500 v" } else { "" }));
        assert!([":1", ":19999", "+OK"].contains(&&*reply), "{name}: {reply}");
        assert_eq!(consumer.next(), b"-UNBLOCKED the stream key no longer exists\r\n");
        assert_eq!(control.text(&format!("CLIENT UNBLOCK {}", &id[1..])), ":1", "the other client goes on waiting");
        assert_eq!(popper.next(), b"*-1\r\n");
        assert_eq!(control.text("FLUSHALL"), "+OK");
    }
    running.stop();
}

/// Consumers wait with short timeouts, close at random moments, and are unblocked or killed. Each element is popped
/// once, or remains. An element whose reply was sent to a client that closed at the same time counts as popped, so only
/// clients that read their replies to the end leave by themselves.
#[test]
fn no_element_is_lost_when_waiting_clients_time_out_or_are_unblocked_or_killed() {
    let running = several_workers(3);
    let addr = resp_addr(&running);
    let (stop, pushed, popped, waits) =
        (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..12)
            .map(|seed| {
                let (stop, popped, waits) = (&stop, &popped, &waits);
                scope.spawn(move || {
                    let mut prng = Prng::new(seed);
                    let mut client = Replies::connect(addr);
                    while !stop.load(Relaxed) {
                        let timeout = ["0.001", "0.002", "0.01", "0.05"][prng.below(4) as usize];
                        let name = if prng.chance(1, 2) { "BLPOP" } else { "BRPOP" };
                        let keys = ["k1 k2", "k2", "k1", "k2 k1"][prng.below(4) as usize];
                        client.client.send(&request(&words(&format!("{name} {keys} {timeout}"))));
                        let leaves = prng.chance(1, 8);
                        if leaves {
                            // Closes one direction. What was popped before is still received.
                            let _ = client.client.stream.shutdown(Shutdown::Write);
                        }
                        let mut bytes = Vec::new();
                        let mut room = [0; 256];
                        let is_open = loop {
                            match client.client.stream.read(&mut room) {
                                Ok(0) | Err(_) => break false,
                                Ok(count) => bytes.extend_from_slice(&room[..count]),
                            }
                            if crate::common::redis::reply_len(&bytes).is_some() {
                                break true;
                            }
                        };
                        waits.fetch_add(1, Relaxed);
                        popped.fetch_add(u64::from(bytes.starts_with(b"*2")), Relaxed);
                        if leaves || !is_open || bytes.starts_with(b"*2") && prng.chance(1, 16) {
                            client = Replies::connect(addr);
                        }
                    }
                })
            })
            .collect();
        let producers: Vec<_> = (0..3)
            .map(|seed| {
                let (stop, pushed) = (&stop, &pushed);
                scope.spawn(move || {
                    let (mut prng, mut client) = (Prng::new(100 + seed), Replies::connect(addr));
                    while !stop.load(Relaxed) {
                        let (key, count) = (1 + prng.below(2), 1 + prng.below(3));
                        let elements = (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
                        assert!(client.text(&format!("RPUSH k{key} {elements}")).starts_with(':'));
                        pushed.fetch_add(count, Relaxed);
                        std::thread::sleep(Duration::from_micros(prng.below(3000)));
                    }
                })
            })
            .collect();
        let killer = scope.spawn(|| {
            let (mut prng, mut client) = (Prng::new(7), Replies::connect(addr));
            while !stop.load(Relaxed) {
                let id = 1 + prng.below(40);
                client.text(&format!("CLIENT UNBLOCK {id} {}", if prng.chance(1, 2) { "ERROR" } else { "TIMEOUT" }));
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        std::thread::sleep(Duration::from_millis(1500));
        wait_until("many elements were popped", || popped.load(Relaxed) > 300);
        stop.store(true, Relaxed);
        consumers.into_iter().chain(producers).chain([killer]).for_each(|thread| thread.join().expect("no panic"));
    });
    let mut control = resp(&running);
    wait_until("nobody waits", || blocked(&mut control) == 0);
    let rest: u64 =
        ["LLEN k1", "LLEN k2"].map(|line| control.text(line)[1..].parse::<u64>().expect("a length")).iter().sum();
    let (pushed, popped) = (pushed.load(Relaxed), popped.load(Relaxed));
    println!("{pushed} pushed, {popped} popped, {rest} left, {} waits", waits.load(Relaxed));
    assert_eq!(pushed, popped + rest);
    assert!(waits.load(Relaxed) > popped);
}

/// A request that fills the buffer, or bytes behind a waiting request, must not hide that the client has left.
#[test]
fn client_that_leaves_with_unread_bytes_is_noticed_and_takes_no_element() {
    let running = several_workers(2);
    let mut control = resp(&running);
    let many: String = (0..150).map(|number| format!(" {number:0>100}")).collect();
    let blocks = ["BLPOP", "BZPOPMIN"].map(|command| request(&words(&format!("{command}{many} k 0"))));
    let behind = |first: Vec<u8>, then: Vec<u8>| [first, then].concat();
    let short = || request(&words("BLPOP k 0"));
    let requests = [
        blocks[0].clone(),
        blocks[1].clone(),
        behind(request(&words(&format!("MGET{many}"))), short()),
        behind(short(), request(&words("PING")).repeat(2_000)),
    ];
    for (number, sent) in requests.iter().enumerate() {
        for is_reset in [false, true] {
            let mut client = resp(&running);
            client.client.send(sent);
            wait_until("the client waits", || blocked(&mut control) == 1);
            if is_reset {
                rustix::net::sockopt::set_socket_linger(&client.client.stream, Some(Duration::ZERO)).expect("open");
            }
            drop(client);
            wait_until(&format!("client {number} has left, {is_reset}"), || blocked(&mut control) == 0);
            assert_eq!(control.text("RPUSH k x"), ":1");
            assert_eq!(control.text("DEL k"), ":1", "request {number}");
        }
    }
}

/// Waiting clients with unread bytes use up the buffers that streams share. Other waiting clients are watched
/// nevertheless.
#[test]
fn waiting_clients_with_unread_bytes_hide_no_other_client_that_leaves() {
    let running = several_workers(2);
    let mut control = resp(&running);
    let mut hostile: Vec<_> = (0..200)
        .map(|_| {
            let mut client = resp(&running);
            client.client.send(&request(&words("BLPOP hostile 0")));
            client
        })
        .collect();
    wait_until("they wait", || blocked(&mut control) == hostile.len());
    for client in &mut hostile {
        // They fill as many buffers as a stream may hold.
        client.client.send(&request(&words("PING")).repeat(3_000));
    }
    for number in 0..10 {
        let mut client = resp(&running);
        assert_eq!(client.text("PING"), "+PONG");
        client.client.send(&request(&words(&format!("BLPOP jobs{number} 0"))));
        wait_until("it waits", || blocked(&mut control) == hostile.len() + 1);
        drop(client);
        wait_until("it has left", || blocked(&mut control) == hostile.len());
        assert_eq!(control.text(&format!("RPUSH jobs{number} job")), ":1");
        assert_eq!(control.text(&format!("LLEN jobs{number}")), ":1", "a client that has left takes no element");
    }
}

#[test]
fn client_that_leaves_or_is_killed_while_it_waits_is_noticed_at_once() {
    let running = several_workers(2);
    let mut control = resp(&running);
    let mut client = resp(&running);
    client.text("CLIENT SETNAME waiting");
    client.client.send(&request(&words("BLPOP k 0")));
    wait_until("the client waits", || blocked(&mut control) == 1);
    let list = control.text("CLIENT LIST");
    let line = list.split("id=").find(|line| line.contains("name=waiting")).expect("the client");
    assert!(line.contains("flags=b "), "{line}");
    client.client.send(&request(&words("PING")));
    client.client.stream.shutdown(Shutdown::Write).expect("open");
    wait_until("the client has left", || blocked(&mut control) == 0);
    let mut client = resp(&running);
    let id = client.text("CLIENT ID");
    client.client.send(&request(&words("BLPOP k 0")));
    wait_until("the client waits", || blocked(&mut control) == 1);
    assert_eq!(control.text(&format!("CLIENT KILL ID {}", &id[1..])), ":1");
    client.client.expect_end();
    wait_until("the client has left", || blocked(&mut control) == 0);
    assert_eq!(control.text("RPUSH k x"), ":1");
    assert_eq!(control.text("LLEN k"), ":1");
    let mut client = resp(&running);
    assert_eq!(control.text("ACL SETUSER waiter on >secret ~* +@all"), "+OK");
    assert_eq!(client.text("AUTH waiter secret"), "+OK");
    client.client.send(&request(&words("BLPOP none 0")));
    wait_until("the client waits", || blocked(&mut control) == 1);
    assert_eq!(control.text("ACL DELUSER waiter"), ":1");
    client.client.expect_end();
}

#[test]
fn server_with_waiting_clients_stops_at_once() {
    let running = several_workers(2);
    let mut control = resp(&running);
    let mut clients: Vec<Replies> = (0..4).map(|_| resp(&running)).collect();
    clients.iter_mut().for_each(|client| client.client.send(&request(&words("BLPOP k 0"))));
    wait_until("the clients wait", || blocked(&mut control) == 4);
    let begun = std::time::Instant::now();
    drop(control);
    drop(running);
    clients.iter_mut().for_each(|client| client.client.expect_end());
    assert!(begun.elapsed() < PATIENCE);
}
