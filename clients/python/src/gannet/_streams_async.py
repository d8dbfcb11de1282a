"""Endless streams of the asynchronous client."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, AsyncIterator, ClassVar, Deque, Generic, Optional, Type, TypeVar, Union

import grpc
import grpc.aio

from gannet._calls import Call
from gannet._engine import NotSent, Scope, details_of
from gannet._reader import Reader
from gannet._requests import BadReply
from gannet._streams import ENDED, PERMANENT, SILENT, Attempt, Backoff, Failure
from gannet.errors import CacheError
from gannet.topics import TopicEvent

if TYPE_CHECKING:
    from gannet._engine_async import AsyncConnection, AsyncEngine

E = TypeVar("E")

# Seconds in which the event loop reads what has arrived while it did not run.
LOOP_S = 0.05


def _retrieve(reading: asyncio.Task[Any]) -> None:
    """Marks the exception of an abandoned read as seen, so that asyncio does not log it."""
    if not reading.cancelled():
        reading.exception()


class AsyncStream(Generic[E]):
    """An asynchronous iterator over the events of a stream, which one task at a time reads."""

    def __init__(self, engine: AsyncEngine, call: Call[Any, Any], reader: Reader[E], scope: Scope) -> None:
        self.call, self.scope, self.reader = call, scope, reader
        self._engine = engine
        self._backoff = Backoff(engine.configuration)
        self._connection: Optional[AsyncConnection] = None
        # Events that were received and not yet returned: at most the first one after the stream was opened.
        self._received: Deque[E] = deque()
        self._resuming = False
        self._attempt: Any = None
        self._reading: Optional[asyncio.Task[Any]] = None
        self._reading_since = 0.0
        self._closing: Optional[asyncio.Event] = None
        self._closed = False

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Union[E, CacheError]]:
        return self

    async def __anext__(self) -> Union[E, CacheError]:
        while not self._closed:
            if self._received:
                return self._received.popleft()
            if self._attempt is None:
                await self._wait(self._backoff.next_s())
                if self._closed:
                    break
                try:
                    self._start()
                except NotSent as refusal:
                    await self.close()
                    return refusal.error(self.call.method)
            try:
                result = await self._receive()
            except BadReply as failure:
                await self.close()
                return self._engine.bad_reply(self.call, failure)
            if self._closed:
                break
            if isinstance(result, Failure):
                self._attempt = None
                self.reader.broken()
                if result.status in PERMANENT:
                    await self.close()
                    return self._engine.error(self.call, result.status, result.details)
                self._resuming = True
                continue
            if result is not None:
                self._received.append(result)
            if self._resuming:
                self._resuming = False
                self._engine.resumes += 1
                self._backoff.reset()
                before = self.reader.resumed()
                if before is not None:
                    return before
        raise StopAsyncIteration

    async def open(self, timeout_s: float) -> Optional[Failure]:
        """Makes one attempt to open the stream, and returns its failure, or None. Raises NotSent and BadReply."""
        self._start()
        try:
            result = await asyncio.wait_for(self._receive(), timeout_s)
        except asyncio.TimeoutError:
            self._cancel()
            result = Failure(grpc.StatusCode.DEADLINE_EXCEEDED, None)
        if not isinstance(result, Failure):
            if result is not None:
                self._received.append(result)
            self._backoff.reset()
            return None
        self._attempt = None
        return result

    async def close(self) -> None:
        """Ends the stream. A task that waits for its next event stops to iterate."""
        self._close()

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._closing is not None:
            self._closing.set()
        self._cancel()
        if self._connection is not None:
            self._engine.end_stream(self, self._connection)

    def __del__(self) -> None:
        if self._connection is not None:
            self._close()

    @property
    def closed(self) -> bool:
        """True if the stream has ended, and is not opened again."""
        return self._closed

    def _cancel(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None and not reading.get_loop().is_closed():
            reading.cancel()
        if self._attempt is not None:
            self._attempt.cancel()

    async def _wait(self, delay_s: float) -> None:
        """Waits, until the stream is closed."""
        if delay_s > 0:
            self._closing = asyncio.Event()
            try:
                await asyncio.wait_for(self._closing.wait(), delay_s)
            except asyncio.TimeoutError:
                pass

    def _start(self) -> None:
        """Sends the request. Raises NotSent."""
        if self._connection is None:
            self._connection = self._engine.begin_stream(self)
        try:
            method = self._connection.methods[self.call.index]
            self._attempt = method(self.reader.request(), metadata=self.scope.metadata)
        except grpc.aio.UsageError:
            self._close()

    async def _receive(self) -> Attempt[Optional[E]]:
        if self._attempt is None:
            return ENDED
        # A task that is cancelled while it waits, as by a timeout, does not end the stream: the next one waits for
        # the same event.
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._attempt.read())
            self._reading.add_done_callback(_retrieve)
            self._reading_since = monotonic()
        reading = self._reading
        # The event may have arrived while the loop did not run.
        remaining_s = max(LOOP_S, self._reading_since + self._engine.silence_s - monotonic())
        done, _ = await asyncio.wait([reading], timeout=remaining_s)
        if not done:
            return self._leave()
        self._reading = None
        if reading.cancelled():
            # grpcio reports a status CANCELLED of the server in the same way as the end of the stream by `close`.
            return ENDED if self._closed else Failure(grpc.StatusCode.CANCELLED, None)
        try:
            message = reading.result()
        except grpc.RpcError as failure:
            return Failure(*details_of(failure))
        return ENDED if message is grpc.aio.EOF else self.reader.parse(message)

    def _leave(self) -> Failure:
        """Leaves a silent connection, so that the next attempt has another one."""
        self._cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            self._engine.retire(connection)
            self._engine.end_stream(self, connection)
        return SILENT


S = TypeVar("S", bound=AsyncStream[Any])


class SubscriptionAsync(AsyncStream[TopicEvent]):
    """The events of a topic: an asynchronous iterator that waits for each next one.

        async with events:                            # the result of subscribe, after a check for CacheError
            async for event in events:
                match event:
                    case TopicItem(value=value):
                        print(value)
                    case TopicDiscontinuity():
                        print("messages are missing")
                    case CacheError() as error:
                        print(error.message)          # the last event

    After a broken connection the subscription continues behind the last item, until `close`. It ends with a
    `CacheError` if the server refuses it: no right, no such cache. One task at a time iterates. A task that is
    cancelled while it waits loses no event; `close`, or leaving `async with`, ends the subscription.
    """

    outcome: ClassVar[str] = "success"
