"""Cancellation of calls of the synchronous client."""

from __future__ import annotations

import threading
from typing import Callable, Set


class Cancellation:
    """Cancels the calls that were given it, from any thread.

        cancellation = Cancellation()
        slow = client.with_cancellation(cancellation)
        threading.Timer(0.1, cancellation.cancel).start()
        result = slow.get("key")  # a CacheError with code CANCELLED after 0.1 s

    A call that waits in the client's queue leaves it, and the server never receives it. A call that was sent may have
    been executed. Callers of the asynchronous client cancel the task instead.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: Set[Callable[[], object]] = set()
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """True if `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """Cancels the present calls and all later ones."""
        with self._lock:
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, set()
        for callback in callbacks:
            callback()

    def add(self, callback: Callable[[], object]) -> None:
        """Calls `callback` when the calls are cancelled, or at once if they are already."""
        with self._lock:
            if not self._cancelled:
                self._callbacks.add(callback)
                return
        callback()

    def discard(self, callback: Callable[[], object]) -> None:
        """Does not call `callback` any more."""
        with self._lock:
            self._callbacks.discard(callback)
