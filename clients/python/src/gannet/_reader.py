"""The consumer's side of an endless stream."""

from __future__ import annotations

from typing import Any, Generic, Optional, TypeVar

E = TypeVar("E")


class Reader(Generic[E]):
    """The place of a consumer in a stream."""

    def request(self) -> Any:
        """Returns the request that opens the stream at the present place."""
        raise NotImplementedError

    def parse(self, message: Any) -> Optional[E]:
        """Returns the event of a message, or None if the consumer needs none.

        Raises BadReply if the message contradicts the schema.
        """
        raise NotImplementedError

    def broken(self) -> None:
        """Runs when the stream has ended, before it is opened again."""

    def resumed(self) -> Optional[E]:
        """Returns an event that precedes the first one after the stream was opened again, or None."""
        return None
