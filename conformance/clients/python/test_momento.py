"""Tests Momento's published, unmodified Python library, its blocking and its asynchronous API, with all their calls."""

import inspect
from datetime import timedelta

import pytest
from momento.auth.access_control.disposable_token_scope import DisposableTokenProps
from momento.auth.access_control.disposable_token_scopes import DisposableTokenScopes
from momento.auth.access_control.permission_scope import AllCaches, AllTopics
from momento.requests import CollectionTtl, SortOrder
from momento.utilities import ExpiresIn

from momento_clients import CACHE, Clients, called, fails, is_, limit_of, token_of
from test_grpc import plain, server  # noqa: F401 (fixtures)


@pytest.fixture(params=["sync", "async"])
def clients(request, server, plain):  # noqa: F811
    clients = Clients(request.param, server.grpc_port)
    yield clients
    clients.close()


@pytest.fixture
def cache(clients):
    return clients.cache()


def test_caches_are_created_listed_flushed_and_deleted(cache):
    fails("NOT_FOUND_ERROR", cache.get("one", "k"))
    is_("Success", cache.create_cache("one"))
    is_("CacheAlreadyExists", cache.create_cache("one"))
    is_("Success", cache.set("one", "k", "v"))
    is_("Miss", cache.get(CACHE, "k"))
    assert sorted(one.name for one in is_("Success", cache.list_caches()).caches) == ["default", "one"]
    is_("Success", cache.flush_cache("one"))
    is_("Miss", cache.get("one", "k"))
    is_("Success", cache.delete_cache("one"))
    fails("NOT_FOUND_ERROR", cache.get("one", "k"))
    fails("NOT_FOUND_ERROR", cache.delete_cache("one"))


def test_items_are_set_read_and_deleted(cache, plain):  # noqa: F811
    is_("Success", cache.set(CACHE, "k", "v"))
    assert is_("Hit", cache.get(CACHE, "k")).value_string == "v"
    assert plain.get("k") == b"v" and 50_000 < plain.pttl("k") <= 60_000
    is_("Success", cache.set(CACHE, b"k", b"\0\xff", ttl=timedelta(seconds=5)))
    assert is_("Hit", cache.get(CACHE, b"k")).value_bytes == b"\0\xff" and plain.pttl("k") <= 5_000
    is_("Success", cache.delete(CACHE, "k"))
    is_("Miss", cache.get(CACHE, "k"))
    assert [is_("Success", cache.increment(CACHE, "i", by)).value for by in (5, -7)] == [5, -2]
    is_("Stored", cache.set_if_not_exists(CACHE, "n", "a"))
    is_("NotStored", cache.set_if_not_exists(CACHE, "n", "b"))


def test_values_of_all_lengths_come_back(cache):
    for length in (0, 1, 8_191, 8_192, 65_535, 65_536, 1_000_000):
        value = bytes(at % 251 for at in range(length))
        is_("Success", cache.set(CACHE, "long", value))
        assert is_("Hit", cache.get(CACHE, "long")).value_bytes == value, length


def test_dictionaries_are_hashes(cache, plain):  # noqa: F811
    is_("Miss", cache.dictionary_fetch(CACHE, "d"))
    is_("Miss", cache.dictionary_get_field(CACHE, "d", "a"))
    is_("Miss", cache.dictionary_get_fields(CACHE, "d", ["a"]))
    is_("Success", cache.dictionary_set_field(CACHE, "d", "a", "1"))
    is_("Success", cache.dictionary_set_fields(CACHE, "d", {"b": "2", "c": "3", "d": "4"}))
    assert plain.hgetall("d") == {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"}
    assert is_("Hit", cache.dictionary_get_field(CACHE, "d", "a")).value_string == "1"
    is_("Miss", cache.dictionary_get_field(CACHE, "d", "x"))
    some = is_("Hit", cache.dictionary_get_fields(CACHE, "d", ["b", "x", "a"]))
    assert some.value_dictionary_string_string == {"a": "1", "b": "2"}
    assert [type(one).__name__ for one in some.responses] == ["Hit", "Miss", "Hit"]
    assert is_("Success", cache.dictionary_increment(CACHE, "d", "a", 41)).value == 42
    is_("Success", cache.dictionary_remove_field(CACHE, "d", "b"))
    is_("Success", cache.dictionary_remove_fields(CACHE, "d", ["c", "x"]))
    assert is_("Hit", cache.dictionary_fetch(CACHE, "d")).value_dictionary_string_string == {"a": "42", "d": "4"}


def test_sets_are_sets(cache, plain):  # noqa: F811
    is_("Miss", cache.set_fetch(CACHE, "s"))
    is_("Success", cache.set_add_element(CACHE, "s", "a"))
    is_("Success", cache.set_add_elements(CACHE, "s", {"b", "c", "d"}))
    assert plain.smembers("s") == {b"a", b"b", b"c", b"d"}
    is_("Success", cache.set_remove_element(CACHE, "s", "a"))
    is_("Success", cache.set_remove_elements(CACHE, "s", {"b", "x"}))
    assert is_("Hit", cache.set_fetch(CACHE, "s")).value_set_string == {"c", "d"}


def test_collections_retain_or_refresh_their_times_to_live(cache, plain):  # noqa: F811
    def add(ttl):
        is_("Success", cache.set_add_element(CACHE, "s", "a", ttl=ttl))
        return plain.pttl("s")

    assert add(CollectionTtl(timedelta(seconds=60), refresh_ttl=False)) > 50_000
    assert add(CollectionTtl(timedelta(seconds=5), refresh_ttl=False)) > 50_000
    assert add(CollectionTtl(timedelta(seconds=5), refresh_ttl=True)) <= 5_000


def test_lists_are_lists(cache, plain):  # noqa: F811
    is_("Miss", cache.list_fetch(CACHE, "l"))
    is_("Miss", cache.list_length(CACHE, "l"))
    is_("Miss", cache.list_pop_back(CACHE, "l"))
    is_("Miss", cache.list_pop_front(CACHE, "l"))
    is_("Success", cache.list_concatenate_back(CACHE, "l", ["c", "d"]))
    is_("Success", cache.list_concatenate_front(CACHE, "l", ["a", "b"]))
    is_("Success", cache.list_push_back(CACHE, "l", "e"))
    assert is_("Success", cache.list_push_front(CACHE, "l", "z")).list_length == 6
    assert plain.lrange("l", 0, -1) == [b"z", b"a", b"b", b"c", b"d", b"e"]
    assert is_("Hit", cache.list_pop_front(CACHE, "l")).value_string == "z"
    assert is_("Hit", cache.list_pop_back(CACHE, "l")).value_string == "e"
    is_("Success", cache.list_push_back(CACHE, "l", "a", truncate_front_to_size=4))
    assert is_("Hit", cache.list_fetch(CACHE, "l")).value_list_string == ["b", "c", "d", "a"]
    is_("Success", cache.list_push_front(CACHE, "l", "a", truncate_back_to_size=3))
    assert plain.lrange("l", 0, -1) == [b"a", b"b", b"c"]
    is_("Success", cache.list_concatenate_back(CACHE, "l", ["a", "b"], truncate_front_to_size=4))
    is_("Success", cache.list_concatenate_front(CACHE, "l", ["b"], truncate_back_to_size=4))
    assert plain.lrange("l", 0, -1) == [b"b", b"b", b"c", b"a"]
    is_("Success", cache.list_remove_value(CACHE, "l", "b"))
    assert is_("Hit", cache.list_length(CACHE, "l")).length == 2


def test_sorted_sets_are_sorted_sets(cache, plain):  # noqa: F811
    is_("Miss", cache.sorted_set_fetch_by_rank(CACHE, "z"))
    is_("Miss", cache.sorted_set_fetch_by_score(CACHE, "z"))
    is_("Miss", cache.sorted_set_get_scores(CACHE, "z", ["a"]))
    is_("Success", cache.sorted_set_put_element(CACHE, "z", "a", 1.5))
    is_("Success", cache.sorted_set_put_elements(CACHE, "z", {"b": 2.5, "c": -1.0, "d": 10.0}))
    assert plain.zrange("z", 0, -1, withscores=True) == [(b"c", -1.0), (b"a", 1.5), (b"b", 2.5), (b"d", 10.0)]

    def fetched(response):
        return [value for value, _ in is_("Hit", response).value_list_string]

    down = SortOrder.DESCENDING
    assert fetched(cache.sorted_set_fetch_by_rank(CACHE, "z")) == ["c", "a", "b", "d"]
    assert fetched(cache.sorted_set_fetch_by_rank(CACHE, "z", 1, 3, down)) == ["b", "a"]
    assert fetched(cache.sorted_set_fetch_by_score(CACHE, "z", min_score=0.0, max_score=3.0)) == ["a", "b"]
    assert fetched(cache.sorted_set_fetch_by_score(CACHE, "z", sort_order=down, offset=1, count=2)) == ["b", "a"]
    assert is_("Hit", cache.sorted_set_get_rank(CACHE, "z", "a")).rank == 1
    assert is_("Hit", cache.sorted_set_get_rank(CACHE, "z", "a", down)).rank == 2
    is_("Miss", cache.sorted_set_get_rank(CACHE, "z", "x"))
    assert is_("Hit", cache.sorted_set_get_score(CACHE, "z", "b")).score == 2.5
    is_("Miss", cache.sorted_set_get_score(CACHE, "z", "x"))
    scores = is_("Hit", cache.sorted_set_get_scores(CACHE, "z", ["d", "x"])).responses
    assert [type(one).__name__ for one in scores] == ["Hit", "Miss"] and scores[0].score == 10.0
    assert is_("Success", cache.sorted_set_increment_score(CACHE, "z", "c", 2.25)).score == 1.25
    is_("Success", cache.sorted_set_remove_element(CACHE, "z", "c"))
    is_("Success", cache.sorted_set_remove_elements(CACHE, "z", ["d", "x"]))
    assert plain.zrange("z", 0, -1) == [b"a", b"b"]


def test_topics_reach_their_subscribers_and_continue_at_a_number(clients, plain):  # noqa: F811
    topics = clients.topics()
    got = topics.subscribe(CACHE, "news")
    is_("Success", topics.publish(CACHE, "news", "text"))
    is_("Success", topics.publish(CACHE, "news", b"\0\xff"))
    plain.publish("news", "of Redis")
    items = [next(got) for _ in range(3)]
    assert [type(item).__name__ for item in items] == ["Text", "Binary", "Text"]
    assert [item.value for item in items] == ["text", b"\0\xff", "of Redis"]
    first = items[0].sequence_number
    assert [item.sequence_number for item in items] == [first, first + 1, first + 2]
    again = topics.subscribe(CACHE, "news", items[1].sequence_number, items[1].sequence_page)
    assert [next(again).value for _ in range(2)] == [b"\0\xff", "of Redis"]
    got.unsubscribe()
    again.unsubscribe()
    fails("NOT_FOUND_ERROR", topics.publish("absent", "news", "v"))
    fails("NOT_FOUND_ERROR", topics.subscribe("absent", "news"))


def test_disposable_tokens_are_limited_to_keys_and_prefixes(clients, plain):  # noqa: F811
    auth = clients.auth()
    scopes = DisposableTokenScopes
    for scope, reads, writes in [
        (scopes.cache_read_write(CACHE), ["a:1", "a:2", "b"], ["a:1", "a:2", "b"]),
        (scopes.cache_read_only(AllCaches()), ["a:1", "a:2", "b"], []),
        (scopes.cache_write_only(CACHE), [], ["a:1", "a:2", "b"]),
        (scopes.cache_read_write("other"), [], []),
        (scopes.cache_key_read_write(CACHE, "a:1"), ["a:1"], ["a:1"]),
        (scopes.cache_key_read_only(CACHE, "a:1"), ["a:1"], []),
        (scopes.cache_key_write_only(CACHE, "a:1"), [], ["a:1"]),
        (scopes.cache_key_prefix_read_write(CACHE, "a:"), ["a:1", "a:2"], ["a:1", "a:2"]),
        (scopes.cache_key_prefix_read_only(CACHE, "a:"), ["a:1", "a:2"], []),
        (scopes.cache_key_prefix_write_only(CACHE, "a:"), [], ["a:1", "a:2"]),
    ]:
        plain.flushall()
        issued = is_("Success", auth.generate_disposable_token(scope, ExpiresIn.minutes(5)))
        limited = clients.cache(token_of(issued.auth_token))
        for key in ["a:1", "a:2", "b"]:
            response = limited.get(CACHE, key)
            is_("Miss", response) if key in reads else fails("PERMISSION_ERROR", response)
        for key in ["a:1", "a:2", "b"]:
            response = limited.set(CACHE, key, "v")
            is_("Success", response) if key in writes else fails("PERMISSION_ERROR", response)
    token = token_of(issued.auth_token)
    forged = token[:-1] + ("B" if token.endswith("A") else "A")
    fails("AUTHENTICATION_ERROR", clients.cache(forged).get(CACHE, "k"))


def test_disposable_tokens_are_limited_to_topics(clients):
    def limited(scope, *identity):
        props = [DisposableTokenProps(token_id=name) for name in identity]
        response = clients.auth().generate_disposable_token(scope, ExpiresIn.minutes(5), *props)
        return clients.topics(token_of(is_("Success", response).auth_token))

    publisher = limited(DisposableTokenScopes.topic_publish_only(CACHE, "news"), "ann")
    subscriber = limited(DisposableTokenScopes.topic_subscribe_only(CACHE, "news"))
    both = limited(DisposableTokenScopes.topic_publish_subscribe(CACHE, AllTopics()))
    got = subscriber.subscribe(CACHE, "news")
    is_("Success", publisher.publish(CACHE, "news", "v"))
    is_("Success", both.publish(CACHE, "news", "w"))
    assert [next(got).value, next(got).value] == ["v", "w"]
    fails("PERMISSION_ERROR", publisher.publish(CACHE, "other", "v"))
    fails("PERMISSION_ERROR", subscriber.publish(CACHE, "news", "v"))
    fails("PERMISSION_ERROR", publisher.subscribe(CACHE, "news"))
    got.unsubscribe()


def test_errors_have_the_codes_of_the_protocol(cache, plain):  # noqa: F811
    plain.rpush("list", "a")
    plain.set("text", "no number")
    fails("FAILED_PRECONDITION_ERROR", cache.get(CACHE, "list"))
    fails("FAILED_PRECONDITION_ERROR", cache.increment(CACHE, "text", 1))
    fails("INVALID_ARGUMENT_ERROR", cache.get(CACHE, ""))
    fails("NOT_FOUND_ERROR", cache.list_fetch("absent", "l"))
    item = bytes(3 << 20)
    assert limit_of(fails("LIMIT_EXCEEDED_ERROR", cache.set(CACHE, "k", item))) == "item_size_limit_exceeded"
    error = fails("LIMIT_EXCEEDED_ERROR", cache.set_add_element(CACHE, "s", item))
    assert limit_of(error) == "element_size_limit_exceeded"


def test_signing_keys_have_no_use_here(cache):
    """docs/momento.md lists this as a difference."""
    for response in [
        cache.create_signing_key(timedelta(minutes=1)), cache.revoke_signing_key("id"), cache.list_signing_keys(),
    ]:  # fmt: skip
        fails("BAD_REQUEST_ERROR", response)


def test_every_published_call_was_made():
    """This test is the last one, because it checks the others."""
    for cls, names in called.items():
        methods = {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}
        # `create` is another constructor.
        assert methods - names - {"create", "close"} == set(), cls.__name__
        assert len(methods) > (40 if "Cache" in cls.__name__ else 1)
