"""The cap on requests in flight, its queue, connections, cancellation, middleware and metrics, on a real server."""

import asyncio
import signal
import threading
import time
from datetime import timedelta

import pytest
import redis
from conftest import CONFIGURATION, code
from server import free_port

from gannet import (
    CacheClient,
    CacheClientAsync,
    Cancellation,
    Configurations,
    ErrorCode,
    FixedTimeout,
    GetHit,
    Middleware,
    NoRetry,
    Success,
)
from gannet.metrics import Histogram

MS = timedelta(milliseconds=1)


def connections_of(server):
    """Returns the number of gRPC connections that the server has, apart from those of the memcached and Redis ports."""
    port = f"{server.grpc_port:04X}"
    with open(f"/proc/{server.process.pid}/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table]
    return sum(row[1].endswith(f":{port}") and row[3] == "01" for row in rows)


def test_threads_beyond_the_cap_wait_and_all_are_served(server):
    configuration = CONFIGURATION.with_requests_in_flight_max(3)
    most, wrong = [], []
    with CacheClient(server.grpc_address, configuration) as client:

        def work(number):
            for at in range(50):
                key = f"{number}:{at}"
                if client.set(key, key) != Success() or client.get(key) != GetHit(key.encode()):
                    wrong.append(key)
                most.append(client.metrics().in_flight)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and max(most) <= 3
        metrics = client.metrics()
        assert (metrics.in_flight, metrics.queued) == (0, 0)
        assert metrics.methods["Get"].calls == 800 and not metrics.methods["Get"].errors
        assert 0 < metrics.methods["Get"].p50_us <= metrics.methods["Get"].p99_us <= metrics.methods["Get"].p999_us


def test_tasks_beyond_the_cap_wait_and_all_are_served(server):
    configuration = CONFIGURATION.with_requests_in_flight_max(7)
    most = []

    async def run():
        async with CacheClientAsync(server.grpc_address, configuration) as client:

            async def work(number):
                assert await client.set(f"t{number}", str(number)) == Success()
                most.append(client.metrics().in_flight)
                return await client.get(f"t{number}")

            results = await asyncio.gather(*(work(number) for number in range(1000)))
            assert results == [GetHit(b"%d" % number) for number in range(1000)]
            assert (client.metrics().in_flight, client.metrics().queued) == (0, 0)

    asyncio.run(run())
    assert max(most) <= 7


@pytest.mark.parametrize(("in_flight", "connections"), [(100, 1), (101, 2), (250, 3)])
def test_connections_are_as_many_as_the_cap_needs(own_server, in_flight, connections):
    configuration = CONFIGURATION.with_requests_in_flight_max(in_flight).with_eager_connect(True)
    assert configuration.connections_max == connections
    with CacheClient(own_server.grpc_address, configuration) as client:
        assert client.connect(timedelta(seconds=5))
        assert connections_of(own_server) == connections == client.metrics().connections

    async def offer():
        async with CacheClientAsync(own_server.grpc_address, configuration) as client:
            assert await client.connect(timedelta(seconds=5))
            await asyncio.gather(*(client.get("k") for _ in range(1000)))
            assert connections_of(own_server) == connections

    asyncio.run(offer())


def test_few_requests_use_one_connection(own_server):
    with CacheClient(own_server.grpc_address, CONFIGURATION.replace(eager_connect=False)) as client:
        for _ in range(20):
            client.get("k")
        assert client.metrics().connections == 2 and connections_of(own_server) == 1


def test_eager_connect_to_a_server_that_is_down_does_not_wait_for_the_deadline(connect):
    configuration = CONFIGURATION.with_deadline(timedelta(seconds=60)).with_eager_connect(True)
    started = time.monotonic()
    client = connect(f"127.0.0.1:{free_port()}", configuration.with_retry_strategy(NoRetry()))
    result = client.get("k")
    assert code(result) is ErrorCode.UNAVAILABLE and "start one with `gannet serve --grpc" in result.message
    assert time.monotonic() - started < 5


def test_eager_connect_opens_all_connections_before_the_first_call(own_server):
    with CacheClient(own_server.grpc_address, Configurations.InRegion.Default.v1()):
        assert connections_of(own_server) == 4


def test_connect_reports_a_server_that_is_not_there(connect, own_server):
    own_server.kill()
    client = connect(own_server.grpc_address)
    assert client.connect(100 * MS) is False


def test_closing_ends_waiting_and_sent_calls(own_server):
    client = CacheClient(own_server.grpc_address, CONFIGURATION.with_requests_in_flight_max(1))
    client.get("k")
    own_server.pause()
    results = []
    threads = [threading.Thread(target=lambda: results.append(client.get("k"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    while client.metrics().in_flight + client.metrics().queued < 3:
        time.sleep(0.005)
    client.close()
    for thread in threads:
        thread.join(5)
    own_server.resume()
    assert [code(result) for result in results] == [ErrorCode.CANCELLED] * 3


def test_closing_ends_waiting_and_sent_tasks(own_server):
    async def run():
        client = CacheClientAsync(own_server.grpc_address, CONFIGURATION.with_requests_in_flight_max(1))
        await client.get("k")
        own_server.pause()
        tasks = [asyncio.ensure_future(client.get("k")) for _ in range(3)]
        await asyncio.sleep(0.05)
        await client.close()
        return await asyncio.wait_for(asyncio.gather(*tasks), 5)

    results = asyncio.run(run())
    own_server.resume()
    assert [code(result) for result in results] == [ErrorCode.CANCELLED] * 3


def test_a_sent_call_is_cancelled(own_server):
    with CacheClient(own_server.grpc_address, CONFIGURATION) as client:
        client.get("k")
        own_server.pause()
        for call in (lambda each: each.get("k"), lambda each: each.get_batch(["k"])):
            cancellation = Cancellation()
            threading.Timer(0.05, cancellation.cancel).start()
            started = time.monotonic()
            assert code(call(client.with_cancellation(cancellation))) is ErrorCode.CANCELLED
            assert time.monotonic() - started < 5
            assert code(call(client.with_cancellation(cancellation))) is ErrorCode.CANCELLED
        own_server.resume()
        assert client.get("k").outcome == "miss" and client.metrics().in_flight == 0


def test_a_call_that_is_cancelled_when_its_place_is_granted_is_not_sent(server):
    with CacheClient(server.grpc_address, CONFIGURATION) as client:
        cancellation = Cancellation()
        limiter = client._engine._limiter
        acquire = limiter.acquire

        def acquire_and_cancel(*args):
            connection = acquire(*args)
            cancellation.cancel()
            return connection

        limiter.acquire = acquire_and_cancel

        def send(*args):
            pytest.fail("the request was sent")

        client._engine._send_cancellable = client._engine._send_for_stream = send
        for call in [lambda client: client.set("k", "v"), lambda client: client.get_batch(["k"])]:
            cancellation = Cancellation()
            assert code(call(client.with_cancellation(cancellation))) is ErrorCode.CANCELLED
        assert client.metrics().in_flight == 0


def test_a_cancelled_task_frees_its_place(own_server):
    async def run():
        async with CacheClientAsync(own_server.grpc_address, CONFIGURATION.with_requests_in_flight_max(2)) as client:
            await client.get("k")
            own_server.pause()
            tasks = [asyncio.ensure_future(client.get("k")) for _ in range(50)]
            await asyncio.sleep(0.02)
            for task in tasks[::2]:
                task.cancel()
            own_server.resume()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [isinstance(result, asyncio.CancelledError) for result in results] == [True, False] * 25
            assert (client.metrics().in_flight, client.metrics().queued) == (0, 0)

    asyncio.run(run())


def test_pings_find_a_server_that_hangs_before_the_deadline(connect, own_server):
    configuration = CONFIGURATION.with_retry_strategy(NoRetry()).with_keepalive(200 * MS, 200 * MS)
    client = connect(own_server.grpc_address, configuration)
    client.get("k")
    own_server.pause()
    started = time.monotonic()
    result = client.get("k")
    assert code(result) is ErrorCode.UNAVAILABLE and "does not answer" in result.message
    assert time.monotonic() - started < 5
    own_server.resume()
    while client.get("k").outcome == "error":
        assert time.monotonic() - started < 15


@pytest.fixture
def keyboard_interrupt():
    """SIGINT raises KeyboardInterrupt, although another suite's library may have set a handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_of_a_waiting_thread_loses_no_place(own_server, keyboard_interrupt):
    with CacheClient(own_server.grpc_address, CONFIGURATION.with_requests_in_flight_max(1)) as client:
        client.get("k")
        own_server.pause()
        sent = threading.Thread(target=client.get, args=("k",))
        sent.start()
        while client.metrics().in_flight < 1:
            time.sleep(0.005)
        main = threading.main_thread().ident
        threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            client.get("k")
        assert (client.metrics().in_flight, client.metrics().queued) == (1, 0)
        own_server.resume()
        sent.join(5)
        assert client.get("k").outcome == "miss" and client.metrics().in_flight == 0


def test_a_call_is_cancelled_while_it_waits_for_its_retry():
    slow = FixedTimeout(retry_delay=timedelta(seconds=5))
    with CacheClient(f"127.0.0.1:{free_port()}", CONFIGURATION.with_retry_strategy(slow)) as client:
        cancellation = Cancellation()
        threading.Timer(0.1, cancellation.cancel).start()
        started = time.monotonic()
        assert code(client.with_cancellation(cancellation).get("k")) is ErrorCode.CANCELLED
        assert time.monotonic() - started < 4 and client.metrics().retries == 1


def test_middleware_sees_a_cancelled_task(own_server):
    events = []

    async def run():
        configuration = CONFIGURATION.with_middleware(Recording("a", events))
        async with CacheClientAsync(own_server.grpc_address, configuration) as client:
            await client.get("k")
            own_server.pause()
            task = asyncio.ensure_future(client.get("k"))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            own_server.resume()
            assert client.metrics().in_flight == 0

    asyncio.run(run())
    assert events[-1] == ("a", "after", "Get", "CANCELLED")


class Recording(Middleware):
    def __init__(self, name, events):
        self.name, self.events = name, events

    def before(self, start):
        self.events.append((self.name, "before", start.method, start.cache))

    def after(self, end):
        assert end.duration_s > 0
        self.events.append((self.name, "after", end.method, end.status))


def test_middleware_runs_around_each_call(connect, server):
    events = []
    client = connect(server.grpc_address, CONFIGURATION.with_middleware(Recording("a", events), Recording("b", events)))
    client.list_push_back("middleware", "v")
    events.clear()
    assert code(client.get("middleware")) is ErrorCode.FAILED_PRECONDITION
    assert events == [
        ("a", "before", "Get", "default"),
        ("b", "before", "Get", "default"),
        ("b", "after", "Get", "FAILED_PRECONDITION"),
        ("a", "after", "Get", "FAILED_PRECONDITION"),
    ]
    assert client.metrics().methods["Get"].errors == {"FAILED_PRECONDITION": 1}


def test_an_exception_of_middleware_reaches_the_caller_and_leaks_no_place(connect, server):
    class Broken(Middleware):
        def after(self, end):
            raise LookupError("broken")

    client = connect(server.grpc_address, CONFIGURATION.with_middleware(Broken()))
    with pytest.raises(LookupError):
        client.get("k")
    assert client.metrics().in_flight == 0


def test_metrics_by_method_are_off_unless_enabled(connect, server):
    client = connect(server.grpc_address, Configurations.Laptop.latest())
    client.get("k")
    assert not client.metrics().methods


def test_the_deadline_reaches_the_server(connect, server):
    # A call whose deadline is past is not executed: the key does not exist afterwards.
    client = connect(server.grpc_address)
    client.delete("late")
    late = client.with_deadline(timedelta(microseconds=1)).set("late", "v")
    assert code(late) in (ErrorCode.TIMEOUT, ErrorCode.CLIENT_QUEUE_TIMEOUT)
    with redis.Redis(port=server.resp_port) as plain:
        assert plain.get("late") is None


def test_quantiles_are_within_a_bucket_of_the_exact_ones():
    histogram = Histogram()
    values = [(number * 7919) % 1_000_003 for number in range(1, 20_000)]
    for value in values:
        histogram.record(value)
    values.sort()
    for share in (0.5, 0.99, 0.999):
        exact = values[int(share * len(values))]
        assert abs(histogram.quantile_ns(share) - exact) <= exact / 64 + 1
    assert Histogram().quantile_ns(0.5) == 0


def test_clients_of_both_kinds_have_the_same_calls():
    def names(kind):
        return {name for name in dir(kind) if not name.startswith("_")}

    assert names(CacheClient) - names(CacheClientAsync) == {"with_cancellation"}
    assert names(CacheClientAsync) <= names(CacheClient)


def test_client_of_another_event_loop_fails_with_the_remedy(server):
    client = CacheClientAsync(server.grpc_address, CONFIGURATION)

    async def in_first_loop():
        assert await client.set("loop", "v") == Success()
        assert await client.get("loop") == GetHit(b"v")

    async def in_second_loop():
        results = [await client.get("loop"), await client.get_batch(["loop"]), await client.subscribe("topic")]
        assert not await client.connect(MS)
        for result in results:
            assert code(result) is ErrorCode.CANCELLED
            assert "create a client in each event loop" in result.message

    # The first loop stays open: its channels belong to it.
    first = asyncio.new_event_loop()
    first.run_until_complete(in_first_loop())
    asyncio.run(in_second_loop())
    first.run_until_complete(client.close())
    first.close()
