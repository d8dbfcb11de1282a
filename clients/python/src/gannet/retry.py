"""Retry strategies, the budget that bounds all retries, and hedging."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Optional, Union


@dataclass(frozen=True)
class NoRetry:
    """Never repeats a request."""

    response_timeout_s: Optional[float] = None

    def delay_s(self, retries: int, previous_s: float) -> Optional[float]:
        """Returns None: a failed request is not repeated."""
        return None


@dataclass(frozen=True)
class FixedCount:
    """Repeats a failed request at once, at most `count` times."""

    count: int = 3
    response_timeout_s: Optional[float] = None

    def delay_s(self, retries: int, previous_s: float) -> Optional[float]:
        """Returns the seconds before the next retry, or None if there is none.

        `retries` is the number of retries of this call so far, `previous_s` the delay before the latest of them.
        """
        return 0.0 if retries < self.count else None


@dataclass(frozen=True)
class FixedTimeout:
    """Repeats a failed request after about `retry_delay`, until the deadline of the call.

    `response_timeout` bounds each attempt: an attempt without a reply is given up and repeated. A server that hangs
    then costs this time, and not the whole deadline. The delay varies by 10 % in both directions.
    """

    retry_delay: timedelta = timedelta(milliseconds=100)
    response_timeout: timedelta = timedelta(milliseconds=1000)

    @property
    def response_timeout_s(self) -> Optional[float]:
        """Seconds that one attempt may take."""
        return self.response_timeout.total_seconds()

    def delay_s(self, retries: int, previous_s: float) -> Optional[float]:
        """Returns the seconds before the next retry; see `FixedCount.delay_s`."""
        return self.retry_delay.total_seconds() * random.uniform(0.9, 1.1)


@dataclass(frozen=True)
class ExponentialBackoff:
    """Repeats a failed request after delays that grow, until the deadline of the call.

    Each delay is a random time between `initial_delay` and three times the previous delay, at most `max_delay`
    (decorrelated jitter). Clients that failed at the same instant therefore do not return at the same instant.
    """

    initial_delay: timedelta = timedelta(microseconds=500)
    max_delay: timedelta = timedelta(milliseconds=1000)
    response_timeout_s: Optional[float] = None

    def delay_s(self, retries: int, previous_s: float) -> Optional[float]:
        """Returns the seconds before the next retry; see `FixedCount.delay_s`."""
        initial_s = self.initial_delay.total_seconds()
        longest_s = max(initial_s, 3 * previous_s)
        return min(self.max_delay.total_seconds(), random.uniform(initial_s, longest_s))


RetryStrategy = Union[NoRetry, FixedCount, FixedTimeout, ExponentialBackoff]


@dataclass(frozen=True)
class RetryBudget:
    """The bound of retries and hedges together: `percent` of the requests, plus `burst`.

    A token bucket that holds at most `burst` tokens. Each request adds `percent` / 100 of a token, and each retry or
    hedge takes one. Without a token, a failed request is not repeated, and a slow one is not hedged.
    """

    percent: float = 10
    burst: int = 10


@dataclass(frozen=True)
class Hedging:
    """Sends a `get` a second time if its reply takes longer than `delay`, and returns the reply that comes first.

    A good delay is the p99 of `get`: then 1 % of the requests are sent twice. The second request uses another
    connection if there is one, never waits in the client's queue, and takes a token of the retry budget.
    """

    delay: timedelta

    def __post_init__(self) -> None:
        if not timedelta(0) <= self.delay <= timedelta(days=24):
            raise ValueError(f"cannot use hedging: delay is {self.delay}; give a time from zero to 24 days")


class TokenBucket:
    """The state of a `RetryBudget`. Its caller holds the lock of the limiter."""

    __slots__ = ("burst", "share", "tokens")

    def __init__(self, budget: RetryBudget) -> None:
        self.burst = float(budget.burst)
        self.share = budget.percent / 100
        self.tokens = self.burst

    def take(self) -> bool:
        """Takes a token, and returns whether there was one."""
        # The sum of many shares is inexact: ten of 0.1 make slightly less than 1.
        if self.tokens < 1 - 1e-9:
            return False
        self.tokens -= 1
        return True
