"""Prints how many documents 16 callers submit and finish in memory, and in an outage.

PYTHONPATH=src python3 -m tests.outage_throughput [seconds]
"""

import asyncio
import logging
import sys
import threading
import time
from typing import Any

import redis
import redis.asyncio

import docpriority
from docpriority.testing import AsyncMemoryStore, MemoryStore

CALLERS = 16
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0


def threads(store: Any) -> float:
    """Returns the pairs of calls in a second."""
    pairs = [0] * CALLERS
    end = time.monotonic() + SECONDS

    def work(caller: int) -> None:
        while time.monotonic() < end:
            store.submit(f"customer-{caller % 4}", f"{caller}-{pairs[caller]}")
            store.done(f"customer-{caller % 4}", f"{caller}-{pairs[caller]}")
            pairs[caller] += 1

    running = [threading.Thread(target=work, args=(caller,)) for caller in range(CALLERS)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(pairs) / SECONDS


async def tasks(store: Any) -> float:
    pairs = [0] * CALLERS
    end = time.monotonic() + SECONDS

    async def work(caller: int) -> None:
        while time.monotonic() < end:
            await store.submit(f"customer-{caller % 4}", f"{caller}-{pairs[caller]}")
            await store.done(f"customer-{caller % 4}", f"{caller}-{pairs[caller]}")
            pairs[caller] += 1
            await asyncio.sleep(0)

    await asyncio.gather(*map(work, range(CALLERS)))
    return sum(pairs) / SECONDS


async def with_asyncio() -> tuple[float, float]:
    store = docpriority.AsyncStore(redis.asyncio.Redis(port=1), join=True)
    try:
        return await tasks(AsyncMemoryStore()), await tasks(store)
    finally:
        await store.close()


def main() -> None:
    logging.getLogger("docpriority").addHandler(logging.NullHandler())
    with docpriority.Store(redis.Redis(port=1), join=True) as store:
        rows = [("threads", threads(MemoryStore()), threads(store))]
    rows.append(("asyncio", *asyncio.run(with_asyncio())))
    for kind, memory, outage in rows:
        print(f"{kind}: {memory:,.0f} submit and done a second in memory, {outage:,.0f} in an outage: {outage / memory:.2f}")


if __name__ == "__main__":
    main()
