#!/usr/bin/env python3
"""The server's CPU time for a gRPC call, beside a tonic server and a server of fixed frames. `make bench-grpc` runs it.

Each server runs on CPU 0 with one worker, h2load (Debian's nghttp2-client) on CPU 1. Rounds alternate between the
servers; each figure is the median of its rounds, with the lowest and highest. Sends are counted by strace in a run of
their own.

With --open-loop, `gannet load` measures the rate of Gannet and of tonic in a closed loop of 8 connections with 100
streams each, and then the latencies in an open loop at half of that rate.

    lab/grpc_figures.py [--rounds 5] [--calls 300000] [--open-loop] GANNET PEERS_FOLDER
"""

import argparse
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VALUE_BYTES = 200
KEY = b"key-00000000000000000000"
SENDS = ["sendto", "sendmsg", "write", "writev"]
SHAPES = [(1, 1), (1, 100), (8, 100)]  # connections, streams of each


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def field(number: int, value: bytes) -> bytes:
    length = len(value)
    encoded = bytes([length]) if length < 128 else bytes([length & 127 | 128, length >> 7])
    return bytes([number << 3 | 2]) + encoded + value


def message(payload: bytes) -> bytes:
    return b"\0" + len(payload).to_bytes(4, "big") + payload


GET = message(field(1, KEY))
# ttl_ms, the field 3, is one hour.
SET = message(field(1, KEY) + field(2, b"x" * VALUE_BYTES) + b"\x18\x80\xdd\xdb\x01")


class Server:
    """A server on CPU 0."""

    def __init__(self, name: str, command: list[str], port: int):
        self.name, self.port = name, port
        self.process = subprocess.Popen(["taskset", "-c", "0", *command], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def cpu_ns(self) -> int:
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)


def load(server: Server, folder: str, method: str, calls: int, connections: int, streams: int) -> None:
    """Sends `calls` calls, all of which must succeed."""
    body = Path(folder) / method
    body.write_bytes(GET if method == "Get" else SET)
    fields = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
    shape = ["-n", str(calls), "-c", str(connections), "-m", str(streams)]
    address = f"http://127.0.0.1:{server.port}/gannet.v1.Cache/{method}"
    command = ["taskset", "-c", "1", "h2load", *shape, "-d", str(body), *fields, address]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    done = re.search(r"(\d+) succeeded, (\d+) failed", text)
    if not done or (int(done[1]), int(done[2])) != (calls, 0):
        sys.exit(f"{server.name}: {' '.join(command)}\n{text}")


def sends_per_call(server: Server, folder: str, calls: int) -> float:
    """Returns the system calls that send, by call, at 100 calls in flight on one connection."""
    command = ["strace", "-f", "-c", "-e", f"trace={','.join(SENDS)}", "-p", str(server.process.pid)]
    trace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    load(server, folder, "Get", calls, 1, 100)
    trace.send_signal(2)
    counts = [line.split() for line in trace.communicate()[1].splitlines()]
    return sum(int(words[3]) for words in counts if words and words[-1] in SENDS) / calls


def measured(gannet: str, server: Server, loop: list[str]) -> dict:
    """Returns the result of a run of 3 s with 8 connections, each with at most 100 calls in flight."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        shape = ["--connections", "8", "--depth", "100", "--keys", "1000", "--value-bytes", f"{VALUE_BYTES}B"]
        target = ["--target", f"127.0.0.1:{server.port}", "--protocol", "grpc", "--reads", "100%"]
        command = ["taskset", "-c", "1", gannet, "load", *target, *shape, *loop, "--duration", "3s"]
        run = subprocess.run([*command, "--json", str(result)], capture_output=True, text=True)
        if not result.exists():
            sys.exit(f"{server.name}: {' '.join(command)}\n{run.stderr}")
        return json.loads(result.read_text())


def open_loop(gannet: str, servers: list[Server], rounds: int) -> None:
    """Prints the latencies of each server at half of its highest rate."""
    print("Open loop at half of the closed loop's rate, 8 connections x 100 streams, us: median (lowest to highest)")
    results = {server.name: [] for server in servers}
    for _ in range(rounds):
        for server in servers:
            peak = measured(gannet, server, ["--closed"])["figures"]["achieved_per_s"]
            results[server.name].append((peak, measured(gannet, server, ["--rate", str(int(peak / 2))])))
    for name, runs in results.items():
        print(f"{name:7} {statistics.median(peak for peak, _ in runs) / 2:9,.0f}/s", end="")
        for percentile in ["p50", "p99", "p999"]:
            times = [result["figures"]["response"][f"{percentile}_ns"] / 1000 for _, result in runs]
            print(f", {percentile} {statistics.median(times):.0f} ({min(times):.0f} to {max(times):.0f})", end="")
        limited = sum(1 for _, result in runs if result["invalid"])
        print(f", {limited} of {rounds} limited by the generator")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gannet")
    parser.add_argument("peers", help="the folder of tonic-peer and null-grpc")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=300_000)
    parser.add_argument("--open-loop", action="store_true", help="measure latencies instead of CPU time")
    options = parser.parse_args()
    ports = [free_port() for _ in range(4)]
    # A reply is a result, and the value with its head.
    reply_bytes = 2 + len(field(2, b"x" * VALUE_BYTES))
    gannet = [options.gannet, "serve", "--workers", "1", "--memory", "256MiB", "--admin", "none", "--log", "warn"]
    listens = ["--memcached", f"127.0.0.1:{ports[3]}", "--grpc", f"127.0.0.1:{ports[0]}"]
    servers = [
        Server("gannet", [*gannet, *listens], ports[0]),
        Server("tonic", [f"{options.peers}/tonic-peer", str(ports[1])], ports[1]),
        Server("null", [f"{options.peers}/null-grpc", str(ports[2]), str(reply_bytes)], ports[2]),
    ]
    try:
        if options.open_loop:
            # The server of fixed frames accepts no Set.
            return open_loop(options.gannet, servers[:2], options.rounds)
        with tempfile.TemporaryDirectory() as folder:
            for server in servers:
                load(server, folder, "Set", 1, 1, 1)
                load(server, folder, "Get", 10_000, 1, 100)
            print(f"CPU time of the server for a Get of {VALUE_BYTES} bytes, us: median (lowest to highest)")
            for connections, streams in SHAPES:
                calls = options.calls if streams > 1 else options.calls // 10
                rounds = {server.name: [] for server in servers}
                for _ in range(options.rounds):
                    for server in servers:
                        before = server.cpu_ns()
                        load(server, folder, "Get", calls, connections, streams)
                        rounds[server.name].append((server.cpu_ns() - before) / calls / 1000)
                own = statistics.median(rounds["gannet"])
                for name, values in rounds.items():
                    median = statistics.median(values)
                    figures = f"{median:6.2f} ({min(values):.2f} to {max(values):.2f})"
                    ratio = f"gannet / {name} {own / median:.2f}"
                    print(f"{connections} connections, {streams} streams: {name:7} {figures}, {ratio}")
            for server in servers:
                sends = sends_per_call(server, folder, 20_000)
                print(f"sends of {server.name} for a reply at 100 in flight: {sends:.3f}")
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
