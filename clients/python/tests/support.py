"""Servers that do harm, and stores of both kinds behind one face."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import threading
import time
import unittest
import uuid
from pathlib import Path
from typing import Any, Callable

import redis
import redis.asyncio
import redis.asyncio.retry
from redis.backoff import NoBackoff
from redis.retry import Retry

import docpriority

VECTORS = Path(__file__).resolve().parents[3] / "vectors"

HOST, _, PORT = os.environ.get("REDIS", "").partition(":")
needs_redis = unittest.skipUnless(HOST or os.environ.get("CI"), "REDIS=host:port names no server; go test ./clients/python starts one")

LONG = 60.0  # seconds: more than a test takes
SHORT = 0.25


def prefix() -> str:
    return f"test-{uuid.uuid4().hex}"


def stubborn(asynchronous: bool, url: str) -> Any:
    """A client of redis-py that repeats all it can, and decodes what it reads."""
    package, retry = (redis.asyncio, redis.asyncio.retry.Retry) if asynchronous else (redis, Retry)
    errors = [redis.ConnectionError, redis.TimeoutError]
    return package.Redis.from_url(url, retry=retry(NoBackoff(), 5), retry_on_timeout=True, retry_on_error=errors, decode_responses=True)


def eventually(get: Callable[[], Any], want: Callable[[Any], Any]) -> Any:
    """Returns what is got once it is as wanted."""
    end = time.monotonic() + LONG
    while not want(got := get()):
        if time.monotonic() > end:
            raise AssertionError(f"at last it was {got!r}")
        time.sleep(0.01)
    return got


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Awaited:
    """An AsyncStore whose methods are called like a Store's."""

    def __init__(self, loop: Loop, make: Callable[[], docpriority.AsyncStore]) -> None:
        async def made() -> docpriority.AsyncStore:
            return make()

        self._loop = loop
        self.store = loop.run(made())

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.store, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute
        return lambda *arguments, **named: self._loop.run(attribute(*arguments, **named))


class StoreCase(unittest.TestCase):
    """Tests that run twice: on a Store, and on an AsyncStore."""

    asynchronous = False

    def run(self, result: Any = None) -> Any:
        for asynchronous in (False, True):
            self.asynchronous = asynchronous
            super().run(result)
        return result

    def __str__(self) -> str:
        return f"{super().__str__()} with {'asyncio' if self.asynchronous else 'threads'}"

    def setUp(self) -> None:
        if self.asynchronous:
            self.loop = Loop()
            self.addCleanup(self.loop.close)

    def open(self, url: str = "", client: Any = None, **options: Any) -> Any:
        """Returns a store that is closed with the test, and whose client would repeat
        each call."""
        options.setdefault("prefix", prefix())
        make = client or (lambda: stubborn(self.asynchronous, url or f"redis://{HOST}:{PORT}"))
        store: Any
        if self.asynchronous:
            store = Awaited(self.loop, lambda: docpriority.AsyncStore(make(), **options))
        else:
            store = docpriority.Store(make(), **options)
        self.addCleanup(store.close)
        return store

    def redis(self) -> Any:
        client = redis.Redis(HOST, int(PORT))
        self.addCleanup(client.close)
        return client

    def proxy(self) -> Proxy:
        proxy = Proxy((HOST, int(PORT)))
        self.addCleanup(proxy.close)
        return proxy


class Proxy:
    """Stands before a Redis, until it is closed. Each connection has a thread for either way."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self.clients: list[socket.socket] = []
        self._cut: list[socket.socket] = []
        self._released = threading.Event()
        self._released.set()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def hold(self) -> None:
        """Answers wait until release."""
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    def cut_all(self) -> None:
        """The connections that are there end when something is sent on them."""
        self._cut = list(self.clients)

    def close_connections(self) -> None:
        for client in self.clients:
            _end(client)

    def close(self) -> None:
        self.release()
        _end(self._listener)
        self._threads[0].join()
        self.close_connections()
        for thread in self._threads:
            thread.join()

    def _start(self, run: Callable[..., None], *arguments: Any) -> None:
        self._threads.append(threading.Thread(target=run, args=arguments))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self.clients.append(client)
            self._start(self._pass, client, server, lambda: True)
            self._start(self._pass, server, client, lambda client=client: self._released.wait() and client not in self._cut)

    def _pass(self, source: socket.socket, to: socket.socket, passes: Callable[[], bool]) -> None:
        try:
            while (data := source.recv(65536)) and passes():
                to.sendall(data)
        except OSError:
            pass
        _end(source)
        _end(to)


def _end(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    sock.close()
