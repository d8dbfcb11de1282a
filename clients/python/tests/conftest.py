"""Fixtures: a real server, clients of it, and the paths of this package and of the module that starts servers."""

import asyncio
import inspect
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parent.parent
ROOT = PYTHON.parent.parent
sys.path[:0] = [str(PYTHON / "src"), str(ROOT / "conformance" / "clients" / "python"), str(PYTHON / "scripts")]

from server import Server, free_port  # noqa: E402

from gannet import CacheClient, CacheClientAsync, Configurations, SubscriptionAsync  # noqa: E402


STARTS_MAX = 3


class GrpcServer(Server):
    """A server with a port for gRPC clients, besides those for memcached and Redis clients."""

    def __init__(self, **more) -> None:
        self.more = more
        for attempt in range(STARTS_MAX):
            self.grpc_port = free_port()
            try:
                super().__init__(resp=True, GRPC_PORT=str(self.grpc_port), **more)
                return
            except RuntimeError:
                # Another process took a port between its choice and its use. The server has waited 1 s for it.
                if attempt == STARTS_MAX - 1:
                    raise

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def pause(self) -> None:
        """Stops all threads of the server, until `resume`."""
        self.process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 10
        while not all(stat.rpartition(") ")[2].startswith("T") for stat in self._thread_stats()):
            assert time.monotonic() < deadline, "the server did not stop"
            time.sleep(0.001)

    def _thread_stats(self) -> list[str]:
        return [path.read_text() for path in Path(f"/proc/{self.process.pid}/task").glob("*/stat")]

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Starts a server on the ports of this one, which was killed."""
        ports = {"port": self.port, "resp_port": self.resp_port, "GRPC_PORT": str(self.grpc_port)}
        for attempt in range(STARTS_MAX):
            try:
                super().__init__(**ports, **self.more)
                return
            except RuntimeError:
                # A client that connects again may have got its own port as the port of its end, until it notices.
                if attempt == STARTS_MAX - 1:
                    raise


@pytest.fixture(scope="session")
def server():
    with GrpcServer() as running:
        yield running


@pytest.fixture
def own_server():
    """A server that the test may pause or kill."""
    running = GrpcServer()
    yield running
    running.resume()
    running.stop()


CONFIGURATION = Configurations.Laptop.v1().with_deadline(timedelta(seconds=10)).with_metrics()


@pytest.fixture
def client(server):
    with CacheClient(server.grpc_address, CONFIGURATION) as client:
        client.flush_cache("default")
        yield client


class Blocking:
    """The methods of an asynchronous client, each run to its end by an event loop of its own."""

    def __init__(self, address, configuration, loop=None, client=None, **more):
        self._loop = loop or asyncio.new_event_loop()
        self._client = client or CacheClientAsync(address, configuration, **more)

    def __getattr__(self, name):
        method = getattr(self._client, name)
        if name.startswith("with_") or name == "graph":
            return lambda *args: Blocking(None, None, self._loop, method(*args))
        if inspect.isasyncgenfunction(method):
            return lambda *args, **more: self._all(method(*args, **more))
        if name == "metrics":
            return method
        return lambda *args, **more: self._result(self._loop.run_until_complete(method(*args, **more)))

    def _all(self, values):
        while True:
            try:
                yield self._loop.run_until_complete(values.__anext__())
            except StopAsyncIteration:
                return

    def _result(self, result):
        return BlockingSubscription(self._loop, result) if isinstance(result, SubscriptionAsync) else result

    def end(self):
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


class BlockingSubscription:
    """The events of an asynchronous subscription, for blocking iteration."""

    def __init__(self, loop, subscription):
        self._loop, self._subscription = loop, subscription

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self._loop.run_until_complete(self._subscription.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    @property
    def closed(self):
        return self._subscription.closed

    @property
    def outcome(self):
        return self._subscription.outcome

    def close(self):
        self._loop.run_until_complete(self._subscription.close())


@pytest.fixture(params=["sync", "async"])
def connect(request):
    """Returns a function that creates a client of either kind, with blocking methods."""
    created = []

    def create(address, configuration=CONFIGURATION, credentials=None, **more):
        kind = CacheClient if request.param == "sync" else Blocking
        created.append(kind(address, configuration, credentials=credentials, **more))
        return created[-1]

    yield create
    for client in created:
        client.close() if isinstance(client, CacheClient) else client.end()


@pytest.fixture
def both(server, connect):
    client = connect(server.grpc_address)
    client.flush_cache("default")
    return client


def code(result):
    """Returns the code of a result that has to be an error whose message names its remedy."""
    assert result.outcome == "error", result
    assert result.remedy and result.message.endswith(f"; {result.remedy}")
    assert result.message.startswith("cannot execute ")
    return result.code
