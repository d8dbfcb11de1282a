"""The server that a client talks to, and the settings of its channels."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import List, Optional, Tuple, Union

import grpc

from gannet.configuration import Configuration
from gannet.credentials import CredentialProvider
from gannet.version import VERSION

_MS = timedelta(milliseconds=1)
Options = List[Tuple[str, Union[int, str]]]


@dataclass(frozen=True)
class Target:
    """An address with everything that a connection to it needs."""

    address: str
    tls: bool
    ca_file: Optional[str]
    token: Optional[str]

    @staticmethod
    def of(address: str, tls: Optional[bool], ca_file: Optional[str], credentials: CredentialProvider) -> Target:
        """Returns the target of these arguments. Without `tls`, TLS is used unless the address is local.

        Raises ValueError if the address is not HOST:PORT.
        """
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536 or "/" in address:
            raise ValueError(f"cannot use address '{address}': it is not HOST:PORT; give one such as 127.0.0.1:7000")
        if tls is None:
            tls = ca_file is not None or not _is_local(host)
        return Target(address, tls, ca_file, credentials.token)

    def metadata(self, cache: str) -> Tuple[Tuple[str, str], ...]:
        """Returns the metadata of a call on this cache. Raises TypeError unless its name is str."""
        if not isinstance(cache, str):
            raise TypeError(f"cannot use cache {cache!r}: it is {type(cache).__name__}; give str")
        pairs = [("cache", cache)] if cache else []
        if self.token is not None:
            pairs.append(("authorization", self.token))
        return tuple(pairs)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Returns the credentials of a TLS channel. Raises OSError if the CA file cannot be read."""
        roots = None if self.ca_file is None else Path(self.ca_file).read_bytes()
        return grpc.ssl_channel_credentials(root_certificates=roots)


def is_cache_name(cache: str) -> bool:
    """Returns whether a header of HTTP/2 may have this name as its value."""
    return cache.isascii() and cache.isprintable()


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def channel_options(configuration: Configuration) -> Options:
    """Returns the options of each channel. A channel has one connection of its own."""
    options: Options = [
        ("grpc.use_local_subchannel_pool", 1),
        # The address is that of the server: a proxy for web traffic does not lead to it.
        ("grpc.enable_http_proxy", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.max_send_message_length", configuration.message_bytes_max),
        ("grpc.max_receive_message_length", configuration.message_bytes_max),
        ("grpc.initial_reconnect_backoff_ms", configuration.reconnect_delay_min // _MS),
        # Despite its name, it is the time that one attempt to connect may take.
        ("grpc.min_reconnect_backoff_ms", configuration.connect_timeout // _MS),
        ("grpc.max_reconnect_backoff_ms", configuration.reconnect_delay_max // _MS),
        ("grpc.primary_user_agent", f"gannet-python/{VERSION}"),
    ]
    if configuration.keepalive_time is not None:
        options += [
            ("grpc.keepalive_time_ms", configuration.keepalive_time // _MS),
            ("grpc.keepalive_timeout_ms", configuration.keepalive_timeout // _MS),
            # Without it, grpcio waits a minute for the answer to a ping, whatever the keepalive timeout.
            ("grpc.http2.ping_timeout_ms", configuration.keepalive_timeout // _MS),
            ("grpc.keepalive_permit_without_calls", int(configuration.keepalive_without_calls)),
            ("grpc.http2.max_pings_without_data", 0),
        ]
    return options
