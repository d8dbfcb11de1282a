"""Counters and latencies of a client's calls."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional


class Histogram:
    """Latencies in nanoseconds, in buckets of at most 1/64 of their value.

    A value below 64 has a bucket of its own. Larger ones have 64 buckets for each power of two:

        64..127 in steps of 1, 128..255 in steps of 2, 256..511 in steps of 4, ...

    The memory is fixed: values of 2^40 ns (18 minutes) and more share the last bucket.
    """

    __slots__ = ("buckets", "count")

    _STEPS_BITS = 6
    _VALUE_BITS_MAX = 40

    def __init__(self) -> None:
        self.buckets: List[int] = [0] * ((self._VALUE_BITS_MAX - self._STEPS_BITS + 1) << self._STEPS_BITS)
        self.count = 0

    def record(self, value_ns: int) -> None:
        """Adds one value."""
        shift = value_ns.bit_length() - 7
        at = value_ns if shift < 0 else (shift << 6) + (value_ns >> shift)
        self.buckets[at if at < len(self.buckets) else -1] += 1
        self.count += 1

    def add(self, other: Histogram) -> None:
        """Adds the values of another histogram."""
        self.buckets = [mine + more for mine, more in zip(self.buckets, other.buckets)]
        self.count += other.count

    def quantile_ns(self, share: float) -> int:
        """Returns the upper end of the bucket below which `share` of the values are, or 0 without values."""
        wanted = share * self.count
        passed = 0
        for at, count in enumerate(self.buckets):
            passed += count
            if count and passed >= wanted:
                if at < 128:
                    return at
                shift = (at >> 6) - 1
                return ((at - (shift << 6) + 1) << shift) - 1
        return 0


@dataclass(frozen=True)
class MethodMetrics:
    """The calls of one method so far."""

    calls: int
    errors: Mapping[str, int]
    """Number of failed calls by the name of their `ErrorCode`."""
    p50_us: float
    p99_us: float
    p999_us: float


@dataclass(frozen=True)
class NearCacheMetrics:
    """The copies that a client keeps of one cache."""

    hits: int
    """Number of reads that a copy answered."""
    misses: int
    """Number of reads without a copy. Reads of one key at once are one request."""
    invalidations: int
    """Number of copies that were removed because the server reported a change of their key."""
    evictions: int
    """Number of copies that were removed because of `entries_max` or `bytes_max`."""
    drops: int
    """Number of times that all copies were removed: the watch broke, or the cache was flushed."""
    entries: int
    bytes: int
    watching: bool
    """True while the server reports changes. Otherwise there are no copies, and all reads go to the server."""
    error: Optional[str]
    """The reason for which the server refuses the watch, or None."""


@dataclass(frozen=True)
class Metrics:
    """A snapshot of a client's metrics. Counters are those since the client was created."""

    in_flight: int
    """Number of requests that were sent and whose replies are awaited."""
    queued: int
    """Number of requests that wait in the client's queue."""
    connections: int
    """Number of connections that the client uses, with those of subscriptions."""
    subscriptions: int
    """Number of open subscriptions, with the watches of near caches. They have no place in flight."""
    resumes: int
    """Number of times that a subscription continued after its connection broke."""
    retries: int
    hedges: int
    methods: Mapping[str, MethodMetrics]
    """Calls and latencies by the name of the call in the schema. Empty unless the configuration enables metrics.

    A read that a copy of the near cache answers is no call.
    """
    near_caches: Mapping[str, NearCacheMetrics]
    """The copies by the name of the cache. Empty without `Configuration.with_near_cache`."""


class Recorder:
    """Collects the metrics of one client."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latencies: Dict[str, Histogram] = {}
        self._errors: Dict[str, Dict[str, int]] = {}

    def record(self, method: str, duration_s: float, status: str) -> None:
        """Adds one call that has ended."""
        with self._lock:
            histogram = self._latencies.get(method)
            if histogram is None:
                histogram = self._latencies[method] = Histogram()
                self._errors[method] = {}
            histogram.record(int(duration_s * 1e9))
            if status != "OK":
                errors = self._errors[method]
                errors[status] = errors.get(status, 0) + 1

    def methods(self) -> Mapping[str, MethodMetrics]:
        """Returns the metrics of each method that was called."""
        with self._lock:
            return {
                method: MethodMetrics(
                    calls=histogram.count,
                    errors=dict(self._errors[method]),
                    p50_us=histogram.quantile_ns(0.5) / 1e3,
                    p99_us=histogram.quantile_ns(0.99) / 1e3,
                    p999_us=histogram.quantile_ns(0.999) / 1e3,
                )
                for method, histogram in self._latencies.items()
            }
