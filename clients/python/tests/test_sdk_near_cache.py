"""Copies of values in both clients: changes by any client remove them, and a lost watch removes all."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest
import redis
from conftest import CONFIGURATION, PYTHON, code
from proxy import Proxy

from gannet import (
    CacheClient,
    CacheClientAsync,
    Cancellation,
    CredentialProvider,
    ErrorCode,
    GetBatchSuccess,
    GetHit,
    LeaseWon,
    Miss,
    NearCache,
    NoRetry,
    Success,
    _copies,
)
from gannet._copies import Copies, Role
from gannet._proto import invalidations_pb2 as m

MS = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
NEAR = CONFIGURATION.with_near_cache(NearCache())


def near(client, cache="default"):
    return client.metrics().near_caches[cache]


def turn(client):
    """Lets the loop of an asynchronous client run: it reads the changes of keys only while a call runs."""
    client.keys_exist([])


def until(condition, client, s=5.0):
    deadline = time.monotonic() + s
    while not condition():
        assert time.monotonic() < deadline, near(client)
        turn(client)
        time.sleep(0.002)


def watching(connect, address, configuration=NEAR, **more):
    """Returns a client whose watch is open."""
    client = connect(address, configuration, **more)
    turn(client)
    until(lambda: near(client).watching, client)
    return client


def copied(client, key):
    """Reads a key until there is a copy of its value, and returns the value."""
    deadline = time.monotonic() + 5
    while True:
        hits = near(client).hits
        value = client.get(key).value
        if near(client).hits == hits + 1:
            return value
        assert time.monotonic() < deadline, near(client)


@pytest.fixture
def plain(server):
    with redis.Redis(port=server.resp_port) as plain:
        plain.flushall()
        yield plain


def test_a_copy_answers_without_the_server(connect, server, plain):
    plain.set("k", "v")
    client = watching(connect, server.grpc_address)
    assert copied(client, "k") == b"v"
    calls, hits = client.metrics().methods["Get"].calls, near(client).hits
    assert [client.get("k") for _ in range(10)] == [GetHit(b"v")] * 10
    assert client.with_deadline(5000 * MS).get("k") == GetHit(b"v")
    assert client.metrics().methods["Get"].calls == calls and near(client).hits == hits + 11
    assert client.metrics().subscriptions == 1 and near(client).error is None


def test_clients_keep_no_copies_unless_enabled(connect, server, plain):
    plain.set("k", "v")
    client = connect(server.grpc_address)
    client.get("k"), client.get("k")
    assert client.metrics().methods["Get"].calls == 2 and not client.metrics().near_caches


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (lambda plain: plain.set("k", "w"), b"w"),
        (lambda plain: plain.append("k", "w"), b"vw"),
        (lambda plain: plain.delete("k"), None),
        (lambda plain: plain.pexpire("k", 50), None),
        (lambda plain: plain.flushall(), None),
    ],
    ids=["set", "append", "delete", "expire", "flush"],
)
def test_a_change_by_another_client_removes_the_copy(connect, server, plain, change, value):
    plain.set("k", "v")
    client = watching(connect, server.grpc_address)
    assert copied(client, "k") == b"v"
    before = near(client)
    change(plain)
    until(lambda: client.get("k") == (Miss() if value is None else GetHit(value)), client)
    after = near(client)
    assert (after.invalidations > before.invalidations) or (after.drops > before.drops)


def test_a_client_reads_its_own_writes(connect, server, plain):
    client = watching(connect, server.grpc_address)

    def fill(value):
        plain.set("k", value)
        until(lambda: copied(client, "k") == value, client)

    for number in range(20):
        fill(b"1")
        value = b"%d" % number
        assert client.set("k", value) == Success() and client.get("k") == GetHit(value)
    fill(b"1")
    assert client.increment("k").value == 2 and client.get("k") == GetHit(b"2")
    fill(b"1")
    client.set_batch({"k": "batch"})
    assert client.get("k") == GetHit(b"batch")
    fill(b"1")
    client.set_if_present("k", "there")
    assert client.get("k") == GetHit(b"there")
    fill(b"1")
    client.delete("k")
    assert client.get("k") == Miss()
    won = client.lease_get("k")
    assert isinstance(won, LeaseWon) and client.lease_set("k", won.token, "leased").outcome == "stored"
    assert client.get("k") == GetHit(b"leased")
    fill(b"1")
    client.flush_cache("default")
    assert client.get("k") == Miss()


def test_a_reply_older_than_a_change_is_not_copied(server, plain):
    # The reply waits in the proxy while the watch, on another connection, reports the change.
    configuration = NEAR.with_requests_in_flight_max(1)
    with Proxy(server.grpc_port) as proxy, CacheClient(proxy.address, configuration) as client:
        assert client.connect(5 * SECOND) and len(proxy.gates) == 1
        turn(client)
        until(lambda: near(client).watching, client)
        results = []
        for round_ in range(1, 6):
            plain.set("k", "old")
            until(lambda: copied(client, "k") == b"old", client)
            plain.delete("k")
            until(lambda: client.get("k") == Miss(), client)
            plain.set("k", "old")
            time.sleep(0.05)
            proxy.gates[0].clear()
            readers = [threading.Thread(target=lambda: results.append(client.get("k"))) for _ in range(3)]
            for reader in readers:
                reader.start()
            time.sleep(0.05)
            invalidations = near(client).invalidations
            plain.set("k", "new")
            time.sleep(0.05)
            assert near(client).invalidations == invalidations, "there was no copy"
            proxy.gates[0].set()
            for reader in readers:
                reader.join(5)
            assert len(results) == 3 * round_ and set(results) == {GetHit(b"old")}
            assert client.get("k") == GetHit(b"new"), "the old value was copied after the change of its key"


def test_reads_of_one_key_at_once_are_one_request(server, plain):
    plain.set("k", "v")
    with Proxy(server.grpc_port) as proxy, CacheClient(proxy.address, NEAR) as client:
        assert client.connect(5 * SECOND)
        turn(client)
        until(lambda: near(client).watching, client)
        client.get("none")
        calls = client.metrics().methods["Get"].calls
        for gate in proxy.gates[:2]:
            gate.clear()
        results = []
        readers = [threading.Thread(target=lambda: results.append(client.get("k"))) for _ in range(20)]
        for reader in readers:
            reader.start()
        time.sleep(0.1)
        assert not results and client.metrics().in_flight == 1
        late = client.with_deadline(50 * MS).get("k")
        assert code(late) in (ErrorCode.TIMEOUT, ErrorCode.CLIENT_QUEUE_TIMEOUT)
        cancellation = Cancellation()
        threading.Timer(0.05, cancellation.cancel).start()
        assert code(client.with_cancellation(cancellation).get("k")) is ErrorCode.CANCELLED
        for gate in proxy.gates[:2]:
            gate.set()
        for reader in readers:
            reader.join(5)
        assert results == [GetHit(b"v")] * 20 and client.metrics().methods["Get"].calls <= calls + 3


def test_tasks_that_read_one_key_at_once_send_one_request(server, plain):
    plain.set("k", "v")

    async def run():
        async with CacheClientAsync(server.grpc_address, NEAR) as client:
            while not near(client).watching:
                await client.get("start the watch")
            calls = client.metrics().methods["Get"].calls
            tasks = [asyncio.ensure_future(client.get("k")) for _ in range(50)]
            await asyncio.sleep(0)
            # The others do not depend on the task that sent the request.
            tasks[0].cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(results[0], asyncio.CancelledError) and results[1:] == [GetHit(b"v")] * 49
            assert [await client.get("k") for _ in range(10)] == [GetHit(b"v")] * 10
            assert client.metrics().methods["Get"].calls < calls + 60

    asyncio.run(run())


def test_a_reader_never_sees_a_value_older_than_an_earlier_one(server, plain):
    count = 1000
    seen, wrong = [], []
    plain.set("n", 0)
    with CacheClient(server.grpc_address, NEAR) as client:
        client.get("n")
        until(lambda: near(client).watching, client)
        done = threading.Event()

        def read():
            last = 0
            while not done.is_set():
                value = int(client.get("n").value)
                if value < last:
                    wrong.append((last, value))
                last = value
            seen.append(last)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for _ in range(count):
            plain.incr("n")
        until(lambda: client.get("n") == GetHit(b"%d" % count), client)
        done.set()
        for reader in readers:
            reader.join(10)
        assert not wrong and len(seen) == 3
        assert near(client).hits > 20 and near(client).invalidations > 10


def test_a_lost_watch_removes_all_copies(connect, own_server):
    client = watching(connect, own_server.grpc_address, NEAR.with_retry_strategy(NoRetry()))
    client.set("k", "v")
    assert copied(client, "k") == b"v"
    own_server.kill()
    until(lambda: not near(client).watching, client)
    assert near(client).entries == 0 and near(client).drops >= 1
    assert code(client.get("k")) is ErrorCode.UNAVAILABLE, "a copy would be older than the server's state"
    own_server.restart()
    until(lambda: client.set("k", "w") == Success() and near(client).watching, client)
    assert copied(client, "k") == b"w" and client.get("k") == GetHit(b"w")


def test_a_broken_connection_of_the_watch_alone_removes_all_copies(connect, server, plain):
    plain.set("k", "v")
    with Proxy(server.grpc_port) as proxy:
        client = watching(connect, proxy.address)
        assert copied(client, "k") == b"v"
        drops = near(client).drops
        proxy.break_connections()
        plain.set("k", "w")
        until(lambda: near(client).drops > drops, client)
        until(lambda: client.get("k") == GetHit(b"w"), client)
        until(lambda: near(client).watching, client)
        assert copied(client, "k") == b"w" or near(client).entries == 1
        client.close()


def test_misses_are_not_copied(connect, server, plain):
    client = watching(connect, server.grpc_address)
    assert client.get("absent") == Miss() == client.get("absent") and near(client).entries == 0
    plain.set("absent", "v")
    assert client.get("absent") == GetHit(b"v")


def test_a_batch_asks_the_server_for_the_missing_keys_only(connect, server, plain):
    plain.mset({"a": "1", "b": "2", "c": "3"})
    client = watching(connect, server.grpc_address)
    assert copied(client, "b") == b"2"
    both = GetBatchSuccess((GetHit(b"1"), GetHit(b"2"), Miss(), GetHit(b"3")))
    assert client.get_batch(["a", "b", "none", "c"]) == both and near(client).entries == 3
    plain.set("b", "changed")
    until(lambda: client.get_batch(["c", "b", "a"]).values == [b"3", b"changed", b"1"], client)
    calls = client.metrics().methods["GetBatch"].calls
    assert client.get_batch(["a", "b", "c", "a"]).values == [b"1", b"changed", b"3", b"1"]
    assert client.metrics().methods["GetBatch"].calls == calls
    assert client.get_batch([]) == GetBatchSuccess(())


def test_only_keys_with_the_prefixes_are_copied(connect, server, plain):
    plain.mset({"a:1": "v", "b:1": "v"})
    client = watching(connect, server.grpc_address, CONFIGURATION.with_near_cache(NearCache(prefixes=("a:", b"c"))))
    assert copied(client, "a:1") == b"v"
    client.get("b:1")
    assert near(client).entries == 1
    plain.set("a:1", "w")
    until(lambda: client.get("a:1") == GetHit(b"w"), client)


def test_each_cache_has_its_own_copies(connect, server, plain):
    client = watching(connect, server.grpc_address)
    client.create_cache("other")
    other = client.with_cache("other")
    client.set("k", "default")
    other.set("k", "other")
    until(lambda: other.get("k") == GetHit(b"other") and near(client, "other").entries == 1, client)
    until(lambda: client.get("k") == GetHit(b"default") and near(client).entries == 1, client)
    assert other.get("k") == GetHit(b"other") and client.get("k") == GetHit(b"default")
    client.delete_cache("other")
    assert code(other.get("k")) is ErrorCode.NOT_FOUND_CACHE
    until(lambda: near(client, "other").error is not None, client)
    assert "NOT_FOUND" not in near(client, "other").error and "create" in near(client, "other").error


def test_a_refused_watch_leaves_all_reads_to_the_server(connect, server, plain):
    plain.execute_command("ACL", "SETUSER", "nowatch", "on", ">word", "~*", "+get", "+exists", "+set")
    client = connect(server.grpc_address, NEAR, credentials=CredentialProvider.from_string("nowatch:word"))
    plain.set("k", "v")
    until(lambda: client.get("k") == GetHit(b"v") and near(client).error is not None, client)
    assert not near(client).watching and near(client).entries == 0 and "WatchKeys" in near(client).error
    plain.set("k", "w")
    assert client.get("k") == GetHit(b"w")
    plain.execute_command("ACL", "DELUSER", "nowatch")


def test_copies_are_bounded_in_number_and_the_least_recently_used_go_first(connect, server, plain):
    plain.mset({f"k{number}": "v" for number in range(20)})
    client = watching(connect, server.grpc_address, CONFIGURATION.with_near_cache(NearCache(entries_max=5)))
    for number in range(5):
        client.get(f"k{number}")
    client.get("k0")
    for number in range(5, 9):
        client.get(f"k{number}")
    assert (near(client).entries, near(client).evictions) == (5, 4)
    hits = near(client).hits
    client.get("k0")
    assert near(client).hits == hits + 1
    client.get("k1")
    assert near(client).hits == hits + 1


def event(**kind):
    return m.WatchKeysEvent(**kind)


def opened(options):
    copies = Copies(options)
    copies.parse(event(heartbeat=m.WatchHeartbeat()))
    return copies


def fill(copies, key, value):
    copies.end(copies.begin(key), GetHit(value))


def test_copies_are_bounded_in_bytes():
    copies = opened(NearCache(bytes_max=10_000))
    for number in range(100):
        fill(copies, b"%d" % number, bytes(1000))
        assert copies.metrics().bytes <= 10_000
    assert copies.metrics().entries == 7 and copies.metrics().evictions == 93
    fill(copies, b"99", bytes(20_000))
    assert copies.lookup(b"99") is None and copies.metrics().entries == 6
    copies.forget(b"%d" % number for number in range(100))
    assert (copies.metrics().entries, copies.metrics().bytes) == (0, 0)


def test_reads_across_a_change_are_not_copied():
    copies = opened(NearCache())
    before, other = copies.begin(b"k"), copies.begin(b"other")
    copies.parse(event(keys=m.ChangedKeys(keys=[b"k"])))
    copies.end(before, GetHit(b"old"))
    assert copies.lookup(b"k") is None
    copies.end(other, GetHit(b"v"))
    assert copies.lookup(b"other") == GetHit(b"v")
    fill(copies, b"k", b"new")
    assert copies.lookup(b"k") == GetHit(b"new")
    across = copies.begin(b"third")
    copies.parse(event(all=m.AllKeys()))
    copies.end(across, GetHit(b"old"))
    assert copies.lookup(b"third") is None and copies.lookup(b"other") is None
    across = copies.begin(b"k")
    copies.broken()
    copies.parse(event(heartbeat=m.WatchHeartbeat()))
    copies.end(across, GetHit(b"old"))
    assert copies.lookup(b"k") is None
    copies.broken()
    assert not copies.begin(b"k").valid, "no watch is open"
    assert not copies._reads


def test_a_read_is_not_copied_if_another_one_of_its_key_ended_meanwhile():
    # The other caller may have got a newer value, and would see the older one as a copy.
    copies = opened(NearCache())
    first, second = copies.begin(b"k"), copies.begin(b"k")
    assert first.valid and not second.valid
    copies.end(second, GetHit(b"3"))
    assert copies.begin_or_join(b"k", threading.Event) == (first, Role.WAITS), "its value may be older than 3"
    copies.end(first, GetHit(b"2"))
    assert copies.lookup(b"k") is None
    first, second = copies.begin(b"k"), copies.begin(b"k")
    copies.end(first, GetHit(b"3"))
    copies.end(second, GetHit(b"4"))
    assert copies.lookup(b"k") is None, "the second read may have got a newer value than the copy"


def test_a_read_waits_for_one_that_began_before_a_change_and_does_not_take_its_value():
    copies = opened(NearCache())
    old = copies.begin(b"k")
    assert copies.begin_or_join(b"k", threading.Event) == (old, Role.TAKES)
    copies.parse(event(keys=m.ChangedKeys(keys=[b"k"])))
    assert copies.begin_or_join(b"k", threading.Event) == (old, Role.WAITS)
    copies.end(old, GetHit(b"1"))
    assert old.event.is_set() and copies.lookup(b"k") is None
    new, role = copies.begin_or_join(b"k", threading.Event)
    copies.end(new, GetHit(b"2"))
    assert role is Role.READS and copies.lookup(b"k") == GetHit(b"2")


def test_copies_are_not_used_when_they_are_old_or_the_watch_is_silent(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(_copies, "monotonic", lambda: now[0])
    copies = opened(NearCache(age_max=timedelta(seconds=40)))
    fill(copies, b"k", b"v")
    now[0] += 14
    assert copies.lookup(b"k") == GetHit(b"v")
    now[0] += 2
    assert copies.lookup(b"k") is None, "no heartbeat for more than 15 s"
    copies.parse(event(heartbeat=m.WatchHeartbeat()))
    fill(copies, b"k", b"v")
    for _ in range(7):
        now[0] += 5
        copies.parse(event(heartbeat=m.WatchHeartbeat()))
        assert copies.lookup(b"k") == GetHit(b"v")
    now[0] += 6
    copies.parse(event(heartbeat=m.WatchHeartbeat()))
    assert copies.lookup(b"k") is None, "older than age_max"


def test_options_that_cannot_hold():
    for options in ({"entries_max": 0}, {"bytes_max": 0}, {"age_max": timedelta(0)}, {"prefixes": ("p" * 257,)}):
        with pytest.raises(ValueError, match="cannot use near cache"):
            NearCache(**options)
    with pytest.raises(ValueError, match="give at most 256"):
        NearCache(prefixes=tuple(str(number) for number in range(257)))


def test_a_program_that_closes_no_client_ends(server):
    program = f"""
from gannet import *
client = CacheClient("{server.grpc_address}", Configurations.Laptop.v1().with_near_cache(NearCache()))
client.set("k", "v")
print(client.get("k"), client.get("k"))
events = client.subscribe("news")
"""
    environment = {**os.environ, "PYTHONPATH": str(PYTHON / "src")}
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr


def test_closing_ends_the_thread_that_watches(server):
    with CacheClient(server.grpc_address, NEAR) as client:
        client.get("k")
        until(lambda: near(client).watching, client)
        assert [thread for thread in threading.enumerate() if thread.name == "gannet-near-cache"]
    deadline = time.monotonic() + 5
    while [thread for thread in threading.enumerate() if thread.name == "gannet-near-cache"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_names_of_absent_caches_take_no_places(connect, server):
    client = connect(server.grpc_address, NEAR)
    assert client.create_cache("near-places") == Success()
    try:
        early = client.with_cache("early")
        for number in range(20):
            name = f"absent-{number}"
            absent = client.with_cache(name)
            assert code(absent.get("k")) is ErrorCode.NOT_FOUND_CACHE
            until(lambda name=name: near(client, name).error is not None, client)
        real = client.with_cache("near-places")
        real.set("k", "v")
        until(lambda: real.get("k") == GetHit(b"v") and near(client, "near-places").hits > 0, client)
        # Objects whose places were taken have copies again, or none, but never old ones.
        assert code(early.get("k")) is ErrorCode.NOT_FOUND_CACHE and code(absent.get("k")) is ErrorCode.NOT_FOUND_CACHE
        assert len(client.metrics().near_caches) == 16
        client.set("k", "v")
        assert copied(client, "k") == b"v"
        client.set("k", "w")
        assert client.get("k") == GetHit(b"w")
    finally:
        client.delete_cache("near-places")
    if isinstance(client, CacheClient):
        client.close()
        time.sleep(0.2)
        assert not [thread for thread in threading.enumerate() if thread.name == "gannet-near-cache"]
