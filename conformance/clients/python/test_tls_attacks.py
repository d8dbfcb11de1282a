"""Attacks on the TLS of the server with messages that no TLS library sends, made with tlslite-ng.

After each attack, a client that was connected before gets its reply at once, and the server accepts new connections.
"""

import contextlib
import socket
import ssl
import time

import pytest
from tlslite.api import HandshakeSettings, TLSConnection
from tlslite.constants import AlertDescription, CipherSuite, ContentType, ExtensionType
from tlslite.errors import TLSError
from tlslite.extensions import KeyShareEntry, SNIExtension, TLSExtension
from tlslite.messages import ApplicationData, ClientHello, KeyUpdate

from tls_server import folder, server

# The time within which another client gets its reply, in seconds. A stalled worker takes longer.
BYSTANDER_MAX = 1.0
TIMEOUT = 20
HANDSHAKE, ALERT = ContentType.handshake, ContentType.alert


@pytest.fixture(scope="module")
def bystander(server, folder):
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    with socket.create_connection(("127.0.0.1", server.resp_port), TIMEOUT) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            yield secure


@pytest.fixture(autouse=True)
def others_are_served(bystander, server, folder):
    """Checks after each test that the server serves the earlier client and new ones."""
    yield
    begun = time.monotonic()
    bystander.sendall(b"PING\r\n")
    assert bystander.recv(7) == b"+PONG\r\n"
    assert time.monotonic() - begun < BYSTANDER_MAX
    with tls_client(server) as client:
        client.sendall(b"PING\r\n")
        assert client.recv(7) == b"+PONG\r\n"


def connect(server):
    return socket.create_connection(("127.0.0.1", server.resp_port), TIMEOUT)


@contextlib.contextmanager
def tls_client(server, version=(3, 4)):
    settings = HandshakeSettings()
    settings.minVersion = settings.maxVersion = version
    with connect(server) as plain:
        client = TLSConnection(plain)
        client.handshakeClientCert(settings=settings, serverName="localhost")
        client.ignoreAbruptClose = True
        yield client


def record(kind, body, version=(3, 1)):
    return bytes([kind, *version]) + len(body).to_bytes(2, "big") + body


def hello(version=(3, 3), extensions=(), suites=None, name=b"localhost", versions=((3, 4), (3, 3))):
    """Returns a ClientHello without the header of its record."""
    share = KeyShareEntry().create(29, bytes(range(32)), None)
    shares = share_list([share])
    groups = TLSExtension().create(ExtensionType.supported_groups, b"\x00\x04\x00\x1d\x00\x17")
    schemes = TLSExtension().create(ExtensionType.signature_algorithms, b"\x00\x06\x04\x03\x08\x04\x04\x01")
    listed = b"".join(bytes(one) for one in versions)
    supported = TLSExtension().create(ExtensionType.supported_versions, bytes([len(listed)]) + listed)
    all_extensions = [SNIExtension().create(name)] if name is not None else []
    all_extensions += [groups, schemes] + ([shares, supported] if versions else []) + list(extensions)
    suites = suites or [
        CipherSuite.TLS_AES_128_GCM_SHA256,
        CipherSuite.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ]
    message = ClientHello().create(version, bytearray(range(32)), bytearray(32), suites, extensions=all_extensions)
    return bytes(message.write())


def share_list(entries):
    body = b"".join(
        entry.group.to_bytes(2, "big") + len(entry.key_exchange).to_bytes(2, "big") + bytes(entry.key_exchange)
        for entry in entries
    )
    return TLSExtension().create(ExtensionType.key_share, len(body).to_bytes(2, "big") + body)


def exchange(server, data, chunks=None):
    """Sends bytes. Returns what the server sends until it closes the connection or begins its handshake."""
    with connect(server) as plain:
        received = b""
        try:
            for chunk in chunks or [data]:
                plain.sendall(chunk)
            plain.settimeout(3)
            while part := plain.recv(65536):
                received += part
                if received[:1] == bytes([HANDSHAKE]):
                    break
        except TimeoutError:
            received += b"(open)"
        except OSError:
            pass
        return received


def alert_in(received):
    """Returns the description of the first alert record, or None."""
    at = 0
    while at + 5 <= len(received):
        length = int.from_bytes(received[at + 3 : at + 5], "big")
        if received[at] == ALERT and length == 2:
            return received[at + 6]
        at += 5 + length
    return None


ANY_ALERT = "an alert"
CLOSED = "closed, with or without an alert"
HELLO = "a ServerHello"
NOT_TLS = "the line for a client that does not use TLS"

LONG_NAME = b"a" * 255
DUPLICATE = TLSExtension().create(ExtensionType.supported_groups, b"\x00\x02\x00\x1d")
UNKNOWN = [TLSExtension().create(number, b"x" * 100) for number in (0x0A0A, 0xFAFA, 65000)]
TICKET = b"\x00\x26\x00\x20" + b"t" * 32 + b"\x00\x00\x00\x00"
BINDER = b"\x00\x21\x20" + b"b" * 32
EARLY = [
    TLSExtension().create(ExtensionType.psk_key_exchange_modes, b"\x01\x01"),
    TLSExtension().create(ExtensionType.early_data, b""),
    TLSExtension().create(ExtensionType.pre_shared_key, TICKET + BINDER),
]

CASES = {
    "SSL 2.0": (b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + b"\x01\x00\x80" * 7 + bytes(16), CLOSED),
    "SSL 3.0": (record(HANDSHAKE, hello((3, 0), versions=()), (3, 0)), AlertDescription.protocol_version),
    "TLS 1.0": (record(HANDSHAKE, hello((3, 1), versions=())), AlertDescription.protocol_version),
    "TLS 1.1": (record(HANDSHAKE, hello((3, 2), versions=())), AlertDescription.protocol_version),
    "a version of the future": (record(HANDSHAKE, hello(versions=((3, 9), (3, 4)))), HELLO),
    "a record that is too long": (bytes([HANDSHAKE, 3, 1, 0x48, 0x01]) + bytes(0x4801), ANY_ALERT),
    "a record of the greatest length": (bytes([HANDSHAKE, 3, 1, 0xFF, 0xFF]) + bytes(1000), ANY_ALERT),
    "a thousand empty records": (record(HANDSHAKE, b"") * 1000, ANY_ALERT),
    "a cipher change first": (record(ContentType.change_cipher_spec, b"\x01"), CLOSED),
    "ten thousand cipher changes": (record(ContentType.change_cipher_spec, b"\x01") * 10_000, CLOSED),
    "data first": (record(ContentType.application_data, b"PING\r\n"), NOT_TLS),
    "a heartbeat": (record(24, b"\x01\x40\x00" + bytes(16)), NOT_TLS),
    "an unknown record": (record(99, b"x"), NOT_TLS),
    "ten thousand warnings": (record(ALERT, b"\x01\x5a") * 10_000, CLOSED),
    "a fatal alert first": (record(ALERT, b"\x02\x28"), CLOSED),
    "half an alert": (record(ALERT, b"\x02"), CLOSED),
    "a hello of 16 MiB": (
        record(HANDSHAKE, b"\x01\xff\xff\xff" + bytes(16000)) + record(HANDSHAKE, bytes(16000)) * 20,
        CLOSED,
    ),
    "an unknown message": (record(HANDSHAKE, b"\x63\x00\x00\x04abcd"), ANY_ALERT),
    "a ServerHello": (record(HANDSHAKE, b"\x02" + hello()[1:]), ANY_ALERT),
    "a Finished first": (record(HANDSHAKE, b"\x14\x00\x00\x0c" + bytes(12)), ANY_ALERT),
    "a hello that ends early": (record(HANDSHAKE, b"\x01\x00\x00\x20" + bytes(32)), ANY_ALERT),
    "a hello with bytes behind it": (record(HANDSHAKE, hello() + b"rest"), CLOSED),
    "two hellos": (record(HANDSHAKE, hello()) * 2, HELLO),
    "no common cipher": (
        record(HANDSHAKE, hello(suites=[CipherSuite.TLS_RSA_WITH_AES_128_CBC_SHA], versions=())),
        AlertDescription.handshake_failure,
    ),
    "an empty host name": (record(HANDSHAKE, hello(name=b"")), CLOSED),
    "a long host name": (record(HANDSHAKE, hello(name=LONG_NAME)), CLOSED),
    "a host name of zero bytes": (record(HANDSHAKE, hello(name=bytes(64))), CLOSED),
    "an address as host name": (record(HANDSHAKE, hello(name=b"127.0.0.1")), CLOSED),
    "no host name": (record(HANDSHAKE, hello(name=None)), HELLO),
    "the same extension twice": (record(HANDSHAKE, hello(extensions=[DUPLICATE])), ANY_ALERT),
    "unknown extensions": (record(HANDSHAKE, hello(extensions=UNKNOWN)), HELLO),
    "early data with an unknown ticket": (
        record(HANDSHAKE, hello(extensions=EARLY)) + record(ContentType.application_data, bytes(600), (3, 3)) * 100,
        CLOSED,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_malformed_handshake_is_refused(server, name):
    data, expected = CASES[name]
    received = exchange(server, data)
    assert not received.endswith(b"(open)"), f"the server waits: {received!r}"
    if expected == HELLO:
        assert received[0] == HANDSHAKE and received[5] == 2, received
    elif expected == NOT_TLS:
        assert received.startswith(b"-ERR this port uses TLS"), received
    elif expected == ANY_ALERT:
        assert alert_in(received) is not None, received
    elif expected != CLOSED:
        assert alert_in(received) == expected, received


def test_hello_in_records_of_one_byte_is_accepted(server):
    data = b"".join(record(HANDSHAKE, bytes([byte])) for byte in hello())
    received = exchange(server, data, chunks=[data[at : at + 7] for at in range(0, len(data), 7)])
    assert received[0] == HANDSHAKE and received[5] == 2, received


def test_garbage_in_place_of_the_finished_message_is_refused(server):
    with connect(server) as plain:
        plain.sendall(record(HANDSHAKE, hello()))
        assert plain.recv(65536)[0] == HANDSHAKE
        plain.sendall(record(ContentType.application_data, bytes(64), (3, 3)))
        plain.settimeout(5)
        rest = b""
        with contextlib.suppress(ConnectionError):
            while part := plain.recv(65536):
                rest += part


@pytest.mark.parametrize("version", [(3, 3), (3, 4)])
def test_changed_record_is_refused_and_its_request_is_not_executed(server, version):
    with tls_client(server, version) as client:
        client.sendall(b"SET altered no\r\n")
        assert client.recv(5) == b"+OK\r\n"
        sent = []
        plain = client.sock.socket if hasattr(client.sock, "socket") else client.sock
        original, client.sock.send = client.sock.send, lambda data: sent.append(bytes(data)) or len(data)
        with contextlib.suppress(Exception):
            client.sendall(b"SET altered yes\r\n")
        client.sock.send = original
        data = bytearray(b"".join(sent))
        data[-1] ^= 1
        plain.sendall(bytes(data))
        with pytest.raises((TLSError, OSError)):
            assert client.recv(5)
    with tls_client(server, version) as client:
        client.sendall(b"GET altered\r\n")
        assert client.recv(8) == b"$2\r\nno\r\n"


def test_renegotiation_is_refused(server):
    with tls_client(server, (3, 3)) as client:
        message = ClientHello()
        message.create((3, 3), bytearray(32), bytearray(), [CipherSuite.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256])
        for _ in client._sendMsg(message):
            pass
        client.sendall(b"PING\r\n")
        # Either the request is answered, and the server has refused with a warning, or the connection ends.
        with contextlib.suppress(TLSError, OSError):
            assert client.recv(7) in (b"+PONG\r\n", b"")


def test_ten_thousand_key_updates_delay_nobody(server, bystander):
    with tls_client(server) as client:
        with contextlib.suppress(TLSError, OSError):
            for number in range(10_000):
                for _ in client.send_keyupdate_request(1):
                    pass
                if number % 500 == 0:
                    begun = time.monotonic()
                    bystander.sendall(b"PING\r\n")
                    assert bystander.recv(7) == b"+PONG\r\n"
                    assert time.monotonic() - begun < BYSTANDER_MAX


def test_messages_that_only_a_server_may_send_are_refused(server):
    with tls_client(server) as client:
        nonce, ticket = b"\x01\x00", b"\x00\x05abcde"
        new_session_ticket = b"\x04\x00\x00\x13" + bytes(8) + nonce + ticket + b"\x00\x00"
        message = KeyUpdate().create(0)
        message.write = lambda: bytearray(new_session_ticket)
        for _ in client._sendMsg(message):
            pass
        with pytest.raises((TLSError, OSError)):
            client.sendall(b"PING\r\n")
            if not client.recv(7):
                raise OSError("closed")


def test_request_that_is_cut_by_the_end_of_the_connection_is_not_executed(server):
    with tls_client(server) as client:
        client.sendall(b"*3\r\n$3\r\nSET\r\n$3\r\ncut\r\n$10\r\nhalf")
        client.sock.close()
    with tls_client(server) as client:
        client.sendall(b"EXISTS cut\r\n")
        assert client.recv(4) == b":0\r\n"


def test_empty_records_of_data_delay_nobody(server, bystander):
    with tls_client(server) as client:
        with contextlib.suppress(TLSError, OSError):
            for number in range(20_000):
                for _ in client._sendMsg(ApplicationData().create(bytearray()), randomizeFirstBlock=False):
                    pass
                if number % 1000 == 0:
                    begun = time.monotonic()
                    bystander.sendall(b"PING\r\n")
                    assert bystander.recv(7) == b"+PONG\r\n"
                    assert time.monotonic() - begun < BYSTANDER_MAX
