"""Plays the scenarios that all client libraries share; `conformance/clients/scenarios` describes them."""

import asyncio
import concurrent.futures
import contextlib
import select
import socket
import threading
import time
from datetime import timedelta

import grpc.aio
import pytest
import tomllib
from conftest import ROOT, GrpcServer, code
from proxy import Proxy

from gannet import (
    CacheClient,
    CacheClientAsync,
    CacheError,
    Cancellation,
    Configurations,
    FixedCount,
    LeaseWait,
    LeaseWon,
    NearCache,
    NoRetry,
    RecordHit,
    RecordOptions,
    RecordWhen,
    TopicDiscontinuity,
    TopicHeartbeat,
    TopicItem,
)

SCENARIOS = sorted((ROOT / "conformance" / "clients" / "scenarios").glob("*.toml"))
STEP_S_MAX = 30
RECEIVE_S_MAX = 10


class Started:
    """A call that runs beside the steps."""

    def __init__(self, begun):
        self.begun, self.result, self.ended = begun, None, None


class Faults:
    """The metadata of a client's calls, which a step changes for all later requests, also those of open streams."""

    def __init__(self, engine, type_):
        self._extra, self._steps = [], 0
        self._all = {}
        base = engine.metadata

        def metadata(cache):
            if cache not in self._all:
                self._all[cache] = (type_(), list(base(cache)))
                self._apply(*self._all[cache])
            return self._all[cache][0]

        engine.metadata = metadata

    def _apply(self, metadata, base):
        metadata.replace([*base, *self._extra])

    def set(self, faults):
        self._steps += 1
        extra = {"request-id": f"step {self._steps}", **faults} if faults else {}
        self._extra = [(name, str(value)) for name, value in extra.items()]
        for each in self._all.values():
            self._apply(*each)


class SyncMetadata(list):
    def replace(self, pairs):
        self[:] = pairs


class AsyncMetadata(grpc.aio.Metadata):
    def replace(self, pairs):
        for key in set(self.keys()):
            self.delete_all(key)
        for key, value in pairs:
            self.add(key, value)


class SyncPlayer:
    """Executes calls by threads."""

    def __init__(self, address, configuration):
        self.client = CacheClient(address, configuration)
        self.faults = Faults(self.client._engine, SyncMetadata)
        self.client = self.client.with_cache("default")

    def call(self, method, arguments, views):
        return getattr(view(self.client, views), method)(**arguments)

    def receive(self, events):
        """Returns the next event. A thread receives it, because a subscription would wait for ever."""
        received = []
        thread = threading.Thread(target=lambda: received.append(next(events)), daemon=True)
        thread.start()
        thread.join(RECEIVE_S_MAX)
        assert received, "no event arrived"
        return received[0]

    def close_subscription(self, events):
        events.close()

    def start(self, method, arguments, views):
        started = Started(time.monotonic())
        started.cancellation = Cancellation()
        client = view(self.client, views).with_cancellation(started.cancellation)

        def execute():
            started.result = getattr(client, method)(**arguments)
            started.ended = time.monotonic()

        started.thread = threading.Thread(target=execute, daemon=True)
        started.thread.start()
        return started

    def finish(self, started):
        started.thread.join(STEP_S_MAX)
        return started.result

    def cancel(self, started):
        started.cancellation.cancel()

    def end(self):
        self.client.close()


class AsyncPlayer:
    """Executes calls by tasks of an event loop in a thread of its own."""

    def __init__(self, address, configuration):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.client = CacheClientAsync(address, configuration)
        self.faults = Faults(self.client._engine, AsyncMetadata)
        self.client = self.client.with_cache("default")

    def call(self, method, arguments, views):
        future = asyncio.run_coroutine_threadsafe(getattr(view(self.client, views), method)(**arguments), self.loop)
        return future.result(STEP_S_MAX)

    def receive(self, events):
        return asyncio.run_coroutine_threadsafe(events.__anext__(), self.loop).result(RECEIVE_S_MAX)

    def close_subscription(self, events):
        asyncio.run_coroutine_threadsafe(events.close(), self.loop).result(STEP_S_MAX)

    def start(self, method, arguments, views):
        started = Started(time.monotonic())

        async def execute():
            try:
                started.result = await getattr(view(self.client, views), method)(**arguments)
            except asyncio.CancelledError:
                started.result = "cancelled"
            started.ended = time.monotonic()

        started.future = asyncio.run_coroutine_threadsafe(execute(), self.loop)
        return started

    def finish(self, started):
        try:
            started.future.result(STEP_S_MAX)
        except concurrent.futures.CancelledError:
            pass
        wait_until(lambda: started.ended is not None)
        return started.result

    def cancel(self, started):
        started.future.cancel()

    def end(self):
        asyncio.run_coroutine_threadsafe(self.client.close(), self.loop).result(STEP_S_MAX)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(STEP_S_MAX)
        self.loop.close()


def view(client, views):
    for method, argument in views:
        client = getattr(client, method)(argument)
    return client


def wait_until(condition, s=5.0):
    deadline = time.monotonic() + s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.005)


def configured(changes):
    configuration = Configurations.named(changes.get("preset", "Laptop.v1")).with_metrics()
    for field in ("requests_in_flight_max", "requests_queued_max"):
        if field in changes:
            configuration = configuration.replace(**{field: changes[field]})
    if "deadline_ms" in changes:
        configuration = configuration.with_deadline(timedelta(milliseconds=changes["deadline_ms"]))
    if "near_cache" in changes:
        configuration = configuration.with_near_cache(NearCache(**changes["near_cache"]))
    if "retry_count" in changes:
        count = changes["retry_count"]
        configuration = configuration.with_retry_strategy(FixedCount(count) if count else NoRetry())
    return configuration


NAMES = {"topic_publish": "publish"}
WHEN = {"create": RecordWhen.CREATE, "update": RecordWhen.UPDATE, "replace": RecordWhen.REPLACE}


def arguments_of(step, tokens=None):
    """Returns the arguments of a call as this library names them. `tokens` are those of the leases that were won."""
    arguments = dict(step.get("arguments", {}))
    if "ttl_ms" in arguments:
        arguments["ttl"] = timedelta(milliseconds=arguments.pop("ttl_ms"))
    if "order" in arguments:
        arguments["descending"] = {"ascending": False, "descending": True}[arguments.pop("order")]
    call = step["call"]
    if call == "lease_set":
        arguments["token"] = tokens[arguments["key"]]
    elif call == "leaderboard_upsert":
        arguments["elements"] = [tuple(element) for element in arguments["elements"]]
    elif call in ("record_put", "record_add"):
        options = {name: arguments.pop(name) for name in ("set", "if_revision") if name in arguments}
        if "only" in arguments:
            options["when"] = WHEN[arguments.pop("only")]
        arguments["options"] = RecordOptions(**options)
        if call == "record_add":
            arguments["amounts"] = arguments.pop("bins")
    return arguments


def views_of(step):
    views = [("with_cache", step["cache"])] if "cache" in step else []
    return views + ([("with_deadline", timedelta(milliseconds=step["deadline_ms"]))] if "deadline_ms" in step else [])


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def value_of(result):
    if isinstance(result, (LeaseWon, LeaseWait)):
        return text(result.stale_value)
    return result.value_string


FIELDS = {
    "value": value_of,
    "number": lambda result: result.value,
    "results": lambda result: [seen(each, {"type", "value"}) for each in result.results],
    "elements": lambda result: list(result.elements_string),
    "fields": lambda result: result.fields_string,
    "contained": lambda result: list(result.contained),
    "scored": lambda result: [list(each) for each in result.elements_string],
    "sequence": lambda result: result.sequence,
    "last_sequence": lambda result: result.last_sequence,
    "new_sequence": lambda result: result.new_sequence,
    "revision": lambda result: result.record.revision if isinstance(result, RecordHit) else result.revision,
    "bins": lambda result: result.bins,
    "keys": lambda result: sorted(record.key_string for record in result.records),
    "length": lambda result: result.length,
    "ranked": lambda result: [[each.id, each.rank, each.score] for each in result.elements],
    "code": lambda result: code(result).name,
}


def type_of(result, call):
    if isinstance(result, TopicItem):
        return "item"
    if isinstance(result, TopicDiscontinuity):
        return "discontinuity"
    if call in ("lease_stale", "record_delete") and result.outcome == "success":
        return "hit"
    return result.outcome


def seen(result, fields, call=None):
    """Returns the named fields of a result as the scenario writes them; a miss and an error have no value."""
    if result == "cancelled":
        # The asynchronous client has no result for the caller that cancelled its task.
        return {"type": "error", "code": "CANCELLED"}
    found = {"type": type_of(result, call)}
    for field in fields - {"type"}:
        if found["type"] != "miss" and (found["type"] == "error") == (field == "code"):
            found[field] = FIELDS[field](result)
    return found


def compare(step, result, took_ms):
    expected = dict(step["expect"])
    ttl_ms_min, ttl_ms_max = expected.pop("remaining_ms_min", 0), expected.pop("remaining_ms_max", None)
    assert seen(result, set(expected), step.get("call")) == expected, result
    if ttl_ms_max is not None:
        remaining_ms = result.remaining / timedelta(milliseconds=1)
        assert max(0, ttl_ms_min) <= remaining_ms <= ttl_ms_max and remaining_ms > 0
    assert step.get("at_least_ms", 0) <= took_ms <= step.get("at_most_ms", STEP_S_MAX * 1000)


def control(server, action):
    actions = {"pause": "pause", "resume": "resume", "kill": "kill", "stop": "stop", "start": "restart"}
    getattr(server, actions[action])()


def metric(metrics, name):
    if name.startswith("near_"):
        return getattr(metrics.near_caches["default"], name.removeprefix("near_"))
    return getattr(metrics, name)


class Play:
    """One scenario and its state."""

    KEYS = {"call", "start", "finish", "cancel", "wait_ms", "server", "metrics", "faults", "subscribe", "receive",
            "network", "hold_connections", "arguments", "cache", "deadline_ms", "within_ms", "at_least_ms",
            "at_most_ms", "client", "expect"}  # fmt: skip

    def __init__(self, scenario, player, server, proxy):
        self.player, self.server, self.proxy = player, server, proxy
        self.started, self.subscriptions, self.tokens, self.held = {}, {}, {}, []
        self.other = None
        if "near_cache" in scenario.get("client", {}):
            # The first call begins the watch; this one reads no value.
            player.call("keys_exist", {"keys": []}, [])
            wait_until(lambda: player.client.metrics().near_caches["default"].watching)

    def step(self, step):
        assert set(step) <= self.KEYS, f"unknown keys: {set(step) - self.KEYS}"
        for key in ("server", "network", "wait_ms", "metrics", "cancel", "finish", "faults", "subscribe", "receive",
                    "hold_connections", "start", "call"):  # fmt: skip
            if key in step:
                return getattr(self, f"_{key}")(step)
        raise AssertionError("a step without an action")

    def _server(self, step):
        control(self.server, step["server"])

    def _network(self, step):
        self.proxy.network(step["network"])

    def _wait_ms(self, step):
        time.sleep(step["wait_ms"] / 1000)

    def _metrics(self, step):
        wanted = step["metrics"]

        def found():
            metrics = self.player.client.metrics()
            return {name: metric(metrics, name) for name in wanted}

        try:
            wait_until(lambda: found() == wanted, 2)
        except AssertionError:
            raise AssertionError(f"metrics are {found()}") from None

    def _faults(self, step):
        self.player.faults.set(step["faults"])

    def _hold_connections(self, step):
        while len(self.held) > step["hold_connections"]:
            self.held.pop().close()
        deadline = time.monotonic() + 5
        while len(self.held) < step["hold_connections"]:
            assert time.monotonic() < deadline, "the server refuses the connection"
            held = socket.create_connection(("127.0.0.1", self.server.grpc_port), timeout=5)
            # The server may still count the connection by which the player saw that it listens.
            if select.select([held], [], [], 0.1)[0]:
                held.close()
            else:
                self.held.append(held)

    def _subscribe(self, step):
        events = self.player.call("subscribe", step["arguments"], views_of(step))
        if not isinstance(events, CacheError):
            assert self.player.receive(events) == TopicHeartbeat()
        self.subscriptions[step["subscribe"]] = events

    def _receive(self, step):
        begun = time.monotonic()
        events = self.subscriptions[step["receive"]]
        event = events
        if not isinstance(events, CacheError):
            while isinstance(event := self.player.receive(events), TopicHeartbeat):
                assert time.monotonic() - begun < RECEIVE_S_MAX, "no event arrived"
        compare(step, event, (time.monotonic() - begun) * 1000)

    def _cancel(self, step):
        name = step["cancel"]
        if name in self.subscriptions:
            events = self.subscriptions.pop(name)
            self.player.close_subscription(events)
            assert events.closed
        else:
            self.player.cancel(self.started[name])

    def _finish(self, step):
        each = self.started.pop(step["finish"])
        result = self.player.finish(each)
        assert each.ended is not None, "the call did not end"
        compare(step, result, (each.ended - each.begun) * 1000)

    def _start(self, step):
        def pending():
            metrics = self.player.client.metrics()
            return metrics.in_flight + metrics.queued

        before = pending()
        method = NAMES.get(step["call"], step["call"])
        self.started[step["start"]] = self.player.start(method, arguments_of(step), views_of(step))
        wait_until(lambda: pending() == before + 1)
        # The metrics count a request before it is sent, and a step that ends the server may follow.
        time.sleep(0.1)

    def _call(self, step):
        deadline = time.monotonic() + step.get("within_ms", 0) / 1000
        player = self.player
        if "client" in step:
            assert step["client"] == "other"
            if self.other is None:
                self.other = type(player)(self.server.grpc_address, Configurations.Laptop.v1())
            player = self.other
        method = NAMES.get(step["call"], step["call"])
        while True:
            begun = time.monotonic()
            result = player.call(method, arguments_of(step, self.tokens), views_of(step))
            if isinstance(result, LeaseWon):
                self.tokens[step["arguments"]["key"]] = result.token
            try:
                return compare(step, result, (time.monotonic() - begun) * 1000)
            except AssertionError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.02)

    def end(self):
        self.server.resume()
        for each in self.held:
            each.close()
        self.player.end()
        if self.other is not None:
            self.other.end()


@pytest.mark.parametrize("kind", [SyncPlayer, AsyncPlayer])
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path, kind):
    scenario = tomllib.loads(path.read_text())
    assert set(scenario) <= {"name", "client", "server", "steps"} and scenario["steps"]
    assert set(scenario.get("server", {})) <= {"connections_max"}
    server = GrpcServer(TEST_FAULTS="1", **scenario.get("server", {}))
    with contextlib.ExitStack() as ends:
        ends.callback(server.stop)
        has_network = any("network" in step for step in scenario["steps"])
        proxy = ends.enter_context(Proxy(server.grpc_port)) if has_network else None
        address = proxy.address if proxy else server.grpc_address
        play = Play(scenario, kind(address, configured(scenario.get("client", {}))), server, proxy)
        try:
            for at, step in enumerate(scenario["steps"]):
                try:
                    play.step(step)
                except (AssertionError, StopIteration, concurrent.futures.TimeoutError) as error:
                    raise AssertionError(f"step {at + 1} of '{scenario['name']}' {step}: {error!r}") from error
            assert not play.started, "a started call is not finished"
        finally:
            play.end()
