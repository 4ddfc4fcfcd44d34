// Outages of a Redis server that this test starts, stops and starts again, under 16 callers.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join as path } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { join, Store } from 'docpriority';
import { MemoryStore } from 'docpriority/testing';
import { clients } from './clients.mjs';

const patience = 60_000; // milliseconds for what is awaited

class Redis {
  static async start() {
    const redis = new Redis();
    redis.folder = await mkdtemp(path(tmpdir(), 'docpriority-outage-'));
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    redis.port = String(server.address().port);
    server.close();
    await once(server, 'close');
    redis.url = `redis://127.0.0.1:${redis.port}`;
    await redis.begin();
    return redis;
  }

  async begin() {
    this.process = spawn('redis-server', ['--port', this.port, '--bind', '127.0.0.1', '--dir', this.folder, '--save', '3600 1'], { stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    for await (const text of this.process.stdout) {
      said += text;
      if (said.includes('Ready to accept connections')) break;
    }
    assert.match(said, /Ready to accept connections/);
    this.process.stdout.resume();
  }

  /** Ends it, and keeps what it holds. */
  async end() {
    this.process.kill('SIGCONT');
    this.process.kill('SIGTERM');
    if (this.process.exitCode === null) await once(this.process, 'exit');
  }

  async remove() {
    await this.end();
    await rm(this.folder, { recursive: true });
  }
}

/** Callers who submit documents and have them done, and the levels that they got. */
class Callers {
  levels = { flood: [], small: [] }; // of degraded decisions
  answered = 0;
  degraded = 0;
  #store;
  #pending = [];
  #n = 0;
  #over = false;
  #running;

  constructor(store, n) {
    this.#store = store;
    this.#running = Promise.all(Array.from({ length: n }, (_, i) => this.#call(i)));
    this.#running.catch(() => {}); // until it is awaited
  }

  async #call(i) {
    for (let n = 0; !this.#over; n++) {
      const kind = i % 4 === 0 ? 'small' : 'flood';
      const customer = kind === 'flood' ? 'flood' : `small-${n % 50}`;
      const document = `d${this.#n++}`;
      const { level, degraded } = await this.#store.submit(customer, document);
      if (degraded) this.levels[kind].push(level);
      this.degraded += degraded ? 1 : 0;
      this.answered += degraded ? 0 : 1;
      this.#pending.push([customer, document]);
      // The flood has hundreds of documents waiting, the others are done at once.
      if (kind === 'small') await this.#done(this.#pending.length - 1);
      else if (this.#pending.length > 400) await this.#done(0);
      if (n % 20 === 0) await turn();
    }
  }

  async #done(i) {
    const [[customer, document]] = this.#pending.splice(i, 1);
    await this.#store.done(customer, document, 5);
  }

  /** Waits until something holds. */
  async until(what, holds) {
    const end = performance.now() + patience;
    while (!holds()) {
      assert.ok(performance.now() < end, `not in time: ${what}`);
      await Promise.race([sleep(5), this.#running]);
    }
  }

  /** Has all documents done that were submitted. */
  async finish() {
    this.#over = true;
    await this.#running;
    while (this.#pending.length > 0) await this.#done(0);
  }
}

const customers = ['flood', ...Array.from({ length: 50 }, (_, i) => `small-${i}`)];
const mean = (levels) => levels.reduce((a, b) => a + b, 0) / levels.length;

for (const kind of ['node-redis 6', 'ioredis 6']) {
  describe(kind, () => {
    let redis;
    before(async () => {
      redis = await Redis.start();
    });
    after(() => redis.remove());

    const pendingIn = async () => {
      const store = new Store(clients[kind](redis.url), { timeout: 60_000 });
      let pending = 0;
      for (const customer of customers) pending += (await store.peek(customer)).pending;
      await store.close();
      return pending;
    };

    for (const [what, stop, go] of [
      ['that is stopped and started again', () => redis.end(), () => redis.begin()],
      ['that stands still for a while', () => redis.process.kill('SIGSTOP'), () => redis.process.kill('SIGCONT')],
    ]) {
      test(`no call fails for a server ${what}, and its books are exact afterwards`, async () => {
        const client = clients[kind](redis.url);
        const store = join(client, { timeout: 1_000 });
        const callers = new Callers(store, 16);
        await callers.until('Redis answers', () => callers.answered > 500);
        await stop();
        await callers.until('memory answers at once', () => store.degraded && callers.levels.flood.length > 3_000 && callers.levels.small.length > 1_000);
        assert.equal(store.degraded, true);
        assert.ok(store.report().degraded && store.report().fallback > 3_000);
        const { flood, small } = callers.levels;
        assert.ok(mean(small) + 2 < mean(flood), `${mean(small)} and ${mean(flood)}`);
        await go();
        const before = callers.answered;
        await callers.until('Redis answers again', () => !store.degraded && callers.answered > before + 500);
        assert.equal(store.report().degraded, false);
        await callers.finish();
        await store.close();
        assert.equal(await pendingIn(), 0);
        client.disconnect?.();
      });
    }

    test('what is done while there is no server is paid by close', async () => {
      const store = new Store(clients[kind](redis.url), { fallback: true });
      const documents = Array.from({ length: 100 }, (_, i) => `d${i}`);
      await store.submitN('flood', documents);
      await redis.end();
      for (const document of documents) assert.equal(await store.done('flood', document), undefined);
      await redis.begin();
      await store.close();
      assert.equal(await pendingIn(), 0);
    });

    test('close ends during an outage, and says what was lost', async (t) => {
      const warnings = [];
      t.mock.method(process, 'emitWarning', (warning) => warnings.push(warning));
      const store = join(clients[kind](redis.url));
      await store.submit('flood', 'd');
      redis.process.kill('SIGSTOP');
      const calls = Promise.all(Array.from({ length: 30 }, () => store.next('flood')));
      await store.done('flood', 'd');
      await Promise.all([store.close(), store.close()]);
      await store.close();
      assert.equal((await calls).length, 30);
      assert.equal(warnings.length, 1);
      assert.match(warnings.join(), /1 documents? that were done/);
      redis.process.kill('SIGCONT');
    });
  });
}

test('what callers get in an outage is the better part of what memory has', async (t) => {
  const costs = {}; // microseconds of the processor for an upload, submitted and done
  const measure = async (name, store) => {
    const callers = new Callers(store, 16);
    const all = () => callers.answered + callers.degraded;
    await callers.until('memory answers at once', () => all() > 10_000);
    const [before, begun] = [all(), process.cpuUsage()];
    await callers.until('many answers', () => all() > before + 20_000);
    const { user, system } = process.cpuUsage(begun);
    costs[name] = ((user + system) / (all() - before)).toFixed(1);
    await callers.finish();
    await store.close();
  };
  t.mock.method(process, 'emitWarning', () => {});
  await measure('in memory alone', new MemoryStore());
  await measure('in an outage', new Store(clients['ioredis 6']('redis://127.0.0.1:1'), { fallback: true }));
  t.diagnostic(`µs for an upload: ${JSON.stringify(costs)}`);
});
