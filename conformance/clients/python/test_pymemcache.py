"""Tests a memcached server with the published, unmodified pymemcache."""

import time
from pathlib import Path

import pytest
from pymemcache.client.base import Client, PooledClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError, MemcacheUnexpectedCloseError

from server import Server, raise_file_limit

ITEM_MAX = 1024 * 1024
EVERY_BYTE = bytes(range(256))


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


@pytest.fixture
def client(server):
    client = Client(server.address, connect_timeout=5, timeout=10, default_noreply=False)
    client.flush_all()
    yield client
    client.close()


def test_a_value_is_read_back_with_its_flags(client):
    assert client.set("key", b"value", flags=4_000_000_000)
    raw = client.raw_command("get key", end_tokens=b"END\r\n")
    assert raw.startswith(b"VALUE key 4000000000 5")
    assert client.get("key") == b"value"
    assert client.get("missing") is None
    assert client.get("missing", default=b"d") == b"d"


def test_an_empty_value_is_a_value(client):
    assert client.set("key", b"")
    assert client.get("key") == b""


def test_a_multi_get_returns_what_is_there_and_nothing_else(client):
    stored = {f"key-{i}": b"%d" % i for i in range(500)}
    assert client.set_many(stored) == []
    asked = [f"key-{i}" for i in range(0, 1000, 2)]
    assert client.get_many(asked) == {f"key-{i}": b"%d" % i for i in range(0, 500, 2)}


def test_add_and_replace_look_at_what_is_there(client):
    assert client.replace("key", b"1") is False
    assert client.add("key", b"2") is True
    assert client.add("key", b"3") is False
    assert client.replace("key", b"4") is True
    assert client.get("key") == b"4"


def test_append_and_prepend_keep_the_flags(client):
    assert client.append("key", b"x") is False
    client.set("key", b"middle", flags=7)
    assert client.append("key", b">") and client.prepend("key", b"<")
    assert client.get("key") == b"<middle>"
    assert b" 7 8" in client.raw_command("get key", end_tokens=b"END\r\n")


def test_cas_stores_once_for_one_token(client):
    client.set("key", b"1")
    value, token = client.gets("key")
    assert value == b"1"
    assert client.cas("key", b"2", token) is True
    assert client.cas("key", b"3", token) is False
    assert client.cas("missing", b"3", token) is None
    assert client.get("key") == b"2"


def test_a_change_between_gets_and_cas_is_seen(client):
    client.set("key", b"10")
    _, token = client.gets("key")
    assert client.incr("key", 1) == 11
    assert client.cas("key", b"0", token) is False
    tokens = client.gets_many(["key", "missing"])
    assert list(tokens) == ["key"] and tokens["key"][0] == b"11"


def test_counters_wrap_upwards_and_stop_at_zero(client):
    assert client.incr("key", 1) is None
    client.set("key", b"18446744073709551615")
    assert client.incr("key", 1) == 0
    assert client.incr("key", 41) == 41
    assert client.decr("key", 100) == 0
    client.set("key", b"not a number")
    with pytest.raises(MemcacheClientError):
        client.incr("key", 1)
    assert client.get("key") == b"not a number"


def test_a_counter_that_gets_shorter_reads_as_its_digits(client):
    client.set("key", b"100")
    assert client.decr("key", 1) == 99
    assert client.get("key").rstrip(b" ") == b"99"


def test_an_item_is_gone_when_its_time_is_over(client):
    client.set("short", b"1", expire=1)
    client.set("long", b"1", expire=100)
    client.set("never", b"1", expire=0)
    client.set("past", b"1", expire=-1)
    assert client.get("past") is None
    assert client.get("short") == b"1"
    time.sleep(2.2)
    assert client.get("short") is None
    assert client.get("long") == client.get("never") == b"1"


def test_an_absolute_time_is_taken_as_one(client):
    client.set("soon", b"1", expire=int(time.time()) + 100)
    client.set("over", b"1", expire=int(time.time()) - 100)
    assert client.get("soon") == b"1"
    assert client.get("over") is None


def test_touch_and_gat_move_the_end_of_an_item(client):
    client.set("touched", b"1", expire=1)
    client.set("read", b"2", expire=1)
    assert client.touch("touched", 100) is True
    assert client.touch("missing", 100) is False
    reply = client.raw_command("gat 100 read", end_tokens=b"END\r\n")
    assert reply.startswith(b"VALUE read 0 1\r\n2")
    time.sleep(2.2)
    assert client.get("touched") == b"1"
    assert client.get("read") == b"2"
    assert client.touch("touched", -1) is True
    assert client.get("touched") is None


def test_delete_says_whether_there_was_something(client):
    client.set("key", b"1")
    assert client.delete("key") is True
    assert client.delete("key") is False
    assert client.get("key") is None


@pytest.mark.parametrize("length", [1, 63, 1024, 8191, 8192, 8193, 65_536, 131_072, 500_000, ITEM_MAX - 512])
def test_a_value_of_any_length_comes_back_whole(client, length):
    value = (EVERY_BYTE * (length // 256 + 1))[:length]
    assert client.set("key", value)
    assert client.get("key") == value
    assert client.get_many(["key", "missing"]) == {"key": value}


def test_a_value_that_is_too_large_is_refused_and_the_stream_stays_in_step(client):
    client.set("key", b"old")
    with pytest.raises(MemcacheServerError):
        client.set("key", b"x" * (ITEM_MAX + 1))
    assert client.set("other", b"1")
    assert client.get("other") == b"1"
    assert client.get("key") in (None, b"old")


@pytest.mark.parametrize(
    "value",
    [EVERY_BYTE, b"\r\n", b"END\r\n", b"VALUE key 0 1\r\nx\r\nEND\r\n", b"\0" * 100, b"\r" * 33 + b"\n"],
)
def test_bytes_that_look_like_protocol_are_data(client, value):
    assert client.set("key", value)
    assert client.get("key") == value
    assert client.append("key", value)
    assert client.get("key") == value + value


def test_a_key_of_250_bytes_is_good_and_one_more_is_not(client):
    assert client.set("k" * 250, b"1")
    assert client.get("k" * 250) == b"1"
    with pytest.raises(MemcacheClientError):
        client.raw_command("get " + "k" * 251)
    assert client.get("k" * 250) == b"1"


def test_writes_without_reply_are_done_in_order(client):
    for i in range(1000):
        client.set("key", b"%d" % i, noreply=True)
    assert client.get("key") == b"999"
    client.delete("key", noreply=True)
    assert client.get("key") is None


def test_flush_all_ends_every_item(client):
    client.set_many({f"key-{i}": b"1" for i in range(100)})
    assert client.flush_all() is True
    assert client.get_many([f"key-{i}" for i in range(100)]) == {}
    client.set("key-1", b"2")
    assert client.get("key-1") == b"2"


def test_stats_count_what_was_done(client):
    before = client.stats()
    client.set("counted", b"1")
    client.get("counted")
    client.get("missing")
    after = client.stats()
    for name in (b"cmd_set", b"total_items", b"get_hits", b"get_misses"):
        assert int(after[name]) - int(before[name]) == 1, name
    assert int(after[b"curr_items"]) >= 1
    assert client.version()


def test_a_thousand_connections_are_served_at_once(server):
    raise_file_limit(4096)
    clients = [Client(server.address, connect_timeout=5, timeout=20, default_noreply=False) for _ in range(1000)]
    try:
        for number, client in enumerate(clients):
            assert client.set(f"connection-{number}", b"%d" % number)
        for number, client in enumerate(clients):
            assert client.get(f"connection-{(number + 1) % 1000}") == b"%d" % ((number + 1) % 1000)
        assert int(clients[0].stats()[b"curr_connections"]) >= 1000
    finally:
        for client in clients:
            client.close()


def test_a_client_comes_back_after_the_server_went():
    first = Server()
    port = first.port
    client = Client(first.address, connect_timeout=5, timeout=5, default_noreply=False)
    pooled = PooledClient(first.address, max_pool_size=4, connect_timeout=5, timeout=5, default_noreply=False)
    try:
        assert client.set("key", b"1") and pooled.set("pooled", b"1")
        first.stop()
        for broken in (client, pooled):
            with pytest.raises((OSError, MemcacheUnexpectedCloseError)):
                broken.get("key")
        with Server(port):
            assert client.get("key") is None
            assert pooled.get("pooled") is None
            assert client.set("key", b"2") and pooled.get("key") == b"2"
    finally:
        client.close()
        first.stop()


def test_the_example_of_the_readme_runs(server):
    readme = (Path(__file__).resolve().parents[3] / "README.md").read_text()
    example = readme.split("```python\n")[1].split("```")[0]
    assert '("127.0.0.1", 11211)' in example
    names: dict = {}
    exec(example.replace('("127.0.0.1", 11211)', repr(server.address)), names)
    assert names["value"] == b"hello"
    assert names["client"].get("greeting") == b"hello again"
