"""The engine of the synchronous client: threads, one lock, and the channels of grpcio."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import replace
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, List, Optional, TypeVar, Union

import grpc

from gannet._calls import GET, GET_BATCH, KEYS_EXIST, WATCH_KEYS, Call
from gannet._copies import REFUSED_DELAY_S, BatchRead, Copies, Role, is_shared
from gannet._engine import Connection, Engine, NotSent, RetryState, Scope, Trace, details_of
from gannet._proto import cache_pb2 as m
from gannet._requests import BadReply
from gannet._streams import OpenStreams, StreamPool, stream_options
from gannet._streams_sync import SyncStream
from gannet._target import Options, Target, channel_options, is_cache_name
from gannet.cancellation import Cancellation
from gannet.configuration import Configuration
from gannet.errors import CacheError
from gannet.metrics import Metrics
from gannet.results import GetBatchSuccess
from gannet.retry import TokenBucket

R = TypeVar("R")
T = TypeVar("T", bound=SyncStream[Any])
SyncConnection = Connection[grpc.Channel]


def _sleep(delay_s: float, cancellation: Optional[Cancellation]) -> None:
    """Waits, until the call is cancelled."""
    if cancellation is None:
        time.sleep(delay_s)
        return
    cancelled = threading.Event()
    cancellation.add(cancelled.set)
    try:
        cancelled.wait(delay_s)
    finally:
        cancellation.discard(cancelled.set)


class Waiter:
    """A thread in the queue. Its lock is held until it is granted a connection, or refused one."""

    __slots__ = ("connection", "lock", "refusal")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lock.acquire()
        self.connection: Optional[SyncConnection] = None
        self.refusal: Optional[NotSent] = None


class Limiter:
    """Bounds the requests in flight. Further threads wait in order of arrival.

    Invariant: threads wait only while `in_flight` is at its maximum, because a released place passes to the first one.
    """

    def __init__(self, connections: List[SyncConnection], configuration: Configuration, budget: TokenBucket) -> None:
        self.in_flight = 0
        self._connections = connections
        self._requests_max = configuration.requests_in_flight_max
        self._queued_max = configuration.requests_queued_max
        self._streams = configuration.streams_per_connection
        self._budget = budget
        self._lock = threading.Lock()
        # The values are not used: the queue is an ordered set, from which a waiter is removed in constant time.
        self._queue: OrderedDict[Waiter, None] = OrderedDict()
        self._closed = False

    @property
    def queued(self) -> int:
        """Number of waiting threads."""
        return len(self._queue)

    def _take(self) -> SyncConnection:
        """Occupies a free place, on the first connection with a free stream."""
        self.in_flight += 1
        for connection in self._connections:
            if connection.in_flight < self._streams:
                connection.in_flight += 1
                return connection
        raise AssertionError("a free place without a free stream")

    def acquire(self, deadline: float, cancellation: Optional[Cancellation], first: bool) -> SyncConnection:
        """Returns a connection with a free stream, which the caller releases. Waits for it until `deadline`.

        `first` is False for a retry, which adds nothing to the budget. Raises NotSent.
        """
        with self._lock:
            if self._closed:
                raise NotSent.closed()
            budget = self._budget
            if first and budget.tokens < budget.burst:
                budget.tokens += budget.share
            if self.in_flight < self._requests_max:
                return self._take()
            if len(self._queue) >= self._queued_max:
                raise NotSent.queue_full(self._queued_max)
            waiter = Waiter()
            self._queue[waiter] = None
        return self._wait(waiter, deadline, cancellation)

    def _wait(self, waiter: Waiter, deadline: float, cancellation: Optional[Cancellation]) -> SyncConnection:
        def cancel() -> None:
            self._refuse(waiter, NotSent.cancelled())

        try:
            if cancellation is not None:
                cancellation.add(cancel)
            if not waiter.lock.acquire(timeout=min(max(0.0, deadline - monotonic()), threading.TIMEOUT_MAX)):
                self._refuse(waiter, NotSent.queue_timeout())
        except BaseException:
            # An interrupt of the thread: its place in the queue, or in flight, must not be lost.
            self._refuse(waiter, NotSent.cancelled())
            if waiter.connection is not None:
                self.release(waiter.connection)
            raise
        finally:
            if cancellation is not None:
                cancellation.discard(cancel)
        if waiter.connection is None:
            assert waiter.refusal is not None
            raise waiter.refusal
        return waiter.connection

    def _refuse(self, waiter: Waiter, refusal: NotSent) -> None:
        """Removes a waiter from the queue and wakes it, unless it was granted a connection or refused one before."""
        with self._lock:
            if waiter in self._queue:
                del self._queue[waiter]
                waiter.refusal = refusal
                waiter.lock.release()

    def release(self, connection: SyncConnection) -> None:
        """Passes a place to the first waiter, or frees it."""
        with self._lock:
            if self._queue:
                waiter, _ = self._queue.popitem(last=False)
                waiter.connection = connection
                waiter.lock.release()
            else:
                self.in_flight -= 1
                connection.in_flight -= 1

    def take_retry_token(self) -> bool:
        """Takes a token of the budget, and returns whether there was one."""
        with self._lock:
            return self._budget.take()

    def acquire_for_hedge(self, other: SyncConnection) -> Optional[SyncConnection]:
        """Returns a connection for a second request, if a place is free and the budget allows it.

        It is another one than `other` if another one has a free stream.
        """
        with self._lock:
            if self._closed or self.in_flight >= self._requests_max or not self._budget.take():
                return None
            free = [each for each in self._connections if each.in_flight < self._streams]
            connection = next((each for each in free if each is not other), free[0])
            self.in_flight += 1
            connection.in_flight += 1
            return connection

    def close(self) -> bool:
        """Refuses all waiters and later requests, and returns whether the limiter was open."""
        with self._lock:
            if self._closed:
                return False
            self._closed = True
            while self._queue:
                waiter, _ = self._queue.popitem(last=False)
                waiter.refusal = NotSent.closed()
                waiter.lock.release()
            return True


class SyncEngine(Engine):
    """Executes the calls of a synchronous client, from any number of threads."""

    def __init__(self, target: Target, configuration: Configuration) -> None:
        super().__init__(target, configuration)
        options = channel_options(configuration)
        self._credentials = target.channel_credentials() if target.tls else None
        self._connections: List[SyncConnection] = [
            Connection(self._channel(options)) for _ in range(configuration.connections_max)
        ]
        self._streams: OpenStreams[SyncStream[Any]] = OpenStreams()
        self._checks_silence = False
        self._checks_lock = threading.Lock()
        self._pool: StreamPool[grpc.Channel] = StreamPool(
            configuration, lambda: self._channel(stream_options(configuration))
        )
        self._limiter = Limiter(self._connections, configuration, self._budget)
        self._closed = False
        self._closing = threading.Event()
        if configuration.eager_connect:
            self.connect(configuration.deadline.total_seconds(), wait_for_ready=False)

    def _channel(self, options: Options) -> grpc.Channel:
        if self._credentials is None:
            return grpc.insecure_channel(self.target.address, options)
        return grpc.secure_channel(self.target.address, self._credentials, options)

    def metadata(self, cache: str) -> Any:
        """Returns the metadata of the calls on a cache, or None if no request can name it."""
        metadata = self.target.metadata(cache)
        return metadata if is_cache_name(cache) else None

    def connect(self, timeout_s: float, wait_for_ready: bool = True) -> bool:
        """Opens all connections, and returns whether they are open after at most `timeout_s`.

        Without `wait_for_ready`, it makes one attempt for each connection.
        """
        # A call that needs no item. The readiness of a channel would be polled by a thread that outlasts this function.
        request = m.KeysExistRequest()
        metadata = self.target.metadata("")
        try:
            futures = [
                connection.methods[KEYS_EXIST.index].future(request, timeout_s, metadata, wait_for_ready=wait_for_ready)
                for connection in self._connections
            ]
        except ValueError:
            # grpcio raises it for a call on a channel that is closed.
            if self._closed:
                return False
            raise
        absent = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
        return all([future.code() not in absent for future in futures])

    def close(self) -> None:
        """Ends all calls, and closes the connections."""
        self._closed = True
        self._closing.set()
        for copies in list(self._copies.values()):
            copies.end_watch()
        for stream in self._streams.all():
            stream.close()
        if self._limiter.close():
            for connection in [*self._connections, *self._pool.close()]:
                connection.channel.close()

    def metrics(self) -> Metrics:
        """Returns a snapshot of the metrics."""
        return Metrics(
            in_flight=self._limiter.in_flight,
            queued=self._limiter.queued,
            connections=len(self._connections) + len(self._pool.connections),
            subscriptions=self._pool.count,
            resumes=self.resumes,
            retries=self.retries,
            hedges=self.hedges,
            methods={} if self.recorder is None else self.recorder.methods(),
            near_caches={name: copies.metrics() for name, copies in list(self._copies.items())},
        )

    def call(self, call: Call[Any, R], request: Any, scope: Scope) -> Union[R, CacheError]:
        """Executes a call and returns its result."""
        if self._near_cache is not None:
            result: Union[R, CacheError] = self._call_near(call, request, scope)
            return result
        return self._send(call, request, scope)

    def _call_near(self, call: Call[Any, R], request: Any, scope: Scope) -> Any:
        """Executes a call by the copies of values, or by the server."""
        copies = self._copies_for(scope)
        if copies is not None:
            self._watch(copies, scope)
        if copies is None or call not in (GET, GET_BATCH):
            try:
                return self._send(call, request, scope)
            finally:
                self._forget(call, request, scope)
        if call is GET:
            return self._get_near(call, request, scope, copies)
        batch = BatchRead(copies, request)
        if request.items and not batch.request.items:
            return batch.merged(GetBatchSuccess(()))
        result: Any = None
        try:
            result = self._send(call, batch.request, scope)
        finally:
            batch.end(result)
        return result if isinstance(result, CacheError) else batch.merged(result)

    def _get_near(self, call: Call[Any, Any], request: Any, scope: Scope, copies: Copies) -> Any:
        """Returns a copy, or the value of a read of this caller or of another one."""
        key = request.key
        copy = copies.lookup(key)
        deadline = monotonic() + scope.deadline_s
        while copy is None:
            if scope.cancellation is None:
                read, role = copies.begin_or_join(key, threading.Event)
            else:
                read, role = copies.begin(key), Role.READS
            if role is Role.READS:
                result: Any = None
                try:
                    result = self._send(call, request, scope)
                    return result
                finally:
                    copies.end(read, result)
            read.event.wait(max(0.0, deadline - monotonic()))
            if role is Role.TAKES and is_shared(read.result):
                return read.result
            remaining_s = deadline - monotonic()
            if remaining_s <= 0:
                return NotSent.queue_timeout().error(call.method)
            scope = replace(scope, deadline_s=remaining_s)
            copy = copies.lookup(key, again=True)
        return copy

    def _watch(self, copies: Copies, scope: Scope) -> None:
        """Begins to watch the keys of a cache, unless a thread watches them already."""
        if not copies.started and copies.start():
            ending = threading.Event()
            copies.on_end = ending.set
            arguments = (copies, replace(scope, cancellation=None), ending)
            threading.Thread(target=self._watch_keys, args=arguments, name="gannet-near-cache", daemon=True).start()

    def _watch_keys(self, copies: Copies, scope: Scope, ending: threading.Event) -> None:
        """Reads the changes of keys until the client is closed. A refused watch is opened again after a while."""
        while not (self._closing.is_set() or copies.ended):
            stream = SyncStream(self, WATCH_KEYS, copies, scope)
            for event in stream:
                if isinstance(event, CacheError):
                    copies.refused(event)
            ending.wait(REFUSED_DELAY_S)

    def _send(self, call: Call[Any, R], request: Any, scope: Scope) -> Union[R, CacheError]:
        if not self._observed:
            return self._execute(call, request, scope, None)
        self._before(call, request, scope)
        trace = Trace()
        started = time.perf_counter()
        result: Union[R, CacheError, None] = None
        try:
            result = self._execute(call, request, scope, trace)
            return result
        finally:
            self._after(call, scope, trace, time.perf_counter() - started, result)

    def _execute(
        self, call: Call[Any, R], request: Any, scope: Scope, trace: Optional[Trace]
    ) -> Union[R, CacheError]:
        started = monotonic()
        deadline = started + scope.deadline_s
        state: Optional[RetryState] = None
        limiter = self._limiter
        if scope.metadata is None:
            return NotSent.bad_cache().error(call.method)
        while True:
            if scope.cancellation is not None and scope.cancellation.cancelled:
                return NotSent.cancelled().error(call.method)
            try:
                connection = limiter.acquire(deadline, scope.cancellation, state is None)
            except NotSent as refusal:
                return refusal.error(call.method)
            try:
                now = monotonic()
                if trace is not None:
                    trace.queued_s += now - started
                if scope.cancellation is not None and scope.cancellation.cancelled:
                    # Another call of the cancellation ended first and passed its place to this one.
                    return NotSent.cancelled().error(call.method)
                timeout_s = deadline - now
                if timeout_s <= 0:
                    return NotSent.queue_timeout().error(call.method)
                if self._attempt_s is not None and self._attempt_s < timeout_s:
                    timeout_s = self._attempt_s
                method = connection.methods[call.index]
                if call.streams:
                    reply = self._send_for_stream(method, request, timeout_s, scope)
                elif scope.cancellation is not None or (call.hedges and self._hedge_s is not None):
                    reply = self._send_cancellable(call, connection, request, timeout_s, scope, trace)
                else:
                    reply = method(request, timeout_s, scope.metadata)
                return call.parse(reply)
            except grpc.RpcError as failure:
                status, details = details_of(failure)
            except NotSent as refusal:
                return refusal.error(call.method)
            except BadReply as failure:
                return self.bad_reply(call, failure)
            except ValueError:
                # grpcio raises it for a call on a channel that another thread has just closed.
                if self._closed:
                    return NotSent.closed().error(call.method)
                raise
            finally:
                limiter.release(connection)
            if self._closed:
                return NotSent.closed().error(call.method)
            state = state or RetryState()
            delay_s = self._retry_delay_s(call, status, state, deadline)
            if delay_s is None or not limiter.take_retry_token():
                return self.error(call, status, details, request)
            self.retries += 1
            if trace is not None:
                trace.retries += 1
            if delay_s > 0:
                _sleep(delay_s, scope.cancellation)
            started = monotonic()

    @staticmethod
    def sleep(delay_s: float, scope: Scope) -> None:
        """Waits, until the calls of the scope are cancelled."""
        _sleep(delay_s, scope.cancellation)

    def begin_stream(self, stream: SyncStream[Any]) -> SyncConnection:
        """Returns a connection for a stream, which ends with the client. Raises NotSent."""
        connection = self._pool.acquire()
        self._streams.add(stream)
        with self._checks_lock:
            starts, self._checks_silence = not self._checks_silence, True
        if starts:
            threading.Thread(target=self._check_silence, name="gannet-silence", daemon=True).start()
        return connection

    def _check_silence(self) -> None:
        """Finds streams that are silent for too long, while there are any."""
        while not self._closing.wait(self.silence_s / 15):
            now = monotonic()
            streams = self._streams.all()
            for stream in streams:
                stream.check_silence(now, self.silence_s)
            with self._checks_lock:
                if not streams and not self._streams.all():
                    self._checks_silence = False
                    return
            del streams

    def retire(self, connection: SyncConnection) -> None:
        """Gives no further streams to a connection that is silent."""
        self._pool.retire(connection)

    def end_stream(self, stream: SyncStream[Any], connection: SyncConnection) -> None:
        """Frees the place of a stream."""
        self._streams.discard(stream)
        if self._pool.release(connection):
            connection.channel.close()

    def open(self, stream: T) -> Union[T, CacheError]:
        """Opens a stream within the deadline of its scope, with retries, and returns it, or the error."""
        call, scope = stream.call, stream.scope
        if scope.metadata is None:
            return NotSent.bad_cache().error(call.method)
        if self._observed:
            self._before(call, stream.reader.request(), scope)
        trace = Trace()
        started = time.perf_counter()
        result: Union[T, CacheError, None] = None
        try:
            result = self._open(stream, trace)
            return result
        finally:
            if result is not stream:
                stream.close()
            if self._observed:
                self._after(call, scope, trace, time.perf_counter() - started, result)

    def _open(self, stream: T, trace: Trace) -> Union[T, CacheError]:
        call, scope = stream.call, stream.scope
        deadline = monotonic() + scope.deadline_s
        state = RetryState()
        while True:
            if scope.cancellation is not None and scope.cancellation.cancelled:
                return NotSent.cancelled().error(call.method)
            try:
                failure = stream.open(max(0.001, deadline - monotonic()))
            except NotSent as refusal:
                return refusal.error(call.method)
            except BadReply as reply:
                return self.bad_reply(call, reply)
            if failure is None:
                return stream
            if self._closed:
                return NotSent.closed().error(call.method)
            if stream.closed:
                return NotSent.cancelled().error(call.method)
            delay_s = self._retry_delay_s(call, failure.status, state, deadline)
            if delay_s is None or not self._limiter.take_retry_token():
                return self.error(call, failure.status, failure.details)
            self.retries += 1
            trace.retries += 1
            if delay_s > 0:
                _sleep(delay_s, scope.cancellation)

    @staticmethod
    def _send_for_stream(method: Any, request: Any, timeout_s: float, scope: Scope) -> List[Any]:
        """Returns all replies of a stream. They are as many as the parts of the request."""
        replies = method(request, timeout_s, scope.metadata)
        if scope.cancellation is None:
            received = list(replies)
        else:
            scope.cancellation.add(replies.cancel)
            try:
                received = list(replies)
            finally:
                scope.cancellation.discard(replies.cancel)
        if len(received) != len(request.items):
            raise BadReply(f"{len(received)} replies to a batch of {len(request.items)}")
        return received

    def _send_cancellable(
        self,
        call: Call[Any, Any],
        connection: SyncConnection,
        request: Any,
        timeout_s: float,
        scope: Scope,
        trace: Optional[Trace],
    ) -> Any:
        """Sends a request, and a second one if hedging is on and the reply is slow. Returns the first good reply."""
        ended: SimpleQueue[Any] = SimpleQueue()
        sent: List[Any] = []

        def send(on: SyncConnection, remaining_s: float) -> None:
            method = on.methods[call.index]
            future = method.future(request, remaining_s, scope.metadata)
            sent.append(future)
            if scope.cancellation is not None:
                scope.cancellation.add(future.cancel)
            future.add_done_callback(ended.put)

        second: Optional[SyncConnection] = None
        deadline = monotonic() + timeout_s
        try:
            send(connection, timeout_s)
            hedge_s = self._hedge_s if call.hedges else None
            try:
                best = ended.get(timeout=hedge_s)
            except Empty:
                second = self._limiter.acquire_for_hedge(connection)
                if second is not None:
                    self.hedges += 1
                    if trace is not None:
                        trace.hedged = True
                    send(second, max(0.001, deadline - monotonic()))
                best = ended.get()
                if second is not None and best.code() is not grpc.StatusCode.OK:
                    best = ended.get()
            try:
                return best.result()
            except grpc.FutureCancelledError:
                raise (NotSent.closed() if self._closed else NotSent.cancelled()) from None
        finally:
            for future in sent:
                if scope.cancellation is not None:
                    scope.cancellation.discard(future.cancel)
                future.cancel()
            if second is not None:
                self._limiter.release(second)
