"""The services of gannet.v1 beside those on items and caches, with stubs that are generated from the schemas."""

import importlib
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import pytest

from test_grpc import plain, server  # noqa: F401 (fixtures)

SCHEMAS = Path(__file__).resolve().parents[3] / "proto"


class Services:
    """The messages and stubs of all files."""

    FILES = {"cache": ["Cache", "Caches"], "invalidations": ["Invalidations"], "leaderboards": ["Leaderboards"],
             "records": ["Leases", "Records"],
             "tokens": ["Tokens"], "topics": ["Topics"]}  # fmt: skip

    def __init__(self, channel: grpc.Channel):
        for name, services in self.FILES.items():
            messages = importlib.import_module(f"gannet_stubs.gannet.v1.{name}_pb2")
            stubs = importlib.import_module(f"gannet_stubs.gannet.v1.{name}_pb2_grpc")
            for key, value in vars(messages).items():
                if key[:1].isupper() and key != "DESCRIPTOR":
                    setattr(self, key, value)
            for service in services:
                setattr(self, service.lower(), getattr(stubs, f"{service}Stub")(channel))


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """Generates the modules below a package of their own, because the SDK has a package gannet too."""
    folder = tmp_path_factory.mktemp("stubs")
    target = folder / "gannet_stubs"
    target.mkdir()
    sources = sorted(str(path.relative_to(SCHEMAS)) for path in (SCHEMAS / "gannet").rglob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{SCHEMAS}", f"--python_out={target}",
               f"--grpc_python_out={target}", *sources]  # fmt: skip
    subprocess.run(command, check=True)
    for path in target.rglob("*.py"):
        path.write_text(path.read_text().replace("from gannet.v1 import", "from gannet_stubs.gannet.v1 import"))
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))


@pytest.fixture
def services(server, stubs):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        yield Services(channel)


def code(call):
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return raised.value.code()


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_requests_are_served_as_plain_ones(services, compression):
    s = services
    for value in [b"v" * 900_000, bytes(at * at >> 7 & 255 for at in range(100_000))]:
        put = s.SetRequest(key=b"compressed", value=value, ttl_ms=60_000)
        s.cache.Set(put, compression=compression)
        got = s.cache.Get(s.GetRequest(key=b"compressed"), compression=compression)
        assert got.value == value


def test_one_client_fills_a_value_while_the_others_wait(services):
    s = services
    ask = s.LeaseGetRequest(key=b"lease")
    won, wait = s.leases.LeaseGet(ask), s.leases.LeaseGet(ask)
    assert (won.state, wait.state, won.HasField("value")) == (s.LEASE_WON, s.LEASE_WAIT, False)
    fill = s.LeaseSetRequest(key=b"lease", token=won.token, value=b"v", ttl_ms=60_000)
    assert s.leases.LeaseSet(fill).stored
    hit = s.leases.LeaseGet(ask)
    assert (hit.state, hit.value) == (s.LEASE_HIT, b"v")
    assert s.leases.LeaseStale(s.LeaseStaleRequest(key=b"lease")).found
    assert not s.leases.LeaseStale(s.LeaseStaleRequest(key=b"none")).found
    again = s.leases.LeaseGet(ask)
    assert (again.state, again.value, s.leases.LeaseGet(ask).state) == (s.LEASE_WON, b"v", s.LEASE_WAIT)
    s.cache.Set(s.SetRequest(key=b"lease", value=b"w", ttl_ms=60_000))
    late = s.LeaseSetRequest(key=b"lease", token=again.token, value=b"x", ttl_ms=60_000)
    assert s.leases.LeaseSet(late).stored
    again = s.leases.LeaseGet(ask)
    assert (again.state, again.value) == (s.LEASE_WON, b"x"), "it is stale, because another client has stored a value"
    s.cache.Delete(s.KeyRequest(key=b"lease"))
    assert not s.leases.LeaseSet(late).stored


def test_records_keep_the_types_of_their_bins(services):
    s = services
    value = s.BinValue
    entry = s.BinMap.Entry(key=b"k", value=value(text="z"))
    parts = [value(integer=-1), value(number=2.0), value(boolean=True), value(map=s.BinMap(entries=[entry]))]
    values = {
        b"integer": value(integer=-(1 << 63)), b"number": value(number=0.5), b"zero": value(number=0.0),
        b"false": value(boolean=False), b"text": value(text=""), b"binary": value(binary=b"\xff\0"),
        b"list": value(list=s.BinList(values=parts)), b"empty": value(list=s.BinList()),
    }  # fmt: skip
    bins = [s.Bin(name=name, value=of) for name, of in values.items()]
    change = s.RecordChangeRequest(key=b"record", bins=bins, set="people", ttl_ms=60_000, when="CREATE")
    assert s.records.RecordPut(change).revision == 1
    found = s.records.RecordGet(s.RecordGetRequest(key=b"record")).found
    assert ({bin.name: bin.value for bin in found.bins}, found.revision) == (values, 1)
    assert found.expires_at_ms > 0
    # A later call of the connection is not in another version of the protocol.
    assert s.cache.Get(s.GetRequest(key=b"none")).result == s.RESULT_MISS
    some = s.records.RecordGet(s.RecordGetRequest(key=b"record", bins=[b"text", b"none"], filter="number < 1")).found
    assert [bin.name for bin in some.bins] == [b"text"]
    assert s.records.RecordGet(s.RecordGetRequest(key=b"record", filter="number > 1")).HasField("missing")
    assert s.records.RecordGet(s.RecordGetRequest(key=b"none")).HasField("missing")


def test_changes_of_records_have_conditions(services):
    s = services

    def change(method, *bins, **fields):
        of = [s.Bin(name=name, value=value) for name, value in bins]
        return getattr(s.records, method)(s.RecordChangeRequest(key=b"counter", bins=of, **fields)).revision

    def integer(number):
        return s.BinValue(integer=number)

    def text(value):
        return s.BinValue(text=value)

    assert change("RecordPut", (b"n", integer(1)), (b"t", text("a"))) == 1
    assert change("RecordAdd", (b"n", integer(5)), if_revision=1) == 2
    assert change("RecordAppend", (b"t", text("b")), filter="n == 6") == 3
    assert change("RecordTouch", ttl_ms=60_000) == 4
    for status, call in [
        ("ALREADY_EXISTS", lambda: change("RecordPut", (b"n", integer(1)), when="CREATE")),
        ("ABORTED", lambda: change("RecordPut", (b"n", integer(1)), if_revision=1)),
        ("FAILED_PRECONDITION", lambda: change("RecordPut", (b"n", integer(1)), filter="n > 9")),
        ("FAILED_PRECONDITION", lambda: change("RecordAdd", (b"t", integer(1)))),
        ("OUT_OF_RANGE", lambda: change("RecordAdd", (b"n", integer((1 << 63) - 1)))),
        ("INVALID_ARGUMENT", lambda: change("RecordPut", (b"n", s.BinValue()))),
        ("INVALID_ARGUMENT", lambda: change("RecordPut", (b"", integer(1)))),
        ("INVALID_ARGUMENT", lambda: change("RecordTouch", (b"n", integer(1)))),
        ("INVALID_ARGUMENT", lambda: s.records.RecordGet(s.RecordGetRequest(key=b"counter", filter="n >"))),
        ("INVALID_ARGUMENT", lambda: s.records.RecordGet(s.RecordGetRequest(key=b""))),
        ("NOT_FOUND", lambda: s.records.RecordTouch(s.RecordChangeRequest(key=b"none"))),
    ]:
        assert code(call).name == status
    found = s.records.RecordGet(s.RecordGetRequest(key=b"counter")).found
    assert [(bin.name, bin.value) for bin in found.bins] == [(b"n", integer(6)), (b"t", text("ab"))]
    assert code(lambda: s.records.RecordDelete(s.RecordDeleteRequest(key=b"counter", if_revision=1))).name == "ABORTED"
    assert s.records.RecordDelete(s.RecordDeleteRequest(key=b"counter")).found
    assert not s.records.RecordDelete(s.RecordDeleteRequest(key=b"counter")).found


def test_values_nest_to_eight_levels_and_deeper_ones_are_refused(services):
    s = services

    def change(levels):
        value = s.BinValue(integer=1)
        for _ in range(levels):
            value = s.BinValue(list=s.BinList(values=[value]))
        return s.RecordChangeRequest(key=b"deep", bins=[s.Bin(name=b"b", value=value)])

    s.records.RecordPut(change(8))
    found = s.records.RecordGet(s.RecordGetRequest(key=b"deep")).found.bins[0].value
    for _ in range(8):
        found = found.list.values[0]
    assert found.integer == 1
    assert code(lambda: s.records.RecordPut(change(9))).name == "INVALID_ARGUMENT"


def test_records_of_a_set_are_read_in_pages(services, plain):
    s = services
    for number in range(50):
        bins = [s.Bin(name=b"n", value=s.BinValue(integer=number))]
        s.records.RecordPut(s.RecordChangeRequest(key=b"page:%d" % number, bins=bins, set="pages"))
    seen, cursor, pages = {}, "", 0
    while True:
        page = s.records.RecordScan(s.RecordScanRequest(set="pages", cursor=cursor, count_max=10, filter="n >= 10"))
        seen |= {record.key: record.bins[0].value.integer for record in page.records}
        cursor, pages = page.cursor, pages + 1
        if not cursor:
            break
    assert seen == {b"page:%d" % number: number for number in range(10, 50)}
    assert pages > 1
    query = s.RecordQueryRequest(set="pages", bin=b"n", least=s.BinValue(integer=3), greatest=s.BinValue(integer=5))
    assert code(lambda: s.records.RecordQuery(query)).name == "FAILED_PRECONDITION", "there is no index"
    plain.execute_command("REC.INDEX", "CREATE", "pages", "n", "INT")
    assert {record.key for record in s.records.RecordQuery(query).records} == {b"page:3", b"page:4", b"page:5"}
    equal = s.RecordQueryRequest(set="pages", bin=b"n", equal=s.BinValue(integer=7))
    assert [record.key for record in s.records.RecordQuery(equal).records] == [b"page:7"]


def test_topics_and_leaderboards_have_the_same_calls_under_both_schemas(services):
    s = services
    stream = s.topics.Subscribe(s.SubscribeRequest(topic="news"))
    assert next(stream).HasField("heartbeat")
    s.topics.Publish(s.PublishRequest(topic="news", value=s.TopicValue(text="hello")))
    item = next(stream).item
    assert (item.sequence, item.value.text) == (1, "hello")
    ended = threading.Event()
    stream.add_callback(ended.set)
    stream.cancel()
    assert ended.wait(10)
    elements = [s.LeaderboardElement(id=number, score=number / 2) for number in range(5)]
    s.leaderboards.UpsertElements(s.UpsertElementsRequest(leaderboard="game", elements=elements))
    best = s.GetByRankRequest(leaderboard="game", ranks=s.GetByRankRequest.Ranks(first=0, end=2), order="DESCENDING")
    assert [(of.id, of.rank, of.score) for of in s.leaderboards.GetByRank(best).elements] == [(4, 0, 2.0), (3, 1, 1.5)]


def test_token_that_may_only_read_a_prefix(services):
    s = services
    scope = s.Permission.Scope(role="READ_ONLY", all_caches=s.Permission.All(), part=s.Permission.Part(prefix=b"a:"))
    permissions = s.Permissions(explicit=s.Permissions.Explicit(permissions=[s.Permission(items=scope)]))
    request = s.GenerateApiTokenRequest(expires=s.Validity(seconds=60), permissions=permissions)
    pair = s.tokens.GenerateApiToken(request)
    for token in [pair, s.tokens.RefreshApiToken(
        s.RefreshApiTokenRequest(token=pair.token, refresh_token=pair.refresh_token)
    )]:  # fmt: skip
        metadata = [("authorization", token.token)]
        assert s.cache.Get(s.GetRequest(key=b"a:1"), metadata=metadata).result == s.RESULT_MISS
        for call in [
            lambda: s.cache.Get(s.GetRequest(key=b"b:1"), metadata=metadata),
            lambda: s.cache.Set(s.SetRequest(key=b"a:1", value=b"v", ttl_ms=1000), metadata=metadata),
            lambda: s.caches.FlushCache(s.CacheName(name="default"), metadata=metadata),
            lambda: s.tokens.GenerateApiToken(request, metadata=metadata),
        ]:
            assert code(call).name == "PERMISSION_DENIED"


def changed(stream, count):
    """Returns the next changed keys, without heartbeats."""
    keys = []
    while len(keys) < count:
        event = next(stream)
        assert not event.HasField("all")
        keys += event.keys.keys
    return keys


def test_changes_of_keys_by_all_protocols_reach_their_watchers(services, plain):
    s = services
    stream = s.invalidations.WatchKeys(s.WatchKeysRequest(prefixes=[b"a:", b"b", b"a:1"]))
    every = s.invalidations.WatchKeys(s.WatchKeysRequest())
    assert next(stream).HasField("heartbeat") and next(every).HasField("heartbeat")
    s.cache.Set(s.SetRequest(key=b"a:1", value=b"v", ttl_ms=60_000))
    plain.set("c", "v")
    plain.lpush("b", "v")
    assert changed(stream, 2) == [b"a:1", b"b"]
    assert changed(every, 3) == [b"a:1", b"c", b"b"]
    s.cache.Set(s.SetRequest(key=b"b", value=b"v", ttl_ms=50))
    assert changed(stream, 1) == [b"b"]
    assert changed(stream, 1) == [b"b"], "it has expired"
    plain.execute_command("SELECT", 1)
    plain.set("a:1", "of another cache")
    plain.execute_command("SELECT", 0)
    plain.delete("a:1")
    assert changed(stream, 1) == [b"a:1"]
    plain.flushall()
    events = [next(stream), next(every)]
    while not events[0].HasField("all"):
        events[0] = next(stream)
    while not events[1].HasField("all"):
        events[1] = next(every)
    stream.cancel()
    every.cancel()
    for prefixes in [[b"p" * 257], [b"%d" % number for number in range(1000, 1257)]]:
        request = s.WatchKeysRequest(prefixes=prefixes)
        assert code(lambda: next(s.invalidations.WatchKeys(request))).name == "INVALID_ARGUMENT"


def test_watchers_may_read_all_keys_of_their_prefixes(services, plain):
    s = services
    plain.execute_command("ACL", "SETUSER", "ann", "on", ">pw", "%R~a:*", "+@all")

    def first(prefix, user="ann:pw"):
        request = s.WatchKeysRequest(prefixes=[prefix])
        return s.invalidations.WatchKeys(request, metadata=[("authorization", user)])

    for prefix in [b"", b"a", b"b:"]:
        assert code(lambda: next(first(prefix))).name == "PERMISSION_DENIED"
    stream = first(b"a:x")
    assert next(stream).HasField("heartbeat")
    plain.execute_command("ACL", "SETUSER", "ann", "resetkeys")
    plain.set("a:x", "secret")
    assert code(lambda: next(stream)).name == "PERMISSION_DENIED"
    plain.execute_command("ACL", "DELUSER", "ann")


def test_watch_of_a_deleted_cache_ends(services):
    s = services
    s.caches.CreateCache(s.CacheName(name="watched"))
    stream = s.invalidations.WatchKeys(s.WatchKeysRequest(), metadata=[("cache", "watched")])
    assert next(stream).HasField("heartbeat")
    s.caches.DeleteCache(s.CacheName(name="watched"))

    def read_to_the_end():
        while True:
            next(stream)

    assert code(read_to_the_end).name == "NOT_FOUND"
