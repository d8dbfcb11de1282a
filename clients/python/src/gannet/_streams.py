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
from typing import Callable, Generic, List, Optional, TypeVar, Union

import grpc

from gannet._engine import Connection, NotSent
from gannet._target import Options, channel_options
from gannet.configuration import Configuration
from gannet.errors import ErrorCode
from gannet.retry import ExponentialBackoff

C = TypeVar("C")
E = TypeVar("E")

# Statuses after which the same stream would end in the same way.
PERMANENT = frozenset(
    [
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.PERMISSION_DENIED,
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

    def release(self, connection: Connection[C]) -> None:
        """Frees a place."""
        with self._lock:
            self.count -= 1
            connection.in_flight -= 1

    def close(self) -> List[Connection[C]]:
        """Refuses further streams, and returns the connections, which the caller closes."""
        with self._lock:
            self._closed = True
            connections, self.connections = self.connections, []
            return connections


Attempt = Union[E, Failure]
