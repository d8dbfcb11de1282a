"""Runs published, unmodified job queues: RQ and Celery, and the locks and transactions of redis-py that they use."""

import gc
import tempfile
import threading
import time
from datetime import timedelta

import pytest
import redis
from celery import Celery, chord, group
from celery.contrib.testing.worker import start_worker
from rq import Queue, SimpleWorker

from server import Server


@pytest.fixture(scope="module")
def server():
    with Server(resp=True, WORKERS="2") as running:
        yield running


@pytest.fixture(autouse=True)
def no_result_outlives_its_server(server):
    """A result of Celery asks its server when it is deleted, and would wait for one that has ended."""
    yield
    gc.collect()


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(server, request):
    with redis.Redis("127.0.0.1", server.resp_port, protocol=request.param, socket_timeout=20) as client:
        client.flushall()
        yield client


def test_one_client_at_a_time_holds_a_lock(client):
    taken, inside = [], []

    def take(number):
        with client.lock("lock", timeout=20, sleep=0.005):
            inside.append(number)
            taken.append(len(inside))
            inside.remove(number)

    threads = [threading.Thread(target=take, args=[number]) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert taken == [1] * 8
    lock = client.lock("lock", timeout=20)
    assert lock.acquire() and lock.owned() and lock.extend(5) and lock.reacquire()
    assert not client.lock("lock", timeout=20).acquire(blocking=False)
    lock.release()
    with pytest.raises(redis.exceptions.LockError):
        lock.release()


def test_transactions_on_one_list_lose_nothing(client):
    def push_length(pipe):
        length = pipe.llen("list")
        pipe.multi()
        pipe.rpush("list", length)

    threads = [
        threading.Thread(target=lambda: [client.transaction(push_length, "list") for _ in range(25)]) for _ in range(4)
    ]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert client.lrange("list", 0, -1) == [str(number).encode() for number in range(100)]


def test_script_moves_between_types(client):
    script = client.register_script(
        "local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1]) "
        "for _, job in ipairs(due) do redis.call('ZREM', KEYS[1], job) redis.call('RPUSH', KEYS[2], job) end "
        "return #due"
    )
    client.zadd("later", {f"job:{number}": number for number in range(50)})
    assert script(keys=["later", "now"], args=[19]) == 20
    assert client.lrange("now", 0, -1) == [f"job:{number}".encode() for number in range(20)]
    assert client.zcard("later") == 30


def test_keys_move_by_dump_and_restore(client):
    client.rpush("list", *range(300))
    client.sadd("set", *range(300))
    client.zadd("zset", {f"member:{number}": number / 8 for number in range(300)})
    for key in ("list", "set", "zset"):
        client.restore(f"{key}:moved", 60_000, client.dump(key))
        assert 0 < client.pttl(f"{key}:moved") <= 60_000
    assert client.lrange("list", 0, -1) == client.lrange("list:moved", 0, -1)
    assert client.smembers("set") == client.smembers("set:moved")
    assert client.zrange("zset", 0, -1, withscores=True) == client.zrange("zset:moved", 0, -1, withscores=True)


def add(one, other):
    return one + other


def total(numbers):
    return sum(numbers)


def fail():
    raise ValueError("as intended")


def test_rq_runs_jobs_in_their_order(server):
    with redis.Redis("127.0.0.1", server.resp_port, socket_timeout=20) as client:
        queue = Queue("rq", connection=client)
        jobs = [queue.enqueue(add, number, number) for number in range(20)]
        failing = queue.enqueue(fail)
        after = queue.enqueue(add, 1, 1, depends_on=jobs[0])
        later = queue.enqueue_in(timedelta(hours=1), add, 1, 2)
        SimpleWorker([queue], connection=client).work(burst=True, logging_level="CRITICAL")
        assert [job.return_value(refresh=True) for job in jobs] == [2 * number for number in range(20)]
        assert after.return_value(refresh=True) == 2
        assert failing.get_status(refresh=True) == "failed" and "as intended" in failing.latest_result().exc_string
        assert later.get_status(refresh=True) == "scheduled"
        registries = (queue.finished_job_registry, queue.failed_job_registry, queue.scheduled_job_registry)
        assert [registry.count for registry in registries] == [21, 1, 1]


def celery_app(server):
    place = f"redis://127.0.0.1:{server.resp_port}"
    app = Celery("celery", broker=f"{place}/0", backend=f"{place}/0")
    app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)
    return app


@pytest.fixture
def one_worker():
    with Server(resp=True, WORKERS="1") as running:
        yield running
        gc.collect()


def test_celery_runs_tasks_groups_and_retries(one_worker):
    """`get` of Celery subscribes on one connection and reads on another, without waiting: see docs/protocol/resp.md."""
    app = celery_app(one_worker)
    add_task = app.task(add, name="add")
    total_task = app.task(total, name="total")

    @app.task(bind=True)
    def retried(task):
        if task.request.retries < 2:
            raise task.retry(countdown=0)
        return task.request.retries

    with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False, loglevel="CRITICAL"):
        results = [add_task.delay(number, number) for number in range(20)]
        assert [result.get(timeout=20) for result in results] == [2 * number for number in range(20)]
        assert group(add_task.s(number, 1) for number in range(5))().get(timeout=20) == [1, 2, 3, 4, 5]
        assert chord((add_task.s(number, 1) for number in range(5)), total_task.s())().get(timeout=20) == 15
        assert retried.delay().get(timeout=20) == 2


def value_of(result):
    """Polls, because a message can precede its subscription if the server has two workers."""
    deadline = time.monotonic() + 20
    while not result.ready() and time.monotonic() < deadline:
        time.sleep(0.005)
    return result.get(timeout=1)


@pytest.fixture
def memory_file():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield f"{folder}/memory"


def test_queued_jobs_and_results_survive_a_kill_of_the_server(memory_file):
    with Server(resp=True, WORKERS="2", FILE=memory_file) as first:
        with redis.Redis("127.0.0.1", first.resp_port, socket_timeout=20) as client:
            queue = Queue("rq", connection=client)
            jobs = [queue.enqueue(add, number, number) for number in range(60)]
            SimpleWorker([queue], connection=client).work(burst=True, max_jobs=25, logging_level="CRITICAL")
            task = celery_app(first).task(add, name="add")
            ids = [task.delay(number, number).id for number in range(20)]
            gc.collect()
        first.kill()
        with Server(first.port, resp_port=first.resp_port, WORKERS="2", FILE=memory_file) as second:
            with redis.Redis("127.0.0.1", second.resp_port, socket_timeout=20) as client:
                queue = Queue("rq", connection=client)
                assert queue.count == 35 and queue.finished_job_registry.count == 25
                SimpleWorker([queue], connection=client).work(burst=True, logging_level="CRITICAL")
                values = [queue.fetch_job(job.id).return_value() for job in jobs]
                assert values == [2 * number for number in range(60)]
            app = celery_app(second)
            app.task(add, name="add")
            with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False, loglevel="CRITICAL"):
                values = [value_of(app.AsyncResult(number)) for number in ids]
            gc.collect()
            assert values == [2 * number for number in range(20)]
