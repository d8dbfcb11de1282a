"""Leases, records, leaderboards and tokens of both clients, against a real server."""

import asyncio
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest
import redis
from conftest import CONFIGURATION, code

from gannet import (
    AllPermissions,
    ApiToken,
    CacheClient,
    CacheClientAsync,
    CredentialProvider,
    ErrorCode,
    GetHit,
    ItemPermission,
    LeaseHit,
    LeaseWait,
    LeaseWon,
    LengthSuccess,
    Miss,
    NotStored,
    RankedElement,
    RankedElements,
    RecordChanged,
    RecordOptions,
    RecordWhen,
    Role,
    Stored,
    Success,
    TopicItem,
    TopicPermission,
)

SECOND = timedelta(seconds=1)
MS = timedelta(milliseconds=1)


# Leases.


def test_one_caller_wins_a_lease_and_the_others_wait(both):
    won = both.lease_get("k")
    assert isinstance(won, LeaseWon) and won.stale_value is None and won.outcome == "won"
    assert both.lease_get("k") == LeaseWait(None)
    assert both.lease_set("k", won.token, "v", 60 * SECOND) == Stored()
    assert both.lease_get("k") == LeaseHit(b"v") and both.get("k") == GetHit(b"v")
    assert 50 * SECOND < both.get_ttl("k").remaining <= 60 * SECOND
    assert both.lease_stale("k") == Success() and both.lease_stale("none") == Miss()
    again = both.lease_get("k")
    assert again.stale_value == b"v" and both.lease_get("k") == LeaseWait(b"v")
    both.delete("k")
    assert both.lease_set("k", again.token, "w") == NotStored()


def test_a_lease_that_ends_is_won_again(both):
    first = both.lease_get("k", lease=50 * MS)
    assert isinstance(first, LeaseWon)
    deadline = time.monotonic() + 5
    while not isinstance(second := both.lease_get("k", lease=50 * MS), LeaseWon):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert second.token != first.token


def test_a_value_is_filled_again_before_it_expires(both):
    both.set("k", "v", 10 * SECOND)
    assert both.lease_get("k", recache=SECOND) == LeaseHit(b"v")
    won = both.lease_get("k", recache=60 * SECOND)
    assert isinstance(won, LeaseWon) and won.stale_value == b"v"
    assert both.lease_get("k", recache=60 * SECOND).outcome in ("wait", "hit")
    with pytest.raises(ValueError, match="below 1 ms"):
        both.lease_get("k", recache=timedelta(0))


def test_a_stale_value_may_have_a_shorter_time_to_live(both):
    both.set("k", "v", 60 * SECOND)
    assert both.lease_stale("k", 20 * MS) == Success()
    time.sleep(0.05)
    assert both.get("k") == Miss()


def test_one_of_many_threads_fills_a_value(server):
    filled, results = [], []

    def fill():
        filled.append(threading.get_ident())
        time.sleep(0.1)
        return "expensive"

    with CacheClient(server.grpc_address, CONFIGURATION) as client:
        client.delete("fill")
        threads = [
            threading.Thread(target=lambda: results.append(client.get_or_fill("fill", fill))) for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert results == [GetHit(b"expensive")] * 20 and len(filled) == 1
        # While one caller fills a stale value again, the others get the old one.
        client.lease_stale("fill")
        old = []

        def fill_again():
            old.append(client.get_or_fill("fill", fill_again))
            return "new"

        assert client.get_or_fill("fill", fill_again) == GetHit(b"new") and old == [GetHit(b"expensive")]


def test_one_of_many_tasks_fills_a_value(server):
    filled = []

    async def fill():
        filled.append(1)
        await asyncio.sleep(0.05)
        return b"expensive"

    async def run():
        async with CacheClientAsync(server.grpc_address, CONFIGURATION) as client:
            await client.delete("fill")
            return await asyncio.gather(*(client.get_or_fill("fill", fill, 60 * SECOND) for _ in range(20)))

    assert asyncio.run(run()) == [GetHit(b"expensive")] * 20 and len(filled) == 1


def test_a_caller_waits_for_a_value_until_its_deadline(server):
    with CacheClient(server.grpc_address, CONFIGURATION) as client:
        client.delete("fill")
        assert isinstance(client.lease_get("fill"), LeaseWon)
        started = time.monotonic()
        late = client.with_deadline(200 * MS).get_or_fill("fill", lambda: "never")
        assert code(late) is ErrorCode.TIMEOUT and "shorter lease" in late.remedy
        assert time.monotonic() - started < 2


def test_all_calls_of_a_fill_have_one_deadline(server):
    def fill():
        time.sleep(0.3)
        return b"v"

    with CacheClient(server.grpc_address, CONFIGURATION) as client:
        client.delete("fill")
        assert isinstance(client.lease_get("fill", lease=300 * MS), LeaseWon)
        engine, sent = client._engine, []
        call = engine.call

        def observed(called, request, scope):
            sent.append((called.method, time.monotonic(), scope.deadline_s))
            return call(called, request, scope)

        engine.call = observed
        started = time.monotonic()
        assert client.with_deadline(5 * SECOND).get_or_fill("fill", fill) == GetHit(b"v")
        *gets, (method, at, deadline_s) = sent
        assert len(gets) > 3 and {get[0] for get in gets} == {"LeaseGet"} and method == "LeaseSet"
        assert all(at + deadline_s <= started + 5.1 for _, at, deadline_s in gets)
        # The time of the computation does not count.
        assert deadline_s < gets[-1][2] and at + deadline_s >= started + 5.2


def test_an_exception_of_a_fill_reaches_its_caller(server):
    def fail():
        raise LookupError("no such row")

    with CacheClient(server.grpc_address, CONFIGURATION) as client:
        client.delete("fill")
        with pytest.raises(LookupError):
            client.get_or_fill("fill", fail, lease=20 * MS)
        assert client.get_or_fill("fill", lambda: "v") == GetHit(b"v"), "another caller wins when the lease has ended"


# Records.

BINS = {
    "integer": -(1 << 63), "number": 0.5, "true": True, "false": False, "text": "", "binary": b"\xff\0",
    "list": [-1, 2.0, True, "a", b"\xff", [], {"k": "z"}], "map": {"inner": {"deep": [1]}}, "zero": 0, "none": 0.0,
}  # fmt: skip


def test_bins_keep_their_types(both):
    options = RecordOptions(set="people", ttl=60 * SECOND, when=RecordWhen.CREATE)
    assert both.record_put("r", BINS, options) == RecordChanged(1)
    found = both.record_get("r")
    assert found.bins == BINS and found.record.revision == 1 and found.record.key_string == "r"
    assert {name: type(value) for name, value in found.bins.items()} == {name: type(v) for name, v in BINS.items()}
    assert [type(each) for each in found.bins["list"]] == [type(each) for each in BINS["list"]]
    assert timedelta(0) < found.record.expires_at - datetime.now(timezone.utc) <= 60 * SECOND
    # The server reports no type within lists and maps.
    both.record_put("nested", {"list": [b"text", b"\xff"], "top": b"text"})
    assert both.record_get("nested").bins == {"list": ["text", b"\xff"], "top": b"text"}
    assert both.record_get("r", ["text"]).bins == {"text": ""}
    assert both.record_get("r", filter="number > 1") == Miss() == both.record_get("none")
    assert both.record_get("r", filter="number < 1").outcome == "hit"
    assert both.record_delete("r") == Success() and both.record_delete("r") == Miss()


def test_names_of_bins_that_are_not_text(both, server):
    with redis.Redis(port=server.resp_port) as plain:
        plain.hset("r", b"\xff", "v")
    assert both.record_get("r").bins == {"\udcff": "v"}
    assert both.record_put("r", {"\udcff": "w"}) == RecordChanged(2)
    with redis.Redis(port=server.resp_port) as plain:
        assert plain.hgetall("r") == {b"\xff": b"w"}


def test_changes_of_records(both):
    assert both.record_put("r", {"n": 1, "x": 0.5, "t": "a", "b": b"a"}) == RecordChanged(1)
    assert both.record_get("r").record.expires_at is None
    assert both.record_add("r", {"n": 5, "x": 0.25, "new": 2}, RecordOptions(if_revision=1)) == RecordChanged(2)
    assert both.record_append("r", {"t": "b", "b": b"\0"}, RecordOptions(filter="n == 6")) == RecordChanged(3)
    assert both.record_get("r").bins == {"n": 6, "x": 0.75, "t": "ab", "b": b"a\0", "new": 2}
    assert both.record_touch("r", RecordOptions(ttl=60 * SECOND, if_revision_above=2)) == RecordChanged(4)
    assert both.record_get("r").record.expires_at is not None
    assert both.record_touch("r", RecordOptions(persist=True)) == RecordChanged(5)
    assert both.record_get("r").record.expires_at is None
    assert both.record_put("r", {"only": 1}, RecordOptions(when=RecordWhen.REPLACE)) == RecordChanged(6)
    assert both.record_get("r").bins == {"only": 1}


def test_conditions_of_records_that_do_not_hold(both):
    both.record_put("r", {"n": 1, "t": "a"}, RecordOptions(set="some"))

    def refused(result, kind, remedy):
        assert code(result) is kind and remedy in result.remedy and not result.retryable, result

    create = RecordOptions(when=RecordWhen.CREATE)
    refused(both.record_put("r", {"n": 2}, create), ErrorCode.ALREADY_EXISTS, "RecordWhen.UPDATE")
    update = RecordOptions(when=RecordWhen.UPDATE)
    refused(both.record_put("none", {"n": 2}, update), ErrorCode.NOT_FOUND_RECORD, "record_put first")
    refused(both.record_touch("none"), ErrorCode.NOT_FOUND_RECORD, "record_put first")
    refused(both.record_put("r", {"n": 2}, RecordOptions(if_revision=9)), ErrorCode.ABORTED, "present revision")
    refused(both.record_add("r", {"n": 2}, RecordOptions(if_revision_above=1)), ErrorCode.ABORTED, "present revision")
    refused(both.record_delete("r", if_revision=9), ErrorCode.ABORTED, "present revision")
    false = RecordOptions(filter="n > 9")
    refused(both.record_put("r", {"n": 2}, false), ErrorCode.FAILED_PRECONDITION, "read the record")
    other = RecordOptions(set="other")
    refused(both.record_put("r", {"n": 2}, other), ErrorCode.FAILED_PRECONDITION, "name the set")
    refused(both.record_add("r", {"t": 2}), ErrorCode.FAILED_PRECONDITION, "type of the bin")
    refused(both.record_add("r", {"n": (1 << 63) - 1}), ErrorCode.INVALID_ARGUMENT, "change the amount")
    refused(both.record_get("r", filter="n >"), ErrorCode.INVALID_ARGUMENT, "")
    refused(both.record_scan("some", cursor="zzz"), ErrorCode.INVALID_ARGUMENT, "")
    refused(both.record_query("some", "n", equal=1), ErrorCode.FAILED_PRECONDITION, "REC.INDEX CREATE")
    refused(both.with_cache("absent").record_get("r"), ErrorCode.NOT_FOUND_CACHE, "create_cache")
    assert both.record_get("r").bins == {"n": 1, "t": "a"} and both.record_get("r").record.revision == 1


def test_values_that_no_bin_holds(both):
    for wrong, error in [(1 << 63, ValueError), (object(), TypeError), (None, TypeError), ([{1: 2}], TypeError)]:
        with pytest.raises(error, match="cannot"):
            both.record_put("r", {"n": wrong})
    deep = 1
    for _ in range(9):
        deep = [deep]
    assert code(both.record_put("r", {"n": deep})) is ErrorCode.INVALID_ARGUMENT
    with pytest.raises(ValueError, match="both ttl and persist"):
        both.record_touch("r", RecordOptions(ttl=SECOND, persist=True))
    with pytest.raises(ValueError, match="below 1 ms"):
        both.record_touch("r", RecordOptions(ttl=timedelta(0)))
    with pytest.raises(TypeError, match="pass a list"):
        both.record_get("r", "bin")


def pages(call, **arguments):
    """Returns the records of all pages, and the number of pages."""
    seen, cursor, count = {}, None, 0
    while True:
        page = call(cursor=cursor, **arguments)
        seen |= {record.key_string: record.bins for record in page.records}
        cursor, count = page.cursor, count + 1
        if cursor is None:
            return seen, count


def test_records_of_a_set_are_read_in_pages(both, server, request):
    name = f"pages {'async' if 'async' in request.node.name else 'sync'}"
    for number in range(50):
        both.record_put(f"page:{number}", {"n": number, "t": f"{number:02}"}, RecordOptions(set=name))
    expected = {f"page:{number}": {"n": number} for number in range(10, 50)}
    found, count = pages(both.record_scan, set=name, count_max=10, filter="n >= 10", bins=["n"])
    assert found == expected and count > 1
    with redis.Redis(port=server.resp_port) as plain:
        plain.execute_command("REC.INDEX", "CREATE", name, "n", "INT")
        plain.execute_command("REC.INDEX", "CREATE", name, "t", "STR")
    found, count = pages(both.record_query, set=name, bin="n", least=10, greatest=49, count_max=10, bins=["n"])
    assert found == expected and count > 1
    (only,) = both.record_query(name, "t", equal="07").records
    assert (only.key_string, only.bins["n"]) == ("page:7", 7)
    with pytest.raises(ValueError, match="either equal, or both"):
        both.record_query(name, "n", least=1)
    with pytest.raises(ValueError, match="either equal, or both"):
        both.record_query(name, "n", equal=1, least=1, greatest=2)


# Leaderboards.


def ranked(*elements):
    return RankedElements(tuple(RankedElement(*element) for element in elements))


def test_leaderboards(both):
    assert both.leaderboard_length("game") == LengthSuccess(0)
    assert both.leaderboard_upsert("game", {1: 10.0, 2: 30.0, 3: 20.0}) == Success()
    assert both.leaderboard_upsert("game", [(4, 20.0), (1, 11.5)]) == Success()
    assert both.leaderboard_length("game") == LengthSuccess(4)
    assert both.leaderboard_get_by_rank("game", 0, 2) == ranked((1, 0, 11.5), (3, 1, 20.0))
    assert both.leaderboard_get_by_rank("game", 0, 1, descending=True) == ranked((2, 0, 30.0))
    assert both.leaderboard_get_by_rank("game", 9, 12) == ranked()
    assert both.leaderboard_get_by_score("game", 20.0, 30.0) == ranked((3, 1, 20.0), (4, 2, 20.0))
    assert both.leaderboard_get_by_score("game", offset=1, count_max=1) == ranked((3, 1, 20.0))
    assert [each.id for each in both.leaderboard_get_by_score("game", descending=True).elements] == [2, 4, 3, 1]
    assert both.leaderboard_get_rank("game", [2, 9, 4]) == ranked((2, 3, 30.0), (4, 2, 20.0))
    assert both.leaderboard_get_rank("game", [2], descending=True) == ranked((2, 0, 30.0))
    assert both.leaderboard_get_competition_rank("game", [1, 3, 4]) == ranked((1, 3, 11.5), (3, 1, 20.0), (4, 1, 20.0))
    ascending = both.leaderboard_get_competition_rank("game", [4, 3], descending=False)
    assert ascending == ranked((4, 1, 20.0), (3, 1, 20.0))
    assert both.leaderboard_remove("game", [2, 9]) == Success() and both.leaderboard_length("game") == LengthSuccess(3)
    assert both.leaderboard_delete("game") == Success() == both.leaderboard_delete("game")
    assert both.leaderboard_length("game") == LengthSuccess(0)
    many = {number: 1.0 for number in range(8193)}
    assert code(both.leaderboard_upsert("game", many)) is ErrorCode.INVALID_ARGUMENT
    with pytest.raises(ValueError):
        both.leaderboard_upsert("game", {1 << 32: 1.0})


# Tokens.


def with_token(connect, server, token):
    return connect(server.grpc_address, credentials=CredentialProvider.from_string(token))


def test_a_token_that_may_only_read_a_prefix(both, connect, server):
    both.set("a:1", "v")
    permissions = [ItemPermission(Role.READ_ONLY, cache="default", key_prefix="a:")]
    issued = both.generate_api_token(permissions, expires=60 * SECOND)
    assert isinstance(issued, ApiToken) and issued.token not in repr(issued)
    assert timedelta(0) < issued.valid_until - datetime.now(timezone.utc) <= 61 * SECOND
    refreshed = both.refresh_api_token(issued.token, issued.refresh_token)
    assert isinstance(refreshed, ApiToken) and refreshed.valid_until >= issued.valid_until
    for token in (issued.token, refreshed.token):
        client = with_token(connect, server, token)
        assert client.get("a:1") == GetHit(b"v")
        for call in (
            lambda c: c.get("b:1"),
            lambda c: c.set("a:1", "w"),
            lambda c: c.with_cache("1").get("a:1"),
            lambda c: c.publish("news", "v"),
            lambda c: c.generate_disposable_token(permissions, SECOND),
        ):
            assert code(call(client)) is ErrorCode.PERMISSION_DENIED


def test_roles_and_scopes_of_tokens(both, connect, server):
    one_key = [ItemPermission(Role.READ_WRITE, key=b"one"), ItemPermission(Role.WRITE_ONLY, key_prefix="w:")]
    client = with_token(connect, server, both.generate_disposable_token(one_key, 60 * SECOND).token)
    assert client.set("one", "v") == Success() and client.get("one") == GetHit(b"v")
    assert client.set("w:1", "v") == Success() and code(client.get("w:1")) is ErrorCode.PERMISSION_DENIED
    assert code(client.set("two", "v")) is ErrorCode.PERMISSION_DENIED
    everything = with_token(connect, server, both.generate_api_token(AllPermissions()).token)
    assert everything.generate_api_token(AllPermissions()).valid_until is None
    assert everything.list_caches().outcome == "success"


def test_the_id_of_a_token_is_that_of_the_publisher(both, connect, server):
    permissions = [TopicPermission(Role.READ_WRITE, topic_prefix="news:"), TopicPermission(Role.READ_ONLY, topic="own")]
    issued = both.generate_disposable_token(permissions, 60 * SECOND, token_id="ann")
    assert "token" not in repr(issued).replace("DisposableToken", "")
    client = with_token(connect, server, issued.token)
    events = client.subscribe("news:1")
    assert client.publish("news:1", "v") == Success()
    item = next(event for event in events if isinstance(event, TopicItem))
    assert (item.value, item.publisher_id) == ("v", "ann")
    assert client.subscribe("own").outcome == "success"
    assert code(client.publish("own", "v")) is ErrorCode.PERMISSION_DENIED
    assert code(client.subscribe("other")) is ErrorCode.PERMISSION_DENIED
    events.close()


def test_a_token_ends(both, connect, server):
    issued = both.generate_disposable_token([ItemPermission(Role.READ_ONLY)], 3 * SECOND)
    client = with_token(connect, server, issued.token)
    assert client.get("k").outcome == "miss"
    deadline = time.monotonic() + 10
    while (result := client.get("k")).outcome == "miss":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert code(result) is ErrorCode.UNAUTHENTICATED


def test_arguments_of_tokens(both):
    with pytest.raises(ValueError, match="both key and key_prefix"):
        ItemPermission(Role.READ_ONLY, key="a", key_prefix="b")
    with pytest.raises(ValueError, match="both topic and topic_prefix"):
        TopicPermission(Role.READ_ONLY, topic="a", topic_prefix="b")
    with pytest.raises(ValueError, match="give a time from 1 s"):
        both.generate_disposable_token(AllPermissions(), 10 * MS)
    with pytest.raises(TypeError, match="give ItemPermission"):
        both.generate_api_token(["read"])
    assert code(both.generate_api_token([])) is ErrorCode.INVALID_ARGUMENT
    assert code(both.refresh_api_token("a", "b")) is ErrorCode.UNAUTHENTICATED
