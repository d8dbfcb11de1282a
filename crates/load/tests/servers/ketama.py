"""Where libmemcached puts keys by ketama with weights: the lines of ketama.txt.

    pip install pylibmc==1.6.3 && python ketama.py > ketama.txt
"""

import pylibmc

KEYS = 400


def servers(*weights, port=11311, same_host=False):
    hosts = range(len(weights))
    return [("10.0.1.1" if same_host else f"10.0.1.{at + 1}", port + at if same_host else port, weight)
            for at, weight in zip(hosts, weights)]


RINGS = [
    servers(1, 1),
    servers(1, 1, 1),
    servers(1, 1, 1, 1, 1, 1, 1, same_host=True),
    servers(1, 2),
    servers(3, 1, 7, 2),
    servers(1, 1, port=11211),
    servers(1, 1, 1, port=11211, same_host=True),
    servers(*[1] * 61),
]

print(f"# libmemcached {pylibmc.libmemcached_version} by pylibmc {pylibmc.__version__}")
for ring in RINGS:
    client = pylibmc.Client([f"{host}:{port}:{weight}" for host, port, weight in ring],
                            behaviors={"ketama_weighted": True})
    print(" ".join(f"{host}:{port}={weight}" for host, port, weight in ring))
    print(" ".join(str(client.hash(f"key-{number}")) for number in range(KEYS)))
