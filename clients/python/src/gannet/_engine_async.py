"""The engine of the asynchronous client: one event loop, no locks, and the channels of grpc.aio."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from dataclasses import replace
from time import monotonic
from typing import Any, Awaitable, List, Optional, Set, TypeVar, Union

import grpc
import grpc.aio

from gannet._calls import GET, GET_BATCH, WATCH_KEYS, Call
from gannet._copies import REFUSED_DELAY_S, BatchRead, Copies, Role, is_shared
from gannet._engine import Connection, Engine, NotSent, RetryState, Scope, Trace, details_of
from gannet._requests import BadReply
from gannet._streams import OpenStreams, StreamPool, stream_options
from gannet._streams_async import AsyncStream
from gannet._target import Options, Target, channel_options, is_cache_name
from gannet.configuration import Configuration
from gannet.errors import CacheError
from gannet.metrics import Metrics
from gannet.results import GetBatchSuccess
from gannet.retry import TokenBucket

R = TypeVar("R")
T = TypeVar("T", bound=AsyncStream[Any])
AsyncConnection = Connection[grpc.aio.Channel]


class Limiter:
    """Bounds the requests in flight. Further tasks wait in order of arrival.

    Invariant: tasks wait only while `in_flight` is at its maximum, because a released place passes to the first one.
    """

    def __init__(self, configuration: Configuration, budget: TokenBucket) -> None:
        self.in_flight = 0
        self.connections: List[AsyncConnection] = []
        self._requests_max = configuration.requests_in_flight_max
        self._queued_max = configuration.requests_queued_max
        self._streams = configuration.streams_per_connection
        self._budget = budget
        # The values are not used: the queue is an ordered set, from which a future is removed in constant time.
        self._queue: OrderedDict[asyncio.Future[AsyncConnection], None] = OrderedDict()
        self.closed = False

    @property
    def queued(self) -> int:
        """Number of waiting tasks."""
        return len(self._queue)

    def acquire(self, first: bool) -> Optional[AsyncConnection]:
        """Returns a connection with a free stream, which the caller releases, or None if the caller has to wait.

        `first` is False for a retry, which adds nothing to the budget. Raises NotSent.
        """
        if self.closed:
            raise NotSent.closed()
        budget = self._budget
        if first and budget.tokens < budget.burst:
            budget.tokens += budget.share
        if self.in_flight >= self._requests_max:
            return None
        self.in_flight += 1
        for connection in self.connections:
            if connection.in_flight < self._streams:
                connection.in_flight += 1
                return connection
        raise AssertionError("a free place without a free stream")

    async def wait(self, deadline: float) -> AsyncConnection:
        """Returns a connection as `acquire` does, when the task's turn has come. Raises NotSent."""
        if len(self._queue) >= self._queued_max:
            raise NotSent.queue_full(self._queued_max)
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[AsyncConnection] = loop.create_future()
        self._queue[granted] = None
        timer = loop.call_later(max(0.0, deadline - monotonic()), self._refuse, granted, NotSent.queue_timeout())
        try:
            return await granted
        except asyncio.CancelledError:
            self._queue.pop(granted, None)
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self.release(granted.result())
            raise
        finally:
            timer.cancel()

    def _refuse(self, waiter: asyncio.Future[AsyncConnection], refusal: NotSent) -> None:
        if waiter in self._queue:
            del self._queue[waiter]
            if not waiter.done():
                waiter.set_exception(refusal)

    def release(self, connection: AsyncConnection) -> None:
        """Passes a place to the first waiter, or frees it."""
        while self._queue:
            waiter, _ = self._queue.popitem(last=False)
            # A cancelled task is still in the queue until it runs.
            if not waiter.done():
                waiter.set_result(connection)
                return
        self.in_flight -= 1
        connection.in_flight -= 1

    def acquire_for_hedge(self, other: AsyncConnection) -> Optional[AsyncConnection]:
        """Returns a connection for a second request, if a place is free and the budget allows it.

        It is another one than `other` if another one has a free stream.
        """
        if self.closed or self.in_flight >= self._requests_max or not self._budget.take():
            return None
        free = [each for each in self.connections if each.in_flight < self._streams]
        connection = next((each for each in free if each is not other), free[0])
        self.in_flight += 1
        connection.in_flight += 1
        return connection

    def close(self) -> None:
        """Refuses all waiters and later requests."""
        self.closed = True
        while self._queue:
            self._refuse(next(iter(self._queue)), NotSent.closed())


class AsyncEngine(Engine):
    """Executes the calls of an asynchronous client, all of them from tasks of one event loop.

    The channels belong to the event loop that runs when the first call begins.
    """

    def __init__(self, target: Target, configuration: Configuration) -> None:
        super().__init__(target, configuration)
        self._credentials = target.channel_credentials() if target.tls else None
        self._limiter = Limiter(configuration, self._budget)
        self._connections = self._limiter.connections
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._streams: OpenStreams[AsyncStream[Any]] = OpenStreams()
        self._watches: Set[asyncio.Task[None]] = set()
        self._closing: Set[asyncio.Task[None]] = set()
        self._pool: StreamPool[grpc.aio.Channel] = StreamPool(
            configuration, lambda: self._channel(stream_options(configuration))
        )

    def _channel(self, options: Options) -> grpc.aio.Channel:
        if self._credentials is None:
            return grpc.aio.insecure_channel(self.target.address, options)
        return grpc.aio.secure_channel(self.target.address, self._credentials, options)

    def _is_in_loop(self) -> bool:
        """Returns whether the client belongs to the running event loop. It belongs to that of its first call."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        return self._loop is loop

    def metadata(self, cache: str) -> Any:
        """Returns the metadata of the calls on a cache, or None if no request can name it."""
        metadata = self.target.metadata(cache)
        return grpc.aio.Metadata(*metadata) if is_cache_name(cache) else None

    def _open_channels(self) -> None:
        if self._limiter.closed:
            return
        options = channel_options(self.configuration)
        for _ in range(self.configuration.connections_max):
            channel = self._channel(options)
            if self.configuration.eager_connect:
                channel.get_state(try_to_connect=True)
            self._connections.append(Connection(channel))

    async def connect(self, timeout_s: float) -> bool:
        """Opens all connections, and returns whether they are open after at most `timeout_s`."""
        if not self._is_in_loop():
            return False
        if not self._connections:
            self._open_channels()
        ready = [asyncio.ensure_future(connection.channel.channel_ready()) for connection in self._connections]
        if not ready:
            return False
        _, late = await asyncio.wait(ready, timeout=timeout_s)
        for each in late:
            each.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return not late

    async def close(self) -> None:
        """Ends all calls, and closes the connections."""
        self._limiter.close()
        if not self._is_in_loop():
            # Only their own loop could close the streams and channels. The garbage collector ends them.
            self._watches, self._connections[:] = set(), []
            self._pool.close()
            return
        for stream in self._streams.all():
            await stream.close()
        watches, self._watches = self._watches, set()
        for watch in list(watches):
            watch.cancel()
        await asyncio.gather(*watches, *self._closing, return_exceptions=True)
        connections, self._connections[:] = [*self._connections, *self._pool.close()], []
        for connection in connections:
            await connection.channel.close()

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
            near_caches={name: copies.metrics() for name, copies in self._copies.items()},
        )

    def call(self, call: Call[Any, R], request: Any, scope: Scope) -> Awaitable[Union[R, CacheError]]:
        """Executes a call and returns its result."""
        if self._near_cache is not None:
            return self._call_near(call, request, scope)
        return self._send(call, request, scope)

    async def _call_near(self, call: Call[Any, R], request: Any, scope: Scope) -> Any:
        """Executes a call by the copies of values, or by the server."""
        copies = self._copies_for(scope)
        if copies is not None:
            self._watch(copies, scope)
        if copies is None or call not in (GET, GET_BATCH):
            try:
                return await self._send(call, request, scope)
            finally:
                self._forget(call, request, scope)
        if call is GET:
            return await self._get_near(call, request, scope, copies)
        batch = BatchRead(copies, request)
        if request.items and not batch.request.items:
            return batch.merged(GetBatchSuccess(()))
        result: Any = None
        try:
            result = await self._send(call, batch.request, scope)
        finally:
            batch.end(result)
        return result if isinstance(result, CacheError) else batch.merged(result)

    async def _get_near(self, call: Call[Any, Any], request: Any, scope: Scope, copies: Copies) -> Any:
        """Returns a copy, or the value of a read of this caller or of another one."""
        key = request.key
        copy = copies.lookup(key)
        deadline = monotonic() + scope.deadline_s
        while copy is None:
            read, role = copies.begin_or_join(key, asyncio.Event)
            if role is Role.READS:
                result: Any = None
                try:
                    result = await self._send(call, request, scope)
                    return result
                finally:
                    copies.end(read, result)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(read.event.wait(), max(0.0, deadline - monotonic()))
            if role is Role.TAKES and is_shared(read.result):
                return read.result
            remaining_s = deadline - monotonic()
            if remaining_s <= 0:
                return NotSent.queue_timeout().error(call.method)
            scope = replace(scope, deadline_s=remaining_s)
            copy = copies.lookup(key, again=True)
        return copy

    def _watch(self, copies: Copies, scope: Scope) -> None:
        """Begins to watch the keys of a cache, unless a task watches them already."""
        if not copies.started and copies.start():
            watch = asyncio.ensure_future(self._watch_keys(copies, scope))
            self._watches.add(watch)
            watch.add_done_callback(self._watches.discard)
            copies.on_end = watch.cancel

    async def _watch_keys(self, copies: Copies, scope: Scope) -> None:
        """Reads the changes of keys until the client is closed. A refused watch is opened again after a while."""
        while not (self._limiter.closed or copies.ended):
            stream = AsyncStream(self, WATCH_KEYS, copies, scope)
            async for event in stream:
                if isinstance(event, CacheError):
                    copies.refused(event)
            await asyncio.sleep(REFUSED_DELAY_S)

    def _send(self, call: Call[Any, R], request: Any, scope: Scope) -> Awaitable[Union[R, CacheError]]:
        if self._observed:
            return self._observe(call, request, scope)
        return self._execute(call, request, scope)

    async def _observe(self, call: Call[Any, R], request: Any, scope: Scope) -> Union[R, CacheError]:
        self._before(call, request, scope)
        trace = Trace()
        started = time.perf_counter()
        result: Union[R, CacheError, None] = None
        try:
            result = await self._execute(call, request, scope, trace)
            return result
        finally:
            self._after(call, scope, trace, time.perf_counter() - started, result)

    async def _execute(
        self, call: Call[Any, R], request: Any, scope: Scope, trace: Optional[Trace] = None
    ) -> Union[R, CacheError]:
        started = monotonic()
        deadline = started + scope.deadline_s
        state: Optional[RetryState] = None
        limiter = self._limiter
        if scope.metadata is None:
            return NotSent.bad_cache().error(call.method)
        if not self._is_in_loop():
            return NotSent.other_loop().error(call.method)
        if not self._connections:
            self._open_channels()
        while True:
            try:
                connection = limiter.acquire(state is None) or await limiter.wait(deadline)
            except NotSent as refusal:
                return refusal.error(call.method)
            try:
                now = monotonic()
                if trace is not None:
                    trace.queued_s += now - started
                timeout_s = deadline - now
                if timeout_s <= 0:
                    return NotSent.queue_timeout().error(call.method)
                if self._attempt_s is not None and self._attempt_s < timeout_s:
                    timeout_s = self._attempt_s
                method = connection.methods[call.index]
                if call.streams:
                    reply: Any = [each async for each in method(request, timeout=timeout_s, metadata=scope.metadata)]
                    if len(reply) != len(request.items):
                        raise BadReply(f"{len(reply)} replies to a batch of {len(request.items)}")
                elif call.hedges and self._hedge_s is not None:
                    reply = await self._send_hedged(call, connection, request, timeout_s, scope, trace)
                else:
                    reply = await method(request, timeout=timeout_s, metadata=scope.metadata)
                return call.parse(reply)
            except grpc.RpcError as failure:
                status, details = details_of(failure)
            except BadReply as failure:
                return self.bad_reply(call, failure)
            except (asyncio.CancelledError, grpc.aio.UsageError) as failure:
                # Closing a channel cancels its calls, as cancelling the task does.
                task = asyncio.current_task()
                cancelling = getattr(task, "cancelling", None)
                if limiter.closed and (cancelling is None or cancelling() == 0):
                    return NotSent.closed().error(call.method)
                if cancelling is None or cancelling() > 0 or isinstance(failure, grpc.aio.UsageError):
                    raise
                # grpcio reports a status CANCELLED of the server in the same way.
                status, details = grpc.StatusCode.CANCELLED, "the server cancelled it"
            finally:
                limiter.release(connection)
            if limiter.closed:
                return NotSent.closed().error(call.method)
            state = state or RetryState()
            delay_s = self._retry_delay_s(call, status, state, deadline)
            if delay_s is None or not self._budget.take():
                return self.error(call, status, details, request)
            self.retries += 1
            if trace is not None:
                trace.retries += 1
            await asyncio.sleep(delay_s)
            started = monotonic()

    @staticmethod
    async def sleep(delay_s: float, scope: Scope) -> None:
        """Waits."""
        await asyncio.sleep(delay_s)

    def begin_stream(self, stream: AsyncStream[Any]) -> AsyncConnection:
        """Returns a connection for a stream, which ends with the client. Raises NotSent."""
        if not self._is_in_loop():
            raise NotSent.other_loop()
        connection = self._pool.acquire()
        self._streams.add(stream)
        return connection

    def end_stream(self, stream: AsyncStream[Any], connection: AsyncConnection) -> None:
        """Frees the place of a stream."""
        self._streams.discard(stream)
        if self._pool.release(connection):
            # The stream may end without an event loop, by the garbage collector.
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return
            closing = loop.create_task(connection.channel.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def retire(self, connection: AsyncConnection) -> None:
        """Gives no further streams to a connection that is silent."""
        self._pool.retire(connection)

    async def open(self, stream: T) -> Union[T, CacheError]:
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
            result = await self._open(stream, trace)
            return result
        finally:
            if result is not stream:
                await stream.close()
            if self._observed:
                self._after(call, scope, trace, time.perf_counter() - started, result)

    async def _open(self, stream: T, trace: Trace) -> Union[T, CacheError]:
        call = stream.call
        deadline = monotonic() + stream.scope.deadline_s
        state = RetryState()
        while True:
            try:
                failure = await stream.open(max(0.001, deadline - monotonic()))
            except NotSent as refusal:
                return refusal.error(call.method)
            except BadReply as reply:
                return self.bad_reply(call, reply)
            if failure is None:
                return stream
            if stream.closed:
                return NotSent.closed().error(call.method)
            delay_s = self._retry_delay_s(call, failure.status, state, deadline)
            if delay_s is None or not self._budget.take():
                return self.error(call, failure.status, failure.details)
            self.retries += 1
            trace.retries += 1
            await asyncio.sleep(delay_s)

    async def _send_hedged(
        self,
        call: Call[Any, Any],
        connection: AsyncConnection,
        request: Any,
        timeout_s: float,
        scope: Scope,
        trace: Optional[Trace],
    ) -> Any:
        """Sends a request, and a second one if the reply is slow. Returns the first good reply."""
        deadline = monotonic() + timeout_s

        async def send(on: AsyncConnection) -> Any:
            method = on.methods[call.index]
            return await method(request, timeout=max(0.001, deadline - monotonic()), metadata=scope.metadata)

        first = asyncio.ensure_future(send(connection))
        pending = {first}
        second: Optional[AsyncConnection] = None
        try:
            done, _ = await asyncio.wait(pending, timeout=self._hedge_s)
            if not done:
                second = self._limiter.acquire_for_hedge(connection)
                if second is not None:
                    self.hedges += 1
                    if trace is not None:
                        trace.hedged = True
                    pending.add(asyncio.ensure_future(send(second)))
            waiting = set(pending)
            while True:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    if each.exception() is None or not waiting:
                        return each.result()
        finally:
            for each in pending:
                each.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
            if second is not None:
                self._limiter.release(second)
