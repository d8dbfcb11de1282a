"""Retries by verb, their strategies and budget, and hedged reads, against a real server."""

import threading
import time
from datetime import timedelta

import pytest
from conftest import CONFIGURATION, code
from proxy import Proxy
from server import free_port

from gannet import (
    Configurations,
    ErrorCode,
    ExponentialBackoff,
    FixedCount,
    FixedTimeout,
    GetHit,
    NoRetry,
    RetryBudget,
    Success,
)
from gannet.retry import TokenBucket

MS = timedelta(milliseconds=1)


def test_only_idempotent_calls_are_repeated(connect):
    client = connect(f"127.0.0.1:{free_port()}")
    for call, retries in [
        (lambda: client.get("k"), 3),
        (lambda: client.set("k", "v"), 6),
        (lambda: client.get_batch(["k"]), 9),
        (lambda: client.increment("k"), 9),
        (lambda: client.list_push_back("k", "v"), 9),
        (lambda: client.set_pop("k"), 9),
    ]:
        assert code(call()) is ErrorCode.UNAVAILABLE
        assert client.metrics().retries == retries


def test_samples_are_repeated(connect):
    client = connect(f"127.0.0.1:{free_port()}")
    assert code(client.set_sample("k", 1)) is ErrorCode.UNAVAILABLE
    assert client.metrics().retries == 3


def test_no_retry(connect):
    client = connect(f"127.0.0.1:{free_port()}", CONFIGURATION.with_retry_strategy(NoRetry()))
    assert code(client.get("k")) is ErrorCode.UNAVAILABLE and client.metrics().retries == 0


def test_errors_of_the_server_are_not_repeated(both):
    both.list_push_back("l", "a")
    assert code(both.get("l")) is ErrorCode.FAILED_PRECONDITION
    assert both.metrics().retries == 0


@pytest.mark.parametrize("strategy", [FixedTimeout(20 * MS), ExponentialBackoff(max_delay=50 * MS)])
def test_a_call_outlasts_a_restart_of_the_server(connect, own_server, strategy):
    budget = RetryBudget(percent=10, burst=1000)
    client = connect(own_server.grpc_address, CONFIGURATION.with_retry_strategy(strategy).with_retry_budget(budget))
    assert client.set("k", "v") == Success()
    own_server.kill()
    results = []
    caller = threading.Thread(target=lambda: results.append(client.set("k", "w")))
    caller.start()
    time.sleep(0.1)
    own_server.restart()
    caller.join(10)
    assert results == [Success()] and client.metrics().retries > 0
    assert client.get("k") == GetHit(b"w")


def test_the_budget_bounds_the_retries(connect):
    configuration = CONFIGURATION.with_retry_budget(RetryBudget(percent=10, burst=5))
    client = connect(f"127.0.0.1:{free_port()}", configuration)
    for _ in range(100):
        assert client.get("k").outcome == "error"
    assert 5 + 8 <= client.metrics().retries <= 5 + 10


def test_a_token_bucket_holds_at_most_its_burst():
    bucket = TokenBucket(RetryBudget(percent=10, burst=2))
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    for _ in range(10):
        bucket.tokens += bucket.share
    assert [bucket.take() for _ in range(2)] == [True, False]


def test_delays_of_the_strategies():
    assert NoRetry().delay_s(0, 0.0) is None
    assert [FixedCount(2).delay_s(retries, 0.0) for retries in range(3)] == [0.0, 0.0, None]
    assert all(0.09 <= FixedTimeout().delay_s(0, 0.0) <= 0.11 for _ in range(100))
    backoff = ExponentialBackoff()
    previous_s, longest_s = 0.0, 0.0
    for retries in range(200):
        delay_s = backoff.delay_s(retries, previous_s)
        assert 0.0005 <= delay_s <= max(0.0005, min(1.0, 3 * previous_s))
        previous_s, longest_s = delay_s, max(longest_s, delay_s)
    assert longest_s > 0.0005


def test_an_attempt_without_reply_is_given_up_and_repeated(connect, server):
    with Proxy(server.grpc_port) as proxy:
        strategy = FixedTimeout(retry_delay=10 * MS, response_timeout=100 * MS)
        client = connect(proxy.address, CONFIGURATION.with_retry_strategy(strategy))
        assert client.set("slow", "v") == Success()
        proxy.gates[0].clear()
        threading.Timer(0.25, proxy.gates[0].set).start()
        assert client.get("slow") == GetHit(b"v")
        assert 1 <= client.metrics().retries <= 4
        client.close()


def hedged(delay):
    # One stream for each connection, so that a second request uses another connection.
    return CONFIGURATION.with_requests_in_flight_max(2).replace(streams_per_connection=1).with_hedging(delay)


def test_a_hedged_read_returns_the_reply_that_comes_first(connect, server):
    with Proxy(server.grpc_port) as proxy:
        client = connect(proxy.address, hedged(100 * MS))
        assert client.set("hedged", "v") == Success() and client.get("hedged") == GetHit(b"v")
        assert client.metrics().hedges == 0
        proxy.gates[0].clear()
        started = time.monotonic()
        assert client.get("hedged") == GetHit(b"v")
        assert 0.1 <= time.monotonic() - started < 5
        assert client.metrics().hedges == 1 and client.metrics().in_flight == 0
        client.close()


def test_only_get_is_hedged(connect, server):
    with Proxy(server.grpc_port) as proxy:
        client = connect(proxy.address, hedged(20 * MS))
        client.delete("count")
        proxy.gates[0].clear()
        threading.Timer(0.15, proxy.gates[0].set).start()
        assert client.increment("count").value == 1
        assert client.metrics().hedges == 0 and client.increment("count").value == 2
        client.close()


def test_hedges_take_tokens_of_the_budget(connect, server):
    with Proxy(server.grpc_port) as proxy:
        client = connect(proxy.address, hedged(20 * MS).with_retry_budget(RetryBudget(percent=0, burst=1)))
        assert client.delete("k") == Success()
        proxy.gates[0].clear()
        assert client.with_deadline(5000 * MS).get("k").outcome != "error"
        assert code(client.with_deadline(200 * MS).get("k")) is ErrorCode.TIMEOUT
        assert client.metrics().hedges == 1
        client.close()


def test_a_hedge_never_waits_in_the_queue(connect, server):
    with Proxy(server.grpc_port) as proxy:
        client = connect(proxy.address, CONFIGURATION.with_requests_in_flight_max(1).with_hedging(10 * MS))
        assert client.delete("k") == Success()
        proxy.gates[0].clear()
        assert code(client.with_deadline(100 * MS).get("k")) is ErrorCode.TIMEOUT
        assert client.metrics().hedges == 0
        client.close()


def test_presets_allow_at_most_a_tenth_more_requests():
    for name in ("Laptop", "InRegion.Default", "InRegion.LowLatency", "Lambda"):
        assert Configurations.named(name).retry_budget.percent == 10
