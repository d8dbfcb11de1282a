from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Result(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESULT_UNSPECIFIED: _ClassVar[Result]
    RESULT_OK: _ClassVar[Result]
    RESULT_HIT: _ClassVar[Result]
    RESULT_MISS: _ClassVar[Result]

class Order(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ASCENDING: _ClassVar[Order]
    DESCENDING: _ClassVar[Order]
RESULT_UNSPECIFIED: Result
RESULT_OK: Result
RESULT_HIT: Result
RESULT_MISS: Result
ASCENDING: Order
DESCENDING: Order

class Done(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Missing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Condition(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeyRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    def __init__(self, key: _Optional[bytes] = ...) -> None: ...

class CountRequest(_message.Message):
    __slots__ = ("key", "count")
    KEY_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    count: int
    def __init__(self, key: _Optional[bytes] = ..., count: _Optional[int] = ...) -> None: ...

class FieldsRequest(_message.Message):
    __slots__ = ("key", "fields")
    KEY_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    fields: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, key: _Optional[bytes] = ..., fields: _Optional[_Iterable[bytes]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    def __init__(self, key: _Optional[bytes] = ...) -> None: ...

class GetReply(_message.Message):
    __slots__ = ("result", "value")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    result: Result
    value: bytes
    def __init__(self, result: _Optional[_Union[Result, str]] = ..., value: _Optional[bytes] = ...) -> None: ...

class SetRequest(_message.Message):
    __slots__ = ("key", "value", "ttl_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    ttl_ms: int
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class SetReply(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: Result
    def __init__(self, result: _Optional[_Union[Result, str]] = ...) -> None: ...

class GetBatchRequest(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[GetRequest]
    def __init__(self, items: _Optional[_Iterable[_Union[GetRequest, _Mapping]]] = ...) -> None: ...

class SetBatchRequest(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[SetRequest]
    def __init__(self, items: _Optional[_Iterable[_Union[SetRequest, _Mapping]]] = ...) -> None: ...

class KeysExistRequest(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class KeysExistReply(_message.Message):
    __slots__ = ("exists",)
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    exists: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, exists: _Optional[_Iterable[bool]] = ...) -> None: ...

class IncrementRequest(_message.Message):
    __slots__ = ("key", "amount", "ttl_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    amount: int
    ttl_ms: int
    def __init__(self, key: _Optional[bytes] = ..., amount: _Optional[int] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class IncrementReply(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: int
    def __init__(self, value: _Optional[int] = ...) -> None: ...

class GetWithHashReply(_message.Message):
    __slots__ = ("found", "missing")
    class Found(_message.Message):
        __slots__ = ("value", "hash")
        VALUE_FIELD_NUMBER: _ClassVar[int]
        HASH_FIELD_NUMBER: _ClassVar[int]
        value: bytes
        hash: bytes
        def __init__(self, value: _Optional[bytes] = ..., hash: _Optional[bytes] = ...) -> None: ...
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: GetWithHashReply.Found
    missing: Missing
    def __init__(self, found: _Optional[_Union[GetWithHashReply.Found, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class ValueCondition(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    def __init__(self, value: _Optional[bytes] = ...) -> None: ...

class SetIfRequest(_message.Message):
    __slots__ = ("key", "value", "ttl_ms", "present", "present_and_not_equal", "absent", "equal", "absent_or_equal", "not_equal")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    PRESENT_AND_NOT_EQUAL_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELD_NUMBER: _ClassVar[int]
    EQUAL_FIELD_NUMBER: _ClassVar[int]
    ABSENT_OR_EQUAL_FIELD_NUMBER: _ClassVar[int]
    NOT_EQUAL_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    ttl_ms: int
    present: Condition
    present_and_not_equal: ValueCondition
    absent: Condition
    equal: ValueCondition
    absent_or_equal: ValueCondition
    not_equal: ValueCondition
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., ttl_ms: _Optional[int] = ..., present: _Optional[_Union[Condition, _Mapping]] = ..., present_and_not_equal: _Optional[_Union[ValueCondition, _Mapping]] = ..., absent: _Optional[_Union[Condition, _Mapping]] = ..., equal: _Optional[_Union[ValueCondition, _Mapping]] = ..., absent_or_equal: _Optional[_Union[ValueCondition, _Mapping]] = ..., not_equal: _Optional[_Union[ValueCondition, _Mapping]] = ...) -> None: ...

class SetIfReply(_message.Message):
    __slots__ = ("stored", "not_stored")
    STORED_FIELD_NUMBER: _ClassVar[int]
    NOT_STORED_FIELD_NUMBER: _ClassVar[int]
    stored: Done
    not_stored: Done
    def __init__(self, stored: _Optional[_Union[Done, _Mapping]] = ..., not_stored: _Optional[_Union[Done, _Mapping]] = ...) -> None: ...

class HashCondition(_message.Message):
    __slots__ = ("hash",)
    HASH_FIELD_NUMBER: _ClassVar[int]
    hash: bytes
    def __init__(self, hash: _Optional[bytes] = ...) -> None: ...

class SetIfHashRequest(_message.Message):
    __slots__ = ("key", "value", "ttl_ms", "present_and_not_hash_equal", "present_and_hash_equal", "absent_or_hash_equal", "absent_or_not_hash_equal", "unconditional")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    PRESENT_AND_NOT_HASH_EQUAL_FIELD_NUMBER: _ClassVar[int]
    PRESENT_AND_HASH_EQUAL_FIELD_NUMBER: _ClassVar[int]
    ABSENT_OR_HASH_EQUAL_FIELD_NUMBER: _ClassVar[int]
    ABSENT_OR_NOT_HASH_EQUAL_FIELD_NUMBER: _ClassVar[int]
    UNCONDITIONAL_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    ttl_ms: int
    present_and_not_hash_equal: HashCondition
    present_and_hash_equal: HashCondition
    absent_or_hash_equal: HashCondition
    absent_or_not_hash_equal: HashCondition
    unconditional: Condition
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., ttl_ms: _Optional[int] = ..., present_and_not_hash_equal: _Optional[_Union[HashCondition, _Mapping]] = ..., present_and_hash_equal: _Optional[_Union[HashCondition, _Mapping]] = ..., absent_or_hash_equal: _Optional[_Union[HashCondition, _Mapping]] = ..., absent_or_not_hash_equal: _Optional[_Union[HashCondition, _Mapping]] = ..., unconditional: _Optional[_Union[Condition, _Mapping]] = ...) -> None: ...

class SetIfHashReply(_message.Message):
    __slots__ = ("stored", "not_stored")
    class Stored(_message.Message):
        __slots__ = ("hash",)
        HASH_FIELD_NUMBER: _ClassVar[int]
        hash: bytes
        def __init__(self, hash: _Optional[bytes] = ...) -> None: ...
    STORED_FIELD_NUMBER: _ClassVar[int]
    NOT_STORED_FIELD_NUMBER: _ClassVar[int]
    stored: SetIfHashReply.Stored
    not_stored: Done
    def __init__(self, stored: _Optional[_Union[SetIfHashReply.Stored, _Mapping]] = ..., not_stored: _Optional[_Union[Done, _Mapping]] = ...) -> None: ...

class UpdateTtlRequest(_message.Message):
    __slots__ = ("key", "increase_to_ms", "decrease_to_ms", "overwrite_to_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    INCREASE_TO_MS_FIELD_NUMBER: _ClassVar[int]
    DECREASE_TO_MS_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_TO_MS_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    increase_to_ms: int
    decrease_to_ms: int
    overwrite_to_ms: int
    def __init__(self, key: _Optional[bytes] = ..., increase_to_ms: _Optional[int] = ..., decrease_to_ms: _Optional[int] = ..., overwrite_to_ms: _Optional[int] = ...) -> None: ...

class UpdateTtlReply(_message.Message):
    __slots__ = ("set", "not_set", "missing")
    SET_FIELD_NUMBER: _ClassVar[int]
    NOT_SET_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    set: Done
    not_set: Done
    missing: Missing
    def __init__(self, set: _Optional[_Union[Done, _Mapping]] = ..., not_set: _Optional[_Union[Done, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class ItemTtlReply(_message.Message):
    __slots__ = ("found", "missing")
    class Found(_message.Message):
        __slots__ = ("remaining_ms",)
        REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
        remaining_ms: int
        def __init__(self, remaining_ms: _Optional[int] = ...) -> None: ...
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: ItemTtlReply.Found
    missing: Missing
    def __init__(self, found: _Optional[_Union[ItemTtlReply.Found, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class ItemTypeReply(_message.Message):
    __slots__ = ("found", "missing")
    class ItemType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        VALUE: _ClassVar[ItemTypeReply.ItemType]
        DICTIONARY: _ClassVar[ItemTypeReply.ItemType]
        SET: _ClassVar[ItemTypeReply.ItemType]
        LIST: _ClassVar[ItemTypeReply.ItemType]
        SORTED_SET: _ClassVar[ItemTypeReply.ItemType]
    VALUE: ItemTypeReply.ItemType
    DICTIONARY: ItemTypeReply.ItemType
    SET: ItemTypeReply.ItemType
    LIST: ItemTypeReply.ItemType
    SORTED_SET: ItemTypeReply.ItemType
    class Found(_message.Message):
        __slots__ = ("item_type",)
        ITEM_TYPE_FIELD_NUMBER: _ClassVar[int]
        item_type: ItemTypeReply.ItemType
        def __init__(self, item_type: _Optional[_Union[ItemTypeReply.ItemType, str]] = ...) -> None: ...
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: ItemTypeReply.Found
    missing: Missing
    def __init__(self, found: _Optional[_Union[ItemTypeReply.Found, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class LengthReply(_message.Message):
    __slots__ = ("found", "missing")
    class Found(_message.Message):
        __slots__ = ("length",)
        LENGTH_FIELD_NUMBER: _ClassVar[int]
        length: int
        def __init__(self, length: _Optional[int] = ...) -> None: ...
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: LengthReply.Found
    missing: Missing
    def __init__(self, found: _Optional[_Union[LengthReply.Found, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class ElementsReply(_message.Message):
    __slots__ = ("found", "missing")
    class Found(_message.Message):
        __slots__ = ("elements",)
        ELEMENTS_FIELD_NUMBER: _ClassVar[int]
        elements: _containers.RepeatedScalarFieldContainer[bytes]
        def __init__(self, elements: _Optional[_Iterable[bytes]] = ...) -> None: ...
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: ElementsReply.Found
    missing: Missing
    def __init__(self, found: _Optional[_Union[ElementsReply.Found, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class FoundReply(_message.Message):
    __slots__ = ("found", "missing")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: Done
    missing: Missing
    def __init__(self, found: _Optional[_Union[Done, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class FieldValue(_message.Message):
    __slots__ = ("field", "value")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    field: bytes
    value: bytes
    def __init__(self, field: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class DictionaryGetReply(_message.Message):
    __slots__ = ("found", "missing")
    class Found(_message.Message):
        __slots__ = ("items",)
        ITEMS_FIELD_NUMBER: _ClassVar[int]
        items: _containers.RepeatedCompositeFieldContainer[GetReply]
        def __init__(self, items: _Optional[_Iterable[_Union[GetReply, _Mapping]]] = ...) -> None: ...
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: DictionaryGetReply.Found
    missing: Missing
    def __init__(self, found: _Optional[_Union[DictionaryGetReply.Found, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class DictionaryFetchReply(_message.Message):
    __slots__ = ("found", "missing")
    class Found(_message.Message):
        __slots__ = ("items",)
        ITEMS_FIELD_NUMBER: _ClassVar[int]
        items: _containers.RepeatedCompositeFieldContainer[FieldValue]
        def __init__(self, items: _Optional[_Iterable[_Union[FieldValue, _Mapping]]] = ...) -> None: ...
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: DictionaryFetchReply.Found
    missing: Missing
    def __init__(self, found: _Optional[_Union[DictionaryFetchReply.Found, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class DictionarySetRequest(_message.Message):
    __slots__ = ("key", "items", "ttl_ms", "refresh_ttl")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TTL_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    items: _containers.RepeatedCompositeFieldContainer[FieldValue]
    ttl_ms: int
    refresh_ttl: bool
    def __init__(self, key: _Optional[bytes] = ..., items: _Optional[_Iterable[_Union[FieldValue, _Mapping]]] = ..., ttl_ms: _Optional[int] = ..., refresh_ttl: bool = ...) -> None: ...

class DictionaryIncrementRequest(_message.Message):
    __slots__ = ("key", "field", "amount", "ttl_ms", "refresh_ttl")
    KEY_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TTL_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    field: bytes
    amount: int
    ttl_ms: int
    refresh_ttl: bool
    def __init__(self, key: _Optional[bytes] = ..., field: _Optional[bytes] = ..., amount: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., refresh_ttl: bool = ...) -> None: ...

class DictionaryDeleteRequest(_message.Message):
    __slots__ = ("key", "some", "all")
    class Fields(_message.Message):
        __slots__ = ("fields",)
        FIELDS_FIELD_NUMBER: _ClassVar[int]
        fields: _containers.RepeatedScalarFieldContainer[bytes]
        def __init__(self, fields: _Optional[_Iterable[bytes]] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    SOME_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    some: DictionaryDeleteRequest.Fields
    all: Condition
    def __init__(self, key: _Optional[bytes] = ..., some: _Optional[_Union[DictionaryDeleteRequest.Fields, _Mapping]] = ..., all: _Optional[_Union[Condition, _Mapping]] = ...) -> None: ...

class SetUnionRequest(_message.Message):
    __slots__ = ("key", "elements", "ttl_ms", "refresh_ttl")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TTL_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    elements: _containers.RepeatedScalarFieldContainer[bytes]
    ttl_ms: int
    refresh_ttl: bool
    def __init__(self, key: _Optional[bytes] = ..., elements: _Optional[_Iterable[bytes]] = ..., ttl_ms: _Optional[int] = ..., refresh_ttl: bool = ...) -> None: ...

class SetDifferenceRequest(_message.Message):
    __slots__ = ("key", "minuend", "subtrahend")
    class Elements(_message.Message):
        __slots__ = ("elements",)
        ELEMENTS_FIELD_NUMBER: _ClassVar[int]
        elements: _containers.RepeatedScalarFieldContainer[bytes]
        def __init__(self, elements: _Optional[_Iterable[bytes]] = ...) -> None: ...
    class Subtrahend(_message.Message):
        __slots__ = ("elements", "all")
        ELEMENTS_FIELD_NUMBER: _ClassVar[int]
        ALL_FIELD_NUMBER: _ClassVar[int]
        elements: SetDifferenceRequest.Elements
        all: Condition
        def __init__(self, elements: _Optional[_Union[SetDifferenceRequest.Elements, _Mapping]] = ..., all: _Optional[_Union[Condition, _Mapping]] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    MINUEND_FIELD_NUMBER: _ClassVar[int]
    SUBTRAHEND_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    minuend: SetDifferenceRequest.Elements
    subtrahend: SetDifferenceRequest.Subtrahend
    def __init__(self, key: _Optional[bytes] = ..., minuend: _Optional[_Union[SetDifferenceRequest.Elements, _Mapping]] = ..., subtrahend: _Optional[_Union[SetDifferenceRequest.Subtrahend, _Mapping]] = ...) -> None: ...

class SetContainsReply(_message.Message):
    __slots__ = ("found", "missing")
    class Found(_message.Message):
        __slots__ = ("contained",)
        CONTAINED_FIELD_NUMBER: _ClassVar[int]
        contained: _containers.RepeatedScalarFieldContainer[bool]
        def __init__(self, contained: _Optional[_Iterable[bool]] = ...) -> None: ...
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: SetContainsReply.Found
    missing: Missing
    def __init__(self, found: _Optional[_Union[SetContainsReply.Found, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class ListPushRequest(_message.Message):
    __slots__ = ("key", "value", "ttl_ms", "refresh_ttl", "length_max")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TTL_FIELD_NUMBER: _ClassVar[int]
    LENGTH_MAX_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    ttl_ms: int
    refresh_ttl: bool
    length_max: int
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., ttl_ms: _Optional[int] = ..., refresh_ttl: bool = ..., length_max: _Optional[int] = ...) -> None: ...

class ListConcatenateRequest(_message.Message):
    __slots__ = ("key", "values", "ttl_ms", "refresh_ttl", "length_max")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TTL_FIELD_NUMBER: _ClassVar[int]
    LENGTH_MAX_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    values: _containers.RepeatedScalarFieldContainer[bytes]
    ttl_ms: int
    refresh_ttl: bool
    length_max: int
    def __init__(self, key: _Optional[bytes] = ..., values: _Optional[_Iterable[bytes]] = ..., ttl_ms: _Optional[int] = ..., refresh_ttl: bool = ..., length_max: _Optional[int] = ...) -> None: ...

class ListLengthReply(_message.Message):
    __slots__ = ("length",)
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    length: int
    def __init__(self, length: _Optional[int] = ...) -> None: ...

class ListPopReply(_message.Message):
    __slots__ = ("found", "missing")
    class Found(_message.Message):
        __slots__ = ("value", "length")
        VALUE_FIELD_NUMBER: _ClassVar[int]
        LENGTH_FIELD_NUMBER: _ClassVar[int]
        value: bytes
        length: int
        def __init__(self, value: _Optional[bytes] = ..., length: _Optional[int] = ...) -> None: ...
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: ListPopReply.Found
    missing: Missing
    def __init__(self, found: _Optional[_Union[ListPopReply.Found, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class ListRemoveRequest(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class ListFetchRequest(_message.Message):
    __slots__ = ("key", "unbounded_start", "first", "unbounded_end", "end")
    KEY_FIELD_NUMBER: _ClassVar[int]
    UNBOUNDED_START_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    UNBOUNDED_END_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    unbounded_start: Condition
    first: int
    unbounded_end: Condition
    end: int
    def __init__(self, key: _Optional[bytes] = ..., unbounded_start: _Optional[_Union[Condition, _Mapping]] = ..., first: _Optional[int] = ..., unbounded_end: _Optional[_Union[Condition, _Mapping]] = ..., end: _Optional[int] = ...) -> None: ...

class ListRetainRequest(_message.Message):
    __slots__ = ("key", "unbounded_start", "first", "unbounded_end", "end", "ttl_ms", "refresh_ttl")
    KEY_FIELD_NUMBER: _ClassVar[int]
    UNBOUNDED_START_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    UNBOUNDED_END_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TTL_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    unbounded_start: Condition
    first: int
    unbounded_end: Condition
    end: int
    ttl_ms: int
    refresh_ttl: bool
    def __init__(self, key: _Optional[bytes] = ..., unbounded_start: _Optional[_Union[Condition, _Mapping]] = ..., first: _Optional[int] = ..., unbounded_end: _Optional[_Union[Condition, _Mapping]] = ..., end: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., refresh_ttl: bool = ...) -> None: ...

class ScoredElement(_message.Message):
    __slots__ = ("value", "score")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    score: float
    def __init__(self, value: _Optional[bytes] = ..., score: _Optional[float] = ...) -> None: ...

class SortedSetPutRequest(_message.Message):
    __slots__ = ("key", "elements", "ttl_ms", "refresh_ttl")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TTL_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    elements: _containers.RepeatedCompositeFieldContainer[ScoredElement]
    ttl_ms: int
    refresh_ttl: bool
    def __init__(self, key: _Optional[bytes] = ..., elements: _Optional[_Iterable[_Union[ScoredElement, _Mapping]]] = ..., ttl_ms: _Optional[int] = ..., refresh_ttl: bool = ...) -> None: ...

class SortedSetFetchRequest(_message.Message):
    __slots__ = ("key", "order", "with_scores", "by_index", "by_score")
    class ByIndex(_message.Message):
        __slots__ = ("unbounded_start", "first", "unbounded_end", "end")
        UNBOUNDED_START_FIELD_NUMBER: _ClassVar[int]
        FIRST_FIELD_NUMBER: _ClassVar[int]
        UNBOUNDED_END_FIELD_NUMBER: _ClassVar[int]
        END_FIELD_NUMBER: _ClassVar[int]
        unbounded_start: Condition
        first: int
        unbounded_end: Condition
        end: int
        def __init__(self, unbounded_start: _Optional[_Union[Condition, _Mapping]] = ..., first: _Optional[int] = ..., unbounded_end: _Optional[_Union[Condition, _Mapping]] = ..., end: _Optional[int] = ...) -> None: ...
    class Bound(_message.Message):
        __slots__ = ("score", "exclusive")
        SCORE_FIELD_NUMBER: _ClassVar[int]
        EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
        score: float
        exclusive: bool
        def __init__(self, score: _Optional[float] = ..., exclusive: bool = ...) -> None: ...
    class ByScore(_message.Message):
        __slots__ = ("unbounded_least", "unbounded_greatest", "to", "offset", "count")
        UNBOUNDED_LEAST_FIELD_NUMBER: _ClassVar[int]
        FROM_FIELD_NUMBER: _ClassVar[int]
        UNBOUNDED_GREATEST_FIELD_NUMBER: _ClassVar[int]
        TO_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        unbounded_least: Condition
        unbounded_greatest: Condition
        to: SortedSetFetchRequest.Bound
        offset: int
        count: int
        def __init__(self, unbounded_least: _Optional[_Union[Condition, _Mapping]] = ..., unbounded_greatest: _Optional[_Union[Condition, _Mapping]] = ..., to: _Optional[_Union[SortedSetFetchRequest.Bound, _Mapping]] = ..., offset: _Optional[int] = ..., count: _Optional[int] = ..., **kwargs) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    WITH_SCORES_FIELD_NUMBER: _ClassVar[int]
    BY_INDEX_FIELD_NUMBER: _ClassVar[int]
    BY_SCORE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    order: Order
    with_scores: bool
    by_index: SortedSetFetchRequest.ByIndex
    by_score: SortedSetFetchRequest.ByScore
    def __init__(self, key: _Optional[bytes] = ..., order: _Optional[_Union[Order, str]] = ..., with_scores: bool = ..., by_index: _Optional[_Union[SortedSetFetchRequest.ByIndex, _Mapping]] = ..., by_score: _Optional[_Union[SortedSetFetchRequest.ByScore, _Mapping]] = ...) -> None: ...

class SortedSetFetchReply(_message.Message):
    __slots__ = ("found", "missing")
    class Scored(_message.Message):
        __slots__ = ("elements",)
        ELEMENTS_FIELD_NUMBER: _ClassVar[int]
        elements: _containers.RepeatedCompositeFieldContainer[ScoredElement]
        def __init__(self, elements: _Optional[_Iterable[_Union[ScoredElement, _Mapping]]] = ...) -> None: ...
    class Values(_message.Message):
        __slots__ = ("values",)
        VALUES_FIELD_NUMBER: _ClassVar[int]
        values: _containers.RepeatedScalarFieldContainer[bytes]
        def __init__(self, values: _Optional[_Iterable[bytes]] = ...) -> None: ...
    class Found(_message.Message):
        __slots__ = ("scored", "values")
        SCORED_FIELD_NUMBER: _ClassVar[int]
        VALUES_FIELD_NUMBER: _ClassVar[int]
        scored: SortedSetFetchReply.Scored
        values: SortedSetFetchReply.Values
        def __init__(self, scored: _Optional[_Union[SortedSetFetchReply.Scored, _Mapping]] = ..., values: _Optional[_Union[SortedSetFetchReply.Values, _Mapping]] = ...) -> None: ...
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: SortedSetFetchReply.Found
    missing: Missing
    def __init__(self, found: _Optional[_Union[SortedSetFetchReply.Found, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class ScoresReply(_message.Message):
    __slots__ = ("found", "missing")
    class Element(_message.Message):
        __slots__ = ("result", "score")
        RESULT_FIELD_NUMBER: _ClassVar[int]
        SCORE_FIELD_NUMBER: _ClassVar[int]
        result: Result
        score: float
        def __init__(self, result: _Optional[_Union[Result, str]] = ..., score: _Optional[float] = ...) -> None: ...
    class Found(_message.Message):
        __slots__ = ("elements",)
        ELEMENTS_FIELD_NUMBER: _ClassVar[int]
        elements: _containers.RepeatedCompositeFieldContainer[ScoresReply.Element]
        def __init__(self, elements: _Optional[_Iterable[_Union[ScoresReply.Element, _Mapping]]] = ...) -> None: ...
    FOUND_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    found: ScoresReply.Found
    missing: Missing
    def __init__(self, found: _Optional[_Union[ScoresReply.Found, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class SortedSetRemoveRequest(_message.Message):
    __slots__ = ("key", "all", "some")
    class Values(_message.Message):
        __slots__ = ("values",)
        VALUES_FIELD_NUMBER: _ClassVar[int]
        values: _containers.RepeatedScalarFieldContainer[bytes]
        def __init__(self, values: _Optional[_Iterable[bytes]] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    SOME_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    all: Condition
    some: SortedSetRemoveRequest.Values
    def __init__(self, key: _Optional[bytes] = ..., all: _Optional[_Union[Condition, _Mapping]] = ..., some: _Optional[_Union[SortedSetRemoveRequest.Values, _Mapping]] = ...) -> None: ...

class SortedSetIncrementRequest(_message.Message):
    __slots__ = ("key", "value", "amount", "ttl_ms", "refresh_ttl")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TTL_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    amount: float
    ttl_ms: int
    refresh_ttl: bool
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., amount: _Optional[float] = ..., ttl_ms: _Optional[int] = ..., refresh_ttl: bool = ...) -> None: ...

class ScoreReply(_message.Message):
    __slots__ = ("score",)
    SCORE_FIELD_NUMBER: _ClassVar[int]
    score: float
    def __init__(self, score: _Optional[float] = ...) -> None: ...

class SortedSetGetRankRequest(_message.Message):
    __slots__ = ("key", "value", "order")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    order: Order
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., order: _Optional[_Union[Order, str]] = ...) -> None: ...

class RankReply(_message.Message):
    __slots__ = ("element", "missing")
    class Element(_message.Message):
        __slots__ = ("result", "rank")
        RESULT_FIELD_NUMBER: _ClassVar[int]
        RANK_FIELD_NUMBER: _ClassVar[int]
        result: Result
        rank: int
        def __init__(self, result: _Optional[_Union[Result, str]] = ..., rank: _Optional[int] = ...) -> None: ...
    ELEMENT_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    element: RankReply.Element
    missing: Missing
    def __init__(self, element: _Optional[_Union[RankReply.Element, _Mapping]] = ..., missing: _Optional[_Union[Missing, _Mapping]] = ...) -> None: ...

class CacheName(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListCachesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCachesReply(_message.Message):
    __slots__ = ("caches",)
    class Cache(_message.Message):
        __slots__ = ("name",)
        NAME_FIELD_NUMBER: _ClassVar[int]
        name: str
        def __init__(self, name: _Optional[str] = ...) -> None: ...
    CACHES_FIELD_NUMBER: _ClassVar[int]
    caches: _containers.RepeatedCompositeFieldContainer[ListCachesReply.Cache]
    def __init__(self, caches: _Optional[_Iterable[_Union[ListCachesReply.Cache, _Mapping]]] = ...) -> None: ...
