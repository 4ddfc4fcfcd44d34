// What becomes of a call when a server, or the connection to it, does not do what it should.

import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { queryObjects } from 'node:v8';
import { join, NotCounted, OutcomeUnknown, Store } from 'docpriority';
import { clients, oddSettings } from './clients.mjs';
import { integers, Server } from './server.mjs';

const vectors = (file) => JSON.parse(readFileSync(new URL(`../../../vectors/${file}`, import.meta.url), 'utf8'));
const classes = { not_counted: NotCounted, outcome_unknown: OutcomeUnknown };
const long = 60_000; // for what ends without a timeout, however slow the machine is

const replies = {
  next: integers(1, 0), submit: integers(1, 1_000_000, 1, 1), done: integers(2_250, 1),
  peek: integers(2, 1, 2, 0, 0, 4_000_000, 2_000, 1_000, 1, 0, 5, 0, 86_400_000, 2, 0, 0, 0), reset: integers(1),
};
const calls = {
  next: (store, options) => store.next('acme', options),
  submit: (store, options) => store.submit('acme', 'invoice-1', options),
  done: (store, options) => store.done('acme', 'invoice-1', 0, options),
  peek: (store, options) => store.peek('acme', options),
  reset: (store, options) => store.reset('acme', options),
};

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

/** A promise, and what settles it. */
function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { open, opened };
}

test('calls in an outage leave nothing behind', async () => {
  for (const [kind, make] of Object.entries(clients)) {
    const client = make('redis://127.0.0.1:1');
    const duplicate = client.duplicate.bind(client);
    let settings;
    client.duplicate = (options) => duplicate((settings = options));
    const store = new Store(client, { timeout: 20 });
    const failing = () => Promise.all(Array.from({ length: 200 }, () => assert.rejects(store.next('acme'), NotCounted)));
    await failing();
    const before = queryObjects(Promise, { format: 'count' });
    await failing();
    const more = queryObjects(Promise, { format: 'count' }) - before;
    await new Promise((resolve) => setTimeout(resolve, 500)); // some more tries to connect
    const listeners = settings.socket ? getEventListeners(settings.socket.signal, 'abort').length : 0;
    await store.close();
    assert.ok(more < 100 && listeners < 3, `${kind}: ${more} promises more, ${listeners} listeners`);
  }
});

test('a process is warned once that memory answers, and why', async (t) => {
  const { mock } = t.mock.method(process, 'emitWarning', () => {});
  const gone = await Server.start();
  const { port, url } = gone;
  await gone.close();
  const store = join(clients['ioredis 6'](url), { timeout: 500 });
  for (let i = 0; i < 3; i++) assert.ok((await store.next('acme')).degraded);
  const server = await Server.start(() => replies.next, { port });
  await nextAtLast(store);
  await server.close();
  assert.ok((await store.next('acme')).degraded); // within a minute
  await store.close();
  const [text, ...more] = mock.calls.map(({ arguments: [warning] }) => String(warning)).filter((warning) => warning.startsWith('docpriority: '));
  assert.match(text, new RegExp(`^docpriority: Redis does not answer, .*: next priority:{acme}:count: .*ECONNREFUSED 127.0.0.1:${port}`));
  assert.deepEqual(more, []);
});

// Nearly all of the time is waited: so the libraries wait at once.
describe('faults', { concurrency: true }, () => {
  for (const [kind, make] of Object.entries(clients)) {
    describe(kind, { concurrency: 6 }, () => {
      /** Runs a test with a server, and a function that opens stores on it. */
      const withServer = (name, answer, body, options) => test(name, async () => {
        const server = await Server.start(answer, options);
        const stores = [];
        const open = ({ joins, ...settings } = {}, of = make(server.url, oddSettings[kind])) => {
          const all = { timeout: long, ...settings };
          stores.push(joins ? join(of, all) : new Store(of, all));
          return stores.at(-1);
        };
        try {
          await body(server, open);
        } finally {
          await Promise.all([server.close(), ...stores.map((store) => store.close())]);
        }
      });

      for (const { name, do: operation, tries, class: want, sent } of vectors('lost.json').cases) {
        let at = 0;
        const answer = () => {
          const now = tries[Math.min(at++, tries.length - 1)];
          return { lost: 'cut', answered: replies[operation] }[now] ?? `-${now}\r\n`;
        };
        withServer(name, answer, async (server, open) => {
          if (want === 'answered') return void (await calls[operation](open()));
          const over = new AbortController(); // where it is sent until its time is over
          if (sent === undefined) server.until(() => server.scripts.length > 2).then(() => over.abort());
          await assert.rejects(calls[operation](open(), { signal: over.signal }), classes[want]);
          if (sent !== undefined) assert.equal(server.scripts.length, sent);
        });
      }

      for (const { why, reply } of vectors('errors.json').replies) {
        withServer(`an odd reply: ${why}`, () => reply, async (server, open) => {
          await assert.rejects(open().next('acme'), OutcomeUnknown);
          assert.equal(server.scripts.length, 1);
        });
      }

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

      withServer('a script that the server does not know is loaded', undefined, async (server, open) => {
        const store = open();
        server.answer = ([name]) => (/^evalsha$/i.test(name) ? (server.loaded.length > 0 ? replies.next : '-NOSCRIPT No matching script.\r\n') : '-NOPERM\r\n');
        assert.equal((await store.next('acme')).level, 1);
        assert.deepEqual(server.loaded.map((text) => Buffer.from(text, 'latin1').toString()), [store.script('next').text]);
      });

      const parting = gate();
      withServer('close awaits the calls that were made before it', (command) => (command[0] === 'EVALSHA' ? '-NOSCRIPT No matching script.\r\n' : parting.opened), async (server, open) => {
        const store = open();
        const before = Array.from({ length: 50 }, () => store.submit('acme', 'd'));
        const closed = store.close();
        parting.open(replies.submit);
        for (const { level } of await Promise.all(before)) assert.equal(level, 1);
        await closed;
      });

      withServer('what is in flight when the connection breaks is sent once, and what comes next is answered', (_, connection) => (connection === 1 ? undefined : replies.next), async (server, open) => {
        const store = open();
        const lost = Promise.allSettled(Array.from({ length: 20 }, () => store.next('acme')));
        await server.until(() => server.scripts.length === 20);
        for (const socket of server.open) socket.destroy();
        for (const { reason } of await lost) assert.ok(reason instanceof OutcomeUnknown, reason);
        assert.equal((await store.next('acme')).level, 1);
        assert.equal(server.scripts.length, 21);
      });

      withServer('a server that takes connections and says nothing', () => undefined, async (server, open) => {
        const error = await open({ timeout: 500 }).next('acme').catch((error) => error);
        assert.ok(error instanceof OutcomeUnknown || (error instanceof NotCounted && server.scripts.length === 0), error);
      }, { greets: () => false });

      withServer('a master that has become a replica, or that the network has lost, is left for a new connection', (_, connection) => {
        return { 1: undefined, 2: "-READONLY You can't write against a read only replica.\r\n" }[connection] ?? (connection > 2 ? replies.next : undefined);
      }, async (server, open) => {
        const store = open({ timeout: 1_000 });
        await nextAtLast(store);
        assert.ok(server.connections > 2);
      });

      const full = gate();
      withServer('a fallback answers while the server does not, and it answers again when it does', () => full.opened, async (server, open) => {
        const store = open({ joins: true, timeout: 300 });
        const levels = [];
        for (let i = 0; i < 22; i++) levels.push(await store.next('acme'));
        assert.ok(levels.every(({ degraded, level, ruleLevel }) => degraded && ruleLevel === level) && store.degraded);
        assert.deepEqual([levels[0].level, levels.at(-1).level, (await store.next('other')).level], [1, 9, 1]);
        const next = (command) => (/:\{(control|fleet)\}:/.test(command[3]) ? '-NOPERM\r\n' : replies.next);
        server.answer = next;
        full.open(replies.next);
        assert.equal((await nextAtLast(store)).count, 0);
        assert.ok(!store.degraded);
        server.answer = (command) => (/:count$/.test(command[3]) ? '-OOM command not allowed\r\n' : next(command));
        const again = await store.next('acme');
        assert.deepEqual([again.degraded, again.count], [true, 0]); // memory has forgotten the outage
        await assert.rejects(store.reset('acme'), NotCounted);
      });

      const held = gate();
      withServer('the caller may give up', () => held.opened, async (server, open) => {
        const store = open();
        const canceled = new AbortController();
        const reason = new Error('the upload was canceled');
        const cause = (Class) => (error) => error instanceof Class && error.cause === reason && error.message.includes(reason.message);
        const sent = Array.from({ length: 20 }, () => store.next('acme', { signal: canceled.signal }));
        const stays = store.next('umbrella');
        await server.until(() => server.scripts.length === 21);
        canceled.abort(reason);
        for (const one of sent) await assert.rejects(one, cause(OutcomeUnknown));
        await assert.rejects(store.next('acme', { signal: canceled.signal }), cause(NotCounted));
        await assert.rejects(store.next('acme', { signal: AbortSignal.abort(Symbol('tired')) }), NotCounted);
        held.open(replies.next);
        assert.equal((await stays).level, 1);
      });

      test('a server that is not there has counted nothing, comes, and goes again', async () => {
        const gone = await Server.start();
        const { port, url } = gone;
        await gone.close();
        const store = new Store(make(url, oddSettings[kind]), { timeout: 1_000 });
        const refused = (error) => error instanceof NotCounted && error.message.includes(`connect ECONNREFUSED 127.0.0.1:${port}`);
        for (const call of Object.values(calls)) await assert.rejects(call(store), refused);
        const server = await Server.start(() => replies.next, { port });
        assert.equal((await nextAtLast(store)).level, 1);
        await server.close();
        await assert.rejects(store.next('acme')); // it may have been sent
        for (const call of Object.values(calls)) await assert.rejects(call(store), refused);
        await store.close();
      });

      withServer("the caller's own client stays as it was", () => replies.next, async (server, open) => {
        const own = make(server.url);
        own.on('error', () => {});
        await own.connect();
        const seen = () => JSON.stringify([own.eventNames().map((name) => [String(name), own.listenerCount(name)]), own.options]);
        const before = seen();
        const store = open({}, own);
        await store.next('acme');
        await store.close();
        assert.equal(await own.ping(), 'OK');
        assert.equal(seen(), before);
        (own.destroy ?? own.disconnect).call(own);
      });
    });
  }
});
