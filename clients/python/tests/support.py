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
from typing import Any, Callable, Optional

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

    def scripted(self, *tries: str) -> Scripted:
        server = Scripted(tries)
        self.addCleanup(server.close)
        return server


class _Server:
    """Listens on a free port and serves each connection in a thread, until it is closed."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False
        self._start(self._accept)

    def _start(self, run: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=run, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._track(client):
                self._start(self._serve_quietly, client)

    def _track(self, sock: socket.socket) -> bool:
        with self._lock:
            if self._closed:
                sock.close()
            else:
                self._open.append(sock)
            return not self._closed

    def _serve_quietly(self, client: socket.socket) -> None:
        try:
            self.serve(client)
        except OSError:
            pass
        finally:
            with self._lock:
                if client in self._open:
                    self._open.remove(client)
            _end(client)

    def serve(self, client: socket.socket) -> None:
        raise NotImplementedError

    def close_connections(self) -> None:
        with self._lock:
            connections, self._open = self._open, []
        for sock in connections:
            _end(sock)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        _end(self._listener)
        self.close_connections()
        for thread in list(self._threads):
            thread.join()


def _end(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    sock.close()


class Proxy(_Server):
    """Stands before a Redis, and does as its fault says."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        # "hold": answers wait until release; "cut": the connection ends instead of an answer
        self.fault = ""
        self._released = threading.Event()
        self.clients: list[socket.socket] = []
        self._cut: list[socket.socket] = []
        self._greeted: Optional[threading.Event] = None  # None: at once
        super().__init__()

    def hold(self) -> None:
        self._released.clear()
        self.fault = "hold"

    def release(self) -> None:
        self.fault = ""
        self._released.set()

    def hold_greetings(self) -> None:
        """First answers wait until greet, which lets out those of connections that are there."""
        self._greeted = threading.Event()

    def greet(self) -> None:
        if self._greeted is not None:
            self._greeted.set()
            self.hold_greetings()

    def cut_all(self) -> None:
        """The connections that are there end when something is sent on them."""
        self._cut = list(self.clients)

    def close(self) -> None:
        self.release()
        self.greet()
        super().close()

    def serve(self, client: socket.socket) -> None:
        self.clients.append(client)
        server = socket.create_connection(self.target)
        if self._track(server):
            self._start(self._answers, server, client)
        while True:
            data = client.recv(65536)
            if not data:
                break
            server.sendall(data)
        _end(server)

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        greeted = self._greeted
        try:
            while True:
                data = server.recv(65536)
                if not data or self.fault == "cut" or client in self._cut:
                    return
                if greeted is not None:
                    greeted.wait()
                if self.fault == "hold":
                    self._released.wait()
                client.sendall(data)
        except OSError:
            pass
        finally:
            _end(client)
            _end(server)


class Scripted(_Server):
    """Answers the scripts that it is sent by what it is told, in turn, and the final one for ever: "answered", "lost", or
    the text of an error."""

    def __init__(self, tries: tuple[str, ...]) -> None:
        self.tries = list(tries)
        self.loads = "answered"  # what SCRIPT LOAD is answered, likewise
        self.reply, self.drips = b"", False
        self.sent: list[bytes] = []  # the commands that ran scripts
        super().__init__()

    def serve(self, client: socket.socket) -> None:
        stream = client.makefile("rb")
        while True:
            head = stream.readline()
            if not head:
                return
            command = [stream.read(int(stream.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
            answer = self._answer(command)
            if answer is None:
                return
            for drop in range(0, len(answer), 1 if self.drips else len(answer)):
                client.sendall(answer[drop : drop + 1] if self.drips else answer)
                time.sleep(0.01 if self.drips else 0)

    def _answer(self, command: list[bytes]) -> Optional[bytes]:
        name = command[0].upper()
        does, reply = self.loads if name == b"SCRIPT" else "answered", b"+OK\r\n"
        if name in (b"EVALSHA", b"EVAL"):
            with self._lock:
                self.sent.append(name)
                does, reply = self.tries.pop(0) if len(self.tries) > 1 else self.tries[0], self.reply
        if does == "lost":
            return None
        return reply if does == "answered" else b"-%b\r\n" % does.encode()
