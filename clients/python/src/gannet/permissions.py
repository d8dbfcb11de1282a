"""Permissions of signed tokens, as typed values."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import Iterable, Optional, Union

from gannet import _requests as q
from gannet._proto import tokens_pb2 as m


class Role(enum.Enum):
    """The calls that a permission covers."""

    READ_WRITE = 1
    READ_ONLY = 2
    WRITE_ONLY = 3
    """Without calls whose effect or reply depends on present values, such as conditional sets."""


class Permission:
    """The base of `ItemPermission` and `TopicPermission`, so that a list of both is a list of permissions."""


@dataclass(frozen=True)
class ItemPermission(Permission):
    """The right to items: those of one cache or of all, and all keys, the keys with a prefix, or one key."""

    role: Role
    cache: Optional[str] = None
    """The name of the cache; None for all caches."""
    key: Optional[q.Bytes] = None
    key_prefix: Optional[q.Bytes] = None

    def __post_init__(self) -> None:
        if self.key is not None and self.key_prefix is not None:
            raise ValueError("cannot use permission: both key and key_prefix are set; set one of them")


@dataclass(frozen=True)
class TopicPermission(Permission):
    """The right to topics: those of one cache or of all, and all topics, the topics with a prefix, or one topic."""

    role: Role
    """READ_ONLY to subscribe, WRITE_ONLY to publish."""
    cache: Optional[str] = None
    """The name of the cache; None for all caches."""
    topic: Optional[str] = None
    topic_prefix: Optional[str] = None

    def __post_init__(self) -> None:
        if self.topic is not None and self.topic_prefix is not None:
            raise ValueError("cannot use permission: both topic and topic_prefix are set; set one of them")


@dataclass(frozen=True)
class AllPermissions:
    """All rights, with those to create caches and to issue tokens."""


Permissions = Union[AllPermissions, Iterable[Permission]]


def _scope(
    role: Role, cache: Optional[str], name: Optional[q.Bytes], prefix: Optional[q.Bytes]
) -> m.Permission.Scope:
    scope = m.Permission.Scope(role=role.value)  # type: ignore[arg-type]
    if cache is None:
        scope.all_caches.SetInParent()
    else:
        scope.one_cache.name = cache
    if name is not None:
        scope.part.name = q.encoded(name)
    elif prefix is not None:
        scope.part.prefix = q.encoded(prefix)
    else:
        scope.everything.SetInParent()
    return scope


def _message(permission: Permission) -> m.Permission:
    if isinstance(permission, ItemPermission):
        items = _scope(permission.role, permission.cache, permission.key, permission.key_prefix)
        return m.Permission(items=items)
    if isinstance(permission, TopicPermission):
        topics = _scope(permission.role, permission.cache, permission.topic, permission.topic_prefix)
        return m.Permission(topics=topics)
    raise TypeError(
        f"cannot use permission {permission!r}: it is {type(permission).__name__}; "
        "give ItemPermission, TopicPermission, or AllPermissions() instead of the list"
    )


def permissions_of(permissions: Permissions) -> m.Permissions:
    """Returns the message of permissions. Raises TypeError for a value that is none."""
    if isinstance(permissions, AllPermissions):
        return m.Permissions(superuser=m.Permissions.SUPERUSER)
    if isinstance(permissions, (ItemPermission, TopicPermission)):
        permissions = [permissions]
    explicit = m.Permissions.Explicit(permissions=[_message(each) for each in permissions])
    return m.Permissions(explicit=explicit)


def validity_of(expires: timedelta) -> m.Validity:
    """Returns the time for which a token is valid, in whole seconds. Raises ValueError unless the server allows it."""
    seconds = expires // timedelta(seconds=1)
    if not 1 <= seconds < 1 << 32:
        raise ValueError(f"cannot issue token: expires is {expires}; give a time from 1 s to 136 years")
    return m.Validity(seconds=seconds)
