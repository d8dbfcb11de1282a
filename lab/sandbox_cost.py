"""CPU of a server for each request, with its sandbox and without it, by turns.

    python3 lab/sandbox_cost.py target/release/gannet

redis-benchmark sends a fixed number of GETs over 16 connections; the CPU is that of all threads of the server
(/proc/PID/task/*/schedstat), so other load on the machine changes it little. Each round runs both, in changing order;
the ratio is that of one round.
"""

import glob
import statistics
import subprocess
import sys
import time

PORT = "26399"
ROUNDS = 5
CONNECTIONS = "16"


def cpu_ns(pid: int) -> int:
    return sum(int(open(path).read().split()[0]) for path in glob.glob(f"/proc/{pid}/task/*/schedstat"))


def measure(binary: str, io: str, more: list[str], depth: int) -> float:
    """Returns the nanoseconds of CPU for one request."""
    arguments = ["serve", "--resp", f"127.0.0.1:{PORT}", "--admin", "none", "--workers", "1", "--memory", "64MiB"]
    server = subprocess.Popen([binary, *arguments, "--io", io, *more], stderr=subprocess.DEVNULL)
    try:
        time.sleep(0.7)
        requests = 200_000 if depth == 1 else 2_000_000
        before = cpu_ns(server.pid)
        shape = ["-n", str(requests), "-c", CONNECTIONS, "-P", str(depth), "-t", "get", "-q"]
        subprocess.run(["redis-benchmark", "-p", PORT, *shape], stdout=subprocess.DEVNULL, check=True)
        return (cpu_ns(server.pid) - before) / requests
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    binary = sys.argv[1]
    print("| reactor | depth | sandbox, ns | without, ns | ratio, median (least to most) |\n|---|---|---|---|---|")
    for io in ["epoll", "uring"]:
        for depth in [1, 16]:
            with_it, without = [], []
            for number in range(ROUNDS):
                for is_on in [True, False] if number % 2 == 0 else [False, True]:
                    more = [] if is_on else ["--no-sandbox"]
                    (with_it if is_on else without).append(measure(binary, io, more, depth))
            ratios = [one / other for one, other in zip(with_it, without)]
            figures = f"{statistics.median(with_it):.0f} | {statistics.median(without):.0f}"
            spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
            print(f"| {io} | {depth} | {figures} | {spread} |", flush=True)


if __name__ == "__main__":
    main()
