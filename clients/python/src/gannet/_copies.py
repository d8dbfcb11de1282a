"""Copies of values in the client, which the server's reports of changed keys remove.

    get ──> copy? ── yes ──────────────────────────────────────────────> GetHit
             │ no
             └────> read of this key in flight? ── yes ──> waits for it, and takes its value if it is still valid
                      │ no
                      └──> read begins ──> server ──> read ends, copied if it is still valid
                                                         ^
    WatchKeys ──> changed keys, all keys, end of the stream: copies are removed, and reads in flight become invalid

Invariants:
1. There are copies only while the watch is open.
2. A value is copied only if the watch was open from before the request until the reply, and reported no change of its
   key: otherwise an old value could replace a newer one for good.
3. Reads of one key follow one another: each begins after the one before has ended. So no caller gets a value that is
   older than one that a caller has got. A read that cannot wait (in a batch, with a cancellation) makes the read in
   flight invalid when it ends, because its value may be the newer one.
"""

from __future__ import annotations

import enum
import threading
from collections import OrderedDict
from time import monotonic
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

from gannet import _requests as q
from gannet._calls import Call
from gannet._proto import cache_pb2, invalidations_pb2
from gannet._reader import Reader
from gannet.errors import CacheError, ErrorCode
from gannet.metrics import NearCacheMetrics
from gannet.near_cache import NearCache
from gannet.results import GetBatchSuccess, GetHit, Miss

# Bytes that Python needs for a copy besides its key and value, about.
_ENTRY_OVERHEAD_BYTES = 300
# Three heartbeats of the server. After a longer silence, the watch may be broken without notice.
SILENCE_S_MAX = 15.0
# The time after which a watch that the server refused is opened again.
REFUSED_DELAY_S = 5.0

# Calls that change no item. After any other call, the copies of its keys are removed.
_READS = frozenset(
    [
        "DictionaryFetch",
        "DictionaryGet",
        "DictionaryLength",
        "GetByRank",
        "GetByScore",
        "GetCompetitionRank",
        "GetLeaderboardLength",
        "GetRank",
        "GetWithHash",
        "ItemGetTtl",
        "ItemGetType",
        "KeysExist",
        "ListFetch",
        "ListLength",
        "Publish",
        "RecordGet",
        "RecordQuery",
        "RecordScan",
        "SetContains",
        "SetFetch",
        "SetLength",
        "SetSample",
        "SortedSetFetch",
        "SortedSetGetRank",
        "SortedSetGetScore",
        "SortedSetLength",
    ]
)


class Role(enum.Enum):
    """The part of a caller in a read of a key that may be in flight."""

    READS = 0
    """It sends the request."""
    TAKES = 1
    """It waits for the read in flight, and takes its value."""
    WAITS = 2
    """It waits for the read in flight, whose value may be too old, and begins one of its own."""


class Read:
    """A read in flight. Its value is copied if it is still valid when the reply arrives."""

    __slots__ = ("event", "key", "result", "valid")

    def __init__(self, key: bytes, valid: bool) -> None:
        self.key = key
        self.valid = valid
        # Set when the read has ended, if others wait for it: an event of threads or of asyncio.
        self.event: Any = None
        self.result: object = None


class Copies(Reader[None]):
    """The copies of the values of one cache, and the reader of the watch of its keys."""

    def __init__(self, options: NearCache) -> None:
        self.started = False
        self.ended = False
        # Ends the watch.
        self.on_end: Optional[Callable[[], object]] = None
        self.error: Optional[CacheError] = None
        self._entries_max, self._bytes_max = options.entries_max, options.bytes_max
        self._age_s = options.age_max.total_seconds()
        # Each key has the empty prefix.
        self._prefixes = tuple(q.encoded_all(options.prefixes)) or (b"",)
        self._lock = threading.Lock()
        # The least recently used copy is the first one. Each has the instant at which it is too old.
        self._entries: OrderedDict[bytes, Tuple[GetHit, float]] = OrderedDict()
        self._bytes = 0
        self._reads: Dict[bytes, Read] = {}
        self._is_open = False
        self._heard_at = 0.0
        self._hits = self._misses = self._invalidations = self._evictions = self._drops = 0

    def start(self) -> bool:
        """Returns true to the first caller, which begins the watch."""
        with self._lock:
            if self.started or self.ended:
                return False
            self.started = True
            return True

    def end_watch(self) -> None:
        """Ends the watch for good."""
        with self._lock:
            self.ended = True
            on_end = self.on_end
        if on_end is not None:
            on_end()

    @property
    def is_useless(self) -> bool:
        """True if no call has used the cache, or if it does not exist. There are no copies then."""
        with self._lock:
            error = self.error
            return not self.started or (error is not None and error.code is ErrorCode.NOT_FOUND_CACHE)

    # Reads of the client.

    def lookup(self, key: bytes, again: bool = False) -> Optional[GetHit]:
        """Returns the copy of a value, or None if the server has to be asked. `again` counts no second miss."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                now = monotonic()
                if now < found[1] and now - self._heard_at < SILENCE_S_MAX:
                    self._entries.move_to_end(key)
                    self._hits += not again
                    return found[0]
                self._remove(key)
            self._misses += not again
            return None

    def begin(self, key: bytes) -> Read:
        """Notes a read that waits for no other one, before its request is sent."""
        with self._lock:
            return self._begin(key)

    def begin_or_join(self, key: bytes, event: Callable[[], Any]) -> Tuple[Read, Role]:
        """Notes a read, or returns the one of this key in flight, whose `event` the caller awaits."""
        with self._lock:
            current = self._reads.get(key) if self._is_open else None
            if current is None:
                return self._begin(key), Role.READS
            if current.event is None:
                current.event = event()
            return current, Role.TAKES if current.valid else Role.WAITS

    def end(self, read: Read, result: object) -> None:
        """Copies the value of a read that is still valid, and wakes the callers that wait for it."""
        with self._lock:
            current = self._reads.get(read.key)
            if current is read:
                del self._reads[read.key]
                if read.valid and isinstance(result, GetHit):
                    self._insert(read.key, result)
            elif current is not None:
                current.valid = False
            else:
                self._remove(read.key)
            read.result = result
            event = read.event
        if event is not None:
            event.set()

    def forget(self, keys: Iterable[bytes]) -> None:
        """Removes the copies of keys that this client has changed, so that it reads its own writes."""
        with self._lock:
            for key in keys:
                self._invalidate(key)

    def drop(self) -> None:
        """Removes all copies."""
        with self._lock:
            self._drop()

    # Events of the watch.

    def request(self) -> Any:
        """Returns the request that opens the watch."""
        return invalidations_pb2.WatchKeysRequest(prefixes=[prefix for prefix in self._prefixes if prefix])

    def parse(self, message: Any) -> None:
        """Removes the copies of the keys that an event reports."""
        kind = message.WhichOneof("kind")
        with self._lock:
            self._is_open, self._heard_at = True, monotonic()
            self.error = None
            if kind == "keys":
                self._invalidations += sum([self._invalidate(key) for key in message.keys.keys])
            elif kind == "all":
                self._drop()
            # An event of a later schema shows that the watch works, as a heartbeat does.

    def broken(self) -> None:
        """Removes all copies, because changes are not reported any more."""
        with self._lock:
            self._is_open = False
            self._drop()

    def refused(self, error: CacheError) -> None:
        """Notes the reason for which the server ended the watch."""
        with self._lock:
            self.error = error

    def metrics(self) -> NearCacheMetrics:
        """Returns a snapshot of the metrics."""
        with self._lock:
            return NearCacheMetrics(
                hits=self._hits,
                misses=self._misses,
                invalidations=self._invalidations,
                evictions=self._evictions,
                drops=self._drops,
                entries=len(self._entries),
                bytes=self._bytes,
                watching=self._is_open,
                error=None if self.error is None else self.error.message,
            )

    # Helpers, whose callers hold the lock.

    def _begin(self, key: bytes) -> Read:
        read = Read(key, self._is_open and key not in self._reads and key.startswith(self._prefixes))
        if read.valid:
            self._reads[key] = read
        return read

    def _insert(self, key: bytes, value: GetHit) -> None:
        self._remove(key)
        size = _size(key, value)
        if size > self._bytes_max:
            return
        while len(self._entries) >= self._entries_max or self._bytes + size > self._bytes_max:
            self._remove(next(iter(self._entries)))
            self._evictions += 1
        self._entries[key] = (value, monotonic() + self._age_s)
        self._bytes += size

    def _remove(self, key: bytes) -> bool:
        found = self._entries.pop(key, None)
        if found is None:
            return False
        self._bytes -= _size(key, found[0])
        return True

    def _invalidate(self, key: bytes) -> bool:
        read = self._reads.get(key)
        if read is not None:
            read.valid = False
        return self._remove(key)

    def _drop(self) -> None:
        for read in self._reads.values():
            read.valid = False
        self._entries.clear()
        self._bytes = 0
        self._drops += 1


def _size(key: bytes, value: GetHit) -> int:
    return len(key) + len(value.value) + _ENTRY_OVERHEAD_BYTES


def is_shared(result: object) -> bool:
    """Returns true for a result that callers with other deadlines may take."""
    own = (ErrorCode.TIMEOUT, ErrorCode.CANCELLED, ErrorCode.CLIENT_QUEUE_TIMEOUT, ErrorCode.CLIENT_QUEUE_FULL)
    return isinstance(result, (GetHit, Miss)) or (isinstance(result, CacheError) and result.code not in own)


class BatchRead:
    """A GetBatch of which only the keys without a copy are sent."""

    def __init__(self, copies: Copies, request: Any) -> None:
        keys = [item.key for item in request.items]
        self._copies = copies
        self._results: List[Optional[Union[GetHit, Miss]]] = [copies.lookup(key) for key in keys]
        missing = [key for key, result in zip(keys, self._results) if result is None]
        self._reads = [copies.begin(key) for key in missing]
        self.request = cache_pb2.GetBatchRequest(items=[cache_pb2.GetRequest(key=key) for key in missing])
        """The request for the keys without a copy."""

    def end(self, result: object) -> None:
        """Copies the values of the reply. A batch waits for no other read."""
        found = result.results if isinstance(result, GetBatchSuccess) else [None] * len(self._reads)
        for read, each in zip(self._reads, found):
            self._copies.end(read, each)

    def merged(self, result: GetBatchSuccess) -> GetBatchSuccess:
        """Returns the copies and the values of the reply in the order of the keys."""
        received = iter(result.results)
        return GetBatchSuccess(tuple(next(received) if each is None else each for each in self._results))


def changed_keys(call: Call[Any, Any], request: Any) -> List[bytes]:
    """Returns the keys that a call changes."""
    if call.method in _READS:
        return []
    if call.method == "SetBatch":
        return [item.key for item in request.items]
    key = getattr(request, "key", None)
    if key is None:
        name = getattr(request, "leaderboard", None)
        return [] if name is None else [name.encode()]
    return [key]
