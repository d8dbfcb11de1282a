#!/usr/bin/env python3
"""Graph queries over a socket, beside Redis sets with the same client. `make bench-graph` runs it.

Both servers have one worker on CPU 0, the client is on CPU 1. The graph is R-MAT (.57 .19 .19 .05) without direction
and duplicates; endpoints are weighted by degree, the hard case. Times are those of one request in flight, in us, with
the client's cost. Where Redis has no command, the client walks.

    lab/graph_figures.py [--scale 16] [--edges 1000000] [--queries 3000] GANNET
"""

import argparse
import random
import re
import socket
import subprocess
import sys
import tempfile
import time

ARMS = (0.57, 0.19, 0.19)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def rmat(scale, count, chance):
    """Returns the edges as pairs of nodes from 1 on, the lower one first."""
    edges = set()
    first, second, third = ARMS[0], ARMS[0] + ARMS[1], sum(ARMS)
    for _ in range(count):
        a = b = 0
        for _ in range(scale):
            draw = chance.random()
            a = a << 1 | (draw >= second)
            b = b << 1 | (first <= draw < second or draw >= third)
        if a != b:
            edges.add((min(a, b) + 1, max(a, b) + 1))
    return sorted(edges, key=lambda edge: hash(edge))


class Connection:
    """A client of the Redis protocol that parses replies of integers, texts and arrays."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.socket.makefile("rb", 1 << 16)

    @staticmethod
    def request(words):
        parts = [b"*%d\r\n" % len(words)]
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
        return b"".join(parts)

    def ask(self, *words):
        self.socket.sendall(self.request(words))
        return self.reply()

    def pipeline(self, requests, batch=200):
        for at in range(0, len(requests), batch):
            part = requests[at : at + batch]
            self.socket.sendall(b"".join(map(self.request, part)))
            for _ in part:
                self.reply()

    def reply(self):
        line = self.input.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.input.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return rest


class Gannet:
    name = "gannet"

    def __init__(self, binary, port, _):
        command = [binary, "serve", "--resp", f"127.0.0.1:{port}", "--memcached", "127.0.0.1:0", "--admin", "none"]
        self.command = [*command, "--workers", "1", "--graph-memory", "2GiB", "--log", "warn"]

    def settle(self, client):
        client.ask("G.COMPACT")
        time.sleep(5)

    def load(self, client, edges, _):
        client.ask("G.TYPE", "g", "knows", "UNDIRECTED")
        requests = []
        for at in range(0, len(edges), 200):
            words = [word for a, b in edges[at : at + 200] for word in (a, b"knows", b)]
            requests.append(["G.ADD", "g", *words])
        client.pipeline(requests, 8)

    def bytes_of_graph(self, client):
        figures = client.ask("G.STATS")
        of = dict(zip(figures[::2], figures[1::2]))
        return of[b"live_bytes"] + of[b"index_bytes"]

    def neighbours(self, client, a, _):
        return client.ask("G.RANGE", "g", a, "knows", "LIMIT", 4096)[1]

    def edge(self, client, a, b):
        return client.ask("G.DIST", "g", a, "knows", b, "MAX", 1)[1][0] is not None

    def mutual(self, client, a, b):
        return client.ask("G.MUTUAL", "g", a, b, "knows", "COUNT", "BUDGET", 1 << 20)[1]

    def distance(self, client, a, b):
        return client.ask("G.DIST", "g", a, "knows", b)[1][0]

    def batch(self, client, a, targets):
        return client.ask("G.DIST", "g", a, "knows", *targets)


class Redis:
    name = "redis sets"

    def __init__(self, _, port, folder):
        plain = ["--save", "", "--appendonly", "no", "--dir", folder]
        self.command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), *plain]

    def settle(self, client):
        pass

    def load(self, client, edges, lists):
        self.before = self.used(client)
        client.pipeline([["SADD", f"n:{a}", *found] for a, found in lists.items()], 50)

    def used(self, client):
        return int(re.search(rb"used_memory:(\d+)", client.ask("INFO", "memory"))[1])

    def bytes_of_graph(self, client):
        return self.used(client) - self.before

    def neighbours(self, client, a, _):
        return client.ask("SMEMBERS", f"n:{a}")

    def edge(self, client, a, b):
        return client.ask("SISMEMBER", f"n:{a}", b) == 1

    def mutual(self, client, a, b):
        return client.ask("SINTERCARD", 2, f"n:{a}", f"n:{b}")

    def distance(self, client, a, b):
        """Walks: an edge, common neighbours, then the neighbours of the target's neighbours, in pipelines."""
        if self.edge(client, a, b):
            return 1
        if client.ask("SINTERCARD", 2, f"n:{a}", f"n:{b}", "LIMIT", 1):
            return 2
        for at, near in enumerate(client.ask("SMEMBERS", f"n:{b}")):
            if client.ask("SINTERCARD", 2, f"n:{a}", f"n:{near.decode()}", "LIMIT", 1):
                return 3
            if at == 200:
                return None
        return None

    def batch(self, client, a, targets):
        return [self.distance(client, a, target) for target in targets]


def quantiles(times):
    times.sort()
    return [times[min(len(times) - 1, int(len(times) * share))] / 1e3 for share in (0.5, 0.99, 0.999)]


def measure(store, client, operation, pairs):
    times = []
    for a, b in pairs:
        begun = time.perf_counter_ns()
        getattr(store, operation)(client, a, b)
        times.append(time.perf_counter_ns() - begun)
    return quantiles(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=16)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=3000)
    parser.add_argument("gannet")
    options = parser.parse_args()
    chance = random.Random(1)
    edges = rmat(options.scale, options.edges, chance)
    lists = {}
    for a, b in edges:
        lists.setdefault(a, []).append(b)
        lists.setdefault(b, []).append(a)
    ends = [node for edge in edges for node in edge]
    pairs = [(chance.choice(ends), chance.choice(ends)) for _ in range(options.queries)]
    pairs = [(a, b) for a, b in pairs if a != b]
    batches = [(a, [chance.choice(ends) for _ in range(50)]) for a, _ in pairs[: len(pairs) // 10]]
    print(f"{len(edges):,} edges of {len(lists):,} nodes; us p50 / p99 / p999\n")
    print("| | neighbours | edge? | mutual | distance to 3 | 50 distances | load, edges/s | bytes an edge |")
    print("|---|---|---|---|---|---|---|---|")
    answers = []
    subprocess.run(["taskset", "-pc", "1", str(__import__("os").getpid())], check=True, stdout=subprocess.DEVNULL)
    for store_type in (Gannet, Redis):
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            store = store_type(options.gannet, port, folder)
            command = ["taskset", "-c", "0", *store.command]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            try:
                client = connected(port)
                begun = time.perf_counter()
                store.load(client, edges, lists)
                rate = len(edges) / (time.perf_counter() - begun)
                store.settle(client)
                cells = [measure(store, client, name, pairs) for name in ("neighbours", "edge", "mutual", "distance")]
                cells.append(measure(store, client, "batch", batches))
                shown = [" / ".join(f"{value:,.0f}" for value in cell) for cell in cells]
                size = store.bytes_of_graph(client) / len(edges)
                print(f"| {store.name} | {' | '.join(shown)} | {rate:,.0f} | {size:.1f} |")
                answers.append([(store.edge(client, a, b), store.mutual(client, a, b)) for a, b in pairs[:500]])
            finally:
                process.terminate()
                process.wait()
    if answers[0] != answers[1]:
        sys.exit("the two stores answer differently")


def connected(port):
    deadline = time.monotonic() + 20
    while True:
        try:
            return Connection(port)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    main()
