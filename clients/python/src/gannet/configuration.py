"""Configurations of a client, and the presets."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Mapping, Optional, Tuple

from gannet._presets import LATEST, VERSIONS
from gannet.middleware import Middleware
from gannet.near_cache import NearCache
from gannet.retry import ExponentialBackoff, FixedCount, FixedTimeout, Hedging, NoRetry, RetryBudget, RetryStrategy


# Each connection has memory of its own.
_CONNECTIONS_MAX = 1000


@dataclass(frozen=True)
class Configuration:
    """All settings of a client. Immutable: each `with_` method returns a changed copy.

    `Configurations` has measured presets. The comments of `clients/presets.toml` explain the values.
    """

    deadline: timedelta
    """Time for one call, from its start to its result, with the wait in the client's queue and all retries."""
    requests_in_flight_max: int
    """Maximum number of requests that were sent and whose replies are awaited. Further ones wait in the client."""
    requests_queued_max: int = 16_384
    """Maximum number of requests that wait in the client. Further ones fail at once."""
    subscriptions_max: int = 1_000
    """Maximum number of open subscriptions. They have connections of their own, and no place in flight."""
    streams_per_connection: int = 100
    """Maximum number of requests at once on one connection."""
    eager_connect: bool = True
    """True to open all connections when the client is created."""
    keepalive_time: Optional[timedelta] = timedelta(seconds=5)
    """Time between two pings of a connection; None turns pings off, except those of subscriptions (every 5 s)."""
    keepalive_timeout: timedelta = timedelta(seconds=1)
    """Time without an answer to a ping after which the connection is closed."""
    keepalive_without_calls: bool = True
    """True to ping connections without requests too."""
    connect_timeout: timedelta = timedelta(seconds=1)
    """Time for opening a connection."""
    reconnect_delay_min: timedelta = timedelta(milliseconds=50)
    """Delay before the first attempt to reconnect."""
    reconnect_delay_max: timedelta = timedelta(seconds=1)
    """Longest delay between two attempts to reconnect."""
    retry_strategy: RetryStrategy = FixedCount(3)
    """The strategy by which calls are repeated whose repetition changes nothing."""
    retry_budget: RetryBudget = RetryBudget()
    """The bound of retries and hedges together."""
    hedging: Optional[Hedging] = None
    """Sends slow `get` calls a second time; None turns hedging off."""
    near_cache: Optional[NearCache] = None
    """Limits of the copies of values in the client; None keeps no copies."""
    message_bytes_max: int = 10_485_760
    """Maximum size in bytes of a request and of a reply."""
    middleware: Tuple[Middleware, ...] = ()
    """Objects that are called before and after each call, the first one outermost."""
    metrics: bool = False
    """True to count and time the calls."""

    def __post_init__(self) -> None:
        at_least_one = ("requests_in_flight_max", "subscriptions_max", "streams_per_connection", "message_bytes_max")
        for field in at_least_one:
            if getattr(self, field) < 1:
                raise ValueError(f"cannot use configuration: {field} is {getattr(self, field)}; give at least 1")
        if self.connections_max > _CONNECTIONS_MAX:
            raise ValueError(
                f"cannot use configuration: requests_in_flight_max is {self.requests_in_flight_max}, which needs "
                f"{self.connections_max} connections; give less: a client has at most {_CONNECTIONS_MAX}"
            )
        if self.requests_queued_max < 0:
            raise ValueError("cannot use configuration: requests_queued_max is negative; give at least 0")
        if self.deadline <= timedelta(0):
            raise ValueError(f"cannot use configuration: deadline is {self.deadline}; give a positive one")

    @property
    def connections_max(self) -> int:
        """Maximum number of connections: as many as `requests_in_flight_max` needs."""
        return -(-self.requests_in_flight_max // self.streams_per_connection)

    def replace(self, **changes: Any) -> Configuration:
        """Returns a copy in which the fields in `changes` have other values."""
        return dataclasses.replace(self, **changes)

    def with_deadline(self, deadline: timedelta) -> Configuration:
        """Returns a copy with another time for one call."""
        return self.replace(deadline=deadline)

    def with_requests_in_flight_max(self, requests: int) -> Configuration:
        """Returns a copy with another maximum of requests in flight, and as many connections as it needs."""
        return self.replace(requests_in_flight_max=requests)

    def with_retry_strategy(self, strategy: RetryStrategy) -> Configuration:
        """Returns a copy with another retry strategy."""
        return self.replace(retry_strategy=strategy)

    def with_retry_budget(self, budget: RetryBudget) -> Configuration:
        """Returns a copy with another bound of retries and hedges."""
        return self.replace(retry_budget=budget)

    def with_hedging(self, delay: Optional[timedelta]) -> Configuration:
        """Returns a copy that sends a `get` again if its reply takes longer than `delay`; None turns hedging off."""
        return self.replace(hedging=None if delay is None else Hedging(delay))

    def with_keepalive(
        self, time: Optional[timedelta], timeout: timedelta = timedelta(seconds=1), without_calls: bool = True
    ) -> Configuration:
        """Returns a copy with other pings of connections; `time` None turns them off."""
        return self.replace(keepalive_time=time, keepalive_timeout=timeout, keepalive_without_calls=without_calls)

    def with_eager_connect(self, eager: bool) -> Configuration:
        """Returns a copy that opens its connections at once, or with the first requests."""
        return self.replace(eager_connect=eager)

    def with_near_cache(self, near_cache: Optional[NearCache]) -> Configuration:
        """Returns a copy whose client keeps copies of values within these limits; None keeps none."""
        return self.replace(near_cache=near_cache)

    def with_middleware(self, *middleware: Middleware) -> Configuration:
        """Returns a copy with these objects after the present middleware."""
        return self.replace(middleware=self.middleware + middleware)

    def with_metrics(self, metrics: bool = True) -> Configuration:
        """Returns a copy whose client counts and times its calls, or does not."""
        return self.replace(metrics=metrics)


def _ms(values: Mapping[str, Any], field: str) -> timedelta:
    return timedelta(milliseconds=values[field])


def _strategy(values: Mapping[str, Any]) -> RetryStrategy:
    name = values["retry_strategy"]
    if name == "fixed_count":
        return FixedCount(values["retry_count"])
    if name == "fixed_timeout":
        return FixedTimeout()
    if name == "exponential_backoff":
        return ExponentialBackoff()
    if name == "no_retry":
        return NoRetry()
    raise ValueError(f"cannot read preset: retry_strategy '{name}' is unknown; regenerate _presets.py")


def _of_table(values: Mapping[str, Any]) -> Configuration:
    configuration = Configuration(
        deadline=_ms(values, "deadline_ms"),
        requests_in_flight_max=values["requests_in_flight_max"],
        requests_queued_max=values["requests_queued_max"],
        streams_per_connection=values["streams_per_connection"],
        eager_connect=values["eager_connect"],
        keepalive_time=_ms(values, "keepalive_time_ms") or None,
        keepalive_timeout=_ms(values, "keepalive_timeout_ms"),
        keepalive_without_calls=values["keepalive_without_calls"],
        connect_timeout=_ms(values, "connect_timeout_ms"),
        reconnect_delay_min=_ms(values, "reconnect_delay_min_ms"),
        reconnect_delay_max=_ms(values, "reconnect_delay_max_ms"),
        retry_strategy=_strategy(values),
        retry_budget=RetryBudget(values["retry_budget_percent"], values["retry_budget_burst"]),
        message_bytes_max=values["message_bytes_max"],
    )
    assert configuration.connections_max == values["connections_max"]
    return configuration


def _preset(name: str, version: Optional[str] = None) -> Configuration:
    return _of_table(VERSIONS[name][version or LATEST[name]])


class _Laptop:
    """Development on one machine, and clients far from the server."""

    @staticmethod
    def v1() -> Configuration:
        """Returns version 1, which never changes."""
        return _preset("Laptop", "v1")

    @staticmethod
    def latest() -> Configuration:
        """Returns the newest version. A later release may return other values."""
        return _preset("Laptop")


class _InRegionDefault:
    """Services in the same region as the server that need throughput."""

    @staticmethod
    def v1() -> Configuration:
        """Returns version 1, which never changes."""
        return _preset("InRegion.Default", "v1")

    @staticmethod
    def latest() -> Configuration:
        """Returns the newest version. A later release may return other values."""
        return _preset("InRegion.Default")


class _InRegionLowLatency:
    """Services in the same region that need a low p999."""

    @staticmethod
    def v1() -> Configuration:
        """Returns version 1, which never changes."""
        return _preset("InRegion.LowLatency", "v1")

    @staticmethod
    def latest() -> Configuration:
        """Returns the newest version. A later release may return other values."""
        return _preset("InRegion.LowLatency")


class _InRegion:
    """Services in the same region as the server."""

    Default = _InRegionDefault
    LowLatency = _InRegionLowLatency


class _Lambda:
    """Functions that the platform freezes between two invocations."""

    @staticmethod
    def v1() -> Configuration:
        """Returns version 1, which never changes."""
        return _preset("Lambda", "v1")

    @staticmethod
    def latest() -> Configuration:
        """Returns the newest version. A later release may return other values."""
        return _preset("Lambda")


class Configurations:
    """The presets. `v1()` never changes; `latest()` may return other values in a later release."""

    Laptop = _Laptop
    InRegion = _InRegion
    Lambda = _Lambda

    @staticmethod
    def named(name: str) -> Configuration:
        """Returns the preset with this name, such as `InRegion.LowLatency` (the latest) or `Laptop.v1`.

        Raises ValueError if there is none.
        """
        base, _, version = name.rpartition(".")
        if name in VERSIONS:
            return _preset(name)
        if version in VERSIONS.get(base, {}):
            return _preset(base, version)
        raise ValueError(f"cannot find preset '{name}': it does not exist; use one of {', '.join(VERSIONS)}")
