"""Stores of graphs with one interface, for `graph_figures.py`.

Each has the operations `neighbours`, `edge`, `mutual`, `distance`, `batch` (distances to 50 nodes in one request) and
`singles` (the same in 50), or None in `lacks` for those that it has no query for.
"""

import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

WRITES = 20_000


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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


def connected(port):
    deadline = time.monotonic() + 20
    while True:
        try:
            return Connection(port)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class Store:
    """A store in this process."""

    lacks = ()
    queries = 3000

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def settle(self):
        pass

    def cpu_seconds(self):
        return time.thread_time()

    def batch(self, a, targets):
        return self.singles(a, targets)

    def singles(self, a, targets):
        return [self.distance(a, target) for target in targets]


class Server(Store):
    """A store that is a process of its own, on CPU 0, reached by the Redis protocol."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.port = free_port()
        command = ["taskset", "-c", "0", *self.command()]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.client = connected(self.port)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def cpu_seconds(self):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def writes(self, edges):
        self.client.pipeline([words for edge in edges for words in self.write(edge)])


class Gannet(Server):
    name = "gannet"

    def __init__(self, binary, memory):
        self.binary, self.memory = binary, memory
        self.partial = 0

    def command(self):
        listeners = ["--resp", f"127.0.0.1:{self.port}", "--memcached", "127.0.0.1:0", "--admin", "none"]
        return [self.binary, "serve", *listeners, "--workers", "1", "--graph-memory", self.memory, "--log", "warn"]

    def load(self, edges, _):
        self.client.ask("G.TYPE", "load", "knows", "UNDIRECTED")
        requests = []
        for at in range(0, len(edges), 200):
            words = [word for a, b in edges[at : at + 200] for word in (a, b"knows", b)]
            requests.append(["G.ADD", "load", *words])
        self.client.pipeline(requests, 8)

    def settle(self):
        """Compacts until no more bytes are freed."""
        before = None
        while before is None or self.bytes_of_graph() < before:
            before = self.bytes_of_graph()
            self.client.ask("G.COMPACT")
            time.sleep(5)

    def bytes_of_graph(self):
        figures = self.client.ask("G.STATS")
        of = dict(zip(figures[::2], figures[1::2]))
        return of[b"live_bytes"] + of[b"index_bytes"]

    def write(self, edge):
        return [["G.ADD", "load", edge[0], "knows", edge[1]]]

    def neighbours(self, a, _):
        return self.client.ask("G.RANGE", "load", a, "knows", "LIMIT", 4096)[1]

    def edge(self, a, b):
        return self.client.ask("G.GET", "load", a, "knows", b)[0] is not None

    def of_budget(self, reply):
        self.partial += reply[0]
        return reply[1]

    def mutual(self, a, b):
        return self.of_budget(self.client.ask("G.MUTUAL", "load", a, b, "knows", "COUNT"))

    def distance(self, a, b):
        return self.of_budget(self.client.ask("G.DIST", "load", a, "knows", b))[0]

    def batch(self, a, targets):
        return self.of_budget(self.client.ask("G.DIST", "load", a, "knows", *targets))


class Redis(Server):
    name = "Redis sets"
    queries = 900
    lacks = ("batch",)

    def command(self):
        plain = ["--save", "", "--appendonly", "no", "--dir", self.folder.name]
        return ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), *plain]

    def load(self, _, lists):
        self.before = self.used()
        self.client.pipeline([["SADD", f"n:{a}", *found] for a, found in lists.items()], 50)

    def used(self):
        return int(re.search(rb"used_memory:(\d+)", self.client.ask("INFO", "memory"))[1])

    def bytes_of_graph(self):
        return self.used() - self.before

    def write(self, edge):
        return [["SADD", f"n:{edge[0]}", edge[1]], ["SADD", f"n:{edge[1]}", edge[0]]]

    def neighbours(self, a, _):
        return self.client.ask("SMEMBERS", f"n:{a}")

    def edge(self, a, b):
        return self.client.ask("SISMEMBER", f"n:{a}", b) == 1

    def mutual(self, a, b):
        return self.client.ask("SINTERCARD", 2, f"n:{a}", f"n:{b}")

    def distance(self, a, b):
        """Walks: an edge, common neighbours, then the neighbours of the target's neighbours, in requests."""
        if a == b:
            return 0
        if self.edge(a, b):
            return 1
        if self.client.ask("SINTERCARD", 2, f"n:{a}", f"n:{b}", "LIMIT", 1):
            return 2
        for near in self.client.ask("SMEMBERS", f"n:{b}"):
            if self.client.ask("SINTERCARD", 2, f"n:{a}", f"n:{near.decode()}", "LIMIT", 1):
                return 3
        return None


def resident_bytes():
    text = pathlib.Path("/proc/self/statm").read_text()
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


class InProcess(Store):
    """A store in this process, whose memory is that by which the process grows."""

    def bytes_of_graph(self):
        return self.grown

    def load(self, edges, lists):
        pairs = self.prepare(edges)
        before = resident_bytes()
        self.build(pairs, max(lists) + 1)
        self.grown = resident_bytes() - before


class Networkit(InProcess):
    name = "networkit"
    lacks = ("mutual", "batch")

    def prepare(self, edges):
        import networkit
        import numpy

        self.library = networkit
        networkit.setNumberOfThreads(1)
        return numpy.array(edges, dtype=numpy.uint64)

    def build(self, pairs, nodes):
        self.graph = self.library.GraphFromCoo((pairs[:, 0], pairs[:, 1]), n=nodes)

    def neighbours(self, a, _):
        return list(self.graph.iterNeighbors(a))

    def edge(self, a, b):
        return self.graph.hasEdge(a, b)

    def distance(self, a, b):
        search = self.library.distance.BidirectionalBFS(self.graph, a, b, False)
        search.run()
        found = search.getDistance()
        return found if found <= 3 else None


class Igraph(InProcess):
    name = "igraph"
    queries = 300
    lacks = ("batch",)

    def prepare(self, edges):
        import igraph

        self.library = igraph
        return edges

    def build(self, pairs, nodes):
        self.graph = self.library.Graph(n=nodes, edges=pairs)

    def neighbours(self, a, _):
        return self.graph.neighbors(a)

    def edge(self, a, b):
        return self.graph.are_adjacent(a, b)

    def mutual(self, a, b):
        return len(set(self.graph.neighbors(a)).intersection(self.graph.neighbors(b)))

    def distance(self, a, b):
        found = self.graph.distances(a, b)[0][0]
        return found if found <= 3 else None


class Cypher(Store):
    """A store with Cypher as its language. `rows` executes a query with parameters."""

    queries = 200
    lacks = ("batch", "singles")

    def neighbours(self, a, _):
        return self.rows("MATCH (a:N {id: $a})-[:K]-(b:N) RETURN b.id", a=a)

    def edge(self, a, b):
        return self.rows("MATCH (a:N {id: $a})-[:K]-(b:N {id: $b}) RETURN count(*)", a=a, b=b)[0][0] > 0

    def mutual(self, a, b):
        query = "MATCH (a:N {id: $a})-[:K]-(c:N)-[:K]-(b:N {id: $b}) RETURN count(DISTINCT c.id)"
        return self.rows(query, a=a, b=b)[0][0]


class Ladybug(Cypher):
    name = "ladybug"

    def load(self, edges, lists):
        import ladybug

        self.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.folder.name)
        (folder / "nodes.csv").write_text("".join(f"{node}\n" for node in lists))
        (folder / "edges.csv").write_text("".join(f"{a},{b}\n" for a, b in edges))
        self.database = ladybug.Database(str(folder / "db"))
        self.connection = ladybug.Connection(self.database, num_threads=1)
        self.connection.execute("CREATE NODE TABLE N(id INT64, PRIMARY KEY(id))")
        self.connection.execute("CREATE REL TABLE K(FROM N TO N)")
        self.connection.execute(f"COPY N FROM '{folder / 'nodes.csv'}'")
        self.connection.execute(f"COPY K FROM '{folder / 'edges.csv'}'")
        self.connection.execute("CHECKPOINT")
        self.path = folder / "db"
        self.prepared = {}

    def __exit__(self, *_):
        if hasattr(self, "connection"):
            self.connection.close()
            self.folder.cleanup()

    def cpu_seconds(self):
        return time.process_time()

    def bytes_of_graph(self):
        paths = [self.path] if self.path.is_file() else self.path.rglob("*")
        return sum(path.stat().st_size for path in paths if path.is_file())

    def rows(self, query, **parameters):
        if query not in self.prepared:
            self.prepared[query] = self.connection.prepare(query)
        return self.connection.execute(self.prepared[query], parameters).get_all()

    def distance(self, a, b):
        query = "MATCH p = (a:N {id: $a})-[:K* SHORTEST 1..3]-(b:N {id: $b}) RETURN length(p)"
        found = self.rows(query, a=a, b=b)
        return found[0][0] if found else None


class Falkordb(Cypher):
    name = "FalkorDB"

    def load(self, edges, lists):
        from redislite.falkordb_client import FalkorDB

        self.database = FalkorDB()
        self.graph = self.database.select_graph("g")
        before = self.used()
        nodes = list(lists)
        for at in range(0, len(nodes), 10_000):
            part = nodes[at : at + 10_000]
            self.graph.query("UNWIND $part AS id CREATE (:N {id: id})", {"part": part})
        self.graph.query("CREATE INDEX FOR (n:N) ON (n.id)")
        for at in range(0, len(edges), 10_000):
            # Its shortest paths are directed, so each edge is there in both directions.
            part = [[c, d] for a, b in edges[at : at + 10_000] for c, d in ((a, b), (b, a))]
            query = "UNWIND $part AS e MATCH (a:N {id: e[0]}), (b:N {id: e[1]}) CREATE (a)-[:K]->(b)"
            self.graph.query(query, {"part": part})
        self.grown = self.used() - before

    def used(self):
        return self.database.client.info("memory")["used_memory"]

    def bytes_of_graph(self):
        return self.grown

    def __exit__(self, *_):
        if hasattr(self, "database"):
            self.database.close()

    def rows(self, query, **parameters):
        return self.graph.query(query.replace("]-(", "]->("), parameters).result_set

    def distance(self, a, b):
        query = (
            "MATCH (a:N {id: $a}), (b:N {id: $b}) "
            "WITH shortestPath((a)-[:K*1..3]->(b)) AS p RETURN CASE WHEN p IS NULL THEN -1 ELSE length(p) END"
        )
        found = self.rows(query, a=a, b=b)[0][0]
        return found if found >= 0 else None
