// Each client library, with settings that would change what a count is, on the Redis server
// that REDIS names. The vectors are clients/conformance's.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { CorruptCount, keysOf, NotCounted, OutcomeUnknown, Store } from 'docpriority';
import { createClient } from 'redis';
import { clients, oddSettings } from './clients.mjs';

for (const [kind, make] of Object.entries(clients)) {
  describe(kind, { skip: process.env.REDIS || process.env.CI ? false : 'REDIS names no server: go test ./clients/nodejs starts one' }, () => {
    const url = `redis://${process.env.REDIS}`;
    const stores = [];
    const open = (options) => {
      const store = new Store(make(url, oddSettings[kind]), { timeout: 60_000, ...options });
      stores.push(store);
      return store;
    };
    let redis;
    before(async () => {
      redis = await createClient({ url }).connect();
    });
    after(async () => {
      for (const store of stores) await store.close();
      await redis.close();
    });

    test('decisions are the same with all settings', async () => {
      const prefix = `test-${randomUUID()}`;
      const store = open({ prefix });
      const { count, pending, usage } = keysOf('größer}', prefix);
      const decisions = await store.nextN('größer}', 4);
      assert.deepEqual(decisions.map(({ level, count }) => [level, count]), [[1, 0], [1, -1], [1, -2], [2, -3]]);
      assert.equal((await store.peek('größer}')).rule, 'byCount');
      const submitted = [await store.submit('größer}', 'd'), ...await store.submitN('größer}', ['e', 'f'], { costs: [7, 0] })];
      assert.deepEqual(submitted, [
        { level: 1, count: 0, resetIn: 0, load: 1, pending: 1, degraded: false, ruled: 0 },
        { level: 2, count: 0, resetIn: 0, load: 4, pending: 2, degraded: false, ruled: 0 },
        { level: 3, count: 0, resetIn: 0, load: 9, pending: 3, degraded: false, ruled: 0 },
      ]);
      const state = await store.peek('größer}');
      const { resetIn, oldest } = state;
      assert.deepEqual(state, {
        rule: 'byLoad', level: 3, nextLevel: 3, count: -3, resetIn, load: 16, lately: 3, cost: 1,
        pending: 3, pendingLast: 0, oldest, sojourn: 0, lease: 86_400_000, degraded: false, ruled: 0, override: undefined,
      });
      assert.ok(resetIn > 0 && resetIn <= 1_500_000 && oldest >= 0 && oldest < 60_000, `${resetIn} ${oldest}`);
      const ended = [await store.done('größer}', 'd', 5), ...await store.doneN('größer}', ['d', 'e', Buffer.from('f')])];
      assert.deepEqual(ended.map(({ document, level }) => [String(document), level]), [['d', 1], ['e', 2], ['f', 3]]);
      assert.ok(ended.every(({ sojourn }) => sojourn >= 0 && sojourn < 60_000));
      assert.equal(await store.done('größer}', 'd'), undefined);
      assert.equal((await store.peek('größer}')).pending, 0);
      assert.ok([...decisions, ...submitted, state, ...ended].every(Object.isFrozen));
      assert.equal(await redis.get(count.toString()), '-3');
      await store.reset('größer}');
      assert.equal((await store.peek('größer}')).rule, 'unknown');
      assert.equal(await redis.exists([count, pending, usage]), 0);
    });

    test('an override decides, and every document is counted all the same', async () => {
      const prefix = `test-${randomUUID()}`;
      const { count, pending, usage, override } = keysOf('acme', prefix);
      const [store, without] = [open({ prefix, overrides: true }), open({ prefix })];
      const levels = (decisions) => decisions.map(({ level, ruled }) => [level, ruled]);
      await redis.set(override, '>=7', { PX: 60_000 });
      const first = await store.next('acme');
      assert.deepEqual(first, { level: 7, count: 0, resetIn: 1_500_000, load: 0, pending: 0, degraded: false, ruled: 1 });
      assert.deepEqual(levels(await store.nextN('acme', 4)), [[7, 1], [7, 1], [7, 2], [7, 2]]);
      assert.deepEqual(levels(await without.nextN('acme', 2)), [[3, 0], [3, 0]]);
      assert.deepEqual(levels(await store.nextN('acme', 15)).slice(-2), [[8, 8], [9, 9]]);
      assert.deepEqual(levels([await store.submit('acme', 'd'), ...await store.submitN('acme', ['e', 'f'])]), [[7, 1], [7, 2], [7, 3]]);
      assert.deepEqual(levels([await without.submit('acme', 'g')]), [[3, 0]]);
      const { nextLevel, ruled, override: { earliest, latest, endsIn } } = await store.peek('acme');
      assert.deepEqual([nextLevel, ruled, earliest, latest], [7, 3, 7, 9]);
      assert.ok(endsIn > 0 && endsIn <= 60_000, endsIn);
      assert.equal((await without.peek('acme')).override, undefined);
      await redis.set(override, '=1');
      assert.deepEqual((await store.peek('acme')).override, { earliest: 1, latest: 1, endsIn: undefined });
      for (const junk of ['1', '=0', '>=', 'level 1']) {
        await redis.set(override, junk);
        assert.deepEqual(levels([await store.next('acme'), await store.submit('acme', 'd')]), [[9, 0], [3, 0]], junk);
      }
      await store.reset('acme'); // which is not for operators' settings
      assert.equal(await redis.exists([count, pending, usage, override]), 1);
      await redis.del(override);
    });

    test('a script that the server forgot is sent once more, with its text', async () => {
      const prefix = `test-${randomUUID()}`;
      const store = open({ prefix, policy: { thresholds: [-1, -1 - process.pid] } }); // nobody else's script
      assert.deepEqual(await store.next('acme'), { level: 1, count: 0, resetIn: 1_500_000, load: 0, pending: 0, degraded: false, ruled: 0 });
      assert.equal((await store.nextN('acme', 5)).at(-1).count, -5);
      await redis.del(keysOf('acme', prefix).count);
    });

    test('what Redis refuses is not counted', async () => {
      const prefix = `test-${randomUUID()}`;
      const { count } = keysOf('acme', prefix);
      await redis.set(count, 'something');
      await assert.rejects(open({ prefix }).next('acme'), (error) => error instanceof CorruptCount && error.message.includes(count.toString()));
      assert.equal(await redis.get(count), 'something');
      await redis.del(count);
    });

    test('the database of the caller is used, and no other where that is not there', async () => {
      const prefix = `test-${randomUUID()}`;
      const store = new Store(make(`${url}/3`), { prefix, timeout: 60_000 });
      await store.next('acme');
      await store.close();
      const there = await createClient({ url: `${url}/3` }).connect();
      assert.equal(await there.del(keysOf('acme', prefix).count), 1);
      await there.close();
      const nowhere = new Store(make(`${url}/9999`), { prefix, timeout: 1_000 });
      await assert.rejects(nowhere.next('acme'), (error) => error instanceof NotCounted && /DB index/.test(error.message));
      await nowhere.close();
      assert.equal(await redis.exists(keysOf('acme', prefix).count), 0);
    });

    test('a call ends in time, and its document is counted once or not at all', async () => {
      const prefix = `test-${randomUUID()}`;
      const patient = open({ prefix });
      const store = open({ prefix, timeout: 1_000 });
      await store.next('acme');
      await redis.sendCommand(['CLIENT', 'PAUSE', '2500']);
      await assert.rejects(store.next('acme'), OutcomeUnknown);
      assert.ok([-1, -2].includes((await patient.next('acme')).count));
      await redis.del(keysOf('acme', prefix).count);
    });
  });
}
