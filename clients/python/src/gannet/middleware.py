"""Code of the user that runs before and after each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class CallStart:
    """A call that begins."""

    method: str
    """Name of the call in the schema, such as `Get`."""
    cache: str
    """Name of the cache, or an empty string for calls on no cache."""
    request_bytes: int
    """Size of the request in bytes."""


@dataclass(frozen=True)
class CallEnd:
    """A call that has ended."""

    method: str
    cache: str
    status: str
    """`OK`, or the name of the `ErrorCode`."""
    duration_s: float
    """Seconds from the start of the call to its result, with the wait in the client's queue."""
    queued_s: float
    """Seconds in the client's queue."""
    retries: int
    """Number of times that the request was repeated after a failure."""
    hedged: bool
    """True if the request was sent a second time because its reply was slow."""
    error: Optional[str]
    """The message of the error, or None."""


class Middleware:
    """Base of middleware. An exception of a method is raised to the caller of the client."""

    def before(self, start: CallStart) -> None:
        """Runs when a call begins, before it waits in the client's queue."""

    def after(self, end: CallEnd) -> None:
        """Runs when a call has ended. Its place in flight is already free."""
