"""Misses of libCacheSim's policies over a trace, as JSON: a list for each size, in the order of the policies.

usage: peers.py lifetimes|for-ever TRACE SIZE...

for-ever: TRACE is libCacheSim's own oracleGeneral format, and is replayed in its C code.
lifetimes: TRACE is little-endian records `key u64 | at ms u64 | ttl ms u64 | bytes u64`. The library's W-TinyLFU cannot
remove an object (it crashes), so its place holds null.
"""

import json
import os
import struct
import sys

import libcachesim as lcs

POLICIES = [lcs.LRU, lcs.Sieve, lcs.S3FIFO, lcs.WTinyLFU, lcs.ARC]
RECORD = struct.Struct("<QQQQ")
# time u32, key u64, bytes u32, next access i64
ORACLE_BYTES = 24


def accesses(path):
    with open(path, "rb") as trace:
        return list(RECORD.iter_unpack(trace.read()))


def misses_for_ever(cache, path, count):
    """Nothing ends: the library replays the file by itself."""
    missed, _ = cache.process_trace(lcs.TraceReader(path, lcs.TraceType.ORACLE_GENERAL_TRACE))
    return round(missed * count)


def misses(cache, trace):
    """A read finds an item or stores it; one whose lifetime has ended is removed by the read that finds it."""
    ends, missed = {}, 0
    request = lcs.Request()
    for key, at, ttl, size in trace:
        request.obj_id, request.obj_size = key, size
        if ttl and ends.get(key, at) < at and cache.find(request, False) is not None:
            cache.remove(key)
        if not cache.get(request):
            missed += 1
            ends[key] = at + ttl
    return missed


def main():
    kind, path, sizes = sys.argv[1], sys.argv[2], [int(size) for size in sys.argv[3:]]
    if kind == "lifetimes":
        trace = accesses(path)
        table = [
            [None if policy is lcs.WTinyLFU else misses(policy(size), trace) for policy in POLICIES] for size in sizes
        ]
    else:
        count = os.path.getsize(path) // ORACLE_BYTES
        table = [[misses_for_ever(policy(size), path, count) for policy in POLICIES] for size in sizes]
    print(json.dumps(table))


main()
