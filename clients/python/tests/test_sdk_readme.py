"""The tables of the README on errors and refused arguments, compared with the library."""

import re
from datetime import timedelta

import pytest
from conftest import CONFIGURATION, PYTHON
from server import free_port

from gannet import CacheClient, CacheError, Configurations, ErrorCode, GraphQuery, RecordOptions

README = (PYTHON / "README.md").read_text()
ZERO = timedelta(0)
SURROGATE = "\ud800"


def table_after(text):
    """Returns the rows of the first table after a text, with its header."""
    lines = README[README.index(text) :].splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    header, _, *rest = rows
    return header, rest


def test_the_table_of_codes_has_all_of_them():
    _, rows = table_after("A `CacheError` has a `code`")
    codes = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert len(codes) == len(set(codes)) and set(codes) == {each.name for each in ErrorCode}


# Calls that are refused before a request is sent, by the start of the row that describes them.
REFUSED = {
    "the default time to live of a client": [
        lambda client: CacheClient(f"127.0.0.1:{free_port()}", CONFIGURATION, default_ttl=ZERO),
        lambda client: client.record_put("k", {"a": 1}, RecordOptions(ttl=ZERO)),
        lambda client: client.lease_get("k", recache=ZERO),
        lambda client: client.lease_get("k", lease=timedelta(seconds=-1)),
        lambda client: client.lease_stale("k", timedelta(microseconds=999)),
    ],
    "the name of a cache that is not printable ASCII": [lambda client: client.with_cache("caché").get("k")],
    "a text that UTF-8 does not express": [
        lambda client: client.set(SURROGATE, "v"),
        lambda client: client.set("k", SURROGATE),
        lambda client: client.record_get("k", filter=SURROGATE),
        lambda client: client.graph("g").count(1, SURROGATE),
    ],
    "a configuration that needs more than 1,000 connections": [
        lambda client: Configurations.Laptop.v1().with_requests_in_flight_max(100_001)
    ],
    "a whole number beyond its field": [
        lambda client: client.increment("k", 1 << 63),
        lambda client: client.list_fetch("k", 1 << 31),
        lambda client: client.record_delete("k", if_revision=-1),
        lambda client: client.graph("g").count(1 << 64, "t"),
    ],
    "the deletion of a record with other conditions": [lambda client: client.record_delete("k", filter="a > 1")],
    "the name of a graph that is empty": [
        lambda client: client.graph(""),
        lambda client: GraphQuery.count(1, "t").in_graph(""),
    ],
    "0 for a limit, a budget or another bound": [
        lambda client: client.graph("g").neighbours(1, "t", limit=0),
        lambda client: client.graph("g").mutual(1, 2, "t", budget=0),
        lambda client: client.graph("g").paths(1, 2, "t", distance_max=0),
        lambda client: client.graph("g").suggest(1, "t", k=0),
    ],
}


def outcome(case, client):
    """Returns the name of the exception that a case raises, or INVALID if it returns that error."""
    try:
        result = case(client)
    except Exception as error:
        return type(error).__name__
    invalid = isinstance(result, CacheError) and result.code is ErrorCode.INVALID_ARGUMENT
    return "INVALID" if invalid else repr(result)


def test_each_row_of_refused_arguments_is_what_the_library_does(client):
    header, rows = table_after("### Refused arguments")
    column = header.index("Python")
    unchecked = set(REFUSED)
    for row in rows:
        (start,) = [each for each in REFUSED if row[0].startswith(each)]
        unchecked.remove(start)
        (expected,) = re.findall(r"`(\w+)`", row[column])
        assert {outcome(case, client) for case in REFUSED[start]} == {expected}, row[0]
    assert not unchecked


@pytest.mark.parametrize(
    "case",
    [
        lambda client: client.get(""),
        lambda client: client.set("k", "v", ZERO),
        lambda client: client.set_pop("k", 0),
        lambda client: client.record_put("k", {"a": 1}, RecordOptions(if_revision=1, if_revision_above=1)),
        lambda client: client.graph("readme").count(0, "t"),
        lambda client: client.graph("readme").count((1 << 64) - 1, "t"),
        lambda client: client.graph("readme").neighbours(1, "t", limit=4097),
    ],
)
def test_the_server_refuses_further_arguments(client, case):
    assert client.graph("readme").declare_type("t").outcome == "success"
    assert outcome(case, client) == "INVALID"
