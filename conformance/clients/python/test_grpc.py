"""Tests the published stubs of Momento's protocol through gRPC. test_momento.py has the clients."""

import subprocess
import sys
import threading
from pathlib import Path

import grpc
import pytest
import redis
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from momento_wire_types.generated import cacheclient_pb2 as wire
from momento_wire_types.generated import cacheclient_pb2_grpc, controlclient_pb2, controlclient_pb2_grpc

from server import Server, free_port

CACHE = "default"


@pytest.fixture(scope="module")
def server():
    port = free_port()
    with Server(resp=True, GRPC_PORT=str(port)) as running:
        running.grpc_port = port
        yield running


@pytest.fixture
def plain(server):
    with redis.Redis("127.0.0.1", server.resp_port, socket_timeout=20) as client:
        client.flushall()
        yield client


class Stub:
    """The published stub; each call has the metadata of the cache."""

    def __init__(self, channel, kind, cache=CACHE):
        self.kind, self.cache = kind(channel), cache

    def __getattr__(self, name):
        call = getattr(self.kind, name)
        return lambda request: call(request, timeout=20, metadata=[("cache", self.cache)])


@pytest.fixture
def stub(server, plain):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        yield Stub(channel, cacheclient_pb2_grpc.ScsStub)


def test_a_change_sets_the_time_to_live_only_if_it_creates_or_refreshes(stub, plain):
    def add(ttl, refresh):
        stub.SetUnion(wire._SetUnionRequest(set_name=b"s", elements=[b"a"], ttl_milliseconds=ttl, refresh_ttl=refresh))
        return plain.pttl("s")

    assert 50_000 < add(60_000, False) <= 60_000
    assert 50_000 < add(5_000, False) <= 60_000
    assert 0 < add(5_000, True) <= 5_000


def test_conditions_of_sets(stub):
    def store(value, **condition):
        request = wire._SetIfRequest(cache_key=b"k", cache_body=value, ttl_milliseconds=60_000, **condition)
        return stub.SetIf(request).WhichOneof("result") == "stored"

    from momento_wire_types.generated import common_pb2 as common

    assert not store(b"a", present=common.Present())
    assert not store(b"a", equal=common.Equal(value_to_check=b"x"))
    assert store(b"a", absent=common.Absent())
    assert not store(b"b", absent=common.Absent())
    assert store(b"b", present_and_not_equal=common.PresentAndNotEqual(value_to_check=b"x"))
    assert store(b"c", absent_or_equal=common.AbsentOrEqual(value_to_check=b"b"))
    assert not store(b"d", not_equal=common.NotEqual(value_to_check=b"c"))
    found = stub.GetWithHash(wire._GetWithHashRequest(cache_key=b"k")).found
    assert found.value == b"c"
    request = wire._SetIfHashRequest(
        cache_key=b"k", cache_body=b"e", ttl_milliseconds=60_000,
        present_and_hash_equal=common.PresentAndHashEqual(hash_to_check=found.hash))
    stored = stub.SetIfHash(request)
    assert stored.stored.new_hash != found.hash
    assert stub.SetIfHash(request).WhichOneof("result") == "not_stored"


def test_every_other_call_of_the_stub(stub, plain):
    items = [wire._SetRequest(cache_key=b"k%d" % at, cache_body=b"%d" % at, ttl_milliseconds=60_000) for at in range(3)]
    assert [reply.result for reply in stub.SetBatch(wire._SetBatchRequest(items=items))] == [wire.Ok] * 3
    wanted = [wire._GetRequest(cache_key=key) for key in (b"k2", b"none", b"k0")]
    replies = list(stub.GetBatch(wire._GetBatchRequest(items=wanted)))
    values = [(reply.result, reply.cache_body) for reply in replies]
    assert values == [(wire.Hit, b"2"), (wire.Miss, b""), (wire.Hit, b"0")]
    assert list(stub.KeysExist(wire._KeysExistRequest(cache_keys=[b"k0", b"none"])).exists) == [True, False]

    def ttl(**change):
        return stub.UpdateTtl(wire._UpdateTtlRequest(cache_key=b"k0", **change)).WhichOneof("result")

    assert ttl(increase_to_milliseconds=30_000) == "not_set" and ttl(increase_to_milliseconds=90_000) == "set"
    assert ttl(decrease_to_milliseconds=20_000) == "set" and ttl(overwrite_to_milliseconds=10_000) == "set"
    assert 0 < stub.ItemGetTtl(wire._ItemGetTtlRequest(cache_key=b"k0")).found.remaining_ttl_millis <= 10_000
    assert stub.ItemGetType(wire._ItemGetTypeRequest(cache_key=b"k0")).found.item_type == 0
    plain.rpush("l", *"abcdef")
    erase = wire._ListEraseRequest(list_name=b"l", some=wire._ListEraseRequest._ListRanges(
        ranges=[wire._ListRange(begin_index=1, count=2), wire._ListRange(begin_index=5, count=9)]))
    assert stub.ListErase(erase).found.list_length == 3 and plain.lrange("l", 0, -1) == [b"a", b"d", b"e"]
    retain = wire._ListRetainRequest(list_name=b"l", inclusive_start=-2, ttl_milliseconds=60_000)
    assert stub.ListRetain(retain).found.list_length == 2 and plain.lrange("l", 0, -1) == [b"d", b"e"]
    remove = wire._ListRemoveRequest(list_name=b"l", all_elements_with_value=b"d")
    assert stub.ListRemove(remove).found.list_length == 1
    plain.sadd("s", *"abc")
    difference = wire._SetDifferenceRequest(
        set_name=b"s", minuend=wire._SetDifferenceRequest._Minuend(elements=[b"c", b"x"]))
    assert stub.SetDifference(difference).WhichOneof("set") == "found" and plain.smembers("s") == {b"x"}
    assert list(stub.SetContains(wire._SetContainsRequest(set_name=b"s", elements=[b"x", b"a"])).found.contains) == [
        True, False]
    assert list(stub.SetPop(wire._SetPopRequest(set_name=b"s", count=5)).found.elements) == [b"x"]
    plain.zadd("z1", {"a": 1, "b": 2})
    plain.zadd("z2", {"b": 10})
    source = wire._SortedSetUnionStoreRequest._Source
    union = wire._SortedSetUnionStoreRequest(
        set_name=b"z", sources=[source(set_name=b"z1", weight=1), source(set_name=b"z2", weight=0.5)],
        ttl_milliseconds=60_000)
    assert stub.SortedSetUnionStore(union).length == 2
    assert plain.zrange("z", 0, -1, withscores=True) == [(b"a", 1.0), (b"b", 7.0)]
    between = wire._SortedSetLengthByScoreRequest(set_name=b"z", exclusive_min=1, inclusive_max=7)
    assert stub.SortedSetLengthByScore(between).found.length == 1


def test_errors_have_the_status_of_the_protocol(server, stub, plain):
    plain.rpush("list", "a")
    for request, code in [
        (wire._GetRequest(cache_key=b"list"), grpc.StatusCode.FAILED_PRECONDITION),
        (wire._GetRequest(cache_key=b""), grpc.StatusCode.INVALID_ARGUMENT),
    ]:
        with pytest.raises(grpc.RpcError) as raised:
            stub.Get(request)
        assert raised.value.code() == code
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        control = Stub(channel, controlclient_pb2_grpc.ScsControlStub)
        with pytest.raises(grpc.RpcError) as raised:
            control.CreateSigningKey(controlclient_pb2._CreateSigningKeyRequest(ttl_minutes=1))
        assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED


SCHEMAS = Path(__file__).resolve().parents[3] / "proto"


def test_compiled_schemas_are_those_of_the_sources(tmp_path):
    """proto/README.md has the command that writes them."""
    sources = sorted(str(path.relative_to(SCHEMAS)) for path in SCHEMAS.rglob("*.proto"))
    compiled = tmp_path / "schemas"
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--descriptor_set_out={compiled}", *sources]
    subprocess.run(command, cwd=SCHEMAS, check=True)
    assert compiled.read_bytes() == (SCHEMAS / "schemas.binpb").read_bytes()


def test_client_without_a_schema_learns_it_by_reflection(server, plain):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        services = set(database.get_services())
        assert {"gannet.v1.Cache", "gannet.v1.Caches", "cache_client.Scs", "grpc.health.v1.Health"} <= services
        pool = DescriptorPool(database)
        for service in services:
            assert pool.FindServiceByName(service).methods, service
        erase = pool.FindServiceByName("cache_client.Scs").FindMethodByName("ListErase")
        assert erase.output_type.full_name == "gannet.v1.LengthReply"
        methods = pool.FindServiceByName("gannet.v1.Cache").methods_by_name
        assert len(methods) > 40

        def call(name, **fields):
            method = methods[name]
            request, reply = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
            stub = channel.unary_unary(
                f"/gannet.v1.Cache/{name}",
                request_serializer=request.SerializeToString,
                response_deserializer=reply.FromString,
            )
            return stub(request(**fields), timeout=20)

        call("Set", key=b"k", value=b"v", ttl_ms=60_000)
        assert call("Get", key=b"k").value == b"v"
        # Each service is in a file of its own.
        for service, method in [("Records", "RecordGet"), ("Topics", "Subscribe"), ("Tokens", "RefreshApiToken")]:
            assert method in pool.FindServiceByName(f"gannet.v1.{service}").methods_by_name
        assert pool.FindMessageTypeByName("gannet.v1.Permission.Scope").full_name == "gannet.v1.Permission.Scope"
        for name in ["gannet.v1.None", "gannet.v2.Cache"]:
            with pytest.raises(KeyError):
                pool.FindServiceByName(name)


def test_health_is_checked_and_watched(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="gannet.v1.Cache")
        assert health.Check(request, timeout=20).status == health_pb2.HealthCheckResponse.SERVING
        watch = health.Watch(request)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        # The stream stays open beside other calls.
        closed = threading.Event()
        watch.add_callback(closed.set)
        assert health.Check(request, timeout=20).status == health_pb2.HealthCheckResponse.SERVING
        assert not closed.wait(0.2)
        watch.cancel()
        unknown = next(health.Watch(health_pb2.HealthCheckRequest(service="none")))
        assert unknown.status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        with pytest.raises(grpc.RpcError) as refused:
            health.Check(health_pb2.HealthCheckRequest(service="none"), timeout=20)
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
