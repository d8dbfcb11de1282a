"""Plays the scenarios that all client libraries share; `conformance/clients/scenarios` describes them."""

import asyncio
import concurrent.futures
import threading
import time
from datetime import timedelta

import pytest
import tomllib
from conftest import ROOT, code

from gannet import CacheClient, CacheClientAsync, Cancellation, Configurations, FixedCount, NoRetry

SCENARIOS = sorted((ROOT / "conformance" / "clients" / "scenarios").glob("*.toml"))
STEP_S_MAX = 30


class Started:
    """A call that runs beside the steps."""

    def __init__(self, begun):
        self.begun, self.result, self.ended = begun, None, None


class SyncPlayer:
    """Executes calls by threads."""

    def __init__(self, address, configuration):
        self.client = CacheClient(address, configuration)

    def call(self, method, arguments, views):
        return getattr(view(self.client, views), method)(**arguments)

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

    def call(self, method, arguments, views):
        future = asyncio.run_coroutine_threadsafe(getattr(view(self.client, views), method)(**arguments), self.loop)
        return future.result(STEP_S_MAX)

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
    if "retry_count" in changes:
        count = changes["retry_count"]
        configuration = configuration.with_retry_strategy(FixedCount(count) if count else NoRetry())
    return configuration


def arguments_of(step):
    arguments = dict(step.get("arguments", {}))
    if "ttl_ms" in arguments:
        arguments["ttl"] = timedelta(milliseconds=arguments.pop("ttl_ms"))
    return arguments


def views_of(step):
    views = [("with_cache", step["cache"])] if "cache" in step else []
    return views + ([("with_deadline", timedelta(milliseconds=step["deadline_ms"]))] if "deadline_ms" in step else [])


def text(value):
    return value.decode() if isinstance(value, bytes) else value


FIELDS = {
    "value": lambda result: result.value_string,
    "number": lambda result: result.value,
    "results": lambda result: [seen(each, {"type", "value"}) for each in result.results],
    "elements": lambda result: list(result.elements_string),
    "fields": lambda result: result.fields_string,
    "contained": lambda result: list(result.contained),
    "scored": lambda result: [list(each) for each in result.elements_string],
    "code": lambda result: code(result).name,
}


def seen(result, fields):
    """Returns the named fields of a result as the scenario writes them; a miss and an error have no value."""
    if result == "cancelled":
        # The asynchronous client has no result for the caller that cancelled its task.
        return {"type": "error", "code": "CANCELLED"}
    found = {"type": result.outcome}
    for field in fields - {"type"}:
        if result.outcome != "miss" and (result.outcome == "error") == (field == "code"):
            found[field] = FIELDS[field](result)
    return found


def compare(step, result, took_ms):
    expected = dict(step["expect"])
    ttl_ms_max = expected.pop("remaining_ms_max", None)
    assert seen(result, set(expected)) == expected, result
    if ttl_ms_max is not None:
        assert timedelta(0) < result.remaining <= timedelta(milliseconds=ttl_ms_max)
    assert step.get("at_least_ms", 0) <= took_ms <= step.get("at_most_ms", STEP_S_MAX * 1000)


def control(server, action):
    if action == "pause":
        server.pause()
    elif action == "resume":
        server.resume()
    elif action == "kill":
        server.kill()
    else:
        assert action == "start"
        server.restart()


def play(step, player, server, started):
    if "server" in step:
        control(server, step["server"])
    elif "wait_ms" in step:
        time.sleep(step["wait_ms"] / 1000)
    elif "metrics" in step:
        metrics = step["metrics"]
        wait_until(lambda: {name: getattr(player.client.metrics(), name) for name in metrics} == metrics, 2)
    elif "cancel" in step:
        player.cancel(started[step["cancel"]])
    elif "finish" in step:
        each = started.pop(step["finish"])
        result = player.finish(each)
        assert each.ended is not None, "the call did not end"
        compare(step, result, (each.ended - each.begun) * 1000)
    elif "start" in step:

        def pending():
            metrics = player.client.metrics()
            return metrics.in_flight + metrics.queued

        before = pending()
        started[step["start"]] = player.start(step["call"], arguments_of(step), views_of(step))
        wait_until(lambda: pending() == before + 1)
    else:
        deadline = time.monotonic() + step.get("within_ms", 0) / 1000
        while True:
            begun = time.monotonic()
            result = player.call(step["call"], arguments_of(step), views_of(step))
            try:
                return compare(step, result, (time.monotonic() - begun) * 1000)
            except AssertionError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.02)


@pytest.mark.parametrize("kind", [SyncPlayer, AsyncPlayer])
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path, kind, own_server):
    scenario = tomllib.loads(path.read_text())
    assert set(scenario) <= {"name", "client", "steps"} and scenario["steps"]
    player = kind(own_server.grpc_address, configured(scenario.get("client", {})))
    started = {}
    try:
        for at, step in enumerate(scenario["steps"]):
            try:
                play(step, player, own_server, started)
            except AssertionError as error:
                raise AssertionError(f"step {at + 1} of '{scenario['name']}' {step}: {error}") from error
        assert not started, "a started call is not finished"
    finally:
        own_server.resume()
        player.end()
