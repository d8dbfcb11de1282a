"""The calls of the synchronous client on topics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Optional, TypeVar, Union

from gannet import _calls as c
from gannet import _requests as q
from gannet import results as r
from gannet._calls import Call
from gannet._engine import Scope
from gannet._engine_sync import SyncEngine
from gannet._proto import topics_pb2
from gannet._requests import Bytes
from gannet._streams_sync import Subscription
from gannet.errors import CacheError
from gannet.topics import TopicReader, value_of

R = TypeVar("R")


class ServiceCalls:
    """The calls of a client on the services beside that of items and caches."""

    _engine: SyncEngine
    _scope: Scope
    _caches_scope: Scope
    _default_ttl_ms: int

    def _call(self, call: Call[Any, R], request: Any) -> Union[R, CacheError]:
        return self._engine.call(call, request, self._scope)

    def _call_caches(self, call: Call[Any, R], request: Any) -> Union[R, CacheError]:
        return self._engine.call(call, request, self._caches_scope)

    def _ttl_ms(self, ttl: Optional[timedelta]) -> int:
        return self._default_ttl_ms if ttl is None else q.milliseconds(ttl)

    # Topics.

    def publish(self, topic: str, value: Bytes) -> r.DoneResult:
        """Sends a message to all subscribers of a topic: text if `value` is str, and bytes otherwise.

        A failed call is not repeated, because the subscribers may have received the message. A topic without
        subscribers drops its messages.
        """
        return self._call(c.PUBLISH, topics_pb2.PublishRequest(topic=topic, value=value_of(value)))

    def subscribe(self, topic: str, *, sequence: int = 0, page: int = 0) -> Union[Subscription, CacheError]:
        """Subscribes to a topic, and returns the subscription when the server has confirmed it.

        `sequence` is the number of the first message, and `page` its page: those after the last `TopicItem` of an
        earlier subscription continue it. Without them, the first message is the next one that is published.

        Raises ValueError if a number is negative.
        """
        reader = TopicReader(topic, sequence, page)
        return self._engine.open(Subscription(self._engine, c.SUBSCRIBE, reader, self._scope))
