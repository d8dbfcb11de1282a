"""Tests the published, unmodified pymemcache and redis-py with little memory and flash."""

import random

import pytest
import redis
from pymemcache.client.base import Client

from server import Server

KEYS = 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("flash") / "device"
    with Server(resp=True, MEMORY="16MiB", FLASH=f"{place}:128MiB") as running:
        yield running


def value(number):
    return (b"%d;" % number) * 100 + b"\0\r\n"


@pytest.fixture(scope="module")
def memcached(server):
    client = Client(("127.0.0.1", server.port), connect_timeout=5, timeout=20, default_noreply=False)
    for begin in range(0, KEYS, 500):
        assert client.set_many({f"key-{n}": value(n) for n in range(begin, begin + 500)}) == []
    # A device that is temporarily slower than this client misses some items.
    assert stat(client, "flash_items") > KEYS / 3 and stat(client, "flash_devices_lost") == 0, client.stats()
    yield client
    client.close()


def stat(memcached, name):
    return int(memcached.stats()[name.encode()])


def there(memcached, count, seed):
    """Returns some existing keys, mostly on flash: those that were stored first."""
    keys = random.Random(seed).sample([f"key-{n}" for n in range(KEYS // 2)], count * 3)
    found = list(memcached.get_many(keys))
    assert len(found) >= count
    return found[:count]


def test_what_is_read_is_what_was_stored_in_memory_or_on_flash(memcached):
    before = stat(memcached, "flash_hits")
    found = 0
    for begin in range(0, KEYS, 3000):
        numbers = [*range(begin, begin + 100), *range(KEYS - 100, KEYS)]
        got = memcached.get_many([f"key-{n}" for n in numbers])
        assert all(got[key] == value(int(key.removeprefix("key-"))) for key in got)
        found += len(got)
    assert found > 1000
    assert stat(memcached, "flash_hits") > before + 100


def test_every_command_of_memcached_finds_and_changes_what_is_on_flash(memcached):
    keys = there(memcached, 6, 1)
    old = {key: value(int(key.removeprefix("key-"))) for key in keys}
    assert memcached.add(keys[0], b"x") is False
    assert memcached.append(keys[0], b"tail") and memcached.get(keys[0]) == old[keys[0]] + b"tail"
    found, token = memcached.gets(keys[1])
    assert found == old[keys[1]]
    assert memcached.cas(keys[1], b"new", token) is True and memcached.cas(keys[1], b"x", token) is False
    assert memcached.replace(keys[2], b"replaced") and memcached.get(keys[2]) == b"replaced"
    assert memcached.delete(keys[3]) and memcached.get(keys[3]) is None and not memcached.delete(keys[3])
    assert memcached.touch(keys[4], 1000) and memcached.get(keys[4]) == old[keys[4]]
    assert memcached.set(keys[5], b"over") and memcached.get(keys[5]) == b"over"


def test_clients_of_redis_read_and_change_it_in_one_pipeline_in_order(server, memcached):
    with redis.Redis("127.0.0.1", server.resp_port, socket_timeout=20) as client:
        keys = there(memcached, 40, 2)
        recent = [f"key-{n}" for n in range(KEYS - 40, KEYS)]
        mixed = [key for pair in zip(keys, recent) for key in pair]
        pipeline = client.pipeline(transaction=False)
        for key in mixed:
            pipeline.get(key)
        answers = pipeline.execute()
        assert all(answer in (None, value(int(key.removeprefix("key-")))) for key, answer in zip(mixed, answers))
        assert sum(answer is not None for answer in answers) > 60
        changed = there(memcached, 5, 3)
        pipeline = client.pipeline(transaction=True)
        pipeline.strlen(changed[0]).append(changed[0], b"!").expire(changed[1], 100).delete(changed[2])
        pipeline.rename(changed[3], "renamed").exists(changed[4])
        length = len(value(int(changed[0].removeprefix("key-"))))
        assert pipeline.execute() == [length, length + 1, True, 1, True, 1]
        assert client.get("renamed") == value(int(changed[3].removeprefix("key-")))
        assert client.ttl(changed[1]) > 90 and client.get(changed[2]) is None
