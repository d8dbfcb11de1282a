"""A load program: measures the client against a running server, in a closed loop.

    python -m gannet.bench --address 127.0.0.1:7000 --mode sync --concurrency 16 --seconds 5

Prints one JSON object. `--client stub` measures the generated stub without the client library, with the same keys,
metadata and deadline on one channel. `--compare ROUNDS` measures both in turn, so that other load of the machine meets
both alike, and adds the ratio of their medians: the cost of the library.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import threading
import time
from collections import Counter
from datetime import timedelta
from statistics import median
from typing import Any, Awaitable, Callable, Dict, List, Optional

import grpc
import grpc.aio

from gannet._proto import cache_pb2 as m
from gannet._proto import cache_pb2_grpc
from gannet.client import CacheClient
from gannet.client_async import CacheClientAsync
from gannet.configuration import Configuration, Configurations
from gannet.credentials import CredentialProvider
from gannet.errors import CacheError
from gannet.metrics import Histogram

# Keys that each batch of the preparation stores.
BATCH_KEYS = 1000
# Number of keys that are drawn in advance, so that the measured loop draws none.
CHOICES = 100_000
TTL = timedelta(hours=1)


class Plan:
    """Arguments of the run, and the keys that a worker uses, prepared so that the loop only picks them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.configuration: Configuration = Configurations.named(options.preset)
        if options.in_flight_max:
            self.configuration = self.configuration.with_requests_in_flight_max(options.in_flight_max)
        token = options.token
        self.credentials = CredentialProvider.from_string(token) if token else CredentialProvider.none()
        self.keys = [b"bench:%08d" % number for number in range(options.key_space)]
        self.value = bytes(number % 251 for number in range(options.value_bytes))
        # Pairs of a key and whether it is read. Each worker uses them in turn, from a place of its own on.
        chosen = random.Random(0)
        self.choices = [(chosen.choice(self.keys), chosen.random() < options.get_ratio) for _ in range(CHOICES)]

    def place(self, worker: int) -> int:
        """Returns the place in `choices` at which a worker begins."""
        workers: int = self.options.concurrency
        return worker * CHOICES // workers % CHOICES


class Tally:
    """The results of one worker."""

    def __init__(self) -> None:
        self.latencies = Histogram()
        self.errors: Counter[str] = Counter()

    def record(self, started_ns: int, result: object) -> None:
        """Adds one request; `result` is an error of the library, the name of a status, or a reply."""
        self.latencies.record(time.perf_counter_ns() - started_ns)
        if isinstance(result, CacheError):
            self.errors[result.code.name] += 1
        elif isinstance(result, str):
            self.errors[result] += 1


def prepare(plan: Plan) -> None:
    """Stores all keys. Ends the program if the server cannot be reached."""
    options = plan.options
    with CacheClient(options.address, Configurations.Laptop.latest(), plan.credentials, cache=options.cache) as client:
        for at in range(0, len(plan.keys), BATCH_KEYS):
            stored = client.set_batch([(key, plan.value) for key in plan.keys[at : at + BATCH_KEYS]], TTL)
            if isinstance(stored, CacheError):
                sys.exit(stored.message)


def _stub_calls(stub: Any, plan: Plan, metadata: Any) -> Any:
    """Returns functions that get and set by a generated stub."""
    deadline_s = plan.configuration.deadline.total_seconds()
    ttl_ms = TTL // timedelta(milliseconds=1)

    def get(key: bytes) -> Any:
        return stub.Get(m.GetRequest(key=key), timeout=deadline_s, metadata=metadata)

    def put(key: bytes, value: bytes) -> Any:
        return stub.Set(m.SetRequest(key=key, value=value, ttl_ms=ttl_ms), timeout=deadline_s, metadata=metadata)

    return get, put


class Window:
    """The measured time: it begins after the warm-up, with empty tallies."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begin = self.end = math.inf
        self.cpu_s = 0.0

    def open(self) -> None:
        """Begins the warm-up. All workers exist by now: to start thousands of them takes longer than a short window."""
        self.begin = time.monotonic() + min(1.0, self.seconds / 2)
        self.end = self.begin + self.seconds

    def wait(self) -> None:
        """Sleeps through the window, and stores the CPU time of this process in it."""
        time.sleep(max(0.0, self.begin - time.monotonic()))
        before = time.process_time()
        time.sleep(max(0.0, self.end - time.monotonic()))
        self.cpu_s = time.process_time() - before


def run_sync(plan: Plan) -> Dict[str, Any]:
    """Runs one thread for each request at once."""
    options = plan.options
    window = Window(options.seconds)
    started_all = threading.Event()
    tallies = [Tally() for _ in range(options.concurrency)]
    client: Optional[CacheClient] = None
    channel: Optional[grpc.Channel] = None
    if options.client == "sdk":
        client = CacheClient(options.address, plan.configuration, plan.credentials, cache=options.cache)
        get, put = client.get, client.set
    else:
        channel = grpc.insecure_channel(options.address)
        stub = cache_pb2_grpc.CacheStub(channel)  # type: ignore[no-untyped-call]
        get, put = _stub_calls(stub, plan, _metadata(plan))

    def work(worker: int) -> None:
        tally, choices, at = tallies[worker], plan.choices, plan.place(worker)
        # Workers that send requests already would slow the start of the others.
        started_all.wait()
        while True:
            key, reads = choices[at]
            at = (at + 1) % len(choices)
            started = time.perf_counter_ns()
            try:
                result: object = get(key) if reads else put(key, plan.value)
            except grpc.RpcError as error:
                result = error.code().name
            now = time.monotonic()
            if now >= window.end:
                return
            if now >= window.begin:
                tally.record(started, result)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(options.concurrency)]
    for thread in threads:
        thread.start()
    window.open()
    started_all.set()
    window.wait()
    for thread in threads:
        thread.join()
    connections = client.metrics().connections if client else 1
    if client:
        client.close()
    if channel:
        channel.close()
    return report(plan, window, tallies, connections)


async def run_asyncio(plan: Plan) -> Dict[str, Any]:
    """Runs one task for each request at once."""
    options = plan.options
    tallies = [Tally() for _ in range(options.concurrency)]
    client: Optional[CacheClientAsync] = None
    channel: Optional[grpc.aio.Channel] = None
    get: Callable[[bytes], Awaitable[object]]
    put: Callable[[bytes, bytes], Awaitable[object]]
    if options.client == "sdk":
        client = CacheClientAsync(options.address, plan.configuration, plan.credentials, cache=options.cache)
        get, put = client.get, client.set
        await client.connect(plan.configuration.deadline)
    else:
        channel = grpc.aio.insecure_channel(options.address)
        stub = cache_pb2_grpc.CacheStub(channel)  # type: ignore[no-untyped-call]
        get, put = _stub_calls(stub, plan, _metadata(plan))
    window = Window(options.seconds)

    async def work(worker: int) -> None:
        tally, choices, at = tallies[worker], plan.choices, plan.place(worker)
        while True:
            key, reads = choices[at]
            at = (at + 1) % len(choices)
            started = time.perf_counter_ns()
            try:
                result: object = await (get(key) if reads else put(key, plan.value))
            except grpc.RpcError as error:
                result = error.code().name
            now = time.monotonic()
            if now >= window.end:
                return
            if now >= window.begin:
                tally.record(started, result)

    workers = [asyncio.ensure_future(work(worker)) for worker in range(options.concurrency)]
    # Each worker sends its first request in this round of the loop.
    await asyncio.sleep(0)
    window.open()
    timer = asyncio.get_running_loop().run_in_executor(None, window.wait)
    await asyncio.gather(*workers)
    await timer
    connections = client.metrics().connections if client else 1
    if client:
        await client.close()
    if channel:
        await channel.close()
    return report(plan, window, tallies, connections)


def _metadata(plan: Plan) -> Any:
    pairs = [("cache", plan.options.cache)]
    if plan.credentials.token is not None:
        pairs.append(("authorization", plan.credentials.token))
    return tuple(pairs)


def report(plan: Plan, window: Window, tallies: List[Tally], connections: int) -> Dict[str, Any]:
    """Returns the figures of a run."""
    options = plan.options
    latencies, errors = Histogram(), Counter[str]()
    for tally in tallies:
        latencies.add(tally.latencies)
        errors.update(tally.errors)
    requests = latencies.count - sum(errors.values())
    return {
        "client": options.client,
        "mode": options.mode,
        "preset": options.preset,
        "concurrency": options.concurrency,
        "seconds": options.seconds,
        "requests": requests,
        "requests_per_s": round(requests / options.seconds),
        "p50_us": round(latencies.quantile_ns(0.5) / 1000, 1),
        "p99_us": round(latencies.quantile_ns(0.99) / 1000, 1),
        "p999_us": round(latencies.quantile_ns(0.999) / 1000, 1),
        "errors": dict(errors),
        "connections": connections,
        "cpu_s": round(window.cpu_s, 3),
        "cpu_us_per_request": round(window.cpu_s * 1e6 / max(1, requests), 2),
    }


def parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gannet.bench", description="Measures the client library.")
    add = parser.add_argument
    add("--address", required=True, help="HOST:PORT of `gannet serve --grpc`")
    add("--cache", default="default", help="the cache (default: default)")
    add("--token", help="the token, if the server needs one")
    add("--preset", default="InRegion.LowLatency", help="preset of the client (default: InRegion.LowLatency)")
    add("--in-flight-max", type=int, metavar="N", help="cap of requests in flight (default: that of the preset)")
    add("--mode", choices=["sync", "asyncio"], default="sync", help="threads, or tasks of asyncio (default: sync)")
    add("--client", choices=["sdk", "stub"], default="sdk", help="the library, or the generated stub (default: sdk)")
    add("--compare", type=int, default=0, metavar="ROUNDS", help="measure stub and library in turn, ROUNDS times")
    add("--concurrency", type=int, default=16, help="requests that are offered at once (default: 16)")
    add("--seconds", type=float, default=5.0, help="measured time, after a warm-up (default: 5)")
    add("--key-space", type=int, default=1_000, help="number of keys (default: 1000)")
    add("--value-bytes", type=int, default=100, help="size of each value (default: 100)")
    add("--get-ratio", type=float, default=1.0, help="share of gets; the others are sets (default: 1.0)")
    options = parser.parse_args(arguments)
    for name in ("concurrency", "seconds", "key_space"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} must be above 0")
    return options


def run(plan: Plan) -> Dict[str, Any]:
    """Runs the load once."""
    return run_sync(plan) if plan.options.mode == "sync" else asyncio.run(run_asyncio(plan))


def compare(plan: Plan) -> Dict[str, Any]:
    """Runs the stub and the library in turn, and returns the medians of both and the ratio of their CPU time."""
    reports: Dict[str, List[Dict[str, Any]]] = {"stub": [], "sdk": []}
    errors: Counter[str] = Counter()
    for _ in range(plan.options.compare):
        for client, each in reports.items():
            plan.options.client = client
            each.append(run(plan))
            errors.update(each[-1]["errors"])
    figures = ("requests_per_s", "p50_us", "p99_us", "p999_us", "cpu_us_per_request")
    medians = {
        client: {figure: round(median(report[figure] for report in each), 2) for figure in figures}
        for client, each in reports.items()
    }
    ratio = medians["sdk"]["cpu_us_per_request"] / medians["stub"]["cpu_us_per_request"]
    rest = {key: reports["sdk"][0][key] for key in ("mode", "preset", "concurrency", "seconds", "connections")}
    return {**rest, "rounds": plan.options.compare, **medians, "errors": dict(errors), "cpu_ratio": round(ratio, 3)}


def main(arguments: List[str]) -> int:
    """Runs the program, and returns its exit status: 1 if a request failed."""
    options = parse(arguments)
    try:
        plan = Plan(options)
    except ValueError as error:
        sys.exit(str(error))
    prepare(plan)
    result = compare(plan) if options.compare else run(plan)
    print(json.dumps(result))
    return 1 if result["errors"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
