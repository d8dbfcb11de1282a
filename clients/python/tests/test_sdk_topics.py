"""Subscriptions of both clients to topics of a real server: order, resumption, flow control, ends."""

import asyncio
import gc
import re
import sys
import threading
import time
from datetime import timedelta

import grpc
import pytest
import redis
from conftest import CONFIGURATION, PYTHON, code
from proxy import Proxy
from server import Server, free_port

from gannet import (
    CacheClient,
    CacheClientAsync,
    CacheError,
    Cancellation,
    CredentialProvider,
    ErrorCode,
    GetHit,
    NoRetry,
    Success,
    TopicDiscontinuity,
    TopicHeartbeat,
    TopicItem,
)
from gannet._calls import SUBSCRIBE
from gannet._engine import NotSent
from gannet._proto import topics_pb2
from gannet._streams import PERMANENT
from gannet._streams_sync import SyncStream

MS = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
ONCE = CONFIGURATION.with_retry_strategy(NoRetry())


@pytest.fixture
def topic(request):
    return f"topic of {request.node.name}"


def skip_heartbeats(events):
    return next(event for event in events if not isinstance(event, TopicHeartbeat))


def values(events, count):
    """Returns the values of the next items, which have to follow one another without a gap."""
    items = [skip_heartbeats(events) for _ in range(count)]
    assert [type(item) for item in items] == [TopicItem] * count, items
    assert [item.sequence for item in items] == list(range(items[0].sequence, items[0].sequence + count))
    return [item.value for item in items]


def test_messages_arrive_in_order_with_their_kind(both, topic):
    events = both.subscribe(topic)
    assert next(events) == TopicHeartbeat()
    assert both.publish(topic, "text") == Success() == both.publish(topic, b"\xff\0")
    first, second = skip_heartbeats(events), skip_heartbeats(events)
    assert (first.sequence, first.value, first.value_bytes, first.publisher_id) == (1, "text", b"text", "")
    assert (second.sequence, second.value, second.page) == (2, b"\xff\0", first.page) and first.page > 0
    both.publish(topic, "")
    assert values(events, 1) == [""]
    events.close()


def test_messages_of_redis_clients_arrive(both, server, topic):
    events = both.subscribe(topic)
    with redis.Redis(port=server.resp_port) as plain:
        plain.publish(topic, "from Redis")
        listener = plain.pubsub(ignore_subscribe_messages=True)
        listener.subscribe(topic)
        assert listener.get_message(timeout=5) is None
        both.publish(topic, "to Redis")
        assert listener.get_message(timeout=5)["data"] == b"to Redis"
        listener.close()
    assert skip_heartbeats(events).value_string == "from Redis"
    events.close()


def test_a_subscription_continues_at_a_given_place(both, topic):
    first = both.subscribe(topic)
    for number in range(5):
        both.publish(topic, str(number))
    second = [skip_heartbeats(first) for _ in range(2)][1]
    later = both.subscribe(topic, sequence=second.sequence + 1, page=second.page)
    assert values(later, 3) == ["2", "3", "4"] == values(first, 3)
    elsewhere = both.subscribe(topic, sequence=9, page=second.page - 1)
    assert skip_heartbeats(elsewhere) == TopicDiscontinuity(8, 1, second.page)
    assert values(elsewhere, 5) == ["0", "1", "2", "3", "4"]
    with pytest.raises(ValueError, match="is out of range; pass those of a TopicItem"):
        both.subscribe(topic, sequence=-1)
    for each in (first, later, elsewhere):
        each.close()


def test_no_message_is_lost_or_repeated_when_the_connection_breaks(connect, server, topic):
    direct = connect(server.grpc_address)
    with Proxy(server.grpc_port) as proxy:
        client = connect(proxy.address)
        events = client.subscribe(topic)
        direct.publish(topic, "0")
        assert values(events, 1) == ["0"]
        for round_ in range(1, 4):
            proxy.break_connections()
            direct.publish(topic, f"{round_} while broken")
            direct.publish(topic, f"{round_} too")
            assert values(events, 2) == [f"{round_} while broken", f"{round_} too"]
        assert client.metrics().resumes == 3
        events.close()
        client.close()


def test_no_message_is_lost_when_the_connection_breaks_before_the_first_item(connect, server, topic):
    direct = connect(server.grpc_address)
    with Proxy(server.grpc_port) as proxy:
        client = connect(proxy.address)
        events = client.subscribe(topic)
        assert next(events) == TopicHeartbeat()
        proxy.break_connections()
        direct.publish(topic, "while broken")
        assert skip_heartbeats(events).value == "while broken"
        direct.publish(topic, "next")
        assert skip_heartbeats(events).value == "next"
        events.close()
        client.close()


def test_a_restart_of_the_server_is_a_discontinuity(connect, own_server):
    client = connect(own_server.grpc_address)
    events = client.subscribe("news")
    client.publish("news", "before")
    before = skip_heartbeats(events)
    own_server.kill()
    own_server.restart()
    gap = skip_heartbeats(events)
    assert (gap.last_sequence, gap.new_sequence) == (before.sequence, 1) and gap.new_page > before.page
    client.publish("news", "after")
    after = skip_heartbeats(events)
    assert (after.value, after.sequence, after.page) == ("after", 1, gap.new_page)


def test_a_slow_consumer_holds_back_its_stream_and_no_other(connect, server, topic):
    client = connect(server.grpc_address)
    slow, fast = client.subscribe(topic), client.subscribe(topic)
    value = "v" * 10_000
    count = 1000
    for number in range(count):
        assert client.publish(topic, f"{number} {value}") == Success()
        if number % 10 == 9:
            # The reader that keeps up misses nothing, although the other one does not read.
            got = values(fast, 10)
            assert [each.split()[0] for each in got] == [str(at) for at in range(number - 9, number + 1)]
    received, event = 0, skip_heartbeats(slow)
    while isinstance(event, TopicItem):
        received, event = received + 1, skip_heartbeats(slow)
    assert 0 < received < 50, "the windows and one event hold far less than 1 MB"
    assert event.last_sequence == received and event.new_sequence > received + 1
    last = skip_heartbeats(slow)
    assert last.sequence == event.new_sequence
    slow.close()
    fast.close()


def test_a_message_longer_than_the_window_arrives(both, topic):
    events = both.subscribe(topic)
    value = bytes(at % 251 for at in range(700_000))
    assert both.publish(topic, value) == Success()
    assert skip_heartbeats(events).value == value
    events.close()


def test_subscriptions_take_no_place_of_requests(connect, server, topic):
    client = connect(server.grpc_address, CONFIGURATION.with_requests_in_flight_max(1))
    connections = client.metrics().connections
    subscriptions = [client.subscribe(topic) for _ in range(130)]
    assert all(next(each) == TopicHeartbeat() for each in subscriptions)
    client.set("k", "v")
    assert client.get("k") == GetHit(b"v")
    metrics = client.metrics()
    assert (metrics.subscriptions, metrics.in_flight, metrics.queued) == (130, 0, 0)
    assert metrics.connections <= max(1, connections) + 2, "100 streams share a connection"
    client.publish(topic, "to all")
    assert [skip_heartbeats(each).value for each in subscriptions] == ["to all"] * 130
    for each in subscriptions:
        each.close()
    assert client.metrics().connections <= max(1, connections), "connections of streams are closed with the last ones"
    again = client.subscribe(topic)
    assert next(again) == TopicHeartbeat()
    again.close()
    assert client.metrics().subscriptions == 0


def test_subscriptions_have_a_maximum(connect, server, topic):
    client = connect(server.grpc_address, CONFIGURATION.replace(subscriptions_max=2))
    first, second = client.subscribe(topic), client.subscribe(topic)
    refused = client.subscribe(topic)
    assert code(refused) is ErrorCode.LIMIT_EXCEEDED and "raise subscriptions_max" in refused.remedy
    first.close()
    third = client.subscribe(topic)
    assert next(third) == TopicHeartbeat()
    second.close()
    third.close()


def test_a_subscription_without_owner_is_closed(connect, server, topic):
    client = connect(server.grpc_address)
    events = client.subscribe(topic)
    assert next(events) == TopicHeartbeat() and client.metrics().subscriptions == 1
    del events
    # In asyncio, a task of the event loop may hold the subscription for a moment.
    deadline = time.monotonic() + 5
    while client.metrics().subscriptions > 0 and time.monotonic() < deadline:
        client.get("none")
        gc.collect()
    assert client.metrics().subscriptions == 0


def test_a_subscription_that_the_server_refuses_is_an_error(connect, server, topic):
    client = connect(server.grpc_address)
    missing = client.with_cache("absent").subscribe(topic)
    assert code(missing) is ErrorCode.NOT_FOUND_CACHE and "create_cache" in missing.remedy
    assert code(client.subscribe("")) is ErrorCode.INVALID_ARGUMENT
    with redis.Redis(port=server.resp_port) as plain:
        plain.execute_command("ACL", "SETUSER", "known", "on", ">word")
        wrong = connect(server.grpc_address, credentials=CredentialProvider.from_string("known:wrong"))
        assert code(wrong.subscribe(topic)) is ErrorCode.UNAUTHENTICATED
        plain.execute_command("ACL", "DELUSER", "known")
    assert client.metrics().subscriptions == 0 == wrong.metrics().subscriptions
    assert code(client.publish("", "v")) is ErrorCode.INVALID_ARGUMENT
    with pytest.raises(TypeError, match="neither str nor bytes"):
        client.publish(topic, 1)


def test_a_lost_right_ends_the_subscription(connect, server, topic):
    with redis.Redis(port=server.resp_port) as plain:
        plain.execute_command("ACL", "SETUSER", "sub", "on", ">word", "~*", "&*", "+@all")
        client = connect(server.grpc_address, credentials=CredentialProvider.from_string("sub:word"))
        events = client.subscribe(topic)
        client.publish(topic, "seen")
        assert values(events, 1) == ["seen"]
        plain.execute_command("ACL", "SETUSER", "sub", "resetchannels")
        plain.publish(topic, "not seen")
        rest = [event for event in events if not isinstance(event, TopicHeartbeat)]
        plain.execute_command("ACL", "DELUSER", "sub")
    assert [code(event) for event in rest] == [ErrorCode.PERMISSION_DENIED] and events.closed
    assert client.metrics().subscriptions == 0


def test_subscribing_without_a_server_names_the_remedy(connect, topic):
    refused = connect(f"127.0.0.1:{free_port()}", ONCE).subscribe(topic)
    assert code(refused) is ErrorCode.UNAVAILABLE and "start one with `gannet serve --grpc" in refused.message


@pytest.mark.parametrize("mistake", ["port", "TLS", "no token"])
def test_common_mistakes_of_subscribers_name_the_remedy(connect, mistake):
    with Server(resp=True, GRPC_PORT=str(port := free_port())) as server:
        if mistake == "port":
            refused = connect(f"127.0.0.1:{server.resp_port}", ONCE).subscribe("news")
            assert code(refused) is ErrorCode.UNAVAILABLE and "`gannet serve --grpc`" in refused.remedy
        elif mistake == "TLS":
            refused = connect(f"127.0.0.1:{port}", ONCE, tls=True).subscribe("news")
            assert code(refused) is ErrorCode.UNAVAILABLE and "tls=False" in refused.remedy
        else:
            with redis.Redis(port=server.resp_port) as plain:
                plain.execute_command("ACL", "SETUSER", "default", "resetpass", ">secret")
            refused = connect(f"127.0.0.1:{port}", ONCE).subscribe("news")
            assert code(refused) is ErrorCode.UNAUTHENTICATED and "pass credentials=" in refused.remedy
            right = connect(f"127.0.0.1:{port}", ONCE, CredentialProvider.from_string("secret"))
            assert right.subscribe("news").outcome == "success"


def test_subscribing_ends_at_the_deadline(connect, own_server, topic):
    client = connect(own_server.grpc_address, CONFIGURATION.with_keepalive(None))
    first = client.subscribe(topic)
    assert next(first) == TopicHeartbeat()
    own_server.pause()
    started = time.monotonic()
    assert code(client.with_deadline(200 * MS).subscribe(topic)) is ErrorCode.TIMEOUT
    assert 0.19 < time.monotonic() - started < 3
    own_server.resume()
    client.publish(topic, "later")
    assert values(first, 1) == ["later"] and client.metrics().subscriptions == 1


def test_pings_find_a_server_that_hangs_under_a_subscription(connect, own_server, topic):
    client = connect(own_server.grpc_address, ONCE.with_keepalive(200 * MS, 200 * MS))
    events = client.subscribe(topic)
    client.publish(topic, "1")
    assert values(events, 1) == ["1"]
    own_server.pause()
    threading.Timer(1.5, own_server.resume).start()
    waiting = next(event for event in events)
    assert isinstance(waiting, TopicHeartbeat) and client.metrics().resumes == 1
    client.publish(topic, "2")
    assert values(events, 1) == ["2"]


@pytest.mark.parametrize("end", ["subscription", "client", "cancellation"])
def test_closing_ends_a_thread_that_waits(server, topic, end):
    cancellation = Cancellation()
    seen = []
    with CacheClient(server.grpc_address, CONFIGURATION) as client:
        events = client.with_cancellation(cancellation).subscribe(topic)
        reader = threading.Thread(target=lambda: seen.extend(events), daemon=True)
        reader.start()
        while not seen:
            time.sleep(0.005)
        {"subscription": events.close, "client": client.close, "cancellation": cancellation.cancel}[end]()
        reader.join(5)
        assert not reader.is_alive() and seen == [TopicHeartbeat()] and events.closed
        assert list(events) == [] and client.metrics().subscriptions == 0
        if end == "cancellation":
            assert code(client.with_cancellation(cancellation).subscribe(topic)) is ErrorCode.CANCELLED


def test_closing_ends_the_wait_for_a_server_that_is_gone(own_server, topic):
    slow = CONFIGURATION.replace(reconnect_delay_min=5000 * MS, reconnect_delay_max=9000 * MS)
    with CacheClient(own_server.grpc_address, slow) as client:
        events = client.subscribe(topic)
        own_server.kill()
        threading.Timer(0.3, events.close).start()
        started = time.monotonic()
        assert [type(event) for event in events] == [TopicHeartbeat] and time.monotonic() - started < 3


@pytest.mark.parametrize("end", ["subscription", "client"])
def test_closing_ends_a_task_that_waits(server, topic, end):
    async def run():
        async with CacheClientAsync(server.grpc_address, CONFIGURATION) as client:
            events = await client.subscribe(topic)
            assert not isinstance(events, CacheError)

            async def read():
                return [event async for event in events]

            task = asyncio.ensure_future(read())
            await asyncio.sleep(0.1)
            await (events if end == "subscription" else client).close()
            assert await asyncio.wait_for(task, 5) == [TopicHeartbeat()] and events.closed

    asyncio.run(run())


def test_a_cancelled_wait_loses_no_message(server, topic):
    async def run():
        async with CacheClientAsync(server.grpc_address, CONFIGURATION) as client:
            events = await client.subscribe(topic)
            assert await events.__anext__() == TopicHeartbeat()
            for number in range(20):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(events.__anext__(), 0.01)
                await client.publish(topic, str(number))
                item = await asyncio.wait_for(events.__anext__(), 5)
                assert (item.value, item.sequence) == (str(number), number + 1)
            assert client.metrics().resumes == 0
            task = asyncio.ensure_future(events.__anext__())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with events:
                pass
            assert events.closed and client.metrics().subscriptions == 0

    asyncio.run(run())


def test_opening_a_subscription_is_a_call_of_the_metrics(both, topic):
    both.subscribe(topic).close()
    assert both.metrics().methods["Subscribe"].calls >= 1


def engine_of(client):
    return client._engine if isinstance(client, CacheClient) else client._client._engine


def test_a_silent_subscription_leaves_the_connection_that_is_dead(connect, server, topic):
    with Proxy(server.grpc_port) as proxy:
        # Pings find a dead connection too, but not one whose other end answers them.
        client = connect(proxy.address, CONFIGURATION.with_keepalive(300 * SECOND))
        engine_of(client).silence_s = 6.0
        publisher = connect(server.grpc_address)
        events, beside = client.subscribe(topic), client.subscribe(f"{topic} beside")
        publisher.publish(topic, "1")
        assert values(events, 1) == ["1"]
        proxy.swallow()
        publisher.publish(topic, "2")
        assert values(events, 1) == ["2"] and client.metrics().resumes == 1
        beside.close()
        assert client.metrics().subscriptions == 1


def test_an_event_of_a_later_schema_is_skipped(both, topic):
    events = both.subscribe(topic)
    stream = events if isinstance(both, CacheClient) else events._subscription
    assert stream.reader.parse(topics_pb2.TopicEvent()) is None
    read = stream.reader.parse
    messages = []

    def parse(message):
        messages.append(message)
        return read(topics_pb2.TopicEvent() if len(messages) == 1 else message)

    assert next(events) == TopicHeartbeat()
    stream.reader.parse = parse
    both.publish(topic, "lost")
    both.publish(topic, "a")
    assert skip_heartbeats(events).value == "a" and both.metrics().resumes == 0


def test_streams_end_by_the_statuses_of_the_table_that_all_clients_share():
    lists = re.findall(r"(\w+) = \[([^]]*)\]", (PYTHON.parent / "streams.toml").read_text())
    table = {name: set(re.findall(r'"(\w+)"', values)) for name, values in lists}
    assert {status.name for status in PERMANENT} == table["lasting"]
    assert table["lasting"] | table["passing"] == {status.name for status in grpc.StatusCode}
    assert not table["lasting"] & table["passing"]


def test_closing_a_client_while_threads_subscribe(server):
    """The set of the open streams changes while `close` lists it."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            client = CacheClient(server.grpc_address, CONFIGURATION)
            engine, failures = client._engine, []
            streams = [SyncStream(engine, SUBSCRIBE, None, client._scope) for _ in range(200)]
            stop = threading.Event()

            def change(part, engine=engine, stop=stop, failures=failures):
                try:
                    while not stop.is_set():
                        connections = [(stream, engine.begin_stream(stream)) for stream in part]
                        for stream, connection in connections:
                            engine.end_stream(stream, connection)
                except NotSent:
                    pass
                except Exception as failure:
                    failures.append(failure)

            threads = [threading.Thread(target=change, args=(streams[at::4],)) for at in range(4)]
            for thread in threads:
                thread.start()
            time.sleep(0.02)
            client.close()
            stop.set()
            for thread in threads:
                thread.join()
            assert not failures
    finally:
        sys.setswitchinterval(interval)
