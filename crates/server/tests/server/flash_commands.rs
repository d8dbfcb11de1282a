//! Tests every command on items on flash: its replies and the resulting items equal those of a server with all items in
//! memory.

use crate::common::Client;
use crate::common::redis::{Replies, addr, resp, running};
use crate::common::tiered::Tiered;
use command::clients::endpoint::Protocol;
use command::resp::catalog::{COMMANDS, Flag};
use gannet_server::start::Running;
use std::collections::HashSet;
use std::io::Read;

/// The number of items that are stored to evict the rows' items to flash.
const FILLERS: u64 = 40_000;

/// The rows: lines that store items, and lines that are sent after the items are evicted. `;` separates lines. `@1`,
/// `@2` and `@3` are the row's keys, and `$T` is the last CAS token that it received. `m ` begins a line of memcached,
/// with `/` for line ends, and `o ` begins a line on another connection.
const ROWS: &[(&str, &str)] = &[
    // Strings.
    ("SET @1 abc", "GET @1;GET @1;GET @1"),
    ("SET @1 41", "INCR @1;GET @1"),
    ("SET @1 41", "INCRBY @1 9"),
    ("SET @1 41", "DECR @1"),
    ("SET @1 41", "DECRBY @1 50"),
    ("SET @1 41", "INCRBYFLOAT @1 0.5"),
    ("SET @1 abc", "INCR @1"),
    ("SET @1 41", "APPEND @1 0;INCR @1"),
    ("SET @1 abc", "APPEND @1 de"),
    ("SET @1 abc", "STRLEN @1"),
    ("SET @1 12345", "STRLEN @1;GETRANGE @1 1 2"),
    ("SET @1 abc", "GETRANGE @1 -2 -1"),
    ("SET @1 abc EXAT 4000000000", "SETRANGE @1 5 x"),
    ("SET @1 abcde;SET @2 xbcdy", "LCS @1 @2 IDX WITHMATCHLEN"),
    ("SET @1 abc", "SUBSTR @1 1 -1"),
    ("SET @1 abc;HSET @2 a 1 b 2", "DUMP @1;DUMP @2"),
    ("RPUSH @1 a b;SADD @2 c", "DUMP @1;DUMP @2"),
    ("ZADD @1 1 a 2 b", "DUMP @1"),
    ("SET @1 abc", "RESTORE @1 0 x;RESTORE @1 0 x REPLACE"),
    ("SET @1 abc", "DELIFEQ @1 abd;DELIFEQ @1 abc;GET @1"),
    ("SET @1 abc", "DELEX @1 IFEQ abd;DELEX @1 IFNE abc;DELEX @1 IFDEQ 78af5f94892f3950;GET @1"),
    ("SET @1 abc;SET @2 abd", "DIGEST @1;DIGEST none;DELEX @1"),
    ("SET @3 abc", "MSETEX 2 @2 y @1 x EX 100000000 NX;MSETEX 2 @3 y @1 x KEEPTTL XX;GET @3"),
    ("SET @1 abc", "SETBIT @1 7 0;SETBIT @1 90 1"),
    ("SET @1 abc", "GETBIT @1 9"),
    ("SET @1 abc", "BITCOUNT @1;BITCOUNT none"),
    ("SET @1 abc", "BITPOS @1 1;BITPOS @1 0 1 -1 BIT"),
    ("SET @1 abc EXAT 4000000000", "BITFIELD @1 SET u8 #1 7 INCRBY i5 100 3"),
    ("SET @1 abc", "BITFIELD_RO @1 GET u8 4"),
    ("SET @1 abc;SET @2 xyzt", "BITOP XOR @3 @1 @2 none"),
    ("SET @1 abc;SET @2 xyzt;SET @3 old", "BITOP DIFF @3 @2 @1"),
    ("PFADD @1 a b c", "PFADD @1 a;PFADD @1 d"),
    ("PFADD @1 a b c", "PFCOUNT @1;PFCOUNT @1"),
    ("PFADD @1 a b c;PFADD @2 c d", "PFCOUNT @1 @2 none"),
    ("PFADD @1 a b c;PFADD @2 c d", "PFMERGE @1 @2"),
    ("PFADD @1 a b c", "PFDEBUG DECODE @1;PFDEBUG TODENSE @1"),
    ("SET @1 abc", "GETDEL @1;GET @1"),
    ("SET @1 abc EXAT 4000000000", "GETEX @1;PEXPIRETIME @1"),
    ("SET @1 abc EXAT 4000000000", "GETEX @1 PERSIST"),
    ("SET @1 abc", "GETEX @1 EXAT 4000000000"),
    ("SET @1 abc", "GETSET @1 new"),
    ("SET @1 abc", "SET @1 new GET"),
    ("SET @1 abc", "SET @1 new"),
    ("SET @1 abc EXAT 4000000000", "SET @1 new KEEPTTL"),
    ("SET @1 abc", "SET @1 new XX"),
    ("SET @1 abc", "SET @1 new NX"),
    ("SET @1 abc", "SET @1 new IFEQ abc"),
    ("SET @1 abc", "SET @1 new IFEQ other"),
    ("SET @1 abc", "SET @1 new IFNE abc;SET @1 new IFDEQ 78af5f94892f3950"),
    ("SET @1 abc", "SETNX @1 new;SETNX @2 new"),
    ("SET @1 abc", "SETEX @1 100000000 new"),
    ("SET @1 abc", "PSETEX @1 100000000000 new"),
    ("SET @1 abc;SET @2 5", "MGET @1 none @2 @1"),
    ("SET @1 abc", "MSET @1 x @2 y"),
    ("SET @1 abc", "MSETNX @2 y @1 x"),
    ("SET @3 abc", "MSETNX @2 y @1 x;GET @3"),
    ("m ms @1 3 c/abc", "CAS.GET @1"),
    ("m ms @1 3 c/abc", "CAS.SET @1 $T new;CAS.SET @1 $T newer"),
    ("m ms @1 3 c/abc;APPEND @1 d", "CAS.SET @1 $T new"),
    ("SET @1 abc", "EVAL return{redis.call('get',KEYS[1])} 1 @1;GET @1"),
    ("SET @1 41", "EVAL return(redis.call('incr',ARGV[1])) 0 @1;GET @1"),
    ("SET @1 abc", "FCALL nosuch 1 @1;FCALL_RO nosuch 1 @1"),
    ("SET @1 abc", "EVAL_RO return{redis.call('get',KEYS[1])} 1 @1"),
    (
        "SET @1 abc;SCRIPT LOAD return{redis.call('get',KEYS[1])}",
        "EVALSHA 32c3194c6b491a051924d4f29ae5e16aaaea3803 1 @1",
    ),
    (
        "SET @1 abc;SCRIPT LOAD return{redis.call('get',KEYS[1])}",
        "EVALSHA_RO 32c3194c6b491a051924d4f29ae5e16aaaea3803 1 @1",
    ),
    ("SET @1 abc", "LEASE.GET @1"),
    ("SET @1 abc", "LEASE.STALE @1 EX 100;LEASE.GET @1;o LEASE.GET @1;LEASE.SET @1 $T new;GET @1"),
    ("SET @1 abc EXAT 4000000000", "LEASE.GET @1 RECACHE 90000000000000;o LEASE.GET @1"),
    // Keys of any type.
    ("SET @1 abc", "DEL @1 none;EXISTS @1"),
    ("HSET @1 a 1", "UNLINK @1;EXISTS @1"),
    ("SET @1 abc;HSET @2 a 1", "EXISTS @1 @2 @1 none"),
    ("SET @1 abc;HSET @2 a 1", "TOUCH @1 @2 none"),
    ("SET @1 abc;HSET @2 a 1", "TYPE @1;TYPE @2;TYPE none"),
    ("SET @1 abc", "EXPIRE @1 100000000;TTL @1"),
    ("SET @1 abc EXAT 4000000000", "EXPIRE @1 100000000 GT;EXPIRE @1 100000000 LT"),
    ("SET @1 abc", "EXPIRE @1 -1;GET @1"),
    ("HSET @1 a 1", "EXPIREAT @1 4000000000"),
    ("SET @1 12", "PEXPIRE @1 100000000000"),
    ("SET @1 abc", "PEXPIREAT @1 4000000000000"),
    ("SET @1 abc EXAT 4000000000", "EXPIRETIME @1"),
    ("REC.PUT @1 EXAT 4000000000 BINS a INT 1", "PEXPIRETIME @1"),
    ("SET @1 abc EXAT 4000000000;SET @2 abc", "TTL @1;TTL @2;TTL none"),
    ("SET @1 abc EXAT 4000000000;SET @2 abc", "PTTL @1;PTTL @2"),
    ("SET @1 abc EXAT 4000000000;SET @2 abc", "PERSIST @1;PERSIST @2"),
    ("SET @1 abc;SET @2 41;HSET @3 a 1", "OBJECT ENCODING @1;OBJECT ENCODING @2;OBJECT ENCODING @3;OBJECT REFCOUNT @1"),
    ("SET @1 abc;HSET @2 a 1", "MEMORY USAGE @1;MEMORY USAGE @2;MEMORY USAGE none"),
    ("SET @1 abc EXAT 4000000000;SET @2 old", "RENAME @1 @2"),
    ("SET @1 abc", "RENAME @1 @2;RENAME @1 @2"),
    ("HSET @1 a 1", "RENAME @1 @2"),
    ("SET @1 abc;SET @2 old", "RENAMENX @1 @2;RENAMENX @1 @3"),
    ("SET @1 abc EXAT 4000000000", "COPY @1 @2"),
    ("HSET @1 a 1;SET @2 old", "COPY @1 @2;COPY @1 @2 REPLACE"),
    ("SET @1 abc EXAT 4000000000", "MOVE @1 1;MOVE @1 1;EXISTS @1;SELECT 1;GET @1;MOVE @1 0;SELECT 0"),
    ("HSET @1 a 1", "COPY @1 @2 DB 1;COPY @1 @2 DB 1;SELECT 1;HGETALL @2;DEL @2;SELECT 0"),
    ("SET @1 abc", "HGET @1 a;HSET @1 a 1;REC.GET @1"),
    ("HSET @1 a 1", "GET @1;INCR @1;APPEND @1 x;SET @1 x"),
    // Hashes.
    ("HSET @1 a 1 b 2", "HGET @1 b;HGET @1 none"),
    ("HSET @1 a 1 b 2", "HMGET @1 b none a"),
    ("HSET @1 a 1 b 2", "HGETALL @1"),
    ("HSET @1 a 1 b 2", "HKEYS @1;HVALS @1;HLEN @1"),
    ("HSET @1 a 1 b 2", "HEXISTS @1 a;HEXISTS @1 none;HSTRLEN @1 a"),
    ("HSET @1 a 1 b 2", "HSET @1 a 3 c 4"),
    ("HSET @1 a 1", "HMSET @1 a 3 c 4"),
    ("HSET @1 a 1", "HSETNX @1 a 3;HSETNX @1 c 4"),
    ("HSET @1 a 1", "HSETEX @1 FXX EXAT 4000000000 FIELDS 1 a 5"),
    ("HSET @1 a 1 b 2", "HDEL @1 a none;HDEL @1 b;EXISTS @1"),
    ("HSET @1 a 1 b 2", "HGETDEL @1 FIELDS 2 a none"),
    ("HSET @1 a 1 b 2", "HGETEX @1 EXAT 4000000000 FIELDS 1 a"),
    ("HSET @1 a 1", "HINCRBY @1 a 5;HINCRBY @1 none 5"),
    ("HSET @1 a 1", "HINCRBYFLOAT @1 a 0.5"),
    ("HSET @1 a 1", "HEXPIRE @1 100000000 FIELDS 1 a;HTTL @1 FIELDS 1 a"),
    ("HSET @1 a 1", "HEXPIREAT @1 4000000000 FIELDS 1 a;HEXPIRETIME @1 FIELDS 1 a"),
    ("HSET @1 a 1", "HPEXPIRE @1 123456789012 FIELDS 1 a;HPTTL @1 FIELDS 1 a"),
    ("HSET @1 a 1", "HPEXPIREAT @1 4000000000000 FIELDS 1 a;HPEXPIRETIME @1 FIELDS 1 a"),
    ("HSETEX @1 EXAT 4000000000 FIELDS 1 a 1", "HTTL @1 FIELDS 2 a none"),
    ("HSETEX @1 EXAT 4000000000 FIELDS 1 a 1", "HPTTL @1 FIELDS 1 a"),
    ("HSETEX @1 EXAT 4000000000 FIELDS 1 a 1", "HEXPIRETIME @1 FIELDS 1 a;HPEXPIRETIME @1 FIELDS 1 a"),
    ("HSETEX @1 EXAT 4000000000 FIELDS 1 a 1", "HPERSIST @1 FIELDS 1 a;HTTL @1 FIELDS 1 a"),
    ("HSET @1 a 1", "HRANDFIELD @1;HRANDFIELD @1 3 WITHVALUES"),
    ("HSET @1 a 1 b 2", "HSCAN @1 0"),
    // Records.
    ("REC.PUT @1 BINS i INT 5 t STR five", "REC.GET @1 TYPED;REC.GET @1 BINS i none;REC.GET @1 FILTER i>9"),
    ("REC.PUT @1 IN set BINS i INT 5", "REC.PUT @1 IN set BINS j INT 6;REC.PUT @1 IN other BINS j INT 7"),
    ("REC.PUT @1 BINS i INT 5", "REC.PUT @1 IFREV 1 BINS i INT 6;REC.PUT @1 IFREV 1 BINS i INT 7"),
    ("REC.PUT @1 BINS i INT 5", "REC.PUT @1 CREATE BINS i INT 6;REC.PUT @1 REPLACE BINS j INT 7"),
    ("REC.PUT @1 BINS i INT 5", "REC.ADD @1 BINS i INT 3 j INT 1"),
    ("REC.PUT @1 BINS t STR five", "REC.APPEND @1 BINS t STR six"),
    (
        "REC.PUT @1 IN set BINS i INT 5 l LIST 2 INT 1 INT 2",
        "REC.OPERATE @1 OPS ADD i INT 1 LAPPEND l INT 9 GET i DEL l",
    ),
    ("REC.PUT @1 BINS i INT 5", "REC.OPERATE @1 OPS ADD i INT 1 ADD i STR x;REC.GET @1"),
    ("REC.PUT @1 BINS i INT 5", "REC.EXISTS @1;REC.EXISTS none"),
    ("REC.PUT @1 BINS i INT 5", "REC.TOUCH @1 EXAT 4000000000;REC.EXISTS @1"),
    ("REC.PUT @1 BINS i INT 5", "REC.DEL @1 IFREV 7;REC.DEL @1;REC.DEL @1"),
    ("REC.PUT @1 BINS i INT 5;HSET @2 i 6;SET @3 x", "REC.MGET * @1 none @2 @3;REC.MGET i @1 @2"),
    // Regression: a request waited forever for an item in memory that had already expired.
    ("HSET @1 a 1;HPEXPIRE @1 1 FIELDS 1 a;SET @2 x", "GET @2;HGET @1 a;TOUCH @1;EXISTS @1"),
    ("REC.PUT @1 BINS i INT 5;SET @3 x", "REC.MPUT (i INT, j INT) @1 1 2 @2 3 4 @3 5 6"),
    // Transactions.
    ("SET @1 1;SET @2 2", "MULTI;INCR @1;GET @2;RENAME @2 @3;EXEC"),
    ("SET @1 1", "WATCH @1;MULTI;INCR @1;EXEC"),
    ("SET @1 1", "WATCH @1;o INCR @1;MULTI;INCR @1;EXEC"),
    ("SET @1 1", "WATCH @1;o GET @1;o GET @1;MULTI;GET @1;EXEC"),
    ("SET @1 1", "WATCH @1;o DEL @1;MULTI;SET @1 x;EXEC"),
    (
        "HSET @1 a 1;REC.PUT @2 BINS i INT 5",
        "MULTI;HINCRBY @1 a 1;REC.ADD @2 BINS i INT 1;SCAN 0 COUNT 1 MATCH none;EXEC",
    ),
    // memcached.
    ("m set @1 7 0 3/abc", "m get @1 none @1;m get @1"),
    ("m ms @1 3 F7 T4000000000 c/abc", "m gets @1"),
    ("m set @1 0 0 2/41", "m incr @1 9;m get @1"),
    ("m set @1 0 0 2/41", "m decr @1 50"),
    ("m set @1 0 0 3/abc", "m incr @1 1"),
    ("m set @1 7 0 3/abc", "m append @1 0 0 2/de;m get @1"),
    ("m set @1 7 0 3/abc", "m prepend @1 0 0 2/de;m get @1"),
    ("m set @1 7 0 3/abc", "m replace @1 8 0 2/de;m get @1"),
    ("m set @1 7 0 3/abc", "m add @1 8 0 2/de;m add @2 8 0 2/de"),
    ("m set @1 7 0 3/abc", "m set @1 8 0 2/de"),
    ("m ms @1 3 F7 c/abc", "m cas @1 0 0 2 $T/de;m cas @1 0 0 2 $T/fg"),
    ("m ms @1 3 F7 c/abc;m append @1 0 0 1/d", "m cas @1 0 0 2 $T/de"),
    ("m set @1 7 0 3/abc", "m delete @1;m get @1;m delete @1"),
    ("m set @1 7 0 3/abc", "m touch @1 4000000000;m mg @1 t"),
    ("m set @1 7 0 3/abc", "m gat 4000000000 @1;m mg @1 t"),
    ("m ms @1 3 F7 c/abc", "m gats 0 @1;m mg @1 t"),
    ("m set @1 7 0 3/abc", "m gat -1 @1;m get @1"),
    ("m set @1 7 0 3/abc", "m touch @1 -1;m get @1"),
    ("m set @1 7 0 3/abc", "m mg @1 v t T-1;m get @1"),
    ("m set @1 7 4000000000 3/abc", "m mg @1 v"),
    ("m set @1 7 4000000000 3/abc", "m mg @1 s v f t k Oq"),
    ("m set @1 7 0 3/abc", "m mg @1 h v;m mg @1 h"),
    ("m ms @1 3 F7 c/abc", "m mg @1 c v"),
    ("m set @1 7 0 3/abc", "m mg @1 q v;m mg none q v"),
    ("m set @1 7 0 3/abc", "m mg @1 T4000000000 v;m mg @1 t"),
    ("m set @1 7 0 3/abc", "m mg @1 N30 v;m mg @2 N30 v"),
    ("m set @1 7 4000000000 3/abc", "m mg @1 R4000000000 v c;m mg @1 v"),
    ("m set @1 7 0 3/abc", "m mg @1 u v;m mg @1 v k f"),
    ("m set @1 7 0 3/abc", "m ms @1 2/de"),
    ("m set @1 7 0 3/abc", "m ms @1 2 MA s/de;m get @1"),
    ("m set @1 7 0 3/abc", "m ms @1 2 MP/de;m get @1"),
    ("m set @1 7 0 3/abc", "m ms @1 2 ME/de;m ms @2 2 ME/de"),
    ("m set @1 7 0 3/abc", "m ms @1 2 MR F9 T4000000000/de"),
    ("m ms @1 3 F7 c/abc", "m ms @1 2 C$T/de;m ms @1 2 C$T/fg"),
    ("m ms @1 3 F7 c/abc;m append @1 0 0 1/d", "m ms @1 2 C$T/de"),
    ("m ms @1 1 E300000/a", "m ms @1 1 C299999 I c E300001/b;m mg @1 v"),
    ("m set @1 7 0 3/abc", "m md @1;m mg @1"),
    ("m set @1 7 0 3/abc", "m md @1 I T30;m mg @1 v;m mg @1 v"),
    ("m set @1 7 0 3/abc", "m md @1 x;m mg @1 v f"),
    ("m ms @1 3 F7 c/abc", "m md @1 C1;m md @1 C$T;m mg @1"),
    ("m set @1 7 0 2/41", "m ma @1 v D9;m ma @1 MD v t"),
    ("m set @1 7 0 2/41", "m ma @1 N0 J13 v;m ma @2 N0 J13 v"),
    ("m set @1 7 0 3/abc", "m me @1;m me none"),
    // Each protocol on what the other has stored.
    ("RPUSH @1 a b c b", "LINDEX @1 -1;LLEN @1;LPOS @1 b COUNT 0"),
    ("RPUSH @1 a b c b", "LRANGE @1 0 -1"),
    ("RPUSH @1 a b c b", "LPUSH @1 x"),
    ("RPUSH @1 a b c b", "RPUSH @1 x y"),
    ("RPUSH @1 a b c b", "LPUSHX @1 x"),
    ("RPUSH @1 a b c b", "RPUSHX @1 x"),
    ("RPUSH @1 a b c b", "LPOP @1 2"),
    ("RPUSH @1 a b c b", "RPOP @1"),
    ("RPUSH @1 a b c b", "LSET @1 1 x"),
    ("RPUSH @1 a b c b", "LINSERT @1 BEFORE c x"),
    ("RPUSH @1 a b c b", "LREM @1 0 b"),
    ("RPUSH @1 a b c b", "LTRIM @1 1 -2"),
    ("RPUSH @1 a b c b", "LLEN @1;LPOS @1 c;LRANGE @1 1 2"),
    ("RPUSH @1 a b c b;RPUSH @2 z", "LMOVE @1 @2 LEFT RIGHT;LRANGE @2 0 -1"),
    ("RPUSH @1 a b c b;RPUSH @2 z", "RPOPLPUSH @1 @2;LRANGE @2 0 -1"),
    ("RPUSH @1 a b c b", "LMPOP 2 none @1 LEFT COUNT 2"),
    ("RPUSH @1 a b", "BLPOP none @1 0;BLPOP @1 0;EXISTS @1"),
    ("RPUSH @1 a b", "BRPOP @1 0"),
    ("RPUSH @1 a b;RPUSH @2 z", "BLMOVE @1 @2 LEFT RIGHT 0;LRANGE @2 0 -1"),
    ("RPUSH @1 a b;RPUSH @2 z", "BRPOPLPUSH @1 @2 0;LRANGE @2 0 -1"),
    ("RPUSH @1 a b c b", "BLMPOP 0 2 none @1 LEFT COUNT 2"),
    ("ZADD @1 1 a 2 b", "BZPOPMIN none @1 0;ZRANGE @1 0 -1"),
    ("ZADD @1 1 a 2 b", "BZPOPMAX @1 0"),
    ("ZADD @1 1 a 2 b 3 c", "BZMPOP 0 2 none @1 MAX COUNT 2"),
    ("SADD @1 a b c", "SADD @1 d a"),
    ("SADD @1 a b c", "SREM @1 a"),
    ("SADD @1 a b c", "SCARD @1;SISMEMBER @1 a;SMISMEMBER @1 a x"),
    ("SADD @1 a b c", "SMEMBERS @1;SSCAN @1 0"),
    ("SADD @1 a b c", "SISMEMBER @1 b"),
    ("SADD @1 a b c", "SMISMEMBER @1 b x"),
    ("SADD @1 a b c", "SSCAN @1 0"),
    ("SADD @1 a b c", "SRANDMEMBER @1 9"),
    ("SADD @1 a b c", "SPOP @1 9"),
    ("SADD @1 a b c;SADD @2 c d", "SMOVE @1 @2 a;SMEMBERS @2"),
    ("SADD @1 a b c;SADD @2 c d", "SINTER @1 @2;SUNION @1 @2;SDIFF @1 @2;SINTERCARD 2 @1 @2"),
    ("SADD @1 a b c;SADD @2 c d", "SUNION @1 @2"),
    ("SADD @1 a b c;SADD @2 c d", "SDIFF @1 @2"),
    ("SADD @1 a b c;SADD @2 c d", "SINTERCARD 2 @1 @2"),
    ("SADD @1 a b c;SADD @2 c d;SET @3 old", "SINTERSTORE @3 @1 @2;SMEMBERS @3"),
    ("SADD @1 a b c;SADD @2 c d", "SUNIONSTORE @3 @1 @2;SMEMBERS @3"),
    ("SADD @1 a b c;SADD @2 c d", "SDIFFSTORE @3 @1 @2;SMEMBERS @3"),
    ("RPUSH @1 3 1 2;SET @21 5;SET @22 4;SET @23 6", "SORT @1;SORT @1 BY @2* GET @2* GET #"),
    ("GEOADD @1 13 38 a 15 37 b", "GEOADD @1 15 37 c"),
    ("GEOADD @1 13 38 a 15 37 b", "GEODIST @1 a b"),
    ("GEOADD @1 13 38 a 15 37 b", "GEOHASH @1 a;GEOPOS @1 b"),
    ("GEOADD @1 13 38 a 15 37 b", "GEOPOS @1 b"),
    ("GEOADD @1 13 38 a 15 37 b", "GEORADIUS @1 13 38 1 km STORE @3;ZRANGE @3 0 -1"),
    ("GEOADD @1 13 38 a 15 37 b", "GEORADIUS_RO @1 13 38 1 km"),
    ("GEOADD @1 13 38 a 15 37 b", "GEORADIUSBYMEMBER @1 a 1 km STOREDIST @3"),
    ("GEOADD @1 13 38 a 15 37 b", "GEORADIUSBYMEMBER_RO @1 a 1 km"),
    ("GEOADD @1 13 38 a 15 37 b", "GEOSEARCH @1 FROMMEMBER a BYRADIUS 900 km ASC"),
    ("GEOADD @1 13 38 a 15 37 b;SET @3 old", "GEOSEARCHSTORE @3 @1 FROMMEMBER a BYBOX 900 900 km;ZRANGE @3 0 -1"),
    ("RPUSH @1 3 1 2;SET @3 old", "SORT @1 DESC STORE @3;LRANGE @3 0 -1"),
    ("SADD @1 3 1 2", "SORT_RO @1 LIMIT 1 2"),
    ("ZADD @1 1 a 2 b;ZADD @2 3 b;SET @3 old", "ZUNIONSTORE @3 2 @1 @2;ZRANGE @3 0 -1 WITHSCORES"),
    ("ZADD @1 1 a 2 b;SADD @2 b c;SET @3 old", "ZINTERSTORE @3 2 @1 @2;ZRANGE @3 0 -1 WITHSCORES"),
    ("ZADD @1 1 a 2 b;ZADD @2 3 b", "ZDIFFSTORE @3 2 @1 @2;ZRANGE @3 0 -1 WITHSCORES"),
    ("ZADD @1 1 a 2 b 3 c;SET @3 old", "ZRANGESTORE @3 @1 1 -1;ZRANGE @3 0 -1 WITHSCORES"),
    ("ZADD @1 1 a 2 b 3 c", "ZADD @1 5 a 6 d"),
    ("ZADD @1 1 a 2 b 3 c", "ZINCRBY @1 2 a"),
    ("ZADD @1 1 a 2 b 3 c", "ZREM @1 a"),
    ("ZADD @1 1 a 2 b 3 c", "ZSCORE @1 a;ZMSCORE @1 a x;ZCARD @1;ZCOUNT @1 1 2;ZLEXCOUNT @1 - +"),
    ("ZADD @1 1 a 2 b 3 c", "ZRANK @1 b;ZREVRANK @1 b"),
    ("ZADD @1 1 a 2 b 3 c", "ZRANGE @1 0 -1 WITHSCORES;ZREVRANGE @1 0 1"),
    ("ZADD @1 1 a 2 b 3 c", "ZRANGEBYSCORE @1 1 2;ZREVRANGEBYSCORE @1 2 1"),
    ("ZADD @1 1 a 2 b 3 c", "ZRANGEBYLEX @1 - +;ZREVRANGEBYLEX @1 + -"),
    ("ZADD @1 1 a 2 b 3 c", "ZREMRANGEBYRANK @1 0 0"),
    ("ZADD @1 1 a 2 b 3 c", "ZREMRANGEBYSCORE @1 1 2"),
    ("ZADD @1 1 a 2 b 3 c", "ZREMRANGEBYLEX @1 - +"),
    ("ZADD @1 1 a 2 b 3 c", "ZPOPMIN @1"),
    ("ZADD @1 1 a 2 b 3 c", "ZPOPMAX @1 2"),
    ("ZADD @1 1 a 2 b 3 c", "ZRANDMEMBER @1 9"),
    ("ZADD @1 1 a 2 b 3 c", "ZSCAN @1 0"),
    (
        "ZADD @1 1 a 2 b 3 c;ZADD @2 1 c 4 d",
        "ZUNION 2 @1 @2 WITHSCORES;ZINTER 2 @1 @2;ZDIFF 2 @1 @2;ZINTERCARD 2 @1 @2",
    ),
    ("ZADD @1 1 a 2 b 3 c", "ZMPOP 2 none @1 MIN COUNT 2"),
    ("XADD @1 1-1 a 1", "XADD @1 2-1 b 2"),
    ("XADD @1 1-1 a 1", "XLEN @1;XRANGE @1 - +;XREVRANGE @1 + - COUNT 1"),
    ("XADD @1 1-1 a 1", "XREAD STREAMS @1 @2 0 0"),
    ("XADD @1 1-1 a 1", "XDEL @1 1-1"),
    ("XADD @1 1-1 a 1", "XTRIM @1 MAXLEN 0"),
    ("XADD @1 1-1 a 1", "XSETID @1 5-1"),
    ("XADD @1 1-1 a 1", "XINFO STREAM @1"),
    (
        "XADD @1 1-1 a 1",
        "XGROUP CREATE @1 g 0;XREADGROUP GROUP g c STREAMS @1 >;XPENDING @1 g;XCLAIM @1 g d 0 1-1;XACK @1 g 1-1",
    ),
    ("XADD @1 1-1 a 1", "XGROUP CREATE @1 g 0;XAUTOCLAIM @1 g c 0 0;XGROUP DESTROY @1 g"),
    ("SET @1 41", "m incr @1 1;INCR @1"),
    ("m set @1 7 0 2/41", "INCR @1;m get @1"),
    ("HSET @1 a 1", "m get @1;m append @1 0 0 1/x;m delete @1"),
];

/// Rows whose commands store without reading the present item.
const UNREAD: [&str; 6] = [
    "SET @1 new",
    "SETEX @1 100000000 new",
    "PSETEX @1 100000000000 new",
    "MSET @1 x @2 y",
    "m set @1 8 0 2/de",
    "m ms @1 2/de",
];

/// One server, and the replies to its clients.
struct Side {
    redis: Replies,
    other: Replies,
    memcached: Client,
    /// The last CAS token that each row received.
    tokens: Vec<String>,
}

impl Side {
    fn of(running: &Running) -> Self {
        let memcached = Client::connect(addr(running, Protocol::Memcache));
        Self { redis: resp(running), other: resp(running), memcached, tokens: vec![String::new(); ROWS.len()] }
    }

    /// What a line of a row is answered with. Tokens and times from now are the server's own.
    fn ask(&mut self, row: usize, line: &str) -> String {
        let line = (1..4).fold(line.replace("$T", &self.tokens[row]), |line, number| {
            line.replace(&format!("@{number}"), &format!("row{row}:{number}"))
        });
        let reply = match (line.strip_prefix("m "), line.strip_prefix("o ")) {
            (Some(line), _) => self.memcached(line),
            (_, Some(line)) => self.other.ask(&words(line)),
            _ => self.redis.ask(&words(&line)),
        };
        self.settled(row, &String::from_utf8_lossy(&reply))
    }

    /// Sends a memcached line and returns its whole reply, which ends before the reply to a second request.
    fn memcached(&mut self, line: &str) -> Vec<u8> {
        self.memcached.send(format!("{}\r\nmn\r\n", line.replace('/', "\r\n")).as_bytes());
        let (mut seen, mut part) = (Vec::new(), [0; 4096]);
        while !seen.ends_with(b"MN\r\n") {
            let bytes = self.memcached.stream.read(&mut part).expect("an answer");
            assert!(bytes > 0, "closed behind {}", seen.escape_ascii());
            seen.extend_from_slice(&part[..bytes]);
        }
        seen
    }

    fn settled(&mut self, row: usize, reply: &str) -> String {
        let mut replied: Vec<String> = Vec::new();
        for word in reply.split_whitespace() {
            let (name, number) = word.split_at(word.find(|c: char| c.is_ascii_digit()).unwrap_or(word.len()));
            let of_server = ["la=", "cas=", "exp="].contains(&name) && number != "-1";
            match number.parse::<u64>() {
                Ok(_) if of_server => replied.push(format!("{name}T")),
                // Those that rows say themselves are the same for all.
                Ok(value) if value >= 1 << 18 && !number.contains("000000000") => {
                    if name != "t" {
                        self.tokens[row] = number.to_owned();
                    }
                    if replied.last().is_some_and(|last| last.starts_with('$')) {
                        replied.pop();
                    }
                    replied.push(format!("{name}T"));
                }
                _ => replied.push(word.to_owned()),
            }
        }
        replied.join(" ")
    }

    /// Returns the items of the keys of a row.
    fn state(&mut self, row: usize) -> Vec<String> {
        let mut replied = Vec::new();
        for key in ["@1", "@2", "@3"] {
            let kind = self.ask(row, &format!("TYPE {key}"));
            let value = match &kind[..] {
                "+string" => self.ask(row, &format!("m mg {key} v f")),
                "+none" => String::new(),
                "+list" => self.ask(row, &format!("LRANGE {key} 0 -1")),
                "+set" => self.ask(row, &format!("SMEMBERS {key}")),
                "+stream" => self.ask(row, &format!("XRANGE {key} - +")),
                "+zset" => self.ask(row, &format!("ZRANGE {key} 0 -1 WITHSCORES")),
                _ => self.ask(row, &format!("REC.GET {key} TYPED")),
            };
            replied.push(format!("{kind} {value} {}", self.ask(row, &format!("PEXPIRETIME {key}"))));
        }
        replied
    }
}

fn words(line: &str) -> Vec<&[u8]> {
    // The shape of `REC.MPUT` is one word.
    match (line.find(" ("), line.find(") ")) {
        (Some(from), Some(to)) => {
            let mut all: Vec<&[u8]> = line[..from].split(' ').map(str::as_bytes).collect();
            all.push(&line.as_bytes()[from + 1..=to]);
            all.extend(line[to + 2..].split(' ').map(str::as_bytes));
            all
        }
        _ => line.split(' ').map(str::as_bytes).collect(),
    }
}

#[test]
fn commands_on_flash_items_behave_as_on_items_in_memory() {
    let (tiered, plain) = (Tiered::start("commands"), running());
    let (mut ours, mut theirs) = (Side::of(&tiered.running), Side::of(&plain));
    for (row, (stores, _)) in ROWS.iter().enumerate() {
        for line in stores.split(';') {
            let (ours, theirs) = (ours.ask(row, line), theirs.ask(row, line));
            assert_eq!(ours, theirs, "{stores}");
            assert!(!ours.contains("ERR"), "{line}: {ours}");
        }
    }
    tiered.fill(0..FILLERS);
    let mut in_memory = Vec::new();
    let read = || tiered.stats().flash_back + tiered.stats().flash_hits;
    for (row, (stores, commands)) in ROWS.iter().enumerate() {
        let before = read();
        for line in commands.split(';') {
            assert_eq!(ours.ask(row, line), theirs.ask(row, line), "row {row}: {stores}, then {line} of {commands}");
        }
        if !UNREAD.contains(commands) && read() == before {
            in_memory.push((row, stores, commands));
        }
        assert_eq!(ours.state(row), theirs.state(row), "row {row}: {stores}, then {commands}");
    }
    assert!(in_memory.is_empty(), "nothing of these came from the file: {in_memory:?}");
    assert_eq!(tiered.stats().flash_failed, 0);
    plain.stop();
}

/// The beginnings of lines that wait if a key is missing.
const WAITS: [&str; 7] = ["BLPOP", "BRPOP", "BLMOVE", "BLMPOP", "BZPOPM", "BZMPOP", "XREAD"];

/// Stores a hash under the keys of each row whose fields then end. `fields` beyond a hundred make it a large hash.
fn store_ended_hashes(side: &mut Side, fields: usize) {
    for row in 0..ROWS.len() {
        for key in ["@1", "@2", "@3"] {
            let names: Vec<String> = (0..fields).map(|field| format!("f{field}")).collect();
            let pairs: String = names.iter().map(|name| format!(" {name} {name:v>30}")).collect();
            side.ask(row, &format!("HSET {key}{pairs}"));
            side.ask(row, &format!("HPEXPIRE {key} 1 FIELDS {fields} {}", names.join(" ")));
        }
    }
    std::thread::sleep(std::time::Duration::from_millis(20));
}

#[test]
fn every_command_treats_a_hash_whose_fields_have_ended_as_a_missing_key() {
    for fields in [1, 400] {
        let (ended, missing) = (running(), running());
        let (mut ours, mut theirs) = (Side::of(&ended), Side::of(&missing));
        store_ended_hashes(&mut ours, fields);
        let mut differ = Vec::new();
        let waits = |commands: &str| WAITS.iter().any(|name| commands.starts_with(name));
        for (row, (_, commands)) in ROWS.iter().enumerate().filter(|(_, (_, commands))| !waits(commands)) {
            for line in commands.split(';') {
                let (ours, theirs) = (ours.ask(row, line), theirs.ask(row, line));
                if ours != theirs {
                    differ.push(format!("{fields} fields: {line} of {commands}: {ours:?} instead of {theirs:?}"));
                }
            }
            if ours.state(row) != theirs.state(row) {
                differ.push(format!("{fields} fields: the items after {commands}"));
            }
        }
        assert!(differ.is_empty(), "{}", differ.join("\n"));
        ended.stop();
        missing.stop();
    }
}

#[test]
fn the_rows_have_every_command_that_has_keys() {
    let lines = ROWS.iter().flat_map(|(_, commands)| commands.split(';'));
    let called: HashSet<String> = lines
        .map(|line| line.strip_prefix("o ").unwrap_or(line))
        .filter_map(|line| line.split(' ').next())
        .map(str::to_ascii_lowercase)
        .collect();
    // The names of graphs are keys for the rights of users only: no graph is on flash.
    let with_keys = COMMANDS.iter().filter(|entry| entry.keys.0 > 0 && !entry.flags.contains(&Flag::PubSub));
    let with_keys = with_keys.filter(|entry| !entry.name.starts_with("g."));
    let missing: Vec<&str> = with_keys.map(|entry| entry.name).filter(|name| !called.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let verbs = ["get", "gets", "gat", "gats", "set", "add", "replace", "append", "prepend", "cas", "incr", "decr"];
    for verb in verbs.into_iter().chain(["touch", "delete", "mg", "ms", "md", "ma", "me"]) {
        let begin = format!("m {verb} ");
        assert!(ROWS.iter().any(|(_, lines)| lines.split(';').any(|line| line.starts_with(&begin))), "{verb}");
    }
}
