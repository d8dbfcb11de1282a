"""Tests the published, unmodified pymemcache, redis-py, valkey-py and gRPC stubs over TLS."""

import ssl

import grpc
import pytest
import redis
import valkey
from momento_wire_types.generated import cacheclient_pb2 as wire
from momento_wire_types.generated import cacheclient_pb2_grpc
from pymemcache.client.base import Client

from tls_server import folder, server


def test_pymemcache_over_tls(server, folder):
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    client = Client(("localhost", server.port), tls_context=context, timeout=20, default_noreply=False)
    long = bytes(range(256)) * 2000
    assert client.set("k", long)
    assert client.get("k") == long
    assert client.set_many({f"k{number}": str(number).encode() for number in range(1000)}) == []
    assert client.get_many([f"k{number}" for number in range(1000)])["k999"] == b"999"
    client.close()


@pytest.mark.parametrize("library", [redis.Redis, valkey.Valkey])
@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_clients_over_tls(server, folder, library, protocol):
    ca = str(folder / "ca.crt")
    with library(port=server.resp_port, ssl=True, ssl_ca_certs=ca, protocol=protocol, socket_timeout=20) as client:
        long = bytes(range(256)) * 2000
        assert client.set("r", long)
        assert client.get("r") == long
        pipeline = client.pipeline(transaction=False)
        for number in range(5000):
            pipeline.set(f"r{number}", number)
        assert all(pipeline.execute())
        subscriber = client.pubsub(ignore_subscribe_messages=True)
        subscriber.subscribe("channel")
        subscriber.get_message(timeout=5)
        client.publish("channel", "hello")
        assert subscriber.get_message(timeout=5)["data"] == b"hello"


def test_client_without_the_ca_refuses_the_server(server):
    with redis.Redis(port=server.resp_port, ssl=True, socket_timeout=20) as client:
        with pytest.raises(redis.ConnectionError, match="certificate verify failed"):
            client.ping()


def test_grpc_client_over_tls(server, folder):
    credentials = grpc.ssl_channel_credentials((folder / "ca.crt").read_bytes())
    with grpc.secure_channel(f"localhost:{server.grpc_port}", credentials) as channel:
        stub = cacheclient_pb2_grpc.ScsStub(channel)
        long = bytes(range(256)) * 2000
        metadata = [("cache", "default")]
        request = wire._SetRequest(cache_key=b"g", cache_body=long, ttl_milliseconds=60_000)
        stub.Set(request, timeout=20, metadata=metadata)
        assert stub.Get(wire._GetRequest(cache_key=b"g"), timeout=20, metadata=metadata).cache_body == long
    with grpc.insecure_channel(f"localhost:{server.grpc_port}") as channel:
        with pytest.raises(grpc.RpcError) as refused:
            cacheclient_pb2_grpc.ScsStub(channel).Get(wire._GetRequest(cache_key=b"g"), timeout=5, metadata=metadata)
        # The client does not try again at once, which it does after a refusal by HTTP/2.
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
