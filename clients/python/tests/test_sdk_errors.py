"""Common mistakes: each gives an error whose message names the remedy."""

import dataclasses
import subprocess
import time
from datetime import timedelta

import pytest
import redis
from conftest import ROOT, code
from proxy import Proxy, tls_context
from server import Server, free_port

from gannet import Configurations, CredentialProvider, ErrorCode, GetHit, Miss, NoRetry, Success

ONCE = Configurations.Laptop.v1().with_retry_strategy(NoRetry()).with_deadline(timedelta(seconds=5))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    script = ROOT / "conformance" / "clients" / "certificates"
    subprocess.run([str(script), str(folder)], check=True, capture_output=True)
    return folder


def failed(client):
    result = client.get("k")
    return code(result), result.message


def test_no_server(connect):
    address = f"127.0.0.1:{free_port()}"
    kind, message = failed(connect(address, ONCE))
    assert kind is ErrorCode.UNAVAILABLE
    assert "no server listens there; start one with `gannet serve --grpc" in message and address in message


@pytest.mark.parametrize("port", ["port", "resp_port"])
def test_the_port_of_another_protocol(connect, server, port):
    kind, message = failed(connect(f"127.0.0.1:{getattr(server, port)}", ONCE))
    assert kind is ErrorCode.UNAVAILABLE
    assert "does not speak gRPC" in message and "`gannet serve --grpc`, not the port of memcached, Redis" in message


def test_a_server_with_too_many_connections(connect):
    with Server(resp=True, connections_max=1, GRPC_PORT=str(port := free_port())) as full:
        with redis.Redis(port=full.resp_port) as plain:
            wait_for_the_only_connection(plain)
            kind, message = failed(connect(f"127.0.0.1:{port}", ONCE))
    assert kind is ErrorCode.UNAVAILABLE and "as many connections as it allows; close connections, or" in message


def wait_for_the_only_connection(plain):
    deadline = time.monotonic() + 5
    while True:
        try:
            return plain.ping()
        except redis.ConnectionError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_an_unknown_host(connect):
    kind, message = failed(connect("gannet.invalid:1", ONCE, tls=False))
    assert kind is ErrorCode.UNAVAILABLE and "correct the host name" in message


def test_tls_to_a_port_without_tls(connect, server):
    kind, message = failed(connect(server.grpc_address, ONCE, tls=True))
    assert kind is ErrorCode.UNAVAILABLE and "does not use TLS; pass tls=False" in message


def test_plain_to_a_port_with_tls(connect, server, certificates):
    with Proxy(server.grpc_port, tls_context(certificates)) as proxy:
        kind, message = failed(connect(proxy.address, ONCE))
    assert kind is ErrorCode.UNAVAILABLE and "tls" in message.lower()


def test_plain_to_a_tls_port_of_the_server(connect, certificates):
    with Server(TLS=str(certificates)) as tls_only:
        kind, message = failed(connect(f"127.0.0.1:{tls_only.port}", ONCE))
    assert kind is ErrorCode.UNAVAILABLE and "tls" in message.lower()


def test_a_certificate_of_an_unknown_ca(connect, server, certificates):
    with Proxy(server.grpc_port, tls_context(certificates)) as proxy:
        kind, message = failed(connect(f"localhost:{proxy.port}", ONCE, tls=True))
    assert kind is ErrorCode.UNAVAILABLE and "pass ca_file=PATH" in message


def test_tls_with_the_ca_of_the_server(connect, server, certificates):
    with Proxy(server.grpc_port, tls_context(certificates)) as proxy:
        client = connect(f"localhost:{proxy.port}", ONCE, ca_file=str(certificates / "ca.crt"))
        assert client.set("tls", "v") == Success() and client.get("tls") == GetHit(b"v")
        client.close()


def test_tokens(connect):
    with Server(resp=True, GRPC_PORT=str(port := free_port())) as server:
        with redis.Redis(port=server.resp_port) as plain:
            plain.execute_command("ACL", "SETUSER", "reader", "on", ">word", "~*", "+get")
            plain.execute_command("ACL", "SETUSER", "default", "resetpass", ">secret")
        address = f"127.0.0.1:{port}"
        kind, message = failed(connect(address, ONCE))
        assert kind is ErrorCode.UNAUTHENTICATED and "none was passed; pass credentials=" in message
        kind, message = failed(connect(address, ONCE, CredentialProvider.from_string("wrong")))
        assert kind is ErrorCode.UNAUTHENTICATED and "does not accept the token" in message and "wrong" not in message
        client = connect(address, ONCE, CredentialProvider.from_string("secret"))
        assert client.set("k", "v") == Success() and client.list_caches().outcome == "success"
        reader = connect(address, ONCE, CredentialProvider.from_string("reader:word"))
        assert reader.get("k") == GetHit(b"v")
        denied = reader.set("k", "v")
        assert code(denied) is ErrorCode.PERMISSION_DENIED and not denied.retryable
        for part in ("gannet user token", "generate_disposable_token", "ACL SETUSER"):
            assert part in denied.remedy


def test_a_cache_that_does_not_exist(both):
    result = both.with_cache("absent").get("k")
    assert code(result) is ErrorCode.NOT_FOUND_CACHE and "create_cache" in result.remedy and not result.retryable


def test_arguments_and_limits(both):
    assert code(both.get("")) is ErrorCode.INVALID_ARGUMENT
    assert both.get("long") == Miss()
    both.set("text", "v")
    result = both.list_length("text")
    assert code(result) is ErrorCode.FAILED_PRECONDITION and "get_type" in result.remedy


def test_an_item_above_the_maximum_names_its_size_and_the_option(both):
    result = both.set("long", bytes(2_000_000))
    assert code(result) is ErrorCode.LIMIT_EXCEEDED and not result.retryable
    assert "item size limit exceeded" in result.message and "the request has 20000" in result.message
    assert "by --item-max of the server" in result.remedy


def test_a_message_above_the_fixed_maximum_is_not_blamed_on_a_setting(both):
    result = both.set("longer", bytes(12_000_000))
    assert code(result) is ErrorCode.LIMIT_EXCEEDED and result.remedy == "send less in one call"
    assert "the request has 120000" in result.message and "above the maximum of 10485760 bytes" in result.message


def test_a_message_above_the_own_maximum_names_the_setting(both, connect, server):
    small = connect(server.grpc_address, dataclasses.replace(ONCE, message_bytes_max=100_000))
    result = small.set("k", bytes(200_000))
    assert code(result) is ErrorCode.LIMIT_EXCEEDED
    assert "raise message_bytes_max to at most 10485760 bytes" in result.remedy
    assert both.set("k", bytes(200_000)) == Success()
    result = small.get("k")
    assert code(result) is ErrorCode.LIMIT_EXCEEDED
    assert "the reply is longer than the maximum of 100000 bytes" in result.message
    assert result.remedy == "read less in one call, or raise message_bytes_max"


def test_calls_after_close(connect, server):
    client = connect(server.grpc_address)
    assert client.get("k").outcome != "error"
    client.close()
    result = client.get("k")
    assert code(result) is ErrorCode.CANCELLED and "client is closed; create a new client" in result.message


@pytest.mark.parametrize("address", ["localhost", "http://localhost:7000", ":7000", "localhost:0", "localhost:x"])
def test_an_address_that_is_none(connect, address):
    with pytest.raises(ValueError, match="it is not HOST:PORT; give one"):
        connect(address)


def test_credentials(monkeypatch):
    with pytest.raises(ValueError, match="export GANNET_TOKEN=TOKEN"):
        monkeypatch.delenv("GANNET_TOKEN", raising=False)
        CredentialProvider.from_environment()
    monkeypatch.setenv("GANNET_TOKEN", "user:word")
    provider = CredentialProvider.from_environment()
    assert provider.token == "user:word" and "word" not in repr(provider)
    with pytest.raises(ValueError, match="it is empty"):
        CredentialProvider.from_string("")
    with pytest.raises(ValueError, match="not printable ASCII"):
        CredentialProvider.from_string("a\nb")
    assert CredentialProvider.none().token is None
