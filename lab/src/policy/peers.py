"""Misses of one of libCacheSim's policies over a trace, as JSON: one number for each size.

usage: peers.py lifetimes|for-ever POLICY TRACE SIZE...

for-ever: TRACE is libCacheSim's own oracleGeneral format, and is replayed in its C code.
lifetimes: TRACE is little-endian records `key u64 | at ms u64 | ttl ms u64 | bytes u64`. The library's W-TinyLFU
crashes when an object is removed, so for every policy an item that has ended is stored anew in its place: a miss, and
to the policy one more request for the key.

Each size has a process of its own, so that its memory is given back.
"""

import json
import multiprocessing
import os
import struct
import sys

import libcachesim as lcs

POLICIES = {"LRU": lcs.LRU, "SIEVE": lcs.Sieve, "S3-FIFO": lcs.S3FIFO, "W-TinyLFU": lcs.WTinyLFU, "ARC": lcs.ARC}
RECORD = struct.Struct("<QQQQ")
# time u32, key u64, bytes u32, next access i64
ORACLE_BYTES = 24
# Buckets of the library's hash tables, as a power of two; the default of 24 takes gigabytes.
HASH_POWER = 18


def misses_for_ever(policy, path, size):
    """Nothing ends: the library replays the file by itself."""
    cache = policy(size, hashpower=HASH_POWER)
    missed, _ = cache.process_trace(lcs.TraceReader(path, lcs.TraceType.ORACLE_GENERAL_TRACE))
    return round(missed * (os.path.getsize(path) // ORACLE_BYTES))


def misses(policy, path, size):
    """A read finds an item that has not ended, or stores it."""
    cache = policy(size, hashpower=HASH_POWER)
    ends, missed = {}, 0
    request = lcs.Request()
    with open(path, "rb") as trace:
        for key, at, ttl, length in RECORD.iter_unpack(trace.read()):
            request.obj_id, request.obj_size = key, length
            if not cache.get(request) or ends[key] <= at:
                missed += 1
                ends[key] = at + ttl
    return missed


def main():
    kind, policy, path, sizes = sys.argv[1], POLICIES[sys.argv[2]], sys.argv[3], [int(size) for size in sys.argv[4:]]
    count = misses if kind == "lifetimes" else misses_for_ever
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        print(json.dumps(pool.starmap(count, [(policy, path, size) for size in sizes], chunksize=1)))


main()
