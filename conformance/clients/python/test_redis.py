"""Tests the published, unmodified redis-py and valkey-py through the Redis protocol."""

import threading
import time

import pymemcache
import pytest
import redis
import valkey
from redis.cache import CacheConfig

from server import Server

LIBRARIES = [redis, valkey]


@pytest.fixture(scope="module")
def server():
    with Server(resp=True) as running:
        yield running


@pytest.fixture(params=[(library, protocol) for library in LIBRARIES for protocol in (2, 3)],
                ids=lambda param: f"{param[0].__name__}-{param[1]}")
def kind(request):
    return request.param


def connect(kind, port, **options):
    library, protocol = kind
    client = library.Redis if library is redis else library.Valkey
    return client("127.0.0.1", port, protocol=protocol, socket_timeout=20, **options)


@pytest.fixture
def client(kind, server):
    with connect(kind, server.resp_port, decode_responses=True) as client:
        client.flushall()
        # Flushed items disappear at once, but count until the background thread has removed them.
        patience = time.monotonic() + 20
        while client.dbsize():
            assert time.monotonic() < patience, "what was flushed is still counted"
        yield client


def test_a_connection_begins_and_says_who_it_is(kind, client):
    library, protocol = kind
    assert client.ping() is True
    client.client_setname("tester")
    info = client.client_info()
    assert info["name"] == "tester" and info["lib-name"].startswith(f"{library.__name__}-py"), info
    assert int(info["resp"]) == protocol
    assert client.info("server")["redis_mode"] == "standalone"
    assert client.config_get("maxmemory")["maxmemory"] == str(128 << 20)
    assert client.command_count() > 50 and "get" in client.command()


def test_strings_counters_and_times_to_live(client):
    assert client.set("k", "v", ex=100) and client.get("k") == "v"
    assert 0 < client.ttl("k") <= 100 and client.persist("k") and client.ttl("k") == -1
    assert client.incrby("n", 5) == 5 and client.decr("n") == 4 and client.incrbyfloat("f", 0.5) == 0.5
    assert client.mset({"a": "1", "b": "2"}) and client.mget("a", "none", "b") == ["1", None, "2"]
    assert client.set("k", "w", get=True) == "v" and client.getex("k", px=50_000) == "w" and client.getdel("k") == "w"
    assert client.append("s", "hello") == 5 and client.getrange("s", 1, 3) == "ell"
    assert client.setrange("s", 0, "J") == 5
    assert client.exists("s", "none") == 1 and client.type("s") == "string" and client.delete("s", "none") == 1
    assert client.memory_usage("n") > 0 and client.object("encoding", "n") == "int"


def test_binary_keys_and_values_come_back_as_they_are(kind, server):
    with connect(kind, server.resp_port) as client:
        key, value = bytes(range(256)), bytes(range(255, -1, -1)) * 400
        client.set(key, value)
        assert client.get(key) == value


def test_a_pipeline_is_answered_in_order(client):
    with client.pipeline(transaction=False) as pipe:
        for number in range(2000):
            pipe.set(f"key:{number}", number)
            pipe.get(f"key:{number}")
        replies = pipe.execute()
    assert replies[1::2] == [str(number) for number in range(2000)] and all(replies[::2])


def test_an_error_in_a_pipeline_is_that_of_its_command(kind, client):
    with client.pipeline(transaction=False) as pipe:
        pipe.set("word", "x").incr("word").get("word")
        replies = pipe.execute(raise_on_error=False)
    assert replies[0] and isinstance(replies[1], kind[0].ResponseError) and replies[2] == "x"


def test_many_threads_share_a_pool(client):
    failures = []

    def work(thread):
        try:
            for number in range(100):
                client.set(f"{thread}:{number}", number)
                assert client.get(f"{thread}:{number}") == str(number)
                client.incr("all")
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures and client.get("all") == "800"


def test_a_walk_meets_every_key(client):
    client.mset({f"user:{number}": number for number in range(1000)})
    assert len(set(client.scan_iter("user:*", count=50))) == 1000
    assert client.dbsize() == 1000 and set(client.scan_iter("user:99?")) == {f"user:99{digit}" for digit in range(10)}


def test_a_hash_is_kept_by_fields(kind, client):
    assert client.hset("user", mapping={"name": "Ada", "visits": "1"}) == 2
    assert client.hset("user", "name", "Ada L.") == 0
    assert client.hincrby("user", "visits", 4) == 5 and client.hincrbyfloat("user", "score", 1.5) == 1.5
    assert client.hgetall("user") == {"name": "Ada L.", "visits": "5", "score": "1.5"}
    assert client.hmget("user", "name", "none") == ["Ada L.", None] and client.hlen("user") == 3
    assert client.hkeys("user") == ["name", "visits", "score"] and client.hvals("user") == ["Ada L.", "5", "1.5"]
    assert client.hexists("user", "score") and client.hdel("user", "score", "none") == 1
    assert not client.hexists("user", "score") and not client.hsetnx("user", "name", "other")
    assert client.type("user") == "hash" and client.hgetall("nobody") == {}
    with pytest.raises(kind[0].ResponseError, match="wrong kind of value"):
        client.get("user")
    with pytest.raises(kind[0].ResponseError, match="not an integer"):
        client.hincrby("user", "name")
    assert client.hdel("user", "name", "visits") == 2 and not client.exists("user")


def test_a_walk_meets_every_field(client):
    fields = {f"f{number}": f"v{number}" for number in range(300)}
    assert client.hset("wide", mapping=fields) == 300
    assert dict(client.hscan_iter("wide", count=20)) == fields
    assert set(dict(client.hscan_iter("wide", match="f29?"))) == {f"f29{digit}" for digit in range(10)}


def test_a_transaction_is_done_whole_or_not_at_all(kind, client):
    with client.pipeline() as pipe:
        done = pipe.set("t", 1).incr("t").hset("th", mapping={"f": "1"}).hgetall("th").execute()
        assert done == [True, 2, 1, {"f": "1"}]
        done = pipe.set("word", "x").incr("word").get("word").execute(raise_on_error=False)
        assert done[::2] == [True, "x"] and isinstance(done[1], kind[0].ResponseError)
        with pytest.raises(kind[0].ResponseError, match="wrong number of arguments"):
            pipe.set("t", "lost").execute_command("SET", "t").execute()
    assert client.get("t") == "2"


def test_a_transaction_ends_where_a_watched_key_was_changed(kind, client):
    client.mset({"t": "1", "h": "1"})
    with client.pipeline() as pipe:
        pipe.watch("t", "h")
        assert pipe.get("t") == "1"
        client.incr("t")
        pipe.multi()
        pipe.set("h", "lost")
        with pytest.raises(kind[0].WatchError):
            pipe.execute()
        pipe.watch("t")
        pipe.multi()
        assert pipe.incr("t").execute() == [3]
    assert client.mget("t", "h") == ["3", "1"]


def test_transfers_of_many_threads_lose_nothing(client):
    accounts = [f"account:{number}" for number in range(3)]
    client.mset({account: 100 for account in accounts})
    failures = []

    def work(thread):
        def transfer(pipe):
            amounts = [int(amount) for amount in pipe.mget(accounts)]
            assert sum(amounts) == 300, amounts
            source, target = thread % 3, (thread + 1) % 3
            pipe.multi()
            pipe.set(accounts[source], amounts[source] - 1)
            pipe.set(accounts[target], amounts[target] + 1)

        try:
            for _ in range(20):
                client.transaction(transfer, *accounts)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures and client.mget(accounts) == ["80", "120", "100"]


def test_a_limit_of_a_rate_lets_through_as_many_as_it_says(client):
    def allowed():
        with client.pipeline() as pipe:
            count, _ = pipe.incr("rate").expire("rate", 60, nx=True).execute()
        return count <= 10

    answers = []
    threads = [threading.Thread(target=lambda: answers.extend(allowed() for _ in range(20))) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(answers) == 80 and sum(answers) == 10 and 0 < client.ttl("rate") <= 60
    client.pexpire("rate", 1)
    deadline = time.monotonic() + 20
    while not allowed():
        assert time.monotonic() < deadline
    assert client.get("rate") == "1"


def message(subscriber):
    """Returns the next message of a channel or a pattern."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        told = subscriber.get_message(ignore_subscribe_messages=True, timeout=1)
        if told:
            return told["type"], told["channel"], told["data"]
    raise AssertionError("no message")


def test_messages_reach_subscribers(client):
    with client.pubsub() as subscriber:
        subscriber.subscribe("news")
        subscriber.psubscribe("n*")
        while not (client.pubsub_numsub("news") == [("news", 1)] and client.pubsub_numpat() == 1):
            subscriber.get_message(timeout=0.01)
        assert client.publish("news", "hello") == 2
        both = {message(subscriber), message(subscriber)}
        assert both == {("message", "news", "hello"), ("pmessage", "news", "hello")}
        subscriber.unsubscribe()
        subscriber.punsubscribe()
        while client.pubsub_numpat() or client.pubsub_channels():
            subscriber.get_message(timeout=0.01)
        assert client.publish("news", "nobody") == 0


def test_changes_of_keys_are_messages(client):
    client.config_set("notify-keyspace-events", "KEA")
    with client.pubsub() as subscriber:
        subscriber.psubscribe("__keyevent@0__:*")
        while client.pubsub_numpat() != 1:
            subscriber.get_message(timeout=0.01)
        client.set("k", "v")
        client.delete("k")
        assert message(subscriber) == ("pmessage", "__keyevent@0__:set", "k")
        assert message(subscriber) == ("pmessage", "__keyevent@0__:del", "k")
        client.set("short", "v", px=10)
        while message(subscriber) != ("pmessage", "__keyevent@0__:expired", "short"):
            pass
    client.config_set("notify-keyspace-events", "")


def test_a_look_aside_cache_is_told_what_to_forget(client):
    """Two processes keep copies; a process that changes a key notifies the other through a channel."""
    copies, told = {}, threading.Event()

    def forget(message):
        copies.pop(message["data"], None)
        told.set()

    def read(key):
        if key not in copies:
            copies[key] = client.get(key)
        return copies[key]

    with client.pubsub(ignore_subscribe_messages=True) as subscriber:
        subscriber.subscribe(**{"forget": forget})
        while client.pubsub_numsub("forget")[0][1] != 1:
            subscriber.get_message(timeout=0.01)
        thread = subscriber.run_in_thread(sleep_time=0.01)
        for number in range(20):
            client.set("config", number)
            told.clear()
            assert client.publish("forget", "config") == 1
            assert told.wait(20)
            assert read("config") == str(number) and read("config") == str(number)
        thread.stop()
        thread.join()


def test_an_operator_sees_clients_and_slow_requests(client):
    assert any(line["name"] == "watched" for line in (client.client_setname("watched"), client.client_list())[1])
    client.config_set("slowlog-log-slower-than", 0)
    client.set("slow", "v")
    deadline = time.monotonic() + 20
    while not any("SET" in str(entry["command"]) for entry in client.slowlog_get(100)):
        assert time.monotonic() < deadline
    client.config_set("slowlog-log-slower-than", 10_000)
    assert client.slowlog_reset() and client.latency_latest() is not None
    assert "keys.count" in client.memory_stats()
    assert client.config_resetstat()


def test_a_client_that_is_killed_connects_again(kind, server, client):
    with connect(kind, server.resp_port, decode_responses=True, retry_on_error=[kind[0].ConnectionError]) as other:
        number = other.client_id()
        assert client.client_kill_filter(_id=number) == 1
        deadline = time.monotonic() + 20
        while True:
            try:
                assert other.ping()
                break
            except kind[0].ConnectionError:
                assert time.monotonic() < deadline
        assert other.client_id() != number


def test_a_pool_goes_on_after_the_server_was_started_again(kind):
    first = Server(resp=True)
    with connect(kind, first.resp_port, decode_responses=True) as client:
        client.set("k", "v")
        first.stop()
        with pytest.raises(kind[0].ConnectionError):
            client.get("k")
        with Server(port=first.port, resp_port=first.resp_port):
            assert client.get("k") is None and client.set("k", "again") and client.get("k") == "again"


def test_copies_of_the_client_side_cache_follow_every_change(server, monkeypatch):
    """redis-py demands Redis 7.4 for its cache, which uses no command that is newer than 7.0."""
    monkeypatch.setattr(redis.connection.CacheProxyConnection, "MIN_ALLOWED_VERSION", "7.0.0")
    options = {"host": "127.0.0.1", "port": server.resp_port, "protocol": 3, "decode_responses": True}
    memcached = pymemcache.Client(("127.0.0.1", server.port))
    with redis.Redis(**options, cache_config=CacheConfig()) as cached, redis.Redis(**options) as other:

        def follows(read, expected):
            patience = time.monotonic() + 10
            while read() != expected:
                assert time.monotonic() < patience, f"the cache still has {read()}, not {expected}"
                time.sleep(0.002)
            # A missing value is not kept.
            assert read() == expected and (expected is None or cached.get_cache().size > 0)

        changes = [
            (lambda: other.set("cached", "1"), "1"),
            (lambda: memcached.set("cached", "2"), "2"),
            (lambda: other.incr("cached"), "3"),
            (lambda: other.expire("cached", 100), "3"),
            (lambda: other.delete("cached"), None),
            (lambda: other.mset({"cached": "5", "more": "6"}), "5"),
            (lambda: other.eval("return redis.call('append', KEYS[1], 'x')", 1, "cached"), "5x"),
            (lambda: other.flushall(), None),
            (lambda: other.set("cached", "7", px=200), "7"),
            (lambda: time.sleep(0.3), None),
        ]
        for change, expected in changes:
            change()
            follows(lambda: cached.get("cached"), expected)
        other.hset("cached-hash", mapping={"a": "1"})
        follows(lambda: cached.hgetall("cached-hash"), {"a": "1"})
        other.hset("cached-hash", "b", "2")
        follows(lambda: cached.hgetall("cached-hash"), {"a": "1", "b": "2"})
