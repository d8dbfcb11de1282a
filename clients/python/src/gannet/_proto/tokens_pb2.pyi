from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Permissions(_message.Message):
    __slots__ = ("superuser", "explicit")
    class Superuser(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SUPERUSER: _ClassVar[Permissions.Superuser]
    SUPERUSER: Permissions.Superuser
    class Explicit(_message.Message):
        __slots__ = ("permissions",)
        PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
        permissions: _containers.RepeatedCompositeFieldContainer[Permission]
        def __init__(self, permissions: _Optional[_Iterable[_Union[Permission, _Mapping]]] = ...) -> None: ...
    SUPERUSER_FIELD_NUMBER: _ClassVar[int]
    EXPLICIT_FIELD_NUMBER: _ClassVar[int]
    superuser: Permissions.Superuser
    explicit: Permissions.Explicit
    def __init__(self, superuser: _Optional[_Union[Permissions.Superuser, str]] = ..., explicit: _Optional[_Union[Permissions.Explicit, _Mapping]] = ...) -> None: ...

class Permission(_message.Message):
    __slots__ = ("items", "topics")
    class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[Permission.Role]
        READ_WRITE: _ClassVar[Permission.Role]
        READ_ONLY: _ClassVar[Permission.Role]
        WRITE_ONLY: _ClassVar[Permission.Role]
    NONE: Permission.Role
    READ_WRITE: Permission.Role
    READ_ONLY: Permission.Role
    WRITE_ONLY: Permission.Role
    class All(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class CacheSelector(_message.Message):
        __slots__ = ("name",)
        NAME_FIELD_NUMBER: _ClassVar[int]
        name: str
        def __init__(self, name: _Optional[str] = ...) -> None: ...
    class Part(_message.Message):
        __slots__ = ("name", "prefix")
        NAME_FIELD_NUMBER: _ClassVar[int]
        PREFIX_FIELD_NUMBER: _ClassVar[int]
        name: bytes
        prefix: bytes
        def __init__(self, name: _Optional[bytes] = ..., prefix: _Optional[bytes] = ...) -> None: ...
    class Scope(_message.Message):
        __slots__ = ("role", "all_caches", "one_cache", "everything", "part")
        ROLE_FIELD_NUMBER: _ClassVar[int]
        ALL_CACHES_FIELD_NUMBER: _ClassVar[int]
        ONE_CACHE_FIELD_NUMBER: _ClassVar[int]
        EVERYTHING_FIELD_NUMBER: _ClassVar[int]
        PART_FIELD_NUMBER: _ClassVar[int]
        role: Permission.Role
        all_caches: Permission.All
        one_cache: Permission.CacheSelector
        everything: Permission.All
        part: Permission.Part
        def __init__(self, role: _Optional[_Union[Permission.Role, str]] = ..., all_caches: _Optional[_Union[Permission.All, _Mapping]] = ..., one_cache: _Optional[_Union[Permission.CacheSelector, _Mapping]] = ..., everything: _Optional[_Union[Permission.All, _Mapping]] = ..., part: _Optional[_Union[Permission.Part, _Mapping]] = ...) -> None: ...
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    items: Permission.Scope
    topics: Permission.Scope
    def __init__(self, items: _Optional[_Union[Permission.Scope, _Mapping]] = ..., topics: _Optional[_Union[Permission.Scope, _Mapping]] = ...) -> None: ...

class Validity(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    def __init__(self, seconds: _Optional[int] = ...) -> None: ...

class GenerateApiTokenRequest(_message.Message):
    __slots__ = ("never", "expires", "auth_token", "permissions", "token_id")
    class Never(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    NEVER_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    AUTH_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    never: GenerateApiTokenRequest.Never
    expires: Validity
    auth_token: str
    permissions: Permissions
    token_id: str
    def __init__(self, never: _Optional[_Union[GenerateApiTokenRequest.Never, _Mapping]] = ..., expires: _Optional[_Union[Validity, _Mapping]] = ..., auth_token: _Optional[str] = ..., permissions: _Optional[_Union[Permissions, _Mapping]] = ..., token_id: _Optional[str] = ...) -> None: ...

class ApiToken(_message.Message):
    __slots__ = ("token", "refresh_token", "endpoint", "valid_until")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    token: str
    refresh_token: str
    endpoint: str
    valid_until: int
    def __init__(self, token: _Optional[str] = ..., refresh_token: _Optional[str] = ..., endpoint: _Optional[str] = ..., valid_until: _Optional[int] = ...) -> None: ...

class RefreshApiTokenRequest(_message.Message):
    __slots__ = ("token", "refresh_token")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    REFRESH_TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    refresh_token: str
    def __init__(self, token: _Optional[str] = ..., refresh_token: _Optional[str] = ...) -> None: ...

class GenerateDisposableTokenRequest(_message.Message):
    __slots__ = ("expires", "auth_token", "permissions", "token_id")
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    AUTH_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PERMISSIONS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    expires: Validity
    auth_token: str
    permissions: Permissions
    token_id: str
    def __init__(self, expires: _Optional[_Union[Validity, _Mapping]] = ..., auth_token: _Optional[str] = ..., permissions: _Optional[_Union[Permissions, _Mapping]] = ..., token_id: _Optional[str] = ...) -> None: ...

class DisposableToken(_message.Message):
    __slots__ = ("token", "endpoint", "valid_until")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    token: str
    endpoint: str
    valid_until: int
    def __init__(self, token: _Optional[str] = ..., endpoint: _Optional[str] = ..., valid_until: _Optional[int] = ...) -> None: ...
