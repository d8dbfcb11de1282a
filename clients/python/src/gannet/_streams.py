"""Parts of endless streams (subscriptions, watches of keys) that both engines share.

    open ──> first event ──> event ──> ... ──> broken ──> delay ──> open, where the reader continues
     │                                           │
     └── error that does not pass ───────────────┴──> CacheError, end

Streams have connections of their own: on those of the requests, each would take the place of a request for its whole
life. An event is received when the consumer asks for it. If the consumer is slow, the window of HTTP/2 holds the
server back, so that a stream occupies at most the window (64 KiB) and one event.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Callable, Dict, Generic, List, Optional, TypeVar, Union
from weakref import ReferenceType, ref

import grpc

from gannet._engine import Connection, NotSent
from gannet._target import Options, channel_options
from gannet.configuration import Configuration
from gannet.errors import ErrorCode
from gannet.retry import ExponentialBackoff

C = TypeVar("C")
E = TypeVar("E")
S = TypeVar("S")

# Statuses after which the same stream would end in the same way, as in clients/streams.toml.
PERMANENT = frozenset(
    [
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
    ]
)


@dataclass(frozen=True)
class Failure:
    """The end of one attempt."""

    status: grpc.StatusCode
    details: Optional[str]


ENDED = Failure(grpc.StatusCode.UNAVAILABLE, "the server ended the stream")
SILENT = Failure(grpc.StatusCode.UNAVAILABLE, "the server has sent no heartbeat")


class Backoff:
    """Delays between attempts to open a stream: none before the first, then longer ones until it is open."""

    def __init__(self, configuration: Configuration) -> None:
        self._strategy = ExponentialBackoff(configuration.reconnect_delay_min, configuration.reconnect_delay_max)
        self._retries = -1
        self._previous_s = 0.0

    def next_s(self) -> float:
        """Returns the seconds before the next attempt."""
        self._retries += 1
        if self._retries == 0:
            return 0.0
        self._previous_s = self._strategy.delay_s(self._retries, self._previous_s) or 0.0
        return self._previous_s

    def reset(self) -> None:
        """Begins with short delays again, because the stream is open."""
        self._retries, self._previous_s = 0, 0.0


def stream_options(configuration: Configuration) -> Options:
    """Returns the options of a channel for streams."""
    if configuration.keepalive_time is None:
        # Without pings, a stream whose connection has broken without notice would wait for ever.
        configuration = configuration.with_keepalive(timedelta(seconds=5))
    # The probe would raise the window, and with it the events that wait for a slow consumer, to megabytes.
    return [*channel_options(configuration), ("grpc.http2.bdp_probe", 0)]


class StreamPool(Generic[C]):
    """The connections of the streams, each with at most as many streams as the server allows.

    A connection is opened with its first stream, and closed with its last one.

    Invariant: an open stream occupies one place of one connection until it is closed.
    """

    def __init__(self, configuration: Configuration, open_channel: Callable[[], C]) -> None:
        self.connections: List[Connection[C]] = []
        self.count = 0
        self._open_channel = open_channel
        self._streams_max = configuration.subscriptions_max
        self._per_connection = configuration.streams_per_connection
        # The garbage collector may end a stream while the same thread is in one of these functions.
        self._lock = threading.RLock()
        self._closed = False

    def acquire(self) -> Connection[C]:
        """Occupies a place. Raises NotSent."""
        with self._lock:
            if self._closed:
                raise NotSent.closed()
            if self.count >= self._streams_max:
                raise NotSent(
                    ErrorCode.LIMIT_EXCEEDED,
                    f"{self.count} subscriptions are open, which is the maximum of this client",
                    "close some of them, or raise subscriptions_max",
                )
            free = [each for each in self.connections if each.in_flight < self._per_connection]
            if not free:
                free = [Connection(self._open_channel())]
                self.connections += free
            self.count += 1
            free[0].in_flight += 1
            return free[0]

    def release(self, connection: Connection[C]) -> bool:
        """Frees a place, and returns True if the caller closes the connection, which has no further stream."""
        with self._lock:
            self.count -= 1
            connection.in_flight -= 1
            if connection.in_flight > 0:
                return False
            self.retire(connection)
            return True

    def retire(self, connection: Connection[C]) -> None:
        """Gives no further streams to a connection that is silent. Its other streams may notice that later."""
        with self._lock:
            if connection in self.connections:
                self.connections.remove(connection)

    def close(self) -> List[Connection[C]]:
        """Refuses further streams, and returns the connections, which the caller closes."""
        with self._lock:
            self._closed = True
            connections, self.connections = self.connections, []
            return connections


class OpenStreams(Generic[S]):
    """The streams that end with the client. Those that their owner has lost are not held.

    The garbage collector may remove a stream while a thread adds or lists others: each operation is one on a dict,
    which no other thread and no collection divides.
    """

    def __init__(self) -> None:
        self._references: Dict[int, ReferenceType[S]] = {}

    def add(self, stream: S) -> None:
        """Adds a stream, which is removed before its end."""
        self._references[id(stream)] = ref(stream)

    def discard(self, stream: S) -> None:
        """Removes a stream."""
        self._references.pop(id(stream), None)

    def all(self) -> List[S]:
        """Returns the present streams."""
        found = [reference() for reference in list(self._references.values())]
        return [stream for stream in found if stream is not None]


Attempt = Union[E, Failure]
