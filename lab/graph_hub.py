#!/usr/bin/env python3
"""A node of millions of edges: its queries and marks, and a bystander's GETs behind each of them.

The server has one worker on CPU 0, and the client is on CPU 1. The first table has the times of one request in flight,
in us, with the client's cost, and the CPU times of the server. PING is the floor of both.

Then the client sends a query of the hub on one connection and a GET on another at once, and waits for the reply to GET
first. In half of the rounds a PING takes the place of the query. Both kinds of round alternate. Each figure is the
median of those of all rounds, because one wait for a CPU decides the p999 of a round. The report also has the share of
the time that the hypervisor took from the machine (steal), and that the worker waited for a CPU: on a machine with
other load the p999 contains these waits, unless both programs have a real-time priority (`chrt --rr 1` before the
command).

    lab/graph_hub.py [--edges 3000000] [--rounds 15] GANNET
"""

import argparse
import os
import pathlib
import statistics
import time

from graph_figures import quantiles
from graph_peers import Connection, Gannet

HUB = 1
PAGE = 100
PART_BYTES = 900_000
GETS = 1000
# A round of queries that take milliseconds has fewer.
GETS_LONG = 200


def load(client, edges):
    """Loads the hub's edges, to the nodes from 2 on."""
    client.ask("G.TYPE", "hub", "knows", "UNDIRECTED")
    begun, part = time.perf_counter(), []
    lines = (f"{HUB} {node}\n" for node in range(2, edges + 2))
    size = 0
    for line in lines:
        part.append(line)
        size += len(line)
        if size > PART_BYTES:
            client.ask("G.LOAD", "hub", "knows", "EDGES", "TS", 1, "".join(part))
            part, size = [], 0
    client.ask("G.LOAD", "hub", "knows", "EDGES", "TS", 1, "".join(part))
    return time.perf_counter() - begun


def cursor_at(client, depth):
    """Returns the cursor of the first page that begins after `depth` neighbours."""
    cursor, read = b"0", 0
    while read < depth:
        cursor, nodes = client.ask("G.RANGE", "hub", HUB, "knows", "CURSOR", cursor, "LIMIT", 4096)
        read += len(nodes)
    return cursor


def cpu_and_wait(server):
    """Returns the seconds that the server's threads ran, and that they waited for a CPU."""
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task").iterdir()
    times = [(task / "schedstat").read_text().split() for task in tasks]
    return [sum(int(each[at]) for each in times) / 1e9 for at in (0, 1)]


def steal_and_all():
    """Returns the ticks that the hypervisor took, and all ticks."""
    ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return ticks[7], sum(ticks)


def operations(edges, cursor):
    """Returns the queries and changes by name, each as a list of requests that are sent in turn."""
    page = ["G.RANGE", "hub", HUB, "knows", "CURSOR", cursor, "LIMIT", PAGE]
    far = edges - edges // 30
    return {
        "PING": [["PING"]],
        "degree (`G.COUNT`)": [["G.COUNT", "hub", HUB, "knows"]],
        f"page of {PAGE} (`G.RANGE`)": [page],
        "edge (`G.GET`)": [["G.GET", "hub", HUB, "knows", far]],
        "remove and add an edge": [[name, "hub", HUB, "knows", far] for name in ("G.DEL", "G.ADD")],
        "archive and restore the hub": [["G.NODE", name, "hub", HUB] for name in ("ARCHIVE", "RESTORE")],
        "distance between two neighbours": [["G.DIST", "hub", 2, "knows", far]],
        "second degree, count": [["G.DEG2", "hub", 2, "knows", "COUNT"]],
    }


def alone(server, requests, count):
    """Returns the percentiles of the times of requests one after another, and of the server's CPU times, in us."""
    times, cpu = [], []
    for number in range(count):
        begun = time.perf_counter_ns()
        server.client.ask(*requests[number % len(requests)])
        times.append(time.perf_counter_ns() - begun)
    for number in range(count // 4):
        ran, _ = cpu_and_wait(server)
        server.client.ask(*requests[number % len(requests)])
        # The kernel counts the time when the worker begins to wait for the next request.
        time.sleep(0.0005)
        cpu.append((cpu_and_wait(server)[0] - ran) * 1e9)
    return quantiles(times), quantiles(cpu)[:2]


def behind(client, bystander, requests, gets):
    """Sends a request and a GET at once, many times. Returns the percentiles of the time of GET."""
    times = []
    get = Connection.request(["GET", "bystander"])
    packed = [Connection.request(request) for request in requests]
    for number in range(gets):
        client.socket.sendall(packed[number % len(packed)])
        begun = time.perf_counter_ns()
        bystander.socket.sendall(get)
        bystander.reply()
        times.append(time.perf_counter_ns() - begun)
        client.reply()
    return quantiles(times)


def medians(rounds):
    """Returns the median of each percentile."""
    return [statistics.median(each) for each in zip(*rounds)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--graph-memory", default="1GiB")
    parser.add_argument("gannet")
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    shown = lambda times: " | ".join(f"{us:,.1f}" if us < 100 else f"{us:,.0f}" for us in times)
    with Gannet(options.gannet, options.graph_memory) as server:
        seconds = load(server.client, options.edges)
        degree = server.client.ask("G.COUNT", "hub", HUB, "knows")
        depth = options.edges - options.edges // 30
        cursor = cursor_at(server.client, depth)
        print(f"a hub of {degree:,} edges, loaded in {seconds:.1f} s; pages begin after {depth:,} neighbours\n")
        print("| one request in flight | p50 us | p99 us | p999 us | CPU us p50 | p99 |\n" + "|---" * 6 + "|")
        kinds = operations(options.edges, cursor)
        for name, requests in kinds.items():
            quick, cpu = alone(server, requests, 2000)
            print(f"| {name} | {shown(quick)} | {shown(cpu)} |", flush=True)
        bystander = Connection(server.port)
        bystander.ask("SET", "bystander", "x" * 32)
        print(f"\n| GET behind ({options.rounds} rounds each, alternating with PING) | p50 us | p99 us | p999 us "
              "| behind PING: p50 | p99 | p999 | ratio of p999 | steal % | worker's wait % |\n" + "|---" * 10 + "|")
        for name, requests in list(kinds.items())[1:]:
            with_hub, without = [], []
            gets = GETS_LONG if name.startswith("second") else GETS
            (steal, all_ticks), (_, wait), begun = steal_and_all(), cpu_and_wait(server), time.perf_counter()
            for _ in range(options.rounds):
                with_hub.append(behind(server.client, bystander, requests, gets))
                without.append(behind(server.client, bystander, kinds["PING"], gets))
            (steal_end, all_end), (_, wait_end) = steal_and_all(), cpu_and_wait(server)
            stolen = (steal_end - steal) / max(all_end - all_ticks, 1) * 100
            waited = (wait_end - wait) / (time.perf_counter() - begun) * 100
            # The two rounds of a pair follow each other, so they had the same disturbances at most.
            ratio = statistics.median(hub[2] / ping[2] for hub, ping in zip(with_hub, without))
            cells = [shown(medians(with_hub)), shown(medians(without)), f"{ratio:.2f} | {stolen:.1f} | {waited:.1f}"]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
