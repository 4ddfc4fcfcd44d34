// What a call ends with when something breaks, on a server that answers as it is told.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { join, NotCounted, OutcomeUnknown, Store } from 'docpriority';
import { Lost } from '../src/answers.js';
import { Connection, mostCalls } from '../src/connection.js';
import { Deadline } from '../src/deadline.js';
import { IoredisLink } from '../src/ioredis.js';
import { NodeRedisLink } from '../src/node-redis.js';
import { clients, oddSettings } from './clients.mjs';
import { integers, Server } from './server.mjs';

const vectors = (file) => JSON.parse(readFileSync(new URL(`../../../vectors/${file}`, import.meta.url), 'utf8'));
const classes = { not_counted: NotCounted, outcome_unknown: OutcomeUnknown };
const long = 60_000; // for what ends without a timeout, however slow the machine is

const replies = {
  next: integers(1, 0), submit: integers(1, 1_000_000, 1, 0), done: integers(2_250, 1),
  peek: integers(2, 1, 2, 0, 0, 4_000_000, 2_000, 1_000, 1, 0, 5, 0, 86_400_000, 0, 0, 0, 0), reset: integers(1),
};
const calls = {
  next: (store) => store.next('acme'),
  submit: (store) => store.submit('acme', 'invoice-1'),
  done: (store) => store.done('acme', 'invoice-1'),
  peek: (store) => store.peek('acme'),
  reset: (store) => store.reset('acme'),
};

/** Calls until it is answered: a slow machine may need more time than a call has. */
async function nextAtLast(store) {
  for (;;) {
    try {
      return await store.next('acme');
    } catch (error) {
      assert.ok(error instanceof NotCounted || error instanceof OutcomeUnknown, error);
    }
  }
}

/** A promise, and what settles it. */
function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { open, opened };
}

// Nearly all of the time is waited: so the libraries wait at once.
describe('faults', { concurrency: true }, () => {
  for (const [kind, make] of Object.entries(clients)) {
    describe(kind, { concurrency: 6 }, () => {
      /** Runs a test with a server, and a function that opens stores on it. */
      const withServer = (name, answer, body, options) => test(name, async () => {
        const server = await Server.start(answer, options);
        const stores = [];
        const open = (settings, of = make(server.url, oddSettings[kind])) => {
          stores.push(new Store(of, { timeout: long, ...settings }));
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
          if (sent !== undefined) {
            await assert.rejects(calls[operation](open()), classes[want]);
            return assert.equal(server.scripts.length, sent);
          }
          for (let timeout = 2_000; ; timeout *= 4) { // a slow machine may need more
            at = server.scripts.length = 0;
            try {
              await assert.rejects(calls[operation](open({ timeout })), classes[want]);
              return assert.ok(server.scripts.length > 1, 'it was not tried again');
            } catch (error) {
              if (timeout > 30_000) throw error;
            }
          }
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
        await assert.rejects(store.next('acme'), NotCounted);
        await store.close();
        assert.equal(server.connections, connections);
      });

      const ofFleet = (command) => /:\{(control|fleet)\}:/.test(command[3]);
      for (const [fault, answer] of Object.entries({ 'is refused': '-NOPERM this user has no permissions\r\n', 'is odd': integers(1) })) {
        withServer(`what ${fault} in the background holds no caller up`, (command) => (ofFleet(command) ? answer : replies.next), async (server) => {
          const member = join(make(server.url, oddSettings[kind]), { timeout: long, interval: 10 });
          try {
            await server.until(() => server.scripts.some(ofFleet));
            for (let i = 0; i < 50; i++) assert.equal((await member.next('acme')).level, 1);
            assert.equal(member.report().by_count[1], 50);
          } finally {
            await member.close();
          }
          await server.until(() => server.open.size === 0);
        });
      }

      const parting = gate();
      withServer('close awaits the calls that were made before it, and takes no more', (command) => (command[0] === 'EVALSHA' ? '-NOSCRIPT No matching script.\r\n' : parting.opened), async (server, open) => {
        const store = open();
        const calls = Array.from({ length: 50 }, () => store.submit('acme', 'd'));
        const closed = store.close();
        await assert.rejects(store.next('acme'), (error) => error instanceof NotCounted && error.message.endsWith(': the store is closed'));
        parting.open(replies.submit);
        for (const { level } of await Promise.all(calls)) assert.equal(level, 1);
        await closed;
        await server.until(() => server.open.size === 0);
      });

      withServer('the tier is asked for once, before anything is sent', () => replies.next, async (server, open) => {
        let asked = 0;
        const tierOf = () => {
          if (++asked > 1) throw new Error('the tiers are being loaded');
          return 'gold';
        };
        const store = open({ tiers: { gold: { resetInterval: 7 } }, tierOf });
        assert.equal((await store.next('acme')).resetIn, 7);
        await assert.rejects(store.next('acme'), /the tiers are being loaded/);
        assert.equal(server.scripts.length, 1);
      });

      const hundred = Array.from({ length: 100 }, (_, i) => `d${i}`);
      const wasPending = (document) => (document === 'again' ? [0, 0] : [2_250, 4]);
      withServer('only what was done moves the mean, and after its answer', (command) => integers(...command.slice(6).flatMap(wasPending)), async (server, open) => {
        const store = open();
        const costOf = (command) => Number(command[5]);
        const ended = await store.doneN('acme', ['again', ...hundred], 101_000);
        assert.deepEqual(ended, hundred.map((document) => ({ document, sojourn: 2_250, level: 4 })));
        await assert.rejects(store.doneN('acme', hundred, 500_000, { signal: {} }), TypeError);
        assert.equal(await store.done('acme', 'again', 5_000), undefined);
        assert.equal((await store.done('acme', 'd', 1_000)).sojourn, 2_250);
        assert.deepEqual(server.scripts.map(costOf), [0, 5_000, 1_000]);
      });

      withServer('a cost is compared with what was submitted before, in any unit', (command) => (command.at(-2) === 'lost' ? '-OOM command not allowed\r\n' : integers(...hundred.flatMap(() => [1, 1_000_000, 1, 0]))), async (server, open) => {
        const store = open();
        await store.submitN('acme', hundred, { costs: hundred.map((_, i) => (i === 0 ? 0 : 3)) }); // 0: not known
        await store.submit('acme', 'a', { cost: 3 }); // the hundredth
        await assert.rejects(store.submit('acme', 'lost', { cost: 900 }), NotCounted);
        await store.submit('acme', 'b', { cost: 4.5 });
        await store.submit('acme', 'c');
        await store.submitN('acme', ['d', 'e', 'f'], { costs: [3_000, 1e-9, 0] });
        const costs = server.scripts.map((command) => command.slice(5).filter((_, i) => i % 2 === 1).map(Number));
        assert.deepEqual(costs[0], hundred.map(() => 0));
        // 4.5 moves the mean from 3 by a hundred-and-first.
        assert.deepEqual(costs.slice(1), [[0], [100_000], [1_500], [0], [100_000, 1, 0]]);
        assert.equal(server.scripts[0][2], '2'); // the keys of what is pending and of the usage
      });

      let replica;
      withServer('where a master has become a replica, a new connection is made', (_, connection) => {
        replica ??= connection;
        return connection === replica ? "-READONLY You can't write against a read only replica.\r\n" : replies.next;
      }, async (server, open) => {
        assert.equal((await open().next('acme')).level, 1);
      });

      let silent;
      withServer('a connection that the network has lost is noticed while calls wait on it', (_, connection) => {
        silent ??= connection;
        return connection === silent ? undefined : replies.next;
      }, async (server, open) => {
        const store = open({ timeout: 2 ** 31 - 1 });
        const canceled = new AbortController();
        const lost = store.next('acme', { signal: canceled.signal });
        await server.until(() => server.connections > silent);
        assert.equal((await store.next('acme')).level, 1);
        canceled.abort();
        await assert.rejects(lost, OutcomeUnknown);
      }, { greets: (_, connection) => connection !== silent });

      withServer('a server that is only slow does not get more and more connections', () => undefined, async (server, open) => {
        const store = open({ timeout: 50 });
        const begun = performance.now();
        while (server.connections < 7) await assert.rejects(store.next('acme'));
        const least = 25 + 50 + 100 + 200 + 400 + 800; // half of each pause
        assert.ok(performance.now() - begun >= least, `${server.connections} connections in ${performance.now() - begun} ms`);
      });

      const slow = gate();
      withServer('a call whose time is over does not end the others', () => slow.opened, async (server) => {
        const Link = kind.startsWith('ioredis') ? IoredisLink : NodeRedisLink;
        const client = make(server.url, oddSettings[kind]);
        const connection = new Connection(() => new Link(client));
        const others = new Deadline(long);
        const send = (deadline) => connection.send(['EVAL', 'return 1', '0'], deadline);
        const second = send(others);
        await server.until(() => server.scripts.length === 1);
        const first = new Deadline(200);
        await assert.rejects(send(first), Lost);
        slow.open(integers(1));
        assert.deepEqual(await second, [1]);
        await server.until(() => server.open.size === 1); // the old connection is gone, the new one there
        assert.deepEqual(await send(others), [1]);
        first.end();
        others.end();
        await connection.close();
      });

      // All that a connection was given before has arrived when the server gets a PING.
      const crowd = gate();
      let pinged;
      const ping = (name) => (pinged ||= name === 'PING' && crowd.begun, true);
      withServer('only so many calls are under way on a connection, and the others wait for their turn', () => crowd.opened, async (server, open) => {
        const store = open();
        const canceled = new AbortController();
        const calls = Array.from({ length: 3 * mostCalls }, (_, i) => store.next(`customer ${i}`));
        const waiting = store.next('acme', { signal: canceled.signal });
        await server.until(() => server.scripts.length >= mostCalls);
        crowd.begun = true;
        await server.until(() => pinged);
        assert.equal(server.scripts.length, mostCalls);
        canceled.abort();
        await assert.rejects(waiting, NotCounted);
        crowd.open(replies.next);
        await Promise.all(calls);
        assert.equal(server.scripts.length, calls.length);
        assert.ok(!server.others.includes('ASKING'), 'a server without a cluster knows no ASKING');
      }, { greets: ping });

      const full = gate();
      withServer('a call that has to wait for its turn too long is not counted', () => full.opened, async (server, open) => {
        const store = open({ timeout: 2_000 });
        const calls = Array.from({ length: mostCalls + 1 }, (_, i) => store.next(`customer ${i}`));
        const { reason } = (await Promise.allSettled(calls)).at(-1);
        const late = reason instanceof OutcomeUnknown; // on a slow machine the first one's time may be over first, and it is sent
        assert.ok(late || (reason instanceof NotCounted && /calls are under way|no connection in time/.test(reason.message)), reason);
        assert.ok(server.scripts.length <= mostCalls + Number(late));
        full.open(replies.next);
        assert.equal((await nextAtLast(store)).level, 1);
      });

      const never = gate();
      withServer('what waits with others for a server that hangs ends in time', () => never.opened, async (server, open) => {
        const store = open({ timeout: 4_000 });
        const all = await Promise.allSettled(Array.from({ length: 1_000 }, (_, i) => store.next(`customer ${i}`)));
        const ends = new Set(all.map(({ reason }) => reason?.constructor));
        assert.ok(ends.size > 0 && [...ends].every((end) => end === NotCounted || end === OutcomeUnknown), String([...ends]));
        const unknown = all.filter(({ reason }) => reason instanceof OutcomeUnknown).length;
        assert.ok(server.scripts.length <= unknown, `${server.scripts.length} arrived, ${unknown} are of unknown outcome`);
        never.open(replies.next);
        assert.equal((await nextAtLast(store)).level, 1);
      });

      withServer('a server that takes connections and says nothing', () => replies.next, async (server, open) => {
        await assert.rejects(open({ timeout: 500 }).next('acme'), (error) => error instanceof NotCounted && /no connection in time/.test(error.message));
        assert.equal(server.scripts.length, 0);
      }, { greets: false });

      withServer('a connection without calls that the network has lost is noticed', () => replies.next, async (server, open) => {
        const store = open();
        await store.next('acme');
        const { connections } = server;
        server.greets = (_, connection) => connection > connections; // the one that there is is silent from now on
        await server.until(() => server.connections > connections);
        await server.until(() => server.open.size === 1);
        assert.equal((await store.next('acme')).level, 1);
      });

      const held = gate();
      withServer('the caller may give up', () => held.opened, async (server, open) => {
        const store = open();
        const canceled = new AbortController();
        const reason = new Error('the upload was canceled');
        const cause = (Class) => (error) => error instanceof Class && error.cause === reason && error.message.includes(reason.message);
        const sent = store.next('acme', { signal: canceled.signal });
        const others = Array.from({ length: 20 }, () => store.submit('acme', 'd', { signal: canceled.signal }));
        const stays = store.next('umbrella');
        await server.until(() => server.scripts.length === 22);
        canceled.abort(reason);
        await assert.rejects(sent, cause(OutcomeUnknown));
        for (const other of others) await assert.rejects(other, cause(OutcomeUnknown));
        await assert.rejects(store.next('acme', { signal: canceled.signal }), cause(NotCounted));
        held.open(replies.submit);
        assert.equal((await stays).level, 1);
      });

      const unanswered = gate();
      withServer('the caller may give up for any reason', () => unanswered.opened, async (server, open) => {
        const store = open();
        const reasons = [false, 0, '', null, Symbol('tired'), Object.create(null), { toString: () => { throw new Error('no words'); } }];
        for (const reason of reasons) {
          const is = (Class) => (error) => error instanceof Class && error.cause === reason;
          await assert.rejects(store.next('acme', { signal: AbortSignal.abort(reason) }), is(NotCounted));
          const canceled = new AbortController();
          const before = server.scripts.length;
          const sent = store.next('acme', { signal: canceled.signal });
          await server.until(() => server.scripts.length === before + 1);
          canceled.abort(reason);
          await assert.rejects(sent, is(OutcomeUnknown));
        }
        assert.equal(server.scripts.length, reasons.length);
        unanswered.open(replies.next);
      });

      test('a server that is not there, and comes', async () => {
        // One that nobody is given meanwhile: the system's own begin at 32,768.
        const gone = await Server.start(undefined, { port: 31_000 + 4 * (process.pid % 440) + Object.keys(clients).indexOf(kind) });
        const { port, url } = gone;
        await gone.close();
        const store = new Store(make(url), { timeout: 3_000 });
        const refused = (error) => error instanceof NotCounted && error.message.includes(`connect ECONNREFUSED 127.0.0.1:${port}`);
        await assert.rejects(store.next('acme'), refused);
        const server = await Server.start(() => replies.next, { port });
        await server.until(() => server.open.size === 1); // by itself
        assert.equal((await nextAtLast(store)).level, 1);
        await Promise.all([store.close(), server.close()]);
      });

      withServer("the caller's own client stays as it was", () => replies.next, async (server, open) => {
        const own = make(server.url);
        own.on('error', () => {});
        await own.connect();
        const listeners = own.eventNames().map((name) => [name, own.listenerCount(name)]);
        const store = open({}, own);
        await store.next('acme');
        assert.ok(server.connections > 1);
        await store.close();
        assert.equal(await own.ping(), 'PONG');
        assert.deepEqual(own.eventNames().map((name) => [name, own.listenerCount(name)]), listeners);
        await (own.close ?? own.quit).call(own).catch(() => {});
      });
    });
  }
});
