"""The p999 of clients with TLS while others open 500 connections a second, beside the p999 without them, by turns.

    python3 lab/tls_storm.py target/release/gannet

A server with one worker has a CPU of its own. `gannet load` sends requests over 16 connections at random instants, at
the rate that uses half of that CPU, and measures from the instant at which a request was due. With two CPUs the rate
is at most 12,000 a second, because the generators share the other one. In every other run a second `gannet load`
closes and opens 500 connections a second, each with a full handshake. A round is two runs, in changing order.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PORT = "26398"
ROUNDS = 15
SECONDS = 4
STORM = 500
CONNECTIONS = "16"
CERTIFICATES = """
openssl ecparam -genkey -name prime256v1 -noout -out ca.key
openssl req -x509 -new -key ca.key -days 9 -subj /CN=ca -addext keyUsage=critical,keyCertSign,cRLSign -out ca.crt
openssl ecparam -genkey -name prime256v1 -noout -out server.key
openssl req -new -key server.key -subj /CN=server -addext subjectAltName=IP:127.0.0.1 -out server.csr
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -copy_extensions copy -days 9 -out server.crt
"""


def ticks() -> tuple[int, int]:
    """Returns the time that the hypervisor has taken, and all time, in clock ticks."""
    fields = [int(field) for field in open("/proc/stat").readline().split()[1:9]]
    return fields[7], sum(fields)


def cpu_s(pid: int) -> float:
    """Returns the seconds of CPU that a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, binary: str, folder: pathlib.Path) -> None:
        self.binary, self.folder = binary, folder
        last = str((os.cpu_count() or 2) - 1)
        self.generator = ["taskset", "-c", "1", "nice", "-n", "0", binary, "load"]
        self.storm = ["taskset", "-c", last, "nice", "-n", "5", binary, "load"]
        self.common = ["--target", f"127.0.0.1:{PORT}", "--protocol", "resp", "--tls-ca", str(folder / "ca.crt")]
        self.common += ["--keys", "10000", "--quiet"]

    def load(self, command: list[str], name: str, more: list[str]) -> subprocess.Popen:
        output = ["--json", str(self.folder / name), *more]
        return subprocess.Popen([*command, *self.common, *output], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def figures(self, name: str) -> dict:
        return json.loads((self.folder / name).read_text())["figures"]

    def half(self, server: int) -> int:
        """Returns the requests per second that use half of the server's CPU. A request takes less of it if there are
        more."""
        rate = 10_000
        for _ in range(4):
            before = cpu_s(server)
            more = ["--connections", CONNECTIONS, "--rate", str(rate), "--duration", "2s", "--warm-up", "0s"]
            more += ["--no-prefill"]
            self.load(self.generator, "half.json", more).wait()
            used = (cpu_s(server) - before) / 2
            rate = min(int(rate * 0.5 / used), 2 * rate)
        # With two CPUs, the storm needs a part of the generator's.
        return rate if (os.cpu_count() or 2) > 2 else min(rate, 12_000)

    def run(self, rate: int, is_stormy: bool) -> tuple[float, float, float]:
        """Returns the p999 in microseconds, the connections per second of the storm, and the share of stolen time."""
        shape = ["--tls-no-resume", "--no-prefill", "--connections", "50", "--rate", str(STORM)]
        shape += ["--reconnect", str(STORM)]
        shape += ["--duration", f"{SECONDS + 1}s", "--warm-up", "0s"]
        storm = self.load(self.storm, "storm.json", shape) if is_stormy else None
        time.sleep(0.5)
        stolen, total = ticks()
        more = ["--connections", CONNECTIONS, "--rate", str(rate), "--duration", f"{SECONDS}s", "--no-prefill"]
        self.load(self.generator, "others.json", [*more, "--warm-up", "500ms"]).wait()
        stolen, total = (after - before for after, before in zip(ticks(), (stolen, total)))
        opened = 0.0
        if storm:
            storm.wait()
            opened = self.figures("storm.json")["counts"]["connects"] / (SECONDS + 1)
        return self.figures("others.json")["response"]["p999_ns"] / 1000, opened, stolen / total


def main() -> None:
    binary = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run(["bash", "-ec", CERTIFICATES], cwd=folder, check=True, stderr=subprocess.DEVNULL)
        files = ["--tls-cert", str(folder / "server.crt"), "--tls-key", str(folder / "server.key")]
        plain = ["--memcached", "127.0.0.1:0", "--admin", "none", "--memory", "256MiB", "--workers", "1"]
        command = ["taskset", "-c", "0", binary, "serve", *plain, "--resp", f"tls:127.0.0.1:{PORT}", *files]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            time.sleep(1)
            bench = Bench(binary, folder)
            rate = bench.half(server.pid)
            print(f"{rate} requests a second\n")
            print("| round | without, us | with, us | ratio | opened/s | stolen |\n|---|---|---|---|---|---|")
            ratios, stolen = [], []
            for number in range(ROUNDS):
                order = [False, True] if number % 2 == 0 else [True, False]
                results = {is_stormy: bench.run(rate, is_stormy) for is_stormy in order}
                (without, _, before), (others, opened, during) = results[False], results[True]
                ratios.append(others / without)
                stolen.append(max(before, during))
                row = f"{without:.0f} | {others:.0f} | {ratios[-1]:.2f} | {opened:.0f} | {stolen[-1]:.1%}"
                print(f"| {number + 1} | {row} |", flush=True)
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}, stolen at most {max(stolen):.1%}"
            print(f"\nmedian ratio {statistics.median(ratios):.2f} ({spread})")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
