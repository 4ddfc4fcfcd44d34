// What becomes of a call when a server, or the connection to it, does not do what it should.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { join, NotCounted, OutcomeUnknown, Store } from 'docpriority';
import { Wire } from '../src/client.js';
import { Deadline, Pace } from '../src/deadline.js';
import { clients, newest, oddSettings } from './clients.mjs';
import { integers, Server } from './server.mjs';

const long = 60_000; // milliseconds for what ends without a timeout, however slow the machine is

const replies = { next: integers(1, 0), submit: integers(1, 1_000_000, 1, 1) };

/** Calls until Redis answers: a slow machine may need more time than a call has. */
async function nextAtLast(store) {
  for (;;) {
    try {
      const decision = await store.next('acme');
      if (!decision.degraded) return decision;
    } catch (error) {
      assert.ok(error instanceof NotCounted || error instanceof OutcomeUnknown, error);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Keeps the process busy for so many milliseconds. */
function work(milliseconds) {
  for (const begun = performance.now(); performance.now() < begun + milliseconds; );
}

/** A promise, and what settles it. */
function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { open, opened };
}

test('no more than 10,000 commands wait for replies', async () => {
  let waiting = 0;
  const copy = { status: 'ready', on() {}, call: () => new Promise(() => waiting++) };
  const pace = new Pace();
  const wire = new Wire({ callBuffer() {}, duplicate: () => copy }, pace);
  const deadline = new Deadline(50, pace);
  await Promise.allSettled(Array.from({ length: 10_010 }, () => wire.send(['PING'], 'acme', deadline)));
  assert.equal(waiting, 10_000);
});

test('a burst of calls that keeps the event loop busy is no outage while replies arrive', async () => {
  const pace = new Pace();
  const deadline = new Deadline(50, pace);
  for (let turns = 0; turns < 30; turns++) {
    work(10);
    pace.noteReply();
    await new Promise(setImmediate);
  }
  assert.ok(!deadline.isOver);
  while (!deadline.isOver) {
    work(10);
    await new Promise(setImmediate);
  }
});

for (const [kind, make] of newest(clients)) {
  test(`${kind}: a process is warned once that memory answers, and why`, async (t) => {
    const { mock } = t.mock.method(process, 'emitWarning', () => {});
    const gone = await Server.start();
    const { port, url } = gone;
    await gone.close();
    const store = join(make(url), { timeout: 500 });
    let server;
    t.after(() => Promise.all([store.close(), server?.close()]));
    await assert.rejects(store.reset('acme'), NotCounted);
    for (const count of [0, -1, -2]) assert.deepEqual(numbers(await store.next('acme')), [true, count]);
    assert.ok(store.degraded);
    server = await Server.start(() => replies.next, port);
    await nextAtLast(store);
    assert.ok(!store.degraded);
    await server.close();
    assert.deepEqual(numbers(await store.next('acme')), [true, 0]); // memory has forgotten the first outage, and a minute has not passed
    const [text, ...more] = mock.calls.map(({ arguments: [warning] }) => String(warning)).filter((warning) => warning.startsWith('docpriority: '));
    assert.match(text, new RegExp(`^docpriority: Redis does not answer, .*: next priority:{acme}:count: .*ECONNREFUSED 127.0.0.1:${port}`));
    assert.deepEqual(more, []);
  });
}

for (const [kind, make] of Object.entries(clients)) {
  test(`${kind}: no call gets another one's reply when its connection is reset`, { timeout: long }, async (t) => {
    const server = await Server.start(([, , , key]) => integers(1, -Number(/\d+/.exec(key))));
    const store = new Store(make(server.url), { timeout: long });
    t.after(() => Promise.all([store.close(), server.close()]));
    for (let n = 1; n < 100; n += 5) {
      await nextAtLast(store);
      await new Promise((resolve) => setTimeout(resolve)); // after a timer comes what is read, and then what node-redis writes
      for (const socket of server.open) socket.resetAndDestroy();
      work(3); // until the reset is there
      const all = await Promise.allSettled(Array.from({ length: 5 }, (_, i) => store.next(`customer ${n + i}`)));
      for (const [i, { value, reason }] of all.entries()) {
        if (value) assert.equal(value.count, -(n + i));
        else assert.ok(reason instanceof OutcomeUnknown, reason);
      }
    }
  });
}

for (const [kind, make] of Object.entries(clients)) {
  test(`${kind}: a busy process does not take Redis for gone`, async (t) => {
    const server = await Server.start(() => replies.next);
    const store = new Store(make(server.url), { timeout: 100 });
    let isBusy = true;
    t.after(() => {
      isBusy = false;
      return Promise.all([store.close(), server.close()]);
    });
    await nextAtLast(store);
    const call = store.next('acme');
    (function turn() {
      work(100);
      if (isBusy) setImmediate(turn);
    })();
    assert.equal((await call).level, 1);
  });
}

const numbers = ({ degraded, count }) => [degraded, count];

// Nearly all of the time is waited: so the libraries wait at once.
describe('faults', { concurrency: true }, () => {
  for (const [kind, make] of newest(clients)) {
    describe(kind, { concurrency: 6 }, () => {
      /** Runs a test with a server, and a function that opens stores on it. */
      const withServer = (name, answer, body) => test(name, async () => {
        const server = await Server.start(answer);
        const stores = [];
        const open = (settings, client = make(server.url, oddSettings[kind])) => {
          stores.push(new Store(client, { timeout: long, ...settings }));
          return stores.at(-1);
        };
        try {
          await body(server, open);
        } finally {
          await Promise.all([server.close(), ...stores.map((store) => store.close())]);
        }
      });

      withServer('the constructor does not connect, and close ends what calls have made', () => replies.next, async (server, open) => {
        const store = open();
        assert.equal(server.connections, 0);
        await store.next('acme');
        const { connections } = server;
        await store.close();
        await server.until(() => server.open.size === 0);
        await assert.rejects(store.next('acme'), { name: 'NotCounted', message: 'docpriority: next priority:{acme}:count: the store is closed' });
        await store[Symbol.asyncDispose]();
        assert.equal(server.connections, connections);
      });

      const parting = gate();
      withServer('close awaits the calls that were made before it', (command) => (command[0] === 'EVALSHA' ? '-NOSCRIPT No matching script.\r\n' : parting.opened), async (server, open) => {
        const store = open();
        const calls = Array.from({ length: 50 }, () => store.submit('acme', 'd'));
        const closed = store.close();
        parting.open(replies.submit);
        for (const { level } of await Promise.all(calls)) assert.equal(level, 1);
        await closed;
      });

      withServer('a master that has become a replica, or that the network has lost, is left for a new connection', (_, connection) => {
        return { 1: undefined, 2: "-READONLY You can't write against a read only replica.\r\n" }[connection] ?? (connection > 2 ? replies.next : undefined);
      }, async (server, open) => {
        const store = open({ timeout: 1_000 });
        await nextAtLast(store);
        assert.ok(server.connections > 2);
      });

      withServer("the caller's own client stays as it was", () => replies.next, async (server, open) => {
        const client = make(server.url);
        client.on('error', () => {});
        await client.connect();
        const describe = () => JSON.stringify([client.eventNames().map((name) => [String(name), client.listenerCount(name)]), client.options]);
        const description = describe();
        const store = open({}, client);
        await store.next('acme');
        await store.close();
        assert.equal(await client.ping(), 'OK');
        assert.equal(describe(), description);
        (client.destroy ?? client.disconnect).call(client);
      });
    });
  }
});
