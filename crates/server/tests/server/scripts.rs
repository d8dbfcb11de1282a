//! Tests of scripts: comparisons of results with Debian's Redis, and what other clients see meanwhile.

use crate::common::redis::{Redis, Replies, both, resp, running};
use crate::common::{start, wait_until};
use base::prng::Prng;
use gannet_server::start::ServerConfig;
use std::time::{Duration, Instant};

/// Scripts whose results must be those of Redis, in versions 2 and 3 of the protocol. Each runs with the keys `k1` and
/// `k2` and the arguments `a1` and `12`.
const SAME: &[&str] = &[
    "return 1",
    "return",
    "return nil",
    "return -3.99",
    "return 3.99",
    "return 0/0",
    "return 1/0",
    "return 'x'",
    "return true",
    "return false",
    "return {1, 'a', {2, {3}}, true, false, 1.5}",
    "return {1, 2, nil, 4}",
    "return {}",
    "return {KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]}",
    "return {ARGV[1], ARGV[2], #KEYS, #ARGV}",
    "return function() end",
    "return {err='My err'}",
    "return {err='ERR x\\r\\ny'}",
    "return {ok='fine\\nx'}",
    "return {ok=1}",
    "return {err=1}",
    "return {double=3.5}",
    "return {double=0.1}",
    "return {double='x'}",
    "return {double=1/0}",
    "return {map={a=1}}",
    "return {map={[1]={2}}}",
    "return {set={a=true}}",
    "return {big_number='123\\r\\n4'}",
    "return {big_number=1}",
    "return {verbatim_string={format='txt', string='abc'}}",
    "return {verbatim_string={string='abc'}}",
    "return redis.error_reply('x y')",
    "return redis.error_reply('-x y')",
    "return redis.error_reply('xy')",
    "return redis.error_reply(1)",
    "return redis.error_reply()",
    "return redis.status_reply('a\\nb')",
    "return redis.status_reply()",
    "return redis.sha1hex()",
    "return redis.sha1hex(1)",
    "return redis.sha1hex('')",
    "return redis.setresp(4)",
    "return redis.setresp(3)",
    "return redis.setresp()",
    "return redis.log(1)",
    "return redis.log(9, 'x')",
    "return redis.log('x', 'y')",
    "return redis.log(0, 'x', 1)",
    "return redis.replicate_commands()",
    "return redis.set_repl(9)",
    "return redis.set_repl(redis.REPL_ALL)",
    "return redis.set_repl()",
    "return redis.breakpoint()",
    "return {redis.REDIS_VERSION, redis.REDIS_VERSION_NUM, redis.REPL_ALL, redis.REPL_AOF, redis.REPL_SLAVE, \
     redis.REPL_REPLICA, redis.REPL_NONE, redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING}",
    "math.randomseed(7) return {tostring(math.random()), math.random(1000), math.random(5, 9), \
     math.random(2147483647)}",
    "return math.random(0)",
    "return math.random(5, 3)",
    "return math.random('x')",
    "return math.random(1, 2, 3)",
    "return x",
    "x = 1",
    "KEYS = {}",
    "string.rep = 1",
    "redis.foo = 1",
    "redis.foo()",
    "rawset(_G, 'a', 1)",
    "setmetatable(_G, {})",
    "setmetatable(redis, nil)",
    "setmetatable(cjson, {})",
    "setmetatable(setmetatable({}, {__metatable=1}), {})",
    "setmetatable()",
    "setmetatable('x', {})",
    "setmetatable({})",
    "setmetatable({}, 1)",
    "return getmetatable(setmetatable({}, {a='b'})).a",
    "return tostring(getmetatable(setmetatable(setmetatable({}, {}), nil)))",
    "return tostring(_G.x)",
    "local f = setfenv",
    "return debug",
    "return tostring(print)",
    "return string.nope",
    "local x = nil + 1",
    "error('x')",
    "error()",
    "error(nil)",
    "error('a\\nb')",
    "error('a', 0)",
    "error({err='FOO bar'})",
    "error(12)",
    "local function f() local x = y end\n\nf()",
    "return string.rep('x', 3)()",
    "retur",
    "return '",
    "return pcall(error)",
    "return {pcall(error, 'x')}",
    "return {pcall(function() error('a') end)}",
    "return {pcall(function() error({err='b c'}) end)}",
    "return {pcall(redis.call, 'get')}",
    "return {xpcall(function() error('a') end, function(e) return 'H:' .. e end)}",
    "return {xpcall(function() redis.call('get') end, function(e) return 'H:' .. e.err end)}",
    "return {pcall(string.rep)}",
    "return select('#', pcall(redis.call, 'get'))",
    "return ipairs(nil)",
    "return pairs()",
    "return pairs(5)",
    "return next({})",
    "return unpack({1, 2, 3})",
    "return {unpack({1, 2, 3})}",
    "return loadstring('return 1')()",
    "return {loadstring('x y')}",
    "return load(function() return nil end)",
    "return table.concat({1, 2, 'x', 1.5}, ',')",
    "return string.format('%d %s %5.2f %q', 3, 'a', 1.234, 'q')",
    "return tostring(0.1) .. tostring(1e15) .. tostring(1e16) .. tostring(2^53)",
    "return getmetatable('').__index.x",
    "getmetatable('').__index = nil",
    "return rawget(_G, 'redis') ~= nil",
    "return _VERSION",
    "return #_G",
    "for k in pairs(_G) do if k == 'redis' then return 1 end end",
    "local t = {3, 1, 2} table.sort(t) return t",
    "local t = {} for i = 1, 300 do table.insert(t, 1, i) end return {#t, t[1], t[300], table.remove(t, 1), t[1]}",
    "local text = table.concat({1, {}}) return text",
    "local function f() table.insert(nil, 1) return 1 end return f() + 1",
    "table.insert({}, 1, 2, 3) return 1",
    "local t = {3, 'x', 2} table.sort(t) return t",
    "local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) \
     return t",
    "return string.gsub('hello', 'l', {l='L'})",
    "return {string.gfind('abc', 'b')()}",
    "local co = coroutine.create(function() error('x') end) return {coroutine.resume(co)}",
    "local co = coroutine.wrap(function() coroutine.yield(1) redis.call('get') end) co() co()",
    "return redis.call()",
    "return redis.call({})",
    "return redis.call('nope')",
    "return redis.call('multi')",
    "return redis.call('get')",
    "return redis.call('config', 'set', 'a', 'b')",
    "return redis.pcall('get')",
    "return redis.pcall()",
    "return redis.pcall('get', {})",
    "return redis.call('eval', 'return 1', 0)",
    "return redis.call('subscribe', 'a')",
    "return redis.call('set', 'a')",
    "return redis.call('client', 'id')",
    "return {redis.call('ping'), redis.call('echo', 'hi')}",
    "return redis.call('PING', 'x', 'y', 'z')",
    "return redis.call('set', 'k1', 123456789012345678)",
    "return redis.call('get', 'k1')",
    "redis.call('set', 'k2', 0.1) return redis.call('get', 'k2')",
    "return redis.call('incr', 'k3') + 1",
    "redis.call('set', 'k2', 1e300) return redis.call('get', 'k2')",
    "return redis.call('append', KEYS[1], ARGV[2])",
    "redis.call('hset', 'h', 'a', 1, 'b', 2) return redis.call('hgetall', 'h')",
    "redis.setresp(3) return false",
    "redis.setresp(3) return {true, false, {map={a=false}}}",
    "redis.setresp(3) redis.setresp(2) return {true, false}",
    "local f, e = load(function() error('boom') end) return {tostring(f), e.err, e.source, e.line}",
    "local f, e = load(function() error({err='My own'}) end) return {tostring(f), e.err, e.source, e.line}",
    "local f, e = load(function() error() end) return {tostring(f), e.err}",
    "local f, e = load(function() return string.rep() end) return {tostring(f), type(e)}",
    "local f, e = load(function() string.rep('x') return '' end) return {tostring(f), e.err}",
    "local f, e = load(function() redis.call('nosuch') return '' end) return {tostring(f), e.err, e.line}",
    "local n = 0 return {tostring((load(function() n = n + 1 if n == 2 then error('x') end return 'return ' end)))}",
    "return {pcall(load, function() error('boom') end)}",
    "local done, f, e = pcall(load, function() error('boom') end) return {tostring(f), e}",
    "local done, f, e = pcall(function() return load(function() error({}) end) end) return {tostring(f), type(e)}",
    "local done, f, e = xpcall(function() return load(function() error('x') end) end, \
     function(e) return 'h ' .. e end) return {tostring(f), e}",
    "local f, e = load(function() return {} end) return e.err",
    "return load(5)",
    "return load()",
    "local f = load('return 1')",
    "local f = loadstring({})",
    "return loadstring()",
    "local f, e = loadstring(5) return {tostring(f), e}",
    "local f, e = loadstring('return 1 +', '=nm') return {tostring(f), e}",
    "local f, e = loadstring(string.rep('(', 300)) return {tostring(f), e}",
    "local x = coroutine.resume(1)",
    "return coroutine.resume(1)",
    "return table.concat({{}})",
    "return table.remove(1)",
    "return table.insert(1, 2)",
    "return table.sort({3, 'a', 1})",
    "\n\nreturn table.remove(1)\n",
    "redis.setresp(3) return redis.call('hgetall', 'h')",
    "redis.setresp(3) return type(redis.call('hgetall', 'h').map)",
    "return redis.call('get', 'h')",
    "return redis.pcall('get', 'h')",
    "local r = redis.pcall('get', 'h') return r.err",
    "local ok, e = pcall(redis.call, 'get', 'h') return e",
    "redis.call('set', 'k1', 'v')\nreturn redis.call('get', 'h')",
    "error(redis.pcall('get', 'h'))",
    "redis.setresp(3) return redis.call('get', 'none')",
    "return redis.call('get', 'none')",
    "redis.setresp(3) return tostring(redis.call('get', 'none'))",
    "return tostring(redis.call('get', 'none'))",
    "return redis.call('mget', 'k1', 'none', 'k2')",
    "return redis.call('mset', 'm1', 1, 'm2', 2)",
    "return redis.call('msetnx', 'm1', 1, 'm9', 2)",
    "return redis.call('del', 'm1', 'm2', 'm3')",
    "return redis.call('rename', 'm1', 'm2')",
    "redis.call('select', 3) redis.call('set', 'other', 1) return redis.call('get', 'other')",
    "return redis.call('get', 'other')",
    "redis.call('set', 'k4', 1, 'px', 100000) return redis.call('pttl', 'k4') > 99000",
    "local a = redis.call('time') for i = 1, 1000 do end local b = redis.call('time') return a[1] == b[1]",
    "return redis.call('type', 'h')",
    "return redis.call('object', 'encoding', 'none')",
    "return redis.call('strlen', 'h')",
    "#!lua\nreturn 1",
    "#!lua flags=no-writes\nreturn redis.call('set', 'a', 'b')",
    "#!foo\nreturn 1",
    "#!lua flags=xx\nreturn 1",
    "#!lua name=x\nreturn 1",
    "#!lua flags=no-writes,allow-oom\nreturn 2",
    "#!lua",
    "#!lua flags=no-cluster,allow-stale,allow-cross-slot-keys\nreturn 3",
    "#!lua \n\nerror('third line')",
    "local s = {} for i = 1, 100 do s = {s} end return s",
    "return {1, {err='in the middle'}, 2}",
    "return redis.acl_check_cmd('get', 'x')",
    "return redis.acl_check_cmd('getx', 'x')",
    "return redis.acl_check_cmd()",
    "return redis.acl_check_cmd('get')",
    "return redis.call('save')",
    "return redis.pcall('failover')",
    "return redis.pcall('nope').ignore_error_stats_update",
    "local t = {} for name in pairs(redis.pcall('get')) do t[#t + 1] = name end table.sort(t) return t",
];

/// Scripts that use the libraries. They do not depend on the version of the protocol.
const LIBRARIES: &[&str] = &[
    r#"return {cjson._NAME, cjson._VERSION, tostring(cjson.null), type(cjson.null)}"#,
    r#"return {cmsgpack._NAME, cmsgpack._VERSION, cmsgpack._COPYRIGHT, cmsgpack._DESCRIPTION}"#,
    r#"return cjson.encode()"#,
    r#"return cjson.encode(1,2)"#,
    r#"return cjson.encode(0/0)"#,
    r#"return cjson.encode(1/0)"#,
    r#"return cjson.encode({[1]=1,[20]=2})"#,
    r#"return cjson.encode({[1]=1,[5]=2})"#,
    r#"return cjson.encode({[true]=1})"#,
    r#"return cjson.encode(function() end)"#,
    r#"return cjson.encode({a=1,[2]=3})"#,
    r#"return cjson.encode("a/\\b\"\1\127")"#,
    r#"return cjson.encode({{}, cjson.null, false, 0.1, 1e20, 123456789012345, 1234567890123456, -0.0})"#,
    // C code of Lua that computes the number of results with an overflow would end the server.
    r#"return unpack({},0,2147483647)"#,
    r#"return unpack({},-1,2147483647)"#,
    r#"return unpack({},-2147483648,0)"#,
    r#"return unpack({},-2147483648)"#,
    r#"return unpack({},-2147483648,2147483646)"#,
    r#"return unpack({},-2147483648,2147483647)"#,
    r#"return {pcall(unpack, {}, 0, 2147483647)}"#,
    r#"return #{unpack({}, 1, 7000)}"#,
    r#"local t = {'RPUSH', 'unpacked'}; for i = 1, 300 do t[#t + 1] = i end; return redis.call(unpack(t))"#,
    r#"local t = {}; for i = 1, 7990 do t[i] = i end; return redis.call('RPUSH', 'unpacked', unpack(t))"#,
    r#"local t = {}; for i = 1, 7900 do t[i] = 'x' .. i end; return redis.call('RPUSH', 'unpacked', unpack(t))"#,
    r#"local t = {}; for i = 1, 8000 do t[i] = i end; return redis.call('RPUSH', 'unpacked', unpack(t))"#,
    r#"local t = {}; for i = 1, 8000 do t[i] = i end; local a = unpack(t)"#,
    r#"local a = unpack(1)"#,
    r#"local a = unpack({}, 1, {})"#,
    r#"local u = unpack; local a = u()"#,
    r#"local t = {f = unpack}; local a = t:f('x')"#,
    r#"return {pcall(unpack)}"#,
    r#"local co = coroutine.wrap(unpack); return {co({1, 2, 3})}"#,
    r#"return {unpack({1, 2, 3}, 2)}"#,
    r#"return {unpack({1, 2, 3}, 2, 3)}"#,
    r#"return {unpack({1, 2, 3}, "2", 2.9)}"#,
    r#"return {unpack({1, 2, 3}, 3, 1)}"#,
    r#"return {unpack({1, 2, 3}, nil, 2)}"#,
    r#"return unpack()"#,
    r#"return unpack(1)"#,
    r#"return unpack({}, {})"#,
    r#"return unpack({}, 1, "x")"#,
    r#"return {pcall(unpack, nil)}"#,
    r#"return cjson.decode()"#,
    r#"return cjson.decode("")"#,
    r#"return cjson.decode("x")"#,
    r#"return cjson.decode("[1,2")"#,
    r#"return cjson.decode("{1:2}")"#,
    r#"return cjson.decode("{\"a\" 2}")"#,
    r#"return cjson.decode("[1 2]")"#,
    r#"return cjson.decode("1 2")"#,
    r#"return cjson.decode("\"a")"#,
    r#"return cjson.decode("\"\\x\"")"#,
    r#"return cjson.decode("\"\\uD800\"")"#,
    r#"return cjson.decode("\"\\u00e9\\ud83d\\ude00\"")"#,
    r#"return {cjson.decode("0x10"), cjson.decode("[01, 1.5e3, -2]")}"#,
    r#"return tostring(cjson.decode("nan"))"#,
    r#"return tostring(cjson.decode("-Infinity"))"#,
    r#"return tostring(cjson.decode("inf"))"#,
    r#"return cjson.decode("{\"a\":null}").a == cjson.null"#,
    r#"return cjson.decode(12)"#,
    r#"return cjson.decode({})"#,
    r#"return {cjson.encode_sparse_array()}"#,
    r#"return cjson.encode_max_depth()"#,
    r#"return cjson.decode_max_depth()"#,
    r#"return cjson.encode_number_precision()"#,
    r#"return tostring(cjson.encode_keep_buffer())"#,
    r#"return {tostring(cjson.encode_invalid_numbers()), tostring(cjson.decode_invalid_numbers())}"#,
    r#"local t={} local r=t for i=1,999 do t[1]={} t=t[1] end return #cjson.encode(r)"#,
    r#"local t={} local r=t for i=1,1000 do t[1]={} t=t[1] end return #cjson.encode(r)"#,
    r#"return #cjson.decode(string.rep("[",1000)..string.rep("]",1000))"#,
    r#"return #cjson.decode(string.rep("[",1001)..string.rep("]",1001))"#,
    r#"return pcall(cjson.decode,"x")"#,
    r#"return {pcall(cjson.decode,"x")}"#,
    r#"cjson.encode_max_depth(0)"#,
    r#"return {cmsgpack.pack()}"#,
    r#"return cmsgpack.pack(1,-1,-33,128,256,65536,4294967296,-129,-32769,-2147483649,0.5,0.1,1/0,0/0)"#,
    r#"return cmsgpack.pack(true,false,nil,"x",{},{1,2},{a=1},2^63,-2^63,2^53,1e300)"#,
    r#"return cmsgpack.pack({[1]=1,[3]=2})"#,
    r#"return cmsgpack.pack({1,2,nil,4})"#,
    r#"return cmsgpack.unpack()"#,
    r#"return cmsgpack.unpack("")"#,
    r#"return cmsgpack.unpack("\193")"#,
    r#"return cmsgpack.unpack("\204")"#,
    r#"return {cmsgpack.unpack("\1\2\3")}"#,
    r#"return {cmsgpack.unpack_one("\1\2\3")}"#,
    r#"return {cmsgpack.unpack_one("\1\2\3",1)}"#,
    r#"return {cmsgpack.unpack_one("\1\2\3",2)}"#,
    r#"return {cmsgpack.unpack_one("\1\2\3",5)}"#,
    r#"return {cmsgpack.unpack_one("\1\2\3",-1)}"#,
    r#"return {cmsgpack.unpack_limit("\1\2\3",2)}"#,
    r#"return {cmsgpack.unpack_limit("\1\2\3",2,1)}"#,
    r#"return {cmsgpack.unpack_limit("\1\2\3",0)}"#,
    r#"return {cmsgpack.unpack_limit("\1\2\3",-1)}"#,
    r#"return cmsgpack.unpack({})"#,
    r#"return cmsgpack.unpack(12)"#,
    r#"return struct.pack("z",1)"#,
    r#"return struct.pack("i3",1)"#,
    r#"return struct.pack("i16",1)"#,
    r#"return struct.pack("i64",1)"#,
    r#"return struct.pack("i128",1)"#,
    r#"return struct.pack("!3i",1)"#,
    r#"return struct.pack()"#,
    r#"return struct.pack("i")"#,
    r#"return struct.pack("c5","abc")"#,
    r#"return struct.pack("<i>i!8xd","1",2,3)"#,
    r#"return struct.pack("bBhHlLiIfds",1,255,-2,65535,-3,4,5,6,1.5,2.5,"abc")"#,
    r#"return struct.pack(">bBhHlLiIfdsc0",1,255,-2,65535,-3,4,5,6,1.5,2.5,"abc","xyz")"#,
    r#"return {struct.unpack("i","abc")}"#,
    r#"return {struct.unpack("c0","abc")}"#,
    r#"return {struct.unpack("bc0","\3abcd")}"#,
    r#"return {struct.unpack("s","abc")}"#,
    r#"return {struct.unpack("s","abc\0d")}"#,
    r#"return {struct.unpack("i4",struct.pack("i4",-7))}"#,
    r#"return {struct.unpack("b","abc",3)}"#,
    r#"return {struct.unpack("b","abc",4)}"#,
    r#"return {struct.unpack("b","abc",0)}"#,
    r#"return {struct.unpack("b","abc",-1)}"#,
    r#"return struct.size("i4!8d")"#,
    r#"return struct.size("s")"#,
    r#"return struct.size("c0")"#,
    r#"return struct.size("c5i")"#,
    r#"return struct.size("c99999999999999999999")"#,
    r#"return struct.pack("i2147483648",1)"#,
    r#"return bit.band()"#,
    r#"return bit.band(1)"#,
    r#"return bit.band(0xff,0x0f,7)"#,
    r#"return bit.bor(1,2,4)"#,
    r#"return bit.bxor(1,3)"#,
    r#"return bit.bnot(0)"#,
    r#"return bit.lshift(1,31)"#,
    r#"return bit.lshift(1,32)"#,
    r#"return bit.lshift(1,33)"#,
    r#"return bit.rshift(-1,28)"#,
    r#"return bit.arshift(-256,4)"#,
    r#"return bit.rol(0x12345678,12)"#,
    r#"return bit.ror(0x12345678,12)"#,
    r#"return bit.bswap(0x12345678)"#,
    r#"return bit.tobit(0xffffffff)"#,
    r#"return bit.tobit(2^40+5)"#,
    r#"return bit.tobit(1.5)"#,
    r#"return bit.tobit(2.5)"#,
    r#"return bit.tobit(-1.5)"#,
    r#"return bit.tobit("12")"#,
    r#"return bit.tobit("x")"#,
    r#"return bit.tobit(1e300)"#,
    r#"return bit.tobit(0/0)"#,
    r#"return {bit.tohex(1),bit.tohex(-1),bit.tohex(0xffff,4)}"#,
    r#"return {bit.tohex(0xabcdef,-6),bit.tohex(255,0),bit.tohex(1,100)}"#,
    r#"return bit.lshift(1)"#,
    r#"return bit.band("a")"#,
    r#"return bit.bnot({})"#,
    r#"local t={} for i=1,20 do t={t} end return cmsgpack.pack(t)"#,
    r#"local s=string.rep("\145",20).."\1" return cjson.encode(cmsgpack.unpack(s))"#,
    r#"return cmsgpack.pack(string.rep("x",31)) == "\191"..string.rep("x",31)"#,
    r#"return string.byte(cmsgpack.pack(string.rep("x",32)),1,3)"#,
    r#"return {string.byte(cmsgpack.pack(string.rep("x",256)),1,4)}"#,
    r#"return {string.byte(cmsgpack.pack(string.rep("x",65536)),1,6)}"#,
    r#"local f = cjson.encode f()"#,
    r#"return cjson.encode({[12345678901]=1})"#,
    r#"return cjson.encode({[2147483647]=1})"#,
    r#"return cmsgpack.unpack('\129\192\1')"#,
    r#"return cmsgpack.unpack(string.rep('\145',9000))"#,
    r#"return {cjson.encode_invalid_numbers('x')}"#,
    r#"return {cjson.encode_sparse_array(1,2,3,4)}"#,
    r#"return cjson.encode({10, '10', [3]=cjson.null})"#,
    r#"local t = {e=cjson.decode} t:e()"#,
];

fn eval<'w>(name: &'w str, script: &'w str) -> [&'w [u8]; 7] {
    [name.as_bytes(), script.as_bytes(), b"2", b"k1", b"k2", b"a1", b"12"]
}

pub(super) fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[test]
fn results_and_errors_of_scripts_are_those_of_redis() {
    let (redis, server) = (Redis::start(), running());
    let mut wrong = Vec::new();
    for version in ["2", "3"] {
        let (mut ours, mut theirs) = (resp(&server), Replies::connect(redis.addr));
        for replies in [&mut ours, &mut theirs] {
            replies.ask(&[b"HELLO", version.as_bytes()]);
            replies.ask(&[b"FLUSHALL"]);
        }
        for script in SAME.iter().chain(LIBRARIES) {
            for name in ["EVAL", "EVAL_RO"] {
                let words = eval(name, script);
                let (ours, theirs) = (ours.ask(&words), theirs.ask(&words));
                if ours != theirs {
                    wrong.push(format!(
                        "{name} {version}: {script}\n  ours   {}\n  theirs {}",
                        show(&ours),
                        show(&theirs)
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    server.stop();
}

/// Returns a random Lua expression.
fn expression(prng: &mut Prng, depth: u64) -> String {
    let texts =
        ["a", "\\0\\1\\127\\255", "\\195\\169", "/\\\"\\\\", "12", "", "a longer text of more than 31 bytes ......"];
    let numbers = [
        "0",
        "-1",
        "0.1",
        "1e300",
        "2^53",
        "-2^31",
        "2^32",
        "65535",
        "-129",
        "1/3",
        "1e15",
        "123456789012345678",
        "-0.5",
    ];
    match prng.below(if depth > 4 { 5 } else { 9 }) {
        0 => "true".into(),
        1 => "cjson.null".into(),
        2 => (prng.below(1 << 40) as i64 - (1 << 39)).to_string(),
        3 => numbers[prng.below(numbers.len() as u64) as usize].into(),
        4 => format!("\"{}\"", texts[prng.below(texts.len() as u64) as usize]),
        kind => {
            let parts = (0..prng.below(6)).map(|place| {
                let value = expression(prng, depth + 1);
                match kind {
                    5 | 6 => value,
                    7 => format!("[{}] = {value}", place * prng.below(5) + 1),
                    _ => format!("k{} = {value}", prng.below(20)),
                }
            });
            format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns a random script that searches by a pattern.
fn pattern_script(prng: &mut Prng) -> String {
    let mut one_of = |all: &[&str]| all[prng.below(all.len() as u64) as usize].to_owned();
    let items = [
        "a", "b", ".", "%a", "%d", "%s", "%w", "%p", "%u", "%z", "[ab]", "[^a]", "[a-c]", "[%d_]", "[]]", "[^]]", "[a",
        "%", "(", ")", "()", "(a)", "(.-)", "%1", "%2", "$", "^", "%b()", "%f[a]", "%f", "-", "%A", "[%W]", "[a-]",
        "[-a]",
    ];
    let texts = [
        "",
        "ab",
        "aab",
        "abc(d(e)f)g",
        "hello world 12",
        "  a1_b2",
        "x=1, y=2",
        "(()",
        "THE (fox)",
        "a.b.c",
        "\\0a\\0",
    ];
    let news = [
        "'x'",
        "'%0%0'",
        "'<%1>'",
        "'%2'",
        "'%'",
        "{a='1',b=2}",
        "function(a, b) return b or a end",
        "function() return {} end",
        "12",
        "function() return false end",
        "function() error('e') end",
        "function() error({err='E r'}) end",
        "function() redis.call('nope') end",
    ];
    let mut pattern = String::new();
    for _ in 0..4 {
        pattern += &one_of(&items);
        pattern += &one_of(&["", "", "*", "+", "-", "?"]);
    }
    pattern += &one_of(&["", "$"]);
    let (text, first, new) = (one_of(&texts), one_of(&["", ",2", ",-2", ",100", ",-100,true"]), one_of(&news));
    let call = match &one_of(&["find", "match", "gsub", "gmatch"])[..] {
        "gsub" => format!("string.gsub('{text}', '{pattern}', {new})"),
        "gmatch" => format!(
            "(function() local t = {{}} for a, b in string.gmatch('{text}', '{pattern}') do \
             t[#t + 1] = tostring(a) .. '|' .. tostring(b) end return table.concat(t, ';') end)()"
        ),
        name => format!("string.{name}('{text}', '{pattern}'{first})"),
    };
    let protected = format!("pcall(function() return {call} end)");
    format!("return {{{}}}", one_of(&[&call, &protected]))
}

/// Returns a random script that uses the libraries, and an argument.
fn library_script(prng: &mut Prng) -> (String, Vec<u8>) {
    let value = expression(prng, 0);
    let number =
        |prng: &mut Prng| format!("({})", ["0", "-1", "5", "31", "2^31", "1.5", "-2^40+3"][prng.below(7) as usize]);
    let bytes: Vec<u8> = (0..prng.below(24)).map(|_| prng.below(256) as u8).collect();
    let json: Vec<u8> = (0..prng.below(14))
        .flat_map(|_| {
            let parts =
                ["[", "]", "{", "}", ",", ":", "\"a\"", "1", "-0.5e3", "null", "true", " ", "\"\\u00e9\"", "0x1F", "x"];
            parts[prng.below(parts.len() as u64) as usize].bytes()
        })
        .collect();
    let format: String = (0..prng.below(8))
        .map(|_| {
            ["b", "B", "h", "H", "i", "I3", "l", "L", "f", "d", "s", "c3", "x", ">", "<", "!4", "!", "i8"]
                [prng.below(18) as usize]
        })
        .collect();
    match prng.below(9) {
        0 => (format!("return {{pcall(cjson.encode, {value})}}"), Vec::new()),
        1 => (format!("return {{pcall(cmsgpack.pack, {value}, {value})}}"), Vec::new()),
        2 => (format!("return cjson.encode(cmsgpack.unpack(cmsgpack.pack({value})))"), Vec::new()),
        3 => (
            "local ok, v = pcall(cjson.decode, ARGV[1]) return {ok, type(v), ok and cmsgpack.pack(v) or v}".into(),
            json,
        ),
        4 => ("return {pcall(function() return cmsgpack.pack(cmsgpack.unpack(ARGV[1])) end)}".into(), bytes),
        5 => (format!("return {{pcall(cmsgpack.unpack_limit, ARGV[1], {}, {})}}", prng.below(4), prng.below(4)), bytes),
        6 => {
            let numbers: Vec<String> = (0..8).map(|_| number(prng)).collect();
            (format!("return {{pcall(struct.pack, '{format}', {})}}", numbers.join(", ")), Vec::new())
        }
        7 => (format!("return {{pcall(struct.unpack, '{format}', ARGV[1], {})}}", prng.below(3) + 1), bytes),
        _ => {
            let names =
                ["band", "bor", "bxor", "bnot", "lshift", "rshift", "arshift", "rol", "ror", "bswap", "tobit", "tohex"];
            let name = names[prng.below(names.len() as u64) as usize];
            (format!("return {{pcall(bit.{name}, {}, {})}}", number(prng), number(prng)), Vec::new())
        }
    }
}

#[test]
fn results_of_libraries_for_random_values_are_those_of_redis() {
    let (redis, server) = (Redis::start(), running());
    let (mut ours, mut theirs) = (resp(&server), Replies::connect(redis.addr));
    let (seed, mut wrong, mut failed) = (7, Vec::new(), 0);
    let mut prng = Prng::new(seed);
    for _ in 0..6000 {
        let (script, argument) =
            if prng.below(3) == 0 { (pattern_script(&mut prng), Vec::new()) } else { library_script(&mut prng) };
        let words: [&[u8]; 4] = [b"EVAL", script.as_bytes(), b"0", &argument];
        let (ours, theirs) = (ours.ask(&words), theirs.ask(&words));
        failed += usize::from(theirs.starts_with(b"*2\r\n$-1\r\n"));
        // Addresses of tables differ.
        if ours != theirs && !show(&theirs).contains("0x") {
            wrong.push(format!("{script} {}\n  ours   {}\n  theirs {}", show(&argument), show(&ours), show(&theirs)));
        }
    }
    assert!(wrong.is_empty(), "seed {seed}, {} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    assert!(failed > 300 && failed < 4500, "{failed} errors");
    server.stop();
}

#[test]
fn requests_of_scripts_are_refused_as_redis_refuses_them() {
    let (redis, server) = (Redis::start(), running());
    let (mut ours, mut theirs) = (resp(&server), Replies::connect(redis.addr));
    let requests: &[&[&str]] = &[
        &["EVAL", "return 1", "-1"],
        &["EVAL", "return 1", "3"],
        &["EVAL", "return 1", "x"],
        &["EVAL", "return 1"],
        &["EVALSHA", "abc", "0"],
        &["EVALSHA", "ffffffffffffffffffffffffffffffffffffffff", "0"],
        &["EVALSHA_RO", "ffffffffffffffffffffffffffffffffffffffff", "0"],
        &["SCRIPT", "LOAD", "return {KEYS[1], ARGV[1]}"],
        &["SCRIPT", "LOAD", "return '"],
        &["EVALSHA", "5abea1fe1ed0ea6bc2d2f1bc0ab8c5eb5aa45ff7", "1", "a", "b"],
        &["SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "x"],
        &["EVALSHA", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "1", "a", "b"],
        &["EVAL", "return 1", "0"],
        &["EVAL_RO", "return redis.call('publish', 'a', 'b')", "0"],
        &["EVAL_RO", "return redis.pcall('spublish', 'a', 'b')", "0"],
        &["EVAL_RO", "return redis.call('pfcount', 'a')", "1", "a"],
        &["EVAL", "#!lua flags=no-writes\nreturn redis.call('pfcount', 'a')", "1", "a"],
        &["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
        &["EVALSHA", "E0E1F9FABFC9D4800C877A703B823AC0578FF8D", "0"],
        &["SCRIPT", "FLUSH", "x"],
        &["SCRIPT", "FLUSH", "ASYNC"],
        &["EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "0"],
        // The worker has executed this script last, but it has to be stored again.
        &["EVAL", "return 1", "0"],
        &["SCRIPT", "FLUSH"],
        &["EVAL", "return 1", "0"],
        &["SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"],
        &["SCRIPT", "KILL"],
        &["SCRIPT", "EXISTS"],
        &["SCRIPT", "NONE"],
        &["SCRIPT", "LOAD", "return redis.call('incr', 'n')"],
        &["MULTI"],
        &["EVAL", "return {redis.call('incr', 'n'), redis.call('get', 'undeclared')}", "1", "n"],
        &["EVAL", "return redis.call('hget', 'n', 'x')", "1", "n"],
        &["EVAL", "return '", "0"],
        &["GET", "n"],
        &["EXEC"],
        &["COMMAND", "GETKEYS", "EVAL", "x", "2", "a", "b", "c"],
        &["COMMAND", "GETKEYS", "EVALSHA_RO", "x", "1", "a", "b", "c"],
    ];
    for words in requests {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let (ours, theirs) = (ours.ask(&words), theirs.ask(&words));
        assert_eq!(show(&ours), show(&theirs), "{}", show(&words.join(&b' ')));
    }
    server.stop();
}

#[test]
fn a_script_that_loops_for_ever_holds_up_nobody_and_can_be_killed_whatever_it_catches() {
    let server = running();
    let (mut looping, mut other) = (resp(&server), resp(&server));
    for script in ["while true do end", "while true do pcall(function() while true do end end) end"] {
        looping.client.send(&crate::common::redis::request(&[b"EVAL", script.as_bytes(), b"1", b"locked"]));
        let mut times: Vec<Duration> = (0..2000)
            .map(|number| {
                let asked = Instant::now();
                assert_eq!(other.ask(&[b"SET", b"free", number.to_string().as_bytes()]), b"+OK\r\n");
                asked.elapsed()
            })
            .collect();
        // A busy machine delays some requests, a script that is not interrupted delays all of them.
        times.sort();
        assert!(times[1800] < Duration::from_millis(100), "{:?}", times[1800]);
        wait_until("the script is in execution", || server.shared().scripts.has_long());
        assert_eq!(other.ask(&[b"SCRIPT", b"KILL"]), b"+OK\r\n");
        let ended = show(&looping.next());
        assert!(ended.starts_with("-ERR Script killed by user with SCRIPT KILL."), "{ended}");
        assert_eq!(other.ask(&[b"GET", b"locked"]), b"$-1\r\n");
        assert_eq!(other.ask(&[b"SCRIPT", b"KILL"]), b"-NOTBUSY No scripts in execution right now.\r\n");
    }
    looping.client.send(&crate::common::redis::request(&[
        b"EVAL",
        b"redis.call('set', 'a', 1) while true do end",
        b"0",
    ]));
    wait_until("the script is in execution", || server.shared().scripts.has_long());
    assert!(show(&other.ask(&[b"SCRIPT", b"KILL"])).starts_with("-UNKILLABLE"));
    // The server stops nevertheless.
    server.stop();
}

/// Such a request waited for as long as the script, and a script that only reads can run for ever.
#[test]
fn requests_for_keys_of_a_script_that_runs_too_long_are_answered_busy() {
    let server = running();
    let mut looping = resp(&server);
    let script = b"redis.call('get', KEYS[1]) while true do end";
    looping.client.send(&crate::common::redis::request(&[b"EVAL", script, b"1", b"held"]));
    wait_until("the script is in execution", || server.shared().scripts.has_long());
    let requests: [&[&[u8]]; 6] = [
        &[b"GET", b"held"],
        &[b"SET", b"held", b"1"],
        &[b"MGET", b"held", b"other"],
        &[b"MSET", b"held", b"1", b"other", b"1"],
        &[b"EXISTS", b"held"],
        &[b"INCR", b"held"],
    ];
    let mut waiting: Vec<Replies> = requests.iter().map(|_| resp(&server)).collect();
    for (client, words) in waiting.iter_mut().zip(requests) {
        client.client.send(&crate::common::redis::request(words));
    }
    let mut exec = resp(&server);
    assert_eq!(exec.ask(&[b"MULTI"]), b"+OK\r\n");
    assert_eq!(exec.ask(&[b"GET", b"held"]), b"+QUEUED\r\n");
    exec.client.send(&crate::common::redis::request(&[b"EXEC"]));
    for (client, words) in waiting.iter_mut().zip(requests) {
        assert!(client.next().starts_with(b"-BUSY "), "{:?}", words[0].escape_ascii().to_string());
    }
    assert!(exec.next().starts_with(b"-BUSY "));
    // Other keys are not held.
    assert_eq!(exec.ask(&[b"SET", b"other", b"1"]), b"+OK\r\n");
    assert_eq!(exec.ask(&[b"SCRIPT", b"KILL"]), b"+OK\r\n");
    assert!(looping.next().starts_with(b"-ERR Script killed"));
    assert_eq!(exec.ask(&[b"GET", b"held"]), b"$-1\r\n", "a refused request has changed nothing");
    server.stop();
}

#[test]
fn effects_of_a_script_over_keys_that_it_does_not_name_are_seen_whole_by_clients_of_all_workers() {
    let server = start(ServerConfig { workers: 2, ..both() });
    // Moves one unit between two keys that it does not name, slowly enough to be interrupted.
    let script = b"local a, b = redis.call('decr', 'x' .. ARGV[1]), redis.call('incr', 'x' .. ARGV[2]) \
                   for i = 1, tonumber(ARGV[3]) do local n = i * 2 end \
                   redis.call('incr', 'x' .. ARGV[1]) redis.call('decr', 'x' .. ARGV[2]) return 1";
    let mut clients: Vec<Replies> = (0..4).map(|_| resp(&server)).collect();
    assert_eq!(clients[0].ask(&[b"MSET", b"x1", b"0", b"x2", b"0", b"x3", b"0"]), b"+OK\r\n");
    let threads: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(number, mut client)| {
            std::thread::spawn(move || {
                for round in 0..150 {
                    if number % 2 == 0 {
                        let pair: [&[u8]; 2] = if round % 2 == 0 { [b"1", b"2"] } else { [b"2", b"1"] };
                        let loops: &[u8] = if round % 10 == 0 { b"200000" } else { b"10" };
                        assert_eq!(client.ask(&[b"EVAL", script, b"0", pair[0], pair[1], loops]), b":1\r\n");
                    } else {
                        let seen = client.ask(&[b"MGET", b"x1", b"x2"]);
                        assert_eq!(show(&seen), "*2\\r\\n$1\\r\\n0\\r\\n$1\\r\\n0\\r\\n");
                        client.ask(&[b"MULTI"]);
                        client.ask(&[b"GET", b"x2"]);
                        client.ask(&[b"GET", b"x1"]);
                        assert_eq!(client.ask(&[b"EXEC"]), b"*2\r\n$1\r\n0\r\n$1\r\n0\r\n");
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no client saw a part of a script"));
    server.stop();
}

#[test]
fn commands_of_scripts_need_the_rights_of_the_client() {
    let (redis, server) = (Redis::start(), running());
    let (mut ours, mut theirs) = (resp(&server), Replies::connect(redis.addr));
    for line in [
        "ACL SETUSER limited on >pw ~k* &ch* +@all -set",
        "AUTH limited pw",
        "EVAL return(redis.call('set','k1',1)) 0",
        "EVAL return(redis.pcall('set','k1',1)) 0",
        "EVAL return(redis.call('get','x')) 0",
        "EVAL return(redis.call('append','k1','x')) 0",
        "EVAL return(redis.call('get',KEYS[1])) 1 x",
        "EVAL return(redis.call('publish','other','m')) 0",
        "EVAL return(redis.call('publish','chan','m')) 0",
        "EVAL return(redis.acl_check_cmd('set','k1','1')) 0",
        "EVAL return(redis.acl_check_cmd('get','k1')) 0",
        "EVAL return(redis.acl_check_cmd('get','x')) 0",
    ] {
        let (ours, theirs) = (ours.text(line), theirs.text(line));
        assert_eq!(ours, theirs, "{line}");
    }
    server.stop();
}

#[test]
fn a_script_that_fails_keeps_the_effects_before_the_failure_and_publishes_them() {
    let server = running();
    let (mut client, mut subscriber) = (resp(&server), resp(&server));
    assert_eq!(client.ask(&[b"CONFIG", b"SET", b"notify-keyspace-events", b"KEA"]), b"+OK\r\n");
    subscriber.ask(&[b"SUBSCRIBE", b"__keyevent@0__:set"]);
    let failed = client.ask(&[b"EVAL", b"redis.call('set', 'kept', 1) redis.call('get')", b"0"]);
    assert!(failed.starts_with(b"-ERR Wrong number of args"), "{}", show(&failed));
    assert_eq!(client.ask(&[b"GET", b"kept"]), b"$1\r\n1\r\n");
    assert!(show(&subscriber.next()).ends_with("$4\\r\\nkept\\r\\n"));
    // The client of a script stays in its database, in its version of the protocol and with its replies.
    client.ask(&[b"EVAL", b"redis.call('select', 5) redis.setresp(3)", b"0"]);
    assert_eq!(client.ask(&[b"GET", b"none"]), b"$-1\r\n");
    assert_eq!(client.ask(&[b"GET", b"kept"]), b"$1\r\n1\r\n");
    client.client.send(&crate::common::redis::request(&[b"CLIENT", b"REPLY", b"OFF"]));
    client.client.send(&crate::common::redis::request(&[b"EVAL", b"return redis.call('incr', 'kept')", b"0"]));
    assert_eq!(client.ask(&[b"CLIENT", b"REPLY", b"ON"]), b"+OK\r\n");
    assert_eq!(client.ask(&[b"GET", b"kept"]), b"$1\r\n2\r\n");
    server.stop();
}

#[test]
fn a_script_sees_no_time_pass_and_its_long_replies_are_whole() {
    let server = running();
    let mut client = resp(&server);
    let script = b"redis.call('set', 'ending', 1, 'px', 100) local before = redis.call('time') \
                   for i = 1, 100000000 do end local after = redis.call('time') \
                   return {before[1] == after[1] and before[2] == after[2], redis.call('get', 'ending')}";
    assert_eq!(client.ask(&[b"EVAL", script, b"0"]), b"*2\r\n:1\r\n$1\r\n1\r\n");
    let long =
        client.ask(&[b"EVAL", b"return {string.rep('x', 3000000), redis.call('echo', string.rep('y', 200000))}", b"0"]);
    assert_eq!(long.len(), 4 + 10 + 3_000_002 + 9 + 200_002);
    let many = client.ask(&[b"EVAL", b"local t = {} for i = 1, 100000 do t[i] = i end return t", b"0"]);
    assert!(many.starts_with(b"*100000\r\n:1\r\n") && many.ends_with(b":100000\r\n"));
    server.stop();
}
