#!/usr/bin/env python3
"""The cost of TLS, beside Debian's memcached and redis-server: CPU time of the server a request and a handshake, and
the memory of idle connections. `make bench-tls` runs it.

Each server runs on CPU 0 with one worker, the generator on CPU 1. Rounds alternate between the servers; each figure is
the median of its rounds. All use TLS 1.3 with TLS_AES_128_GCM_SHA256 and a certificate for ECDSA P-256, but resumed
handshakes TLS 1.2.

    lab/tls_figures.py [--rounds 5] GANNET
"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CERTIFICATES = Path(__file__).resolve().parent.parent / "conformance" / "clients" / "certificates"
CIPHER = "TLS_AES_128_GCM_SHA256"
# openssl s_time resumes no sessions of TLS 1.3, because it does not read tickets.
CIPHER_12 = "ECDHE-ECDSA-AES128-GCM-SHA256"
REQUESTS = {1: 300_000, 16: 1_500_000}
CONNECTIONS = 50
IDLE = 10_000


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server on CPU 0, with a plain port and one with TLS."""

    def __init__(self, name: str, gannet: str, folder: str):
        self.name, self.plain, self.secured = name, free_port(), free_port()
        cert, key = f"{folder}/server.crt", f"{folder}/server.key"
        secured = ["--tls-cert", cert, "--tls-key", key, "--tls-ciphers", CIPHER, "--tls-ciphers", CIPHER_12]
        common = [gannet, "serve", "--workers", "1", "--memory", "512MiB", "--maxconns", "12000",
                  "--admin", "none", *secured]
        plain_at, secured_at = f"127.0.0.1:{self.plain}", f"tls:127.0.0.1:{self.secured}"
        commands = {
            "gannet": [*common, "--log", "warn", "--memcached", plain_at, "--memcached", secured_at],
            "gannet-resp": [*common, "--log", "warn", "--resp", plain_at, "--resp", secured_at],
            "memcached": ["memcached", "-u", "root", "-t", "1", "-m", "512", "-c", "12000", "-U", "0", "-Z",
                          "-l", f"notls:127.0.0.1:{self.plain},127.0.0.1:{self.secured}",
                          "-o", f"ssl_chain_cert={cert},ssl_key={key},ssl_min_version=2,ssl_session_cache"],
            "redis": ["redis-server", "--bind", "127.0.0.1", "--save", "", "--maxclients", "12000", "--io-threads", "1",
                      "--port", str(self.plain), "--tls-port", str(self.secured), "--tls-cert-file", cert,
                      "--tls-key-file", key, "--tls-auth-clients", "no",
                      "--tls-ciphersuites", CIPHER, "--tls-ciphers", CIPHER_12],
        }
        self.protocol = "resp" if name in ("redis", "gannet-resp") else "memcache"
        self.process = subprocess.Popen(["taskset", "-c", "0", *commands[name]], stdout=subprocess.DEVNULL)
        for port in (self.plain, self.secured):
            deadline = time.monotonic() + 10
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)

    def cpu_ns(self) -> int:
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def resident_kib(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // 1024

    def port(self, tls: bool) -> int:
        return self.secured if tls else self.plain

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)


def load(gannet: str, folder: str, server: Server, tls: bool, *more: str) -> dict:
    out = f"{folder}/result.json"
    command = ["taskset", "-c", "1", gannet, "load", "--target", f"127.0.0.1:{server.port(tls)}", "--protocol",
               server.protocol, "--keys", "10000", "--value-bytes", "256B", "--threads", "1", "--json", out, *more]
    if tls:
        command += ["--tls-ca", f"{folder}/ca.crt", "--tls-versions", "1.3"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return json.loads(Path(out).read_text())


def request_ns(gannet: str, folder: str, server: Server, tls: bool, depth: int) -> float:
    """Returns the server's CPU time for one request: 9 of 10 are gets."""
    requests = REQUESTS[depth]
    common = ["--closed", "--connections", str(CONNECTIONS), "--depth", str(depth), "--no-prefill"]
    before = server.cpu_ns()
    load(gannet, folder, server, tls, *common, "--requests", str(requests), "--duration", "60s")
    return (server.cpu_ns() - before) / requests


def handshake_ns(folder: str, server: Server, resumed: bool) -> float:
    """Returns the server's CPU time for one connection: its handshake and its end."""
    kind, version = ("-reuse", "-tls1_2") if resumed else ("-new", "-tls1_3")
    before = server.cpu_ns()
    command = ["taskset", "-c", "1", "openssl", "s_time", "-connect", f"127.0.0.1:{server.secured}", kind, "-time", "3",
               "-CAfile", f"{folder}/ca.crt", version]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    count = int(next(line for line in text.splitlines() if "connections in" in line).split()[0])
    return (server.cpu_ns() - before) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("gannet")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="gannet-tls-")
    subprocess.run([str(CERTIFICATES), folder], check=True, capture_output=True)
    servers = [Server(name, args.gannet, folder) for name in ("gannet", "memcached", "gannet-resp", "redis")]
    try:
        for server in servers:
            load(args.gannet, folder, server, False, "--closed", "--connections", "1", "--requests", "1000")
        figures: dict = {}
        for _ in range(args.rounds):
            for depth in REQUESTS:
                for server in servers:
                    for tls in (False, True):
                        ns = request_ns(args.gannet, folder, server, tls, depth)
                        figures.setdefault((depth, server.name, tls), []).append(ns)
        print("CPU-ns of the server a request   plain      TLS    TLS/plain")
        for depth in REQUESTS:
            for server in servers:
                plain, tls = (statistics.median(figures[depth, server.name, tls]) for tls in (False, True))
                print(f"depth {depth:2} {server.name:12} {plain:16.0f} {tls:8.0f} {tls / plain:8.2f}")
        for server in servers:
            for resumed in (False, True):
                ns = statistics.median(handshake_ns(folder, server, resumed) for _ in range(3))
                kind = "resumed" if resumed else "full"
                print(f"{server.name:12} {kind:8} handshakes/s a core: {1e9 / ns:6.0f}")
        for server in servers[:2]:
            before = server.resident_kib()
            command = ["--connections", str(IDLE), "--rate", "1k", "--duration", "3s", "--no-prefill"]
            background = subprocess.Popen(
                ["taskset", "-c", "1", args.gannet, "load", "--target", f"127.0.0.1:{server.secured}", "--protocol",
                 server.protocol, "--threads", "1", "--tls-ca", f"{folder}/ca.crt", "--keys", "1000", *command[:-1]],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            peak = before
            while background.poll() is None:
                peak = max(peak, server.resident_kib())
                time.sleep(0.2)
            print(f"{server.name:12} {IDLE} connections with TLS: {(peak - before) / IDLE:.1f} KiB each")
    finally:
        for server in servers:
            server.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
