"""Limits of the copies of values in a client."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Tuple

from gannet import _requests as q

_PREFIXES_MAX = 256
_PREFIX_BYTES_MAX = 256


@dataclass(frozen=True)
class NearCache:
    """Limits of the copies that a client keeps of each cache. The least recently used copies are removed first.

    `Configuration.with_near_cache(NearCache())` turns the copies on. A copy may be older than the server's value for as
    long as the report of a change needs to arrive, and at most 15 s if the connection has failed without notice.
    """

    entries_max: int = 10_000
    """Maximum number of copies."""
    bytes_max: int = 64 << 20
    """Maximum size in bytes of all copies, with their keys and about 300 bytes each."""
    age_max: timedelta = timedelta(minutes=1)
    """Time after which a copy is not used any more, although no change was reported."""
    prefixes: Tuple[q.Bytes, ...] = ()
    """Only values whose keys have one of these prefixes are copied (256 prefixes of 256 bytes); none for all keys."""

    def __post_init__(self) -> None:
        for name, least in (("entries_max", 1), ("bytes_max", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"cannot use near cache: {name} is {getattr(self, name)}; give at least {least}")
        if self.age_max <= timedelta(0):
            raise ValueError(f"cannot use near cache: age_max is {self.age_max}; give a positive one")
        prefixes = q.encoded_all(self.prefixes)
        if len(prefixes) > _PREFIXES_MAX or any(len(prefix) > _PREFIX_BYTES_MAX for prefix in prefixes):
            raise ValueError(
                f"cannot use near cache: it has {len(prefixes)} prefixes, or one is too long; "
                f"give at most {_PREFIXES_MAX}, of at most {_PREFIX_BYTES_MAX} bytes"
            )
