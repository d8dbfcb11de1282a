"""redis-cli and redis-benchmark, as Debian has them."""

import subprocess
import time

import pytest

from server import Server


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
    """What redis-cli has written when `enough` holds for it; such a mode ends when it is told to."""
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
    cli(server, "set", "largest", "x" * 5000)
    assert '"largest"' in cli(server, "--bigkeys") and "5000 bytes" in cli(server, "--bigkeys")
    assert '"largest"' in cli(server, "--memkeys")


def test_the_live_modes(server):
    assert "keys" in for_a_while(server, lambda text: text.count("\n") >= 4, "--stat", "-i", "0.1")
    for_a_while(server, lambda text: "min" in text or text.count(" ") >= 3, "--latency", "-i", "1")
    scanned = cli(server, "--scan", "--pattern", "key*")
    assert len(scanned.split()) == 2000


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
