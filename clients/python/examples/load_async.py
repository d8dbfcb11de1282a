"""Offers many requests at once: the client keeps few of them in flight, and the others wait in it.

python load_async.py 127.0.0.1:7000
"""

import asyncio
import sys
from collections import Counter

from gannet import CacheClientAsync, Configurations

REQUESTS = 2_000


async def main(address: str) -> int:
    configuration = Configurations.InRegion.LowLatency.latest().with_metrics()
    async with CacheClientAsync(address, configuration) as client:
        stored = await asyncio.gather(*(client.set(f"key {number}", str(number)) for number in range(REQUESTS)))
        print(dict(Counter(result.outcome for result in stored)))
        found = await asyncio.gather(*(client.get(f"key {number}") for number in range(REQUESTS)))
        print(dict(Counter(result.outcome for result in found)))
        gets = client.metrics().methods["Get"]
        print(f"{gets.calls} gets: p50 {gets.p50_us:.0f} us, p99 {gets.p99_us:.0f} us, with the wait in the client")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
