"""Errors as results: codes, and the remedy of each common mistake."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import ClassVar, Optional, Tuple

import grpc


class ErrorCode(enum.Enum):
    """The kinds of errors."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    """An argument is not allowed, such as an empty key."""
    NOT_FOUND_CACHE = "NOT_FOUND_CACHE"
    """The cache does not exist."""
    NOT_FOUND_RECORD = "NOT_FOUND_RECORD"
    """The record that a change needs does not exist."""
    NOT_FOUND_GRAPH = "NOT_FOUND_GRAPH"
    """The graph or the edge type is not declared."""
    ALREADY_EXISTS = "ALREADY_EXISTS"
    """The cache or the record exists already."""
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    """The item or bin has another type, its value is not a number, or the filter of a record is false.

    Of a graph: the edge type has another form, its cap is reached, or the server has no graph store.
    """
    ABORTED = "ABORTED"
    """The record has another revision than the call requires."""
    UNAUTHENTICATED = "UNAUTHENTICATED"
    """The token is missing or wrong."""
    PERMISSION_DENIED = "PERMISSION_DENIED"
    """The user of the token may not execute the call."""
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    """A limit of the server: memory, quota, size of a message or value, number of caches, graphs or nodes."""
    TIMEOUT = "TIMEOUT"
    """The deadline passed before a reply arrived. The server may have executed the call."""
    CLIENT_QUEUE_TIMEOUT = "CLIENT_QUEUE_TIMEOUT"
    """The deadline passed while the request waited in the client. The server did not receive it."""
    CLIENT_QUEUE_FULL = "CLIENT_QUEUE_FULL"
    """Too many requests wait in the client. The server did not receive this one."""
    CANCELLED = "CANCELLED"
    """The caller cancelled the call, or the client was closed."""
    UNAVAILABLE = "UNAVAILABLE"
    """The server cannot be reached, or does not speak the protocol of the client."""
    UNIMPLEMENTED = "UNIMPLEMENTED"
    """The server does not have the call."""
    INTERNAL = "INTERNAL"
    """The server failed, or a reply contradicts the protocol."""
    UNKNOWN = "UNKNOWN"
    """Another error of the server."""


@dataclass(frozen=True)
class CacheError:
    """A call that failed."""

    outcome: ClassVar[str] = "error"

    code: ErrorCode
    message: str
    """One sentence for people: `cannot VERB OBJECT: CAUSE; REMEDY`."""
    remedy: str
    """The action that removes the cause, as at the end of `message`."""
    retryable: bool
    """True if the same call may succeed later. A call that is not idempotent may have been executed."""


_STATUS = grpc.StatusCode
_CODES = {
    _STATUS.INVALID_ARGUMENT: ErrorCode.INVALID_ARGUMENT,
    _STATUS.OUT_OF_RANGE: ErrorCode.INVALID_ARGUMENT,
    _STATUS.NOT_FOUND: ErrorCode.NOT_FOUND_CACHE,
    _STATUS.ALREADY_EXISTS: ErrorCode.ALREADY_EXISTS,
    _STATUS.FAILED_PRECONDITION: ErrorCode.FAILED_PRECONDITION,
    _STATUS.UNAUTHENTICATED: ErrorCode.UNAUTHENTICATED,
    _STATUS.PERMISSION_DENIED: ErrorCode.PERMISSION_DENIED,
    _STATUS.RESOURCE_EXHAUSTED: ErrorCode.LIMIT_EXCEEDED,
    _STATUS.DEADLINE_EXCEEDED: ErrorCode.TIMEOUT,
    _STATUS.CANCELLED: ErrorCode.CANCELLED,
    _STATUS.UNAVAILABLE: ErrorCode.UNAVAILABLE,
    _STATUS.UNIMPLEMENTED: ErrorCode.UNIMPLEMENTED,
    _STATUS.INTERNAL: ErrorCode.INTERNAL,
    _STATUS.ABORTED: ErrorCode.ABORTED,
    _STATUS.DATA_LOSS: ErrorCode.INTERNAL,
}
_RETRYABLE = frozenset(
    [
        ErrorCode.UNAVAILABLE,
        ErrorCode.INTERNAL,
        ErrorCode.TIMEOUT,
        ErrorCode.CLIENT_QUEUE_TIMEOUT,
        ErrorCode.CLIENT_QUEUE_FULL,
    ]
)
_REMEDIES = {
    ErrorCode.INVALID_ARGUMENT: "change the argument",
    ErrorCode.NOT_FOUND_CACHE: "create the cache with create_cache, or correct its name",
    ErrorCode.NOT_FOUND_GRAPH: "declare the edge type with declare_type, or correct the names",
    ErrorCode.ALREADY_EXISTS: "use the cache, or choose another name",
    ErrorCode.FAILED_PRECONDITION: "use the calls of the item's type (get_type returns it), or delete the item first",
    ErrorCode.ABORTED: "read the item again, and repeat the change with its present revision",
    ErrorCode.UNAUTHENTICATED: "pass credentials=CredentialProvider.from_string(TOKEN); the token is the password of "
    "the user default, or USER:PASSWORD",
    ErrorCode.PERMISSION_DENIED: "create a token with this permission (gannet user token, or "
    "generate_disposable_token), or grant the right to the user with ACL SETUSER",
    ErrorCode.LIMIT_EXCEEDED: "store less in one call, or raise the limit of the server",
    ErrorCode.TIMEOUT: "raise the deadline of the configuration, or reduce the load of the server",
    ErrorCode.CANCELLED: "repeat the call if its result is still needed",
    ErrorCode.UNIMPLEMENTED: "use a server of the same version as the client, or newer",
    ErrorCode.INTERNAL: "repeat the call; if it fails again, read the log of the server",
    ErrorCode.UNKNOWN: "read the log of the server",
}

# The remedies of refused calls on graphs, whose messages name the cause. Those above are of items.
_GRAPH_REMEDIES = {
    ErrorCode.FAILED_PRECONDITION: "see the limits of graphs in docs/graph/README.md, and change the call",
    ErrorCode.LIMIT_EXCEEDED: "send or store less, or raise the limit of the server (graph.memory for graphs)",
}

# The maximum size of a request. No setting of the server changes it.
_SERVER_MESSAGE_BYTES_MAX = 10 << 20

# The first words of the server's messages on records, each with the remedy of its cause.
_RECORD_REMEDIES = {
    "NOTFOUND": "create the record with record_put first",
    "EXISTS": "use RecordWhen.ALWAYS or RecordWhen.UPDATE, or another key",
    "REVISION": "read the record again, and repeat the change with its present revision",
    "FILTERED": "read the record, and change it if it still has to be changed",
    "RECORDSET": "name the set of the record, or none",
    "BINTYPE": "use a value of the type of the bin, or replace the bin with record_put",
    "BINRANGE": "change the amount, or the type of the bin",
    "NOINDEX": "create the index by a Redis client: REC.INDEX CREATE SET BIN INT|STR",
    "BUILDING": "repeat the call when all records are entered; REC.INDEX LIST shows the state",
    "INDEXFULL": "create the index again with more MEMORY",
}


def _unavailable(details: str, address: str, tls: bool) -> Tuple[str, str]:
    """Returns the cause and the remedy of a connection that failed, by the text of the gRPC library."""
    text = details.lower()
    if tls and "wrong_version_number" in text:
        return "the server at this port does not use TLS", "pass tls=False, or the port that uses TLS"
    if "certificate" in text and "verif" in text and "certificate_verify_failed" in text:
        return (
            "the certificate of the server was not signed by a known CA, or names another host",
            "pass ca_file=PATH with the CA of the server, and an address with the host name of the certificate",
        )
    if "tls handshake failed" in text or "ssl" in text:
        return f"the TLS handshake failed ({details})", "check that the port uses TLS, and its certificate"
    if "http status 503" in text:
        return (
            "the server has as many connections as it allows",
            "close connections, or raise limits.maxconns (or limits.maxconns_per_source) of the server",
        )
    if "failed parsing http/2" in text or "not http/2" in text or "trying to connect an http1.x server" in text:
        return (
            "the server at this port does not speak gRPC",
            "pass the address of `gannet serve --grpc`, not the port of memcached, Redis or HTTP clients; "
            "if the port uses TLS, pass tls=True",
        )
    if "connection refused" in text:
        return "no server listens there", f"start one with `gannet serve --grpc {address}`, or correct the address"
    if "name not found" in text or "resolv" in text or "lookup" in text:
        return "the host name is unknown", "correct the host name, or check DNS"
    if "timed out" in text or "timeout" in text or "no route" in text or "unreachable" in text:
        return f"the host does not answer ({details})", "check the address, the network and the firewall"
    if "socket closed" in text or "connection reset" in text or "broken pipe" in text or "goaway" in text:
        return (
            "the server closed the connection",
            "repeat the call; if it fails again, check that the server runs, and that tls is as on its port",
        )
    return details or "the server is unavailable", "repeat the call; if it fails again, check that the server runs"


def _limit(cause: str, remedy: str, request_bytes: int, message_bytes_max: int) -> Tuple[str, str]:
    """Returns the cause and the remedy of an exceeded limit, if the server, or the gRPC library, names no remedy."""
    if "size limit exceeded" in cause:
        cause = f"{cause}, and the request has {request_bytes} bytes"
        return cause, "store less in one item, or raise the limit by --item-max of the server"
    if re.search("sent message larger than max", cause, re.IGNORECASE):
        remedy = "send less in one call"
        if message_bytes_max < _SERVER_MESSAGE_BYTES_MAX:
            remedy += f", or raise message_bytes_max to at most {_SERVER_MESSAGE_BYTES_MAX} bytes"
        return f"the request has {request_bytes} bytes, above the maximum of {message_bytes_max} bytes", remedy
    if "larger than max" in cause:
        cause = f"the reply is longer than the maximum of {message_bytes_max} bytes"
        return cause, "read less in one call, or raise message_bytes_max"
    return cause, remedy


def error_of_status(
    status: grpc.StatusCode,
    details: Optional[str],
    method: str,
    address: str,
    tls: bool,
    has_token: bool,
    request_bytes: int,
    message_bytes_max: int,
    of_graph: bool = False,
) -> CacheError:
    """Returns the error of a call that ended with a gRPC status other than OK."""
    code = _CODES.get(status, ErrorCode.UNKNOWN)
    cause = (details or status.name).strip()
    if of_graph and code is ErrorCode.NOT_FOUND_CACHE and not cause.startswith("the cache"):
        code = ErrorCode.NOT_FOUND_GRAPH
    remedy = _REMEDIES.get(code, "")
    if of_graph:
        remedy = _GRAPH_REMEDIES.get(code, remedy)
    if code is ErrorCode.UNAVAILABLE:
        cause, remedy = _unavailable(cause, address, tls)
    elif code is ErrorCode.UNAUTHENTICATED:
        cause = "the server does not accept the token" if has_token else "the server needs a token, and none was passed"
    elif code is ErrorCode.TIMEOUT:
        cause = "no reply arrived before the deadline"
    elif (word := cause.partition(" ")[0]) in _RECORD_REMEDIES:
        cause, remedy = cause.partition(" ")[2], _RECORD_REMEDIES[word]
        code = ErrorCode.NOT_FOUND_RECORD if word == "NOTFOUND" else code
    elif "; " in cause:
        # The server's own message names the remedy.
        cause, _, remedy = cause.partition("; ")
        if code in (ErrorCode.NOT_FOUND_CACHE, ErrorCode.NOT_FOUND_GRAPH):
            remedy = _REMEDIES[code]
    elif code is ErrorCode.LIMIT_EXCEEDED:
        cause, remedy = _limit(cause, remedy, request_bytes, message_bytes_max)
    message = f"cannot execute {method} at {address}: {cause}; {remedy}"
    return CacheError(code, message, remedy, code in _RETRYABLE)


def error_of_client(code: ErrorCode, method: str, cause: str, remedy: str) -> CacheError:
    """Returns the error of a call that the client did not send."""
    return CacheError(code, f"cannot execute {method}: {cause}; {remedy}", remedy, code in _RETRYABLE)
