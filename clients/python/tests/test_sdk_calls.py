"""Every call of the schema, by both clients, against a real server."""

import importlib
import re
import time
from datetime import timedelta

import pytest
from conftest import PYTHON, ROOT, code

from gannet import (
    CacheClient,
    CollectionTtl,
    DictionaryFieldsHit,
    DictionaryHit,
    ErrorCode,
    GetBatchSuccess,
    GetHit,
    IncrementSuccess,
    ItemType,
    KeysExistSuccess,
    LengthHit,
    LengthSuccess,
    ListHit,
    Miss,
    NotStored,
    PopHit,
    RankHit,
    ScoreHit,
    ScoresHit,
    ScoreSuccess,
    SetHit,
    SortedSetHit,
    Stored,
    Success,
    TypeHit,
    _calls,
)

SECOND = timedelta(seconds=1)


SCHEMAS = sorted((ROOT / "proto" / "gannet" / "v1").glob("*.proto"))


def test_no_call_of_the_schemas_is_missing():
    called = {call.path for call in _calls.ALL}
    modules = [importlib.import_module(f"gannet._proto.{path.stem}_pb2") for path in SCHEMAS]
    services = [service for module in modules for service in module.DESCRIPTOR.services_by_name.values()]
    declared = [method for service in services for method in service.methods]
    assert called == {f"/{method.containing_service.full_name}/{method.name}" for method in declared}
    assert {"Publish", "LeaseGet", "RecordPut", "GetRank", "WatchKeys"} <= {method.name for method in declared}
    streams = {call.method for call in _calls.ALL if call.streams}
    assert streams == {method.name for method in declared if method.server_streaming}


def test_calls_are_repeated_as_the_table_that_all_clients_share_says():
    once = {call.method for call in _calls.ALL if not call.idempotent}
    always = {call.method for call in _calls.ALL if call.idempotent}
    assert once & always == {"SetDifference"}, "a removal may be repeated, a subtraction from the set may not"
    # The changes of graphs have a second form, for requests with a time.
    lists = re.findall(r"(\w+) = \[([^]]*)\]", (PYTHON.parent / "calls.toml").read_text())
    table = {name: set(re.findall(r'"(\w+)"', values)) for name, values in lists}
    assert once == table["never"] | table["by_request"]
    assert not table["never"] & table["by_request"]


def test_items(both):
    assert both.get("k") == Miss()
    assert both.set("k", "v") == Success()
    assert both.get(b"k") == GetHit(b"v") and both.get("k").value_string == "v"
    assert both.set_batch({"a": "1", "b": b"\x00\xff"}) == Success()
    batch = both.get_batch(["b", "none", "a"])
    assert batch == GetBatchSuccess((GetHit(b"\x00\xff"), Miss(), GetHit(b"1")))
    assert batch.values == [b"\x00\xff", None, b"1"]
    assert both.get_batch([]) == GetBatchSuccess(())
    assert both.keys_exist(["a", "none"]) == KeysExistSuccess((True, False))
    assert both.increment("a", 41) == IncrementSuccess(42) and both.increment("new", -1) == IncrementSuccess(-1)
    assert both.delete("a") == Success() == both.delete("a")
    assert both.get("a") == Miss()


@pytest.mark.parametrize("length", [0, 1, 8_191, 65_536, 1_000_000])
def test_values_of_all_lengths_come_back(both, length):
    value = bytes(at % 251 for at in range(length))
    assert both.set("long", value) == Success()
    assert both.get("long") == GetHit(value)


def test_times_to_live(both):
    both.set("k", "v", 60 * SECOND)
    assert 50 * SECOND < both.get_ttl("k").remaining <= 60 * SECOND
    assert both.increase_ttl("k", 30 * SECOND) == NotStored() and both.increase_ttl("k", 90 * SECOND) == Stored()
    assert both.decrease_ttl("k", 99 * SECOND) == NotStored() and both.decrease_ttl("k", 20 * SECOND) == Stored()
    assert both.update_ttl("k", 10 * SECOND) == Stored() and both.update_ttl("none", SECOND) == Miss()
    assert both.get_ttl("k").remaining <= 10 * SECOND and both.get_ttl("none") == Miss()
    both.set("short", "v", timedelta(milliseconds=20))
    time.sleep(0.05)
    assert both.get("short") == Miss()
    assert code(both.set("k", "v", timedelta(0))) is ErrorCode.INVALID_ARGUMENT
    assert code(both.set("k", "v", -SECOND)) is ErrorCode.INVALID_ARGUMENT


def test_an_item_without_a_time_to_live_has_none(both, server):
    import redis

    with redis.Redis(port=server.resp_port) as plain:
        plain.set("forever", "v")
    assert both.get_ttl("forever").remaining is None


def test_conditions(both):
    assert both.set_if_present("k", "a") == NotStored() == both.set_if_equal("k", "a", "x")
    assert both.set_if_absent("k", "a") == Stored() and both.set_if_absent("k", "b") == NotStored()
    assert both.set_if_present("k", "b") == Stored()
    assert both.set_if_equal("k", "c", "x") == NotStored() and both.set_if_equal("k", "c", "b") == Stored()
    assert both.set_if_not_equal("k", "d", "c") == NotStored() and both.set_if_not_equal("k", "d", "x") == Stored()
    assert both.set_if_absent_or_equal("k", "e", "x") == NotStored()
    assert both.set_if_absent_or_equal("k", "e", "d") == Stored()
    assert both.set_if_present_and_not_equal("k", "f", "e") == NotStored()
    assert both.set_if_present_and_not_equal("k", "f", "x") == Stored()
    assert both.get("k") == GetHit(b"f")


def test_conditions_by_hash(both):
    first = both.set_with_hash("k", "a").hash
    assert both.get_with_hash("none") == Miss()
    found = both.get_with_hash("k")
    assert (found.value_string, found.hash) == ("a", first)
    second = both.set_if_present_and_hash_equal("k", "b", first)
    assert second.outcome == "stored" and second.hash != first
    assert both.set_if_present_and_hash_equal("k", "c", first) == NotStored()
    assert both.set_if_present_and_hash_not_equal("k", "c", second.hash) == NotStored()
    assert both.set_if_present_and_hash_not_equal("k", "c", first).outcome == "stored"
    assert both.set_if_absent_or_hash_equal("k", "d", first) == NotStored()
    assert both.set_if_absent_or_hash_equal("new", "d", first).outcome == "stored"
    assert both.set_if_absent_or_hash_not_equal("k", "d", first).outcome == "stored"
    assert both.get("k") == GetHit(b"d")


def test_dictionaries(both):
    assert both.dictionary_fetch("d") == Miss() == both.dictionary_get_field("d", "a") == both.dictionary_length("d")
    assert both.dictionary_set_field("d", "a", "1") == Success()
    assert both.dictionary_set_fields("d", {"b": "2", "c": "3"}) == Success()
    assert both.dictionary_get_field("d", "a") == GetHit(b"1") and both.dictionary_get_field("d", "x") == Miss()
    assert both.dictionary_get_fields("d", ["b", "x"]) == DictionaryFieldsHit((b"2", None))
    assert both.dictionary_increment("d", "a", 41) == IncrementSuccess(42)
    assert both.dictionary_remove_fields("d", ["b", "x"]) == Success()
    assert both.dictionary_fetch("d") == DictionaryHit({b"a": b"42", b"c": b"3"})
    assert both.dictionary_fetch("d").fields_string == {"a": "42", "c": "3"}
    assert both.dictionary_length("d") == LengthHit(2)
    assert both.dictionary_delete("d") == Success() and both.dictionary_fetch("d") == Miss()


def test_sets(both):
    assert both.set_fetch("s") == Miss() == both.set_remove_elements("s", ["a"])
    assert both.set_add_elements("s", ["a", "b", "c", "c"]) == Success()
    assert both.set_fetch("s") == SetHit(frozenset([b"a", b"b", b"c"])) and both.set_length("s") == LengthHit(3)
    assert both.set_contains("s", ["a", "x"]).contained == (True, False)
    assert len(both.set_sample("s", 2).elements) == 2
    assert both.set_remove_elements("s", ["a"]) == Success()
    popped = both.set_pop("s", 1).elements_string
    assert popped < {"b", "c"} and both.set_length("s") == LengthHit(1)
    both.set_add_elements("s", ["b", "c"])
    assert both.set_subtract_from("s", ["c", "x"]) == Success()
    assert both.set_fetch("s") == SetHit(frozenset([b"x"]))
    assert both.set_delete("s") == Success() and both.set_length("s") == Miss()


def test_lists(both):
    assert both.list_fetch("l") == Miss() == both.list_pop_front("l") == both.list_length("l")
    assert both.list_push_back("l", "b") == LengthSuccess(1) and both.list_push_front("l", "a") == LengthSuccess(2)
    assert both.list_concatenate_back("l", ["c", "d"]) == LengthSuccess(4)
    assert both.list_concatenate_front("l", ["y", "z"]) == LengthSuccess(6)
    assert both.list_fetch("l").elements_string == ("y", "z", "a", "b", "c", "d")
    assert both.list_fetch("l", 1, -3) == ListHit((b"z", b"a"))
    assert both.list_pop_front("l") == PopHit(b"y", 5) and both.list_pop_back("l") == PopHit(b"d", 4)
    assert both.list_push_back("l", "z", length_max=4) == LengthSuccess(4)
    assert both.list_remove_value("l", "z") == LengthHit(3)
    assert both.list_retain("l", -2) == LengthHit(2) and both.list_length("l") == LengthHit(2)
    assert both.list_fetch("l") == ListHit((b"b", b"c"))


def test_sorted_sets(both):
    assert both.sorted_set_fetch_by_index("z") == Miss() == both.sorted_set_get_score("z", "a")
    assert both.sorted_set_put_elements("z", {"a": 1.5, "b": 2.5, "c": -1.0}) == Success()
    assert both.sorted_set_fetch_by_index("z") == SortedSetHit(((b"c", -1.0), (b"a", 1.5), (b"b", 2.5)))
    assert both.sorted_set_fetch_by_index("z", 0, 1, descending=True).elements_string == (("b", 2.5),)
    assert both.sorted_set_fetch_by_score("z", 1.5) == SortedSetHit(((b"a", 1.5), (b"b", 2.5)))
    assert both.sorted_set_fetch_by_score("z", 1.5, 9, least_exclusive=True) == SortedSetHit(((b"b", 2.5),))
    assert both.sorted_set_fetch_by_score("z", offset=1, count=1) == SortedSetHit(((b"a", 1.5),))
    assert both.sorted_set_get_score("z", "a") == ScoreHit(1.5) and both.sorted_set_get_score("z", "x") == Miss()
    assert both.sorted_set_get_scores("z", ["x", "b"]) == ScoresHit((None, 2.5))
    assert both.sorted_set_increment("z", "a", 10) == ScoreSuccess(11.5)
    assert both.sorted_set_get_rank("z", "a") == RankHit(2) and both.sorted_set_get_rank("z", "x") == Miss()
    assert both.sorted_set_get_rank("z", "a", descending=True) == RankHit(0)
    assert both.sorted_set_remove_elements("z", ["a", "x"]) == Success() and both.sorted_set_length("z") == LengthHit(2)
    assert both.sorted_set_delete("z") == Success() and both.sorted_set_length("z") == Miss()


def test_a_change_sets_the_time_to_live_if_it_creates_or_refreshes(both):
    def ttl_after(ttl):
        both.set_add_elements("s", ["a"], ttl)
        return both.get_ttl("s").remaining

    assert 50 * SECOND < ttl_after(CollectionTtl(60 * SECOND, refresh=False)) <= 60 * SECOND
    assert 50 * SECOND < ttl_after(CollectionTtl(5 * SECOND, refresh=False)) <= 60 * SECOND
    assert ttl_after(CollectionTtl(5 * SECOND)) <= 5 * SECOND


def test_types(both):
    both.set("v", "1")
    both.dictionary_set_field("d", "f", "1")
    both.set_add_elements("s", ["a"])
    both.list_push_back("l", "a")
    both.sorted_set_put_elements("z", [("a", 1)])
    types = [both.get_type(key) for key in "vdslz"]
    assert types == [TypeHit(item_type) for item_type in ItemType] and both.get_type("none") == Miss()


def test_caches(both):
    both.delete_cache("one")
    assert both.create_cache("one") == Success() and code(both.create_cache("one")) is ErrorCode.ALREADY_EXISTS
    assert set(both.list_caches().names) >= {"default", "one"}
    one = both.with_cache("one")
    assert one.set("k", "v") == Success() and one.get("k") == GetHit(b"v") and both.get("k") == Miss()
    assert both.flush_cache("one") == Success() and one.get("k") == Miss()
    assert both.delete_cache("one") == Success() and code(one.get("k")) is ErrorCode.NOT_FOUND_CACHE


def test_wrong_python_types_are_errors_of_the_program(both):
    with pytest.raises(TypeError, match="neither str nor bytes"):
        both.get(7)
    with pytest.raises(TypeError, match="pass a list"):
        both.keys_exist("abc")


def test_texts_that_utf_8_does_not_express_are_refused_with_a_remedy(both):
    before = both.metrics()
    for bad in ("\ud83d", "a\ud83d", "\udc00a"):
        for call in (
            lambda: both.get(bad),
            lambda: both.set("k", bad),
            lambda: both.publish(bad, "v"),
            lambda: both.publish("t", bad),
            lambda: both.subscribe(bad),
            lambda: both.create_cache(bad),
            lambda: both.leaderboard_length(bad),
            lambda: both.record_get("r", filter=bad),
            lambda: both.record_put("r", {"a": bad}),
            lambda: both.record_scan(bad),
        ):
            with pytest.raises(ValueError, match=r"^cannot encode text .*: it has a lone surrogate.*; correct"):
                call()
    assert both.set("\U0001f600", "v") == Success() and both.get(b"\xf0\x9f\x98\x80") == GetHit(b"v")
    for cache in ("K\u00f6ln", "\ud83d", "a\n"):
        other = both.with_cache(cache)
        for result in (other.get("k"), other.get_batch(["k"]), other.subscribe("t")):
            assert code(result) is ErrorCode.INVALID_ARGUMENT
            assert result.message.endswith("the name of the cache is not printable ASCII; correct the name")
    with pytest.raises(TypeError, match="give str"):
        both.with_cache(None)
    after = both.metrics()
    assert (after.retries, after.subscriptions, after.in_flight) == (before.retries, before.subscriptions, 0)


def test_numbers_that_do_not_fit_their_fields_are_refused_with_a_range(both):
    for call in (
        lambda: both.increment("i", 1 << 63),
        lambda: both.dictionary_increment("d", "f", -(1 << 63) - 1),
        lambda: both.lease_set("k", 1 << 64, "v"),
        lambda: both.lease_set("k", -1, "v"),
        lambda: both.list_push_back("l", "v", length_max=-1),
        lambda: both.list_concatenate_front("l", ["v"], length_max=1 << 32),
        lambda: both.list_fetch("l", 1 << 31),
        lambda: both.sorted_set_fetch_by_index("z", 0, 1 << 31),
        lambda: both.sorted_set_fetch_by_score("z", offset=-1),
        lambda: both.set_pop("s", -1),
        lambda: both.leaderboard_remove("l", [-1]),
        lambda: both.record_scan("s", count_max=1 << 32),
        lambda: both.record_delete("r", if_revision=-1),
    ):
        with pytest.raises(ValueError, match=r"^cannot use \w+ -?\d+: it is out of range; give -?\d+ to \d+$"):
            call()
    for position in ({"sequence": 1 << 64}, {"sequence": -1}, {"sequence": 1, "page": 1 << 64}):
        with pytest.raises(ValueError, match="is out of range; pass those of a TopicItem, or 0"):
            both.subscribe("t", **position)
    for topic in (None, 5):
        with pytest.raises(TypeError, match="give str"):
            both.subscribe(topic)
    assert both.metrics().subscriptions == 0


def test_the_longest_deadline_is_not_one_that_has_passed(both):
    assert both.with_deadline(timedelta.max).set("k", "v") == Success()
    assert both.with_deadline(timedelta.max).get("k") == GetHit(b"v")


def test_a_closed_client_does_not_connect(server):
    client = CacheClient(server.grpc_address)
    client.close()
    assert client.connect(timedelta(seconds=1)) is False
