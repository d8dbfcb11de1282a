"""Tests Debian's redis-cli, redis-benchmark and redis_exporter."""

import contextlib
import re
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from server import Server, free_port


@pytest.fixture(scope="module")
def server():
    with Server(resp=True) as running:
        yield running


def run(server, program, *arguments, stdin=None, seconds=60):
    command = [program, "-h", "127.0.0.1", "-p", str(server.resp_port), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=seconds)


def cli(server, *arguments, **options):
    done = run(server, "redis-cli", *arguments, **options)
    assert done.returncode == 0, done
    return done.stdout


def for_a_while(server, enough, *arguments):
    """Returns the output of redis-cli once `enough` accepts it; such a mode runs until it is stopped."""
    command = ["redis-cli", "-h", "127.0.0.1", "-p", str(server.resp_port), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        written, deadline = b"", time.monotonic() + 30
        while not enough(written.decode()):
            assert process.poll() is None and time.monotonic() < deadline, written
            written += process.stdout.read1(4096)
        process.terminate()
        process.stdout.close()
    return written.decode()


def test_a_person_at_redis_cli(server):
    assert cli(server, "-3", "set", "greeting", "hello", "EX", "60") == "OK\n"
    assert cli(server, "get", "greeting") == "hello\n"
    lines = cli(server, stdin="set a 1\nincr a\nget a\nping\n").split()
    assert lines == ["OK", "2", "2", "PONG"]
    assert "redis_version" in cli(server, "info")


def test_values_by_a_pipe(server):
    commands = "".join(f"*3\r\n$3\r\nSET\r\n$7\r\nkey{n:04}\r\n$5\r\nvalue\r\n" for n in range(2000))
    assert "errors: 0, replies: 2000" in cli(server, "--pipe", stdin=commands)


def test_the_largest_keys_are_found(server):
    cli(server, "flushall")
    cli(server, "mset", "a", "value", "b", "value", "c", "value")
    cli(server, "set", "largest", "x" * 5000)
    cli(server, "hset", "wide", *(word for number in range(500) for word in (f"field{number}", f"value{number}")))
    cli(server, "hset", "narrow", "field", "value")
    told = cli(server, "--bigkeys")
    assert "Sampled 6 keys in the keyspace!" in told
    assert 'Biggest string found \'"largest"\' has 5000 bytes' in told
    assert 'Biggest   hash found \'"wide"\' has 500 fields' in told
    assert "4 strings with 5015 bytes" in told and "2 hashs with 501 fields" in told
    # The hash takes more than its names and values, and its parts do not count as keys.
    told = cli(server, "--memkeys")
    assert "Sampled 6 keys in the keyspace!" in told and '"largest"' in told
    wide = int(re.search(r'Biggest   hash found \'"wide"\' has (\d+) bytes', told).group(1))
    assert 500 * len("field123value123") * 0.9 < wide < 20_000


def test_the_live_modes(server):
    cli(server, "flushall")
    cli(server, "mset", *(word for number in range(2000) for word in (f"key{number:04}", "value")))
    lines = for_a_while(server, lambda text: text.count("\n") >= 4, "--stat", "-i", "0.1").splitlines()
    assert lines[1].split()[:3] == ["keys", "mem", "clients"], lines
    keys, memory, clients, blocked, requests = lines[2].split()[:5]
    assert keys == "2000" and blocked == "0" and int(clients) >= 1 and int(requests) > 2
    # The 2,000 keys take some hundred KiB.
    assert memory.endswith("K") and float(memory[:-1]) > 20, memory
    # Without a terminal there is one line at the end of the interval: minimum, maximum, mean in ms, and count.
    least, most, mean, samples = latencies(for_a_while(server, latencies, "--latency", "-i", "1"))
    assert 0 <= least <= mean <= most and samples > 5
    scanned = cli(server, "--scan", "--pattern", "key*")
    assert len(set(scanned.split())) == 2000


def latencies(text):
    numbers = [float(word) for word in re.findall(r"\d+(?:\.\d+)?", text)]
    return numbers[-4:] if "\n" in text and len(numbers) >= 4 else None


def test_subscribing_at_redis_cli(server):
    def told(text):
        cli(server, "publish", "news", "hello")
        return "hello" in text

    for_a_while(server, told, "subscribe", "news")


@pytest.mark.parametrize("arguments", [[], ["-P", "16"], ["-3"], ["-r", "200", "--threads", "2"]])
def test_redis_benchmark(server, arguments):
    tests = "ping,set,get,incr,mset,hset"
    done = run(server, "redis-benchmark", "-t", tests, "-n", "5000", "-c", "20", "-q", *arguments)
    assert done.returncode == 0 and "rror" not in done.stdout + done.stderr, done
    for name in ("PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET", "HSET"):
        assert f"{name}" in done.stdout, done.stdout


@contextlib.contextmanager
def exporter(server, *arguments):
    """Starts redis_exporter beside the server; yields a function that requests its metrics."""
    port = free_port()
    command = ["prometheus-redis-exporter", "-redis.addr", f"redis://127.0.0.1:{server.resp_port}"]
    command += ["-web.listen-address", f"127.0.0.1:{port}", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:

        def metrics():
            deadline = time.monotonic() + 30
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
                        lines = [line.rsplit(" ", 1) for line in page.read().decode().splitlines() if line[0] != "#"]
                        return {name: float(value) for name, value in lines}
                except urllib.error.URLError:
                    assert process.poll() is None and time.monotonic() < deadline, "it does not listen"
                    time.sleep(0.05)

        try:
            yield metrics
        finally:
            process.terminate()
            process.wait(timeout=30)


def test_redis_exporter_tells_what_was_done(server):
    cli(server, "flushall")
    with exporter(server, "-check-keys", "db0=told*", "-count-keys", "db0=key*") as metrics:
        before = metrics()
        assert before["redis_up"] == 1 and before['redis_db_keys{db="db0"}'] == 0
        lines = [f"set key{number} value" for number in range(30)] + [f"get key{number}" for number in range(40)]
        lines += ["hset told:hash a 1 b 2 c 3", "set told:string four", "config set slowlog-log-slower-than 0", "ping"]
        lines += ["config set slowlog-log-slower-than 10000"]
        cli(server, stdin="\n".join(lines) + "\n")
        cli(server, "-n", "3", "mset", "a", "1", "b", "2")
        after = metrics()
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    assert after["redis_up"] == 1 and after['redis_exporter_last_scrape_error{err=""}'] == 0
    assert (grown["redis_keyspace_hits_total"], grown["redis_keyspace_misses_total"]) == (30, 10)
    assert (after['redis_db_keys{db="db0"}'], after['redis_db_keys{db="db3"}']) == (32, 2)
    assert after['redis_keys_count{db="db0",key="key*"}'] == 30
    assert after['redis_key_size{db="db0",key="told:hash"}'] == 3
    assert after['redis_key_size{db="db0",key="told:string"}'] == 4
    assert grown["redis_commands_processed_total"] >= len(lines) and grown["redis_connections_received_total"] >= 2
    assert after["redis_memory_max_bytes"] == 128 << 20 and after["redis_uptime_in_seconds"] >= 0
    assert 0 < after["redis_memory_used_bytes"] <= after["redis_memory_max_bytes"]
    assert after["redis_slowlog_length"] >= 1 and after["redis_evicted_keys_total"] == 0
    assert after["redis_connected_clients"] >= 1 and after["redis_rejected_connections_total"] == 0


# The metrics that redis_exporter has from redis-server and not from Gannet, with the reason.
NO_METRIC = {
    "redis_expired_stale_percentage": "expired items are removed with their segment, not found by samples",
}


def test_redis_exporter_lacks_no_metric_of_redis_without_a_reason(server):
    def names(beside):
        lines = ["set a 1 ex 100", "get a", "get none", "hset h f v", "incr h", "nosuch"]
        lines += ["config set slowlog-log-slower-than 0", "ping", "config set slowlog-log-slower-than 10000"]
        cli(beside, stdin="\n".join(lines) + "\n")
        with exporter(beside) as metrics:
            metrics()
            return {name.split("{")[0] for name in metrics() if name.startswith("redis_")}

    with Server(resp=True, SERVER="redis") as redis:
        wanted = names(redis)
    replied = names(server)
    assert wanted - replied == NO_METRIC.keys(), sorted(wanted ^ replied)
    assert len(wanted) > 100, len(wanted)
