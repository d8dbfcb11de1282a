"""Endless streams of the synchronous client."""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Deque, Generic, Iterator, Optional, Type, TypeVar, Union

import grpc

from gannet._calls import Call
from gannet._engine import NotSent, Scope, details_of
from gannet._reader import Reader
from gannet._requests import BadReply
from gannet._streams import ENDED, PERMANENT, SILENT, Attempt, Backoff, Failure
from gannet.errors import CacheError
from gannet.topics import TopicEvent

if TYPE_CHECKING:
    from gannet._engine_sync import SyncConnection, SyncEngine

E = TypeVar("E")


class SyncStream(Generic[E]):
    """An iterator over the events of a stream, which one thread at a time reads and any thread may close."""

    def __init__(self, engine: SyncEngine, call: Call[Any, Any], reader: Reader[E], scope: Scope) -> None:
        self.call, self.scope, self.reader = call, scope, reader
        self._engine = engine
        self._backoff = Backoff(engine.configuration)
        self._connection: Optional[SyncConnection] = None
        # Events that were received and not yet returned: at most the first one after the stream was opened.
        self._received: Deque[E] = deque()
        self._resuming = False
        self._attempt: Any = None
        self._lock = threading.Lock()
        self._closing = threading.Event()
        # The instant since which a thread waits for an event.
        self._waiting_since: Optional[float] = None
        self._silent = False

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Union[E, CacheError]]:
        return self

    def __next__(self) -> Union[E, CacheError]:
        while not self._closing.is_set():
            if self._received:
                return self._received.popleft()
            if self._attempt is None:
                if self._closing.wait(self._backoff.next_s()):
                    break
                try:
                    self._start()
                except NotSent as refusal:
                    self.close()
                    return refusal.error(self.call.method)
            try:
                result = self._receive()
            except BadReply as failure:
                self.close()
                return self._engine.bad_reply(self.call, failure)
            if self._closing.is_set():
                break
            if isinstance(result, Failure):
                self._attempt = None
                self.reader.broken()
                if result.status in PERMANENT:
                    self.close()
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
        raise StopIteration

    def open(self, timeout_s: float) -> Optional[Failure]:
        """Makes one attempt to open the stream, and returns its failure, or None. Raises NotSent and BadReply."""
        late = threading.Event()

        def expire() -> None:
            late.set()
            attempt.cancel()

        self._start()
        attempt = self._attempt
        timer = threading.Timer(timeout_s, expire)
        timer.daemon = True
        timer.start()
        try:
            result = self._receive()
        finally:
            timer.cancel()
        if not isinstance(result, Failure):
            if result is not None:
                self._received.append(result)
            self._backoff.reset()
            return None
        self._attempt = None
        return Failure(grpc.StatusCode.DEADLINE_EXCEEDED, None) if late.is_set() else result

    def close(self) -> None:
        """Ends the stream. A thread that waits for its next event stops to iterate."""
        with self._lock:
            if self._closing.is_set():
                return
            self._closing.set()
            attempt, connection = self._attempt, self._connection
        if attempt is not None:
            attempt.cancel()
        if connection is not None:
            self._engine.end_stream(self, connection)
        if self.scope.cancellation is not None:
            self.scope.cancellation.discard(self.close)

    def __del__(self) -> None:
        if self._connection is not None:
            self.close()

    @property
    def closed(self) -> bool:
        """True if the stream has ended, and is not opened again."""
        return self._closing.is_set()

    def _start(self) -> None:
        """Sends the request. Raises NotSent."""
        if self._connection is None:
            connection = self._engine.begin_stream(self)
            with self._lock:
                closed = self._closing.is_set()
                if not closed:
                    self._connection = connection
            if closed:
                self._engine.end_stream(self, connection)
                return
            if self.scope.cancellation is not None:
                self.scope.cancellation.add(self.close)
        assert self._connection is not None
        try:
            attempt = self._connection.methods[self.call.index](self.reader.request(), None, self.scope.metadata)
        except ValueError:
            # grpcio raises it for a call on a channel that another thread has just closed.
            self.close()
            return
        with self._lock:
            self._attempt = attempt
            closed = self._closing.is_set()
        if closed:
            attempt.cancel()

    def _receive(self) -> Attempt[Optional[E]]:
        if self._attempt is None:
            return ENDED
        self._waiting_since = monotonic()
        try:
            return self.reader.parse(next(self._attempt))
        except StopIteration:
            return self._left() or ENDED
        except grpc.RpcError as failure:
            return self._left() or Failure(*details_of(failure))
        finally:
            self._waiting_since = None

    def check_silence(self, now: float, limit_s: float) -> None:
        """Gives the present attempt up if a thread has waited for longer than the limit. Any thread calls it."""
        since = self._waiting_since
        if since is None or now - since < limit_s:
            return
        with self._lock:
            attempt, connection = self._attempt, self._connection
            if attempt is None or connection is None or self._closing.is_set():
                return
            self._silent = True
        self._engine.retire(connection)
        attempt.cancel()

    def _left(self) -> Optional[Failure]:
        """Leaves a silent connection, so that the next attempt has another one. Returns None if it was not silent."""
        with self._lock:
            if not self._silent:
                return None
            self._silent = False
            connection = None if self._closing.is_set() else self._connection
            if connection is not None:
                self._connection = None
        if connection is not None:
            self._engine.end_stream(self, connection)
        return SILENT


S = TypeVar("S", bound=SyncStream[Any])


class Subscription(SyncStream[TopicEvent]):
    """The events of a topic: an iterator that waits for each next one.

        with client.subscribe("news") as events:      # after a check for CacheError
            for event in events:
                match event:
                    case TopicItem(value=value):
                        print(value)
                    case TopicDiscontinuity():
                        print("messages are missing")
                    case CacheError() as error:
                        print(error.message)          # the last event

    After a broken connection the subscription continues behind the last item, until `close`. It ends with a
    `CacheError` if the server refuses it: no right, no such cache. One thread iterates; any thread may call `close`.
    """

    outcome: ClassVar[str] = "success"
