"""Events of a subscription to a topic, and the place in the topic at which it continues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Union

from gannet._proto import topics_pb2 as m
from gannet._reader import Reader
from gannet._requests import text


@dataclass(frozen=True)
class TopicItem:
    """A message of a topic."""

    sequence: int
    """The number of the message. The numbers of a page are consecutive, and all subscribers see the same ones."""
    page: int
    """The page of the number. A topic that is created again has a later page, whose numbers begin at 1."""
    value: Union[str, bytes]
    """Text if the publisher sent text, and bytes otherwise."""
    publisher_id: str
    """The id in the token of the publisher, or an empty string."""

    @property
    def value_string(self) -> str:
        """The value as text (UTF-8)."""
        return self.value if isinstance(self.value, str) else self.value.decode()

    @property
    def value_bytes(self) -> bytes:
        """The value as bytes."""
        return self.value if isinstance(self.value, bytes) else self.value.encode()


@dataclass(frozen=True)
class TopicDiscontinuity:
    """Messages before the next item are missing.

    The server keeps the last 1,024 messages of a topic, 1 MiB at most; a subscriber that falls further behind, or that
    was disconnected for longer, loses the older ones. All fields are 0 if the connection broke before the server named
    a position: messages of that time may be missing.
    """

    last_sequence: int
    """The number of the last message before the missing ones; 0 if there was none."""
    new_sequence: int
    """The number of the next item."""
    new_page: int
    """The page of the next item."""


@dataclass(frozen=True)
class TopicHeartbeat:
    """The subscription works. One arrives at its start, and one every 5 s without items."""


TopicEvent = Union[TopicItem, TopicDiscontinuity, TopicHeartbeat]
_HEARTBEAT = TopicHeartbeat()


class TopicReader(Reader[TopicEvent]):
    """Reads the events of a topic, and asks for the message after the last one when the stream is opened again."""

    def __init__(self, topic: str, sequence: int, page: int) -> None:
        for number in (sequence, page):
            if not 0 <= number < 1 << 64:
                raise ValueError(
                    f"cannot subscribe: sequence {sequence} or page {page} is out of range; "
                    "pass those of a TopicItem, or 0"
                )
        self._topic = text(topic)
        self._sequence, self._page = sequence, page

    def request(self) -> Any:
        """Returns the request for the messages from the present place on."""
        return m.SubscribeRequest(topic=self._topic, sequence=self._sequence, page=self._page)

    def parse(self, message: Any) -> Optional[TopicEvent]:
        """Returns the event of a message, and moves behind it. An event of a later schema is None."""
        kind = message.WhichOneof("kind")
        if kind == "heartbeat":
            if message.heartbeat.sequence:
                self._sequence, self._page = message.heartbeat.sequence, message.heartbeat.page
            return _HEARTBEAT
        if kind == "item":
            item = message.item
            value = item.value.binary if item.value.WhichOneof("kind") == "binary" else item.value.text
            self._sequence, self._page = item.sequence + 1, item.page
            return TopicItem(item.sequence, item.page, value, item.publisher_id)
        if kind == "discontinuity":
            gap = message.discontinuity
            self._sequence, self._page = gap.new_sequence, gap.new_page
            return TopicDiscontinuity(gap.last_sequence, gap.new_sequence, gap.new_page)
        return None

    def resumed(self) -> Optional[TopicEvent]:
        """Returns a discontinuity if the client knew no place at which to continue."""
        return TopicDiscontinuity(0, 0, 0) if self._sequence == 0 else None


def value_of(value: Union[str, bytes]) -> m.TopicValue:
    """Returns the message of a value. Raises TypeError unless it is str or bytes."""
    if isinstance(value, str):
        return m.TopicValue(text=text(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return m.TopicValue(binary=bytes(value))
    raise TypeError(f"cannot publish {type(value).__name__}: it is neither str nor bytes; convert it first")
