"""Parts of both engines: scopes of calls, decisions about retries, observation.

    caller -> before (middleware) -> queue -> connection -> reply -> result
                                       ^                      |
                                       +---- delay <- retry <-+
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from time import monotonic
from typing import Any, Dict, Generic, Optional, Tuple, TypeVar

import grpc

from gannet._calls import DELETE_CACHE, FLUSH_CACHE, Call, callables
from gannet._copies import SILENCE_S_MAX, Copies, changed_keys
from gannet._target import Target, is_cache_name
from gannet.cancellation import Cancellation
from gannet.configuration import Configuration
from gannet.errors import CacheError, ErrorCode, error_of_client, error_of_status
from gannet.metrics import Recorder
from gannet.middleware import CallEnd, CallStart
from gannet.retry import TokenBucket

C = TypeVar("C")

# The number of namespaces of a server.
NEAR_CACHES_MAX = 16

# Statuses after which a request may be repeated: the server did not execute it, or failed.
_RETRIED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL)


@dataclass(frozen=True)
class Scope:
    """Settings that all calls of one client object share."""

    cache: str
    metadata: Any
    deadline_s: float
    cancellation: Optional[Cancellation] = None
    copies: Optional[Copies] = None


class NotSent(Exception):
    """A request that the client did not send."""

    def __init__(self, code: ErrorCode, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.code, self.cause, self.remedy = code, cause, remedy

    def error(self, method: str) -> CacheError:
        """Returns the error of the call."""
        return error_of_client(self.code, method, self.cause, self.remedy)

    @staticmethod
    def queue_timeout() -> NotSent:
        return NotSent(
            ErrorCode.CLIENT_QUEUE_TIMEOUT,
            "the deadline passed while the request waited in the client's queue",
            "send fewer requests at once, or raise requests_in_flight_max or the deadline",
        )

    @staticmethod
    def queue_full(requests: int) -> NotSent:
        return NotSent(
            ErrorCode.CLIENT_QUEUE_FULL,
            f"{requests} requests wait in the client's queue, which is its maximum",
            "send fewer requests at once, or raise requests_queued_max",
        )

    @staticmethod
    def cancelled() -> NotSent:
        return NotSent(ErrorCode.CANCELLED, "the caller cancelled it", "repeat the call if its result is still needed")

    @staticmethod
    def bad_cache() -> NotSent:
        return NotSent(
            ErrorCode.INVALID_ARGUMENT, "the name of the cache is not printable ASCII", "correct the name"
        )

    @staticmethod
    def closed() -> NotSent:
        return NotSent(ErrorCode.CANCELLED, "the client is closed", "create a new client")

    @staticmethod
    def other_loop() -> NotSent:
        return NotSent(
            ErrorCode.CANCELLED,
            "the client belongs to another event loop, in which its first call began",
            "create a client in each event loop",
        )


class Connection(Generic[C]):
    """A channel, its number of requests in flight, and the functions that send its calls."""

    __slots__ = ("channel", "in_flight", "methods")

    def __init__(self, channel: C) -> None:
        self.channel = channel
        self.in_flight = 0
        self.methods = callables(channel)


class Trace:
    """Events of one call, for middleware and metrics."""

    __slots__ = ("hedged", "queued_s", "retries")

    def __init__(self) -> None:
        self.queued_s = 0.0
        self.retries = 0
        self.hedged = False


class RetryState:
    """The retries of one call."""

    __slots__ = ("previous_s", "retries")

    def __init__(self) -> None:
        self.retries = 0
        self.previous_s = 0.0


class Engine:
    """The settings of a client and the counters of its calls."""

    def __init__(self, target: Target, configuration: Configuration) -> None:
        self.target = target
        self.configuration = configuration
        self.retries = 0
        self.hedges = 0
        self.resumes = 0
        self.recorder = Recorder() if configuration.metrics else None
        self._budget = TokenBucket(configuration.retry_budget)
        self._strategy = configuration.retry_strategy
        self._attempt_s = configuration.retry_strategy.response_timeout_s
        self._hedge_s = None if configuration.hedging is None else configuration.hedging.delay.total_seconds()
        self._middleware = configuration.middleware
        self._observed = configuration.metrics or bool(configuration.middleware)
        self._near_cache = configuration.near_cache
        self._copies: Dict[str, Copies] = {}
        self._copies_lock = threading.Lock()
        # The seconds without an event after which a stream is opened again on another connection.
        self.silence_s = SILENCE_S_MAX

    def copies_of(self, cache: str) -> Optional[Copies]:
        """Returns the copies of the values of a cache, or None if none are kept."""
        if self._near_cache is None or not is_cache_name(cache):
            return None
        with self._copies_lock:
            found = self._copies.get(cache)
            if found is None and (len(self._copies) < NEAR_CACHES_MAX or self._end_useless()):
                found = self._copies[cache] = Copies(self._near_cache)
            return found

    def _end_useless(self) -> bool:
        """Gives up the place of a cache that does not exist, or that no call has used, and returns if there is one."""
        for cache, copies in self._copies.items():
            if copies.is_useless:
                del self._copies[cache]
                copies.end_watch()
                return True
        return False

    def _copies_for(self, scope: Scope) -> Optional[Copies]:
        """Returns the copies for a call. Those of its scope may have given their place up."""
        copies = scope.copies
        return self.copies_of(scope.cache) if copies is not None and copies.ended else copies

    def _forget(self, call: Call[Any, Any], request: Any, scope: Scope) -> None:
        """Removes the copies of the values that a call of this client has changed."""
        if call in (FLUSH_CACHE, DELETE_CACHE):
            copies = self._copies.get(request.name)
            if copies is not None:
                copies.drop()
            return
        copies = self._copies.get(scope.cache)
        if copies is not None:
            copies.forget(changed_keys(call, request))

    def _retry_delay_s(
        self, call: Call[Any, Any], status: grpc.StatusCode, state: RetryState, deadline: float
    ) -> Optional[float]:
        """Returns the seconds after which a failed call is repeated, or None if it is not. The budget is not asked."""
        gave_up = self._attempt_s is not None and status is grpc.StatusCode.DEADLINE_EXCEEDED
        if not call.idempotent or not (status in _RETRIED or gave_up):
            return None
        delay_s = self._strategy.delay_s(state.retries, state.previous_s)
        if delay_s is None or monotonic() + delay_s >= deadline:
            return None
        state.retries += 1
        state.previous_s = delay_s
        return delay_s

    def error(
        self, call: Call[Any, Any], status: grpc.StatusCode, details: Optional[str], request: Any = None
    ) -> CacheError:
        """Returns the error of a call. `request` is that of a call with one reply or a batch, not of a stream."""
        target = self.target
        return error_of_status(
            status,
            details,
            call.method,
            target.address,
            target.tls,
            target.token is not None,
            0 if request is None else request.ByteSize(),
            self.configuration.message_bytes_max,
            of_graph=call.service == "Graph",
        )

    @staticmethod
    def bad_reply(call: Call[Any, Any], error: Exception) -> CacheError:
        return error_of_client(ErrorCode.INTERNAL, call.method, str(error), "use a server and a client of one version")

    def _before(self, call: Call[Any, Any], request: Any, scope: Scope) -> None:
        if self._middleware:
            start = CallStart(call.method, scope.cache, request.ByteSize())
            for each in self._middleware:
                each.before(start)

    def _after(self, call: Call[Any, Any], scope: Scope, trace: Trace, duration_s: float, result: object) -> None:
        """Passes the end of a call to metrics and middleware; `result` None stands for a cancelled task."""
        error = result if isinstance(result, CacheError) else None
        status = "CANCELLED" if result is None else "OK" if error is None else error.code.name
        if self.recorder is not None:
            self.recorder.record(call.method, duration_s, status)
        if self._middleware:
            end = CallEnd(
                method=call.method,
                cache=scope.cache,
                status=status,
                duration_s=duration_s,
                queued_s=trace.queued_s,
                retries=trace.retries,
                hedged=trace.hedged,
                error=None if error is None else error.message,
            )
            for each in reversed(self._middleware):
                each.after(end)


def details_of(error: grpc.RpcError) -> Tuple[grpc.StatusCode, Optional[str]]:
    """Returns the status and the text of a failed call."""
    return error.code(), error.details()
