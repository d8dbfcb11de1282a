"""The synchronous client.

    from gannet import CacheClient, Configurations

    with CacheClient("127.0.0.1:7000", Configurations.Laptop.latest()) as client:
        client.set("greeting", "hello")
        print(client.get("greeting"))
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Iterable, List, Optional, Type, Union

from gannet import _calls as c
from gannet import _requests as q
from gannet import results as r
from gannet._engine import Scope
from gannet._engine_sync import SyncEngine
from gannet._proto import cache_pb2 as m
from gannet._requests import Bytes, CollectionTtl
from gannet._services import ServiceCalls
from gannet._target import Target
from gannet.cancellation import Cancellation
from gannet.configuration import Configuration, Configurations
from gannet.credentials import CredentialProvider
from gannet.metrics import Metrics


class CacheClient(ServiceCalls):
    """Calls on one cache of one server.

    Keys, values, fields and elements are `str` (stored as UTF-8) or `bytes`. Every call returns a result, never an
    exception, unless an argument has a wrong Python type or range (TypeError, ValueError). The object may be used by
    any number of threads.

    A client object is bound to a cache. `with_cache` returns an object for another cache on the same connections.

    - address: `HOST:PORT` of `gannet serve --grpc`.
    - configuration: a preset of `Configurations`, or one's own.
    - credentials: the token of the calls.
    - cache: the cache that all calls of this object use.
    - default_ttl: the time to live of items whose call names none.
    - tls: True or False turns TLS on or off; None (the default) turns it on unless the address is local.
    - ca_file: a PEM file with the CA of the server's certificate; without it, those of the system.

    Raises ValueError if the address is not HOST:PORT, and OSError if `ca_file` cannot be read.
    """

    def __init__(
        self,
        address: str,
        configuration: Optional[Configuration] = None,
        credentials: Optional[CredentialProvider] = None,
        *,
        cache: str = "default",
        default_ttl: timedelta = timedelta(hours=1),
        tls: Optional[bool] = None,
        ca_file: Optional[str] = None,
    ) -> None:
        configuration = configuration or Configurations.Laptop.latest()
        if default_ttl < timedelta(milliseconds=1):
            raise ValueError(f"cannot use default_ttl {default_ttl}: it is below 1 ms; give at least 1 ms")
        target = Target.of(address, tls, ca_file, credentials or CredentialProvider.none())
        self._default_ttl_ms = q.milliseconds(default_ttl)
        self._engine = SyncEngine(target, configuration)
        deadline_s = q.deadline_s(configuration.deadline)
        copies = self._engine.copies_of(cache)
        self._scope = Scope(cache, self._engine.metadata(cache), deadline_s, copies=copies)
        self._caches_scope = Scope("", self._engine.metadata(""), deadline_s)

    def __enter__(self) -> CacheClient:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def _with_scope(self, **changes: Any) -> CacheClient:
        other = object.__new__(CacheClient)
        other._engine = self._engine
        other._default_ttl_ms = self._default_ttl_ms
        other._scope = replace(self._scope, **changes)
        other._caches_scope = replace(other._scope, cache="", metadata=self._caches_scope.metadata, copies=None)
        return other

    # The client itself.

    def with_cache(self, cache: str) -> CacheClient:
        """Returns an object whose calls use another cache, on the same connections and within the same limits."""
        copies = self._engine.copies_of(cache)
        return self._with_scope(cache=cache, metadata=self._engine.metadata(cache), copies=copies)

    def with_deadline(self, deadline: timedelta) -> CacheClient:
        """Returns an object whose calls have another deadline, on the same connections and within the same limits."""
        return self._with_scope(deadline_s=q.deadline_s(deadline))

    # sync only
    def with_cancellation(self, cancellation: Cancellation) -> CacheClient:
        """Returns an object whose calls end when `cancellation` is cancelled, on the same connections."""
        return self._with_scope(cancellation=cancellation)

    # end
    def connect(self, timeout: timedelta) -> bool:
        """Opens all connections, and returns whether they are open after at most `timeout`."""
        return self._engine.connect(q.deadline_s(timeout))

    def close(self) -> None:
        """Ends all calls with the error CANCELLED, and closes the connections."""
        self._engine.close()

    def metrics(self) -> Metrics:
        """Returns a snapshot of the metrics. Those by method need `Configuration.with_metrics`."""
        return self._engine.metrics()

    # Items.

    def get(self, key: Bytes) -> r.GetResult:
        """Returns the value of a key."""
        return self._call(c.GET, m.GetRequest(key=q.encoded(key)))

    def set(self, key: Bytes, value: Bytes, ttl: Optional[timedelta] = None) -> r.DoneResult:
        """Stores a value."""
        request = m.SetRequest(key=q.encoded(key), value=q.encoded(value), ttl_ms=self._ttl_ms(ttl))
        return self._call(c.SET, request)

    def get_batch(self, keys: Iterable[Bytes]) -> r.GetBatchResult:
        """Returns the values of several keys in one request. Its place in flight is one."""
        items = [m.GetRequest(key=key) for key in q.encoded_all(keys)]
        return self._call(c.GET_BATCH, m.GetBatchRequest(items=items))

    def set_batch(
        self, items: q.Pairs[Bytes], ttl: Optional[timedelta] = None
    ) -> r.DoneResult:
        """Stores several values in one request. Its place in flight is one."""
        ttl_ms = self._ttl_ms(ttl)
        pairs = q.pairs_of(items)
        requests = [m.SetRequest(key=q.encoded(key), value=q.encoded(value), ttl_ms=ttl_ms) for key, value in pairs]
        return self._call(c.SET_BATCH, m.SetBatchRequest(items=requests))

    def delete(self, key: Bytes) -> r.DoneResult:
        """Deletes an item of any type. A key that does not exist is no error."""
        return self._call(c.DELETE, m.KeyRequest(key=q.encoded(key)))

    def keys_exist(self, keys: Iterable[Bytes]) -> r.KeysExistResult:
        """Returns which of the keys exist."""
        return self._call(c.KEYS_EXIST, m.KeysExistRequest(keys=q.encoded_all(keys)))

    def increment(self, key: Bytes, amount: int = 1, ttl: Optional[timedelta] = None) -> r.IncrementResult:
        """Adds to a decimal number, and returns the sum. A key that does not exist counts as 0."""
        request = m.IncrementRequest(
            key=q.encoded(key), amount=q.signed_64("amount", amount), ttl_ms=self._ttl_ms(ttl)
        )
        return self._call(c.INCREMENT, request)

    def get_ttl(self, key: Bytes) -> r.TtlResult:
        """Returns the time to live of an item."""
        return self._call(c.GET_TTL, m.KeyRequest(key=q.encoded(key)))

    def get_type(self, key: Bytes) -> r.TypeResult:
        """Returns the type of an item."""
        return self._call(c.GET_TYPE, m.KeyRequest(key=q.encoded(key)))

    def update_ttl(self, key: Bytes, ttl: timedelta) -> r.UpdateTtlResult:
        """Sets the time to live of an item."""
        request = m.UpdateTtlRequest(key=q.encoded(key), overwrite_to_ms=q.milliseconds(ttl))
        return self._call(c.UPDATE_TTL, request)

    def increase_ttl(self, key: Bytes, ttl: timedelta) -> r.UpdateTtlResult:
        """Sets the time to live of an item if it is below `ttl`; NotStored otherwise."""
        request = m.UpdateTtlRequest(key=q.encoded(key), increase_to_ms=q.milliseconds(ttl))
        return self._call(c.UPDATE_TTL, request)

    def decrease_ttl(self, key: Bytes, ttl: timedelta) -> r.UpdateTtlResult:
        """Sets the time to live of an item if it is above `ttl`; NotStored otherwise."""
        request = m.UpdateTtlRequest(key=q.encoded(key), decrease_to_ms=q.milliseconds(ttl))
        return self._call(c.UPDATE_TTL, request)

    # Conditional sets.

    def _set_if(self, key: Bytes, value: Bytes, ttl: Optional[timedelta], **condition: Any) -> m.SetIfRequest:
        return m.SetIfRequest(key=q.encoded(key), value=q.encoded(value), ttl_ms=self._ttl_ms(ttl), **condition)

    def set_if_absent(self, key: Bytes, value: Bytes, ttl: Optional[timedelta] = None) -> r.ConditionalSetResult:
        """Stores a value if the key does not exist."""
        return self._call(c.SET_IF, self._set_if(key, value, ttl, absent=m.Condition()))

    def set_if_present(self, key: Bytes, value: Bytes, ttl: Optional[timedelta] = None) -> r.ConditionalSetResult:
        """Stores a value if the key exists."""
        return self._call(c.SET_IF, self._set_if(key, value, ttl, present=m.Condition()))

    def set_if_equal(
        self, key: Bytes, value: Bytes, equal: Bytes, ttl: Optional[timedelta] = None
    ) -> r.ConditionalSetResult:
        """Stores a value if the present one is `equal`."""
        condition = m.ValueCondition(value=q.encoded(equal))
        return self._call(c.SET_IF, self._set_if(key, value, ttl, equal=condition))

    def set_if_not_equal(
        self, key: Bytes, value: Bytes, not_equal: Bytes, ttl: Optional[timedelta] = None
    ) -> r.ConditionalSetResult:
        """Stores a value if the present one is not `not_equal`, or the key does not exist."""
        condition = m.ValueCondition(value=q.encoded(not_equal))
        return self._call(c.SET_IF, self._set_if(key, value, ttl, not_equal=condition))

    def set_if_absent_or_equal(
        self, key: Bytes, value: Bytes, equal: Bytes, ttl: Optional[timedelta] = None
    ) -> r.ConditionalSetResult:
        """Stores a value if the key does not exist, or the present value is `equal`."""
        condition = m.ValueCondition(value=q.encoded(equal))
        return self._call(c.SET_IF, self._set_if(key, value, ttl, absent_or_equal=condition))

    def set_if_present_and_not_equal(
        self, key: Bytes, value: Bytes, not_equal: Bytes, ttl: Optional[timedelta] = None
    ) -> r.ConditionalSetResult:
        """Stores a value if the key exists, and the present value is not `not_equal`."""
        condition = m.ValueCondition(value=q.encoded(not_equal))
        return self._call(c.SET_IF, self._set_if(key, value, ttl, present_and_not_equal=condition))

    # Conditional sets by hash.

    def get_with_hash(self, key: Bytes) -> r.GetWithHashResult:
        """Returns the value of a key and its hash, for a later conditional set."""
        return self._call(c.GET_WITH_HASH, m.KeyRequest(key=q.encoded(key)))

    def _set_if_hash(self, key: Bytes, value: Bytes, ttl: Optional[timedelta], **condition: Any) -> m.SetIfHashRequest:
        return m.SetIfHashRequest(key=q.encoded(key), value=q.encoded(value), ttl_ms=self._ttl_ms(ttl), **condition)

    def set_with_hash(self, key: Bytes, value: Bytes, ttl: Optional[timedelta] = None) -> r.HashSetResult:
        """Stores a value and returns its hash."""
        return self._call(c.SET_IF_HASH, self._set_if_hash(key, value, ttl, unconditional=m.Condition()))

    def set_if_present_and_hash_equal(
        self, key: Bytes, value: Bytes, hash_equal: bytes, ttl: Optional[timedelta] = None
    ) -> r.HashSetResult:
        """Stores a value if the key exists, and the hash of the present value is `hash_equal`."""
        condition = m.HashCondition(hash=hash_equal)
        return self._call(c.SET_IF_HASH, self._set_if_hash(key, value, ttl, present_and_hash_equal=condition))

    def set_if_present_and_hash_not_equal(
        self, key: Bytes, value: Bytes, hash_not_equal: bytes, ttl: Optional[timedelta] = None
    ) -> r.HashSetResult:
        """Stores a value if the key exists, and the hash of the present value is not `hash_not_equal`."""
        condition = m.HashCondition(hash=hash_not_equal)
        return self._call(c.SET_IF_HASH, self._set_if_hash(key, value, ttl, present_and_not_hash_equal=condition))

    def set_if_absent_or_hash_equal(
        self, key: Bytes, value: Bytes, hash_equal: bytes, ttl: Optional[timedelta] = None
    ) -> r.HashSetResult:
        """Stores a value if the key does not exist, or the hash of the present value is `hash_equal`."""
        condition = m.HashCondition(hash=hash_equal)
        return self._call(c.SET_IF_HASH, self._set_if_hash(key, value, ttl, absent_or_hash_equal=condition))

    def set_if_absent_or_hash_not_equal(
        self, key: Bytes, value: Bytes, hash_not_equal: bytes, ttl: Optional[timedelta] = None
    ) -> r.HashSetResult:
        """Stores a value if the key does not exist, or the hash of the present value is not `hash_not_equal`."""
        condition = m.HashCondition(hash=hash_not_equal)
        return self._call(c.SET_IF_HASH, self._set_if_hash(key, value, ttl, absent_or_not_hash_equal=condition))

    # Dictionaries.

    def dictionary_get_field(self, key: Bytes, field: Bytes) -> r.GetResult:
        """Returns the value of one field."""
        return self._call(c.DICTIONARY_GET_ONE, m.FieldsRequest(key=q.encoded(key), fields=[q.encoded(field)]))

    def dictionary_get_fields(self, key: Bytes, fields: Iterable[Bytes]) -> r.DictionaryFieldsResult:
        """Returns the values of several fields, in their order."""
        return self._call(c.DICTIONARY_GET, m.FieldsRequest(key=q.encoded(key), fields=q.encoded_all(fields)))

    def dictionary_fetch(self, key: Bytes) -> r.DictionaryResult:
        """Returns all fields with their values."""
        return self._call(c.DICTIONARY_FETCH, m.KeyRequest(key=q.encoded(key)))

    def dictionary_set_field(
        self, key: Bytes, field: Bytes, value: Bytes, ttl: CollectionTtl = q.REFRESH
    ) -> r.DoneResult:
        """Sets one field."""
        items = [m.FieldValue(field=q.encoded(field), value=q.encoded(value))]
        return self._call(c.DICTIONARY_SET, self._dictionary_set(key, items, ttl))

    def dictionary_set_fields(
        self,
        key: Bytes,
        fields: q.Pairs[Bytes],
        ttl: CollectionTtl = q.REFRESH,
    ) -> r.DoneResult:
        """Sets several fields."""
        pairs = q.pairs_of(fields)
        items = [m.FieldValue(field=q.encoded(field), value=q.encoded(value)) for field, value in pairs]
        return self._call(c.DICTIONARY_SET, self._dictionary_set(key, items, ttl))

    def _dictionary_set(self, key: Bytes, items: List[m.FieldValue], ttl: CollectionTtl) -> m.DictionarySetRequest:
        return m.DictionarySetRequest(
            key=q.encoded(key), items=items, ttl_ms=self._ttl_ms(ttl.ttl), refresh_ttl=ttl.refresh
        )

    def dictionary_increment(
        self, key: Bytes, field: Bytes, amount: int = 1, ttl: CollectionTtl = q.REFRESH
    ) -> r.IncrementResult:
        """Adds to the decimal number in a field, and returns the sum. A field that does not exist counts as 0."""
        request = m.DictionaryIncrementRequest(
            key=q.encoded(key),
            field=q.encoded(field),
            amount=q.signed_64("amount", amount),
            ttl_ms=self._ttl_ms(ttl.ttl),
            refresh_ttl=ttl.refresh,
        )
        return self._call(c.DICTIONARY_INCREMENT, request)

    def dictionary_remove_fields(self, key: Bytes, fields: Iterable[Bytes]) -> r.DoneResult:
        """Removes several fields. A field that does not exist is no error."""
        some = m.DictionaryDeleteRequest.Fields(fields=q.encoded_all(fields))
        return self._call(c.DICTIONARY_DELETE, m.DictionaryDeleteRequest(key=q.encoded(key), some=some))

    def dictionary_delete(self, key: Bytes) -> r.DoneResult:
        """Removes all fields, and with them the dictionary. An item of another type is an error."""
        return self._call(c.DICTIONARY_DELETE, m.DictionaryDeleteRequest(key=q.encoded(key), all=m.Condition()))

    def dictionary_length(self, key: Bytes) -> r.LengthResult:
        """Returns the number of fields."""
        return self._call(c.DICTIONARY_LENGTH, m.KeyRequest(key=q.encoded(key)))

    # Sets.

    def set_fetch(self, key: Bytes) -> r.SetResult:
        """Returns all elements."""
        return self._call(c.SET_FETCH, m.KeyRequest(key=q.encoded(key)))

    def set_sample(self, key: Bytes, count: int) -> r.SetResult:
        """Returns at most `count` random elements."""
        return self._call(c.SET_SAMPLE, m.CountRequest(key=q.encoded(key), count=q.unsigned_64("count", count)))

    def set_add_elements(
        self, key: Bytes, elements: Iterable[Bytes], ttl: CollectionTtl = q.REFRESH
    ) -> r.DoneResult:
        """Adds elements."""
        request = m.SetUnionRequest(
            key=q.encoded(key),
            elements=q.encoded_all(elements),
            ttl_ms=self._ttl_ms(ttl.ttl),
            refresh_ttl=ttl.refresh,
        )
        return self._call(c.SET_UNION, request)

    def set_remove_elements(self, key: Bytes, elements: Iterable[Bytes]) -> r.FoundResult:
        """Removes elements. An element that does not exist is no error; Miss if the set does not exist."""
        some = m.SetDifferenceRequest.Elements(elements=q.encoded_all(elements))
        subtrahend = m.SetDifferenceRequest.Subtrahend(elements=some)
        return self._call(c.SET_REMOVE, m.SetDifferenceRequest(key=q.encoded(key), subtrahend=subtrahend))

    def set_delete(self, key: Bytes) -> r.FoundResult:
        """Removes all elements, and with them the set. An item of another type is an error."""
        subtrahend = m.SetDifferenceRequest.Subtrahend(all=m.Condition())
        return self._call(c.SET_REMOVE, m.SetDifferenceRequest(key=q.encoded(key), subtrahend=subtrahend))

    def set_subtract_from(self, key: Bytes, minuend: Iterable[Bytes]) -> r.FoundResult:
        """Replaces the set by the elements of `minuend` that it does not contain."""
        elements = m.SetDifferenceRequest.Elements(elements=q.encoded_all(minuend))
        return self._call(c.SET_SUBTRACT_FROM, m.SetDifferenceRequest(key=q.encoded(key), minuend=elements))

    def set_contains(self, key: Bytes, elements: Iterable[Bytes]) -> r.ContainsResult:
        """Returns which of the elements the set contains, in their order."""
        return self._call(c.SET_CONTAINS, m.FieldsRequest(key=q.encoded(key), fields=q.encoded_all(elements)))

    def set_length(self, key: Bytes) -> r.LengthResult:
        """Returns the number of elements."""
        return self._call(c.SET_LENGTH, m.KeyRequest(key=q.encoded(key)))

    def set_pop(self, key: Bytes, count: int = 1) -> r.SetResult:
        """Removes at most `count` random elements, and returns them."""
        return self._call(c.SET_POP, m.CountRequest(key=q.encoded(key), count=q.unsigned_64("count", count)))

    # Lists.

    def list_push_front(
        self, key: Bytes, value: Bytes, ttl: CollectionTtl = q.REFRESH, length_max: int = 0
    ) -> r.LengthAfterResult:
        """Adds an element at the front. If the list would exceed `length_max` (0: none), it is cut at the back."""
        return self._call(c.LIST_PUSH_FRONT, self._push(key, value, ttl, length_max))

    def list_push_back(
        self, key: Bytes, value: Bytes, ttl: CollectionTtl = q.REFRESH, length_max: int = 0
    ) -> r.LengthAfterResult:
        """Adds an element at the back. If the list would exceed `length_max` (0: none), it is cut at the front."""
        return self._call(c.LIST_PUSH_BACK, self._push(key, value, ttl, length_max))

    def _push(self, key: Bytes, value: Bytes, ttl: CollectionTtl, length_max: int) -> m.ListPushRequest:
        return m.ListPushRequest(
            key=q.encoded(key),
            value=q.encoded(value),
            ttl_ms=self._ttl_ms(ttl.ttl),
            refresh_ttl=ttl.refresh,
            length_max=q.unsigned_32("length_max", length_max),
        )

    def list_concatenate_front(
        self, key: Bytes, values: Iterable[Bytes], ttl: CollectionTtl = q.REFRESH, length_max: int = 0
    ) -> r.LengthAfterResult:
        """Adds elements at the front, in their order. A list above `length_max` (0: none) is cut at the back."""
        return self._call(c.LIST_CONCATENATE_FRONT, self._concatenate(key, values, ttl, length_max))

    def list_concatenate_back(
        self, key: Bytes, values: Iterable[Bytes], ttl: CollectionTtl = q.REFRESH, length_max: int = 0
    ) -> r.LengthAfterResult:
        """Adds elements at the back, in their order. A list above `length_max` (0: none) is cut at the front."""
        return self._call(c.LIST_CONCATENATE_BACK, self._concatenate(key, values, ttl, length_max))

    def _concatenate(
        self, key: Bytes, values: Iterable[Bytes], ttl: CollectionTtl, length_max: int
    ) -> m.ListConcatenateRequest:
        return m.ListConcatenateRequest(
            key=q.encoded(key),
            values=q.encoded_all(values),
            ttl_ms=self._ttl_ms(ttl.ttl),
            refresh_ttl=ttl.refresh,
            length_max=q.unsigned_32("length_max", length_max),
        )

    def list_pop_front(self, key: Bytes) -> r.PopResult:
        """Removes the first element and returns it."""
        return self._call(c.LIST_POP_FRONT, m.KeyRequest(key=q.encoded(key)))

    def list_pop_back(self, key: Bytes) -> r.PopResult:
        """Removes the last element and returns it."""
        return self._call(c.LIST_POP_BACK, m.KeyRequest(key=q.encoded(key)))

    def list_remove_value(self, key: Bytes, value: Bytes) -> r.LengthResult:
        """Removes all elements that are equal to `value`, and returns the length of the rest."""
        return self._call(c.LIST_REMOVE, m.ListRemoveRequest(key=q.encoded(key), value=q.encoded(value)))

    def list_fetch(self, key: Bytes, first: Optional[int] = None, end: Optional[int] = None) -> r.ListResult:
        """Returns the elements from index `first` to before `end`. A negative index counts from the end."""
        request = m.ListFetchRequest(key=q.encoded(key))
        q.list_range(request, first, end)
        return self._call(c.LIST_FETCH, request)

    def list_retain(
        self,
        key: Bytes,
        first: Optional[int] = None,
        end: Optional[int] = None,
        ttl: CollectionTtl = q.REFRESH,
    ) -> r.LengthResult:
        """Removes all elements outside of `first` to before `end`, and returns the length of the rest."""
        request = m.ListRetainRequest(key=q.encoded(key), ttl_ms=self._ttl_ms(ttl.ttl), refresh_ttl=ttl.refresh)
        q.list_range(request, first, end)
        return self._call(c.LIST_RETAIN, request)

    def list_length(self, key: Bytes) -> r.LengthResult:
        """Returns the number of elements."""
        return self._call(c.LIST_LENGTH, m.KeyRequest(key=q.encoded(key)))

    # Sorted sets.

    def sorted_set_put_elements(
        self,
        key: Bytes,
        elements: q.Pairs[float],
        ttl: CollectionTtl = q.REFRESH,
    ) -> r.DoneResult:
        """Adds elements with their scores, or sets the scores of present ones."""
        pairs = q.pairs_of(elements)
        scored = [m.ScoredElement(value=q.encoded(element), score=score) for element, score in pairs]
        request = m.SortedSetPutRequest(
            key=q.encoded(key), elements=scored, ttl_ms=self._ttl_ms(ttl.ttl), refresh_ttl=ttl.refresh
        )
        return self._call(c.SORTED_SET_PUT, request)

    def sorted_set_fetch_by_index(
        self, key: Bytes, first: Optional[int] = None, end: Optional[int] = None, descending: bool = False
    ) -> r.SortedSetResult:
        """Returns the elements from rank `first` to before `end`. A negative rank counts from the end."""
        request = m.SortedSetFetchRequest(
            key=q.encoded(key), order=q.order(descending), with_scores=True, by_index=q.by_index(first, end)
        )
        return self._call(c.SORTED_SET_FETCH, request)

    def sorted_set_fetch_by_score(
        self,
        key: Bytes,
        least: Optional[float] = None,
        greatest: Optional[float] = None,
        *,
        least_exclusive: bool = False,
        greatest_exclusive: bool = False,
        offset: int = 0,
        count: Optional[int] = None,
        descending: bool = False,
    ) -> r.SortedSetResult:
        """Returns the elements with scores from `least` to `greatest`: at most `count`, after the first `offset`.

        `count` None or 0 stands for all.
        """
        by = q.by_score(least, greatest, least_exclusive, greatest_exclusive, offset, count)
        request = m.SortedSetFetchRequest(
            key=q.encoded(key), order=q.order(descending), with_scores=True, by_score=by
        )
        return self._call(c.SORTED_SET_FETCH, request)

    def sorted_set_get_score(self, key: Bytes, element: Bytes) -> r.ScoreResult:
        """Returns the score of one element."""
        request = m.FieldsRequest(key=q.encoded(key), fields=[q.encoded(element)])
        return self._call(c.SORTED_SET_GET_ONE_SCORE, request)

    def sorted_set_get_scores(self, key: Bytes, elements: Iterable[Bytes]) -> r.ScoresResult:
        """Returns the scores of several elements, in their order."""
        request = m.FieldsRequest(key=q.encoded(key), fields=q.encoded_all(elements))
        return self._call(c.SORTED_SET_GET_SCORE, request)

    def sorted_set_remove_elements(self, key: Bytes, elements: Iterable[Bytes]) -> r.DoneResult:
        """Removes elements. An element that does not exist is no error."""
        some = m.SortedSetRemoveRequest.Values(values=q.encoded_all(elements))
        return self._call(c.SORTED_SET_REMOVE, m.SortedSetRemoveRequest(key=q.encoded(key), some=some))

    def sorted_set_delete(self, key: Bytes) -> r.DoneResult:
        """Removes all elements, and with them the sorted set. An item of another type is an error."""
        return self._call(c.SORTED_SET_REMOVE, m.SortedSetRemoveRequest(key=q.encoded(key), all=m.Condition()))

    def sorted_set_increment(
        self, key: Bytes, element: Bytes, amount: float = 1.0, ttl: CollectionTtl = q.REFRESH
    ) -> r.ScoreAfterResult:
        """Adds to the score of an element, and returns the sum. An element that does not exist has score 0."""
        request = m.SortedSetIncrementRequest(
            key=q.encoded(key),
            value=q.encoded(element),
            amount=amount,
            ttl_ms=self._ttl_ms(ttl.ttl),
            refresh_ttl=ttl.refresh,
        )
        return self._call(c.SORTED_SET_INCREMENT, request)

    def sorted_set_get_rank(self, key: Bytes, element: Bytes, descending: bool = False) -> r.RankResult:
        """Returns the rank of an element; the first one has rank 0."""
        request = m.SortedSetGetRankRequest(
            key=q.encoded(key), value=q.encoded(element), order=q.order(descending)
        )
        return self._call(c.SORTED_SET_GET_RANK, request)

    def sorted_set_length(self, key: Bytes) -> r.LengthResult:
        """Returns the number of elements."""
        return self._call(c.SORTED_SET_LENGTH, m.KeyRequest(key=q.encoded(key)))

    # Caches.

    def create_cache(self, name: str) -> r.DoneResult:
        """Creates a cache. The error ALREADY_EXISTS shows that it exists."""
        return self._call_caches(c.CREATE_CACHE, m.CacheName(name=q.text(name)))

    def delete_cache(self, name: str) -> r.DoneResult:
        """Deletes a cache and its items."""
        return self._call_caches(c.DELETE_CACHE, m.CacheName(name=q.text(name)))

    def list_caches(self) -> r.ListCachesResult:
        """Returns the names of all caches."""
        return self._call_caches(c.LIST_CACHES, m.ListCachesRequest())

    def flush_cache(self, name: str) -> r.DoneResult:
        """Deletes all items of a cache."""
        return self._call_caches(c.FLUSH_CACHE, m.CacheName(name=q.text(name)))
