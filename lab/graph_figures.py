#!/usr/bin/env python3
"""Graph queries beside other stores, with the same queries and endpoints. `make bench-graph` runs it.

Servers have one worker on CPU 0, the client is on CPU 1; other stores are libraries in the client's process. Endpoints
are weighted by degree, the hard case. Times are those of one request in flight, in us, with the client's cost. Of three
rounds the one with the lowest median counts. The CPU time is that of the server, or of the thread for a library. Where
a store has no command for a query, the client walks. A store whose package is not installed is left out.

The open loop runs `gannet load --preset graphdb` at half of the rate of a closed loop.

    lab/graph_figures.py [--graph rmat:16:1048576] [--stores gannet,redis,..] [--open-loop] GANNET
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import graph_data
import graph_peers

STORES = {
    "gannet": graph_peers.Gannet,
    "redis": graph_peers.Redis,
    "networkit": graph_peers.Networkit,
    "igraph": graph_peers.Igraph,
    "ladybug": graph_peers.Ladybug,
    "falkordb": graph_peers.Falkordb,
}
OPERATIONS = ("neighbours", "edge", "mutual", "distance", "batch", "singles")
ROUNDS = 3
CLOSED_CONNECTIONS = 16
# Enough that a request seldom waits for the reply to another one before it on its connection.
OPEN_CONNECTIONS = 256


def quantiles(times):
    times.sort()
    return [times[min(len(times) - 1, int(len(times) * share))] / 1e3 for share in (0.5, 0.99, 0.999)]


def measure(store, operation, pairs):
    """Returns the percentiles of the best round and the least CPU time of a query, in us, and the partial share."""
    rounds = []
    query = getattr(store, operation)
    for _ in range(ROUNDS):
        times, partial = [], getattr(store, "partial", 0)
        cpu = store.cpu_seconds()
        for a, b in pairs:
            begun = time.perf_counter_ns()
            query(a, b)
            times.append(time.perf_counter_ns() - begun)
        cpu = (store.cpu_seconds() - cpu) / len(pairs) * 1e6
        partial = (getattr(store, "partial", 0) - partial) / len(pairs)
        rounds.append((quantiles(times), cpu, partial))
    return min(rounds)[0], min(cpu for _, cpu, _ in rounds), rounds[0][2]


def cell(measured):
    times, cpu, partial = measured
    share = f", {partial * 100:.1f} % partial" if partial else ""
    shown = " / ".join(f"{us:,.1f}" if us < 10 else f"{us:,.0f}" for us in times)
    return f"{shown} ({cpu:,.1f}{share})"


def writes(store, edges):
    """Returns the edges written for each second of the server's CPU, in thousands."""
    cpu = store.cpu_seconds()
    store.writes(edges)
    return len(edges) / (store.cpu_seconds() - cpu) / 1e3


def load(binary, port, edges_file, connections, *flags):
    """Runs the preset against a server that has the graph. Returns the result."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "result.json"
        common = ["--preset", "graphdb", "--target", f"127.0.0.1:{port}", "--graph-edges", edges_file, "--no-prefill"]
        common += ["--connections", str(connections), "--pin", "1", "--quiet", "--json", str(path), *flags]
        done = subprocess.run([binary, "load", *common], capture_output=True, text=True)
        if not path.exists():
            sys.exit(f"gannet load failed: {done.stdout}{done.stderr}")
        return json.loads(path.read_text())


def open_loop(binary, store, edges_file):
    port, cpu = store.port, store.cpu_seconds()
    # Without a warm-up, the server's CPU time is that of the counted requests.
    whole = ("--closed", "--duration", "4s", "--warm-up", "0s")
    closed = [load(binary, port, edges_file, CLOSED_CONNECTIONS, *whole) for _ in range(2)]
    cpu = (store.cpu_seconds() - cpu) / sum(result["figures"]["counts"]["answered"] for result in closed) * 1e6
    peak = max(result["figures"]["achieved_per_s"] for result in closed)
    half = f"{peak / 2:.0f}"
    paced = ("--rate", half, "--duration", "8s")
    rounds = [load(binary, port, edges_file, OPEN_CONNECTIONS, *paced) for _ in range(ROUNDS)]
    best = min(rounds, key=lambda result: result["figures"]["response"]["p99_ns"])
    us = lambda times: " / ".join(f"{times[name] / 1e3:,.0f}" for name in ("p50_ns", "p99_ns", "p999_ns"))
    state = f"; {best['invalid']}" if best["invalid"] else ""
    print(f"\nclosed loop {peak:,.0f}/s, {cpu:.1f} us of server CPU a request; open loop at {half}/s, with times")
    print(f"from the intended instant{state}\n")
    print("| query | replies | partial | us p50 / p99 / p999 |\n|---|---|---|---|")
    figures = best["figures"]
    kinds = {}
    for group in figures["verbs"]:
        kinds.setdefault(group["name"], {})[group["outcome"]] = group["response"]
    print(f"| all | {figures['response']['count']:,} | | {us(figures['response'])} |")
    for name, outcomes in kinds.items():
        count = sum(times["count"] for times in outcomes.values())
        partial = outcomes.get("partial", {"count": 0})["count"]
        for outcome, times in outcomes.items():
            print(f"| {name} {outcome} | {times['count']:,} | {partial / count * 100:.2f} % | {us(times)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = "rmat:SCALE:EDGES, a .gt.gz file, or a list of edges"
    parser.add_argument("--graph", default="rmat:16:1048576", help=kinds)
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--queries", type=int, default=3000)
    parser.add_argument("--graph-memory", default="2GiB")
    parser.add_argument("--open-loop", action="store_true")
    parser.add_argument("gannet")
    options = parser.parse_args()
    unknown = [name for name in options.stores.split(",") if name not in STORES]
    if unknown:
        sys.exit(f"unknown store {unknown[0]}; known are {', '.join(STORES)}")
    chance = random.Random(1)
    edges = graph_data.graph(options.graph)
    lists = {}
    for a, b in edges:
        lists.setdefault(a, []).append(b)
        lists.setdefault(b, []).append(a)
    some_end = lambda: chance.choice(edges[chance.randrange(len(edges))])
    pairs = [(some_end(), some_end()) for _ in range(options.queries)]
    pairs = [(a, b) for a, b in pairs if a != b]
    batches = [(a, [some_end() for _ in range(50)]) for a, _ in pairs[: max(len(pairs) // 15, 30)]]
    nodes = list(lists)
    drawn = [(chance.choice(nodes), chance.choice(nodes)) for _ in range(graph_peers.WRITES)]
    new = [(a, b) for a, b in drawn if a != b]
    chance.shuffle(edges)
    print(f"{options.graph}: {len(edges):,} edges of {len(lists):,} nodes; us p50 / p99 / p999 (CPU us a query)\n")
    print(f"| | {' | '.join(OPERATIONS)} | load, k edges/s | writes, k edges/CPU s | bytes an edge |")
    print("|---" * (len(OPERATIONS) + 4) + "|")
    os.sched_setaffinity(0, {1})
    answers = {}
    for name in options.stores.split(","):
        kind = STORES[name]
        try:
            store = kind(options.gannet, options.graph_memory) if name == "gannet" else kind()
            with store:
                begun = time.perf_counter()
                store.load(edges, lists)
                rate = len(edges) / (time.perf_counter() - begun) / 1e3
                store.settle()
                size = store.bytes_of_graph() / len(edges)
                answers[store.name] = answers_of(store, pairs[:50])
                cells = []
                for operation in OPERATIONS:
                    many = operation in ("batch", "singles")
                    of = batches[: max(30, store.queries // 30)] if many else pairs[: store.queries]
                    cells.append("-" if operation in store.lacks else cell(measure(store, operation, of)))
                written = f"{writes(store, new):,.0f}" if hasattr(store, "writes") else "-"
                cells += [f"{rate:,.0f}", written, f"{size:.1f}"]
                print(f"| {store.name} | {' | '.join(cells)} |", flush=True)
                if name == "gannet" and options.open_loop:
                    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
                        file.writelines(f"{a} {b}\n" for a, b in edges)
                        file.flush()
                        open_loop(options.gannet, store, file.name)
                        print(flush=True)
        except ImportError as error:
            print(f"({name} is left out: {error})")
    differing = [name for name, found in answers.items() if found != next(iter(answers.values()))]
    if differing:
        sys.exit(f"{differing[0]} answers differently")


def answers_of(store, pairs):
    """Returns answers that every store gives alike: whether there is an edge, and the distance up to 2."""
    near = lambda a, b: min(store.distance(a, b) or 3, 3)
    return [(bool(store.edge(a, b)), near(a, b)) for a, b in pairs]


if __name__ == "__main__":
    main()
