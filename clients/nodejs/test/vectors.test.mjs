// The vectors that every port can be tested with, on the Redis server that REDIS names.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { CorruptCount, keysOf, NotCounted, OutcomeUnknown, Store } from 'docpriority';
import { createClient } from 'redis';
import { clients, oddSettings } from './clients.mjs';

const text = (file) => readFileSync(new URL(`../../../vectors/${file}`, import.meta.url), 'utf8');

// How many milliseconds of Redis's time stand for one of a case's, of what concerns the
// count. Half a stretch more makes a case's "exactly then" and "a millisecond later"
// different, however slow the test is.
const stretch = 50_000;
const stretched = (milliseconds) => milliseconds * stretch + stretch / 2;
const modes = { since_last_update: 'sinceLastUpdate', since_last_reset: 'sinceLastReset' };

const cases = ['rule.json', 'submit.json', 'edges.json']
  .flatMap((file) => JSON.parse(text(file)).cases.map((vector) => ({ file, ...vector })));

const keys = (customer, prefix) => Object.values(keysOf(customer, prefix));

// Lets time pass: of the count's key stretched, of the others as it is.
async function pass(redis, customers, prefix, milliseconds) {
  if (milliseconds === 0) return;
  for (const customer of customers) {
    await redis.eval(text('pass.lua'), { keys: keys(customer, prefix), arguments: [String(milliseconds), String(stretch)] });
  }
}

// Does a step, and returns the decisions that it comes to.
async function decide(step, store, redis, prefix) {
  const { do: operation, customer, n, documents, key = 'count', value, ttl_ms: ttl } = step;
  switch (operation) {
    case 'next':
      return n === 1 ? [await store.next(customer)] : await store.nextN(customer, n);
    case 'submit':
      return await store.submitN(customer, documents);
    case 'done': {
      const { text: script } = store.script('done');
      const { pending, usage } = keysOf(customer, prefix);
      // A store makes the cost of what documents took lately: a case tells the cost.
      if (step.cost) await redis.eval(script, { keys: [pending, usage], arguments: [String(step.cost), ...documents] });
      else await store.doneN(customer, documents);
      return [];
    }
    case 'peek':
      return [await store.peek(customer)];
    case 'reset':
      await store.reset(customer);
      return [];
    case 'set':
      await redis.set(keysOf(customer, prefix)[key], value, ttl && { expiration: { type: 'PX', value: key === 'count' ? stretched(ttl) : ttl } });
      return [];
  }
  throw new Error(`no store does ${operation}`);
}

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

    for (const { file, name, policy: { thresholds, reset_interval_ms: interval, reset_mode: mode }, lease_ms: lease, steps } of cases) {
      test(`${file}: ${name}`, async () => {
        const prefix = `test-${randomUUID()}`;
        const policy = { thresholds, resetInterval: stretched(interval), resetMode: modes[mode] };
        const byLease = new Map();
        const storeOf = (milliseconds) => {
          if (!byLease.has(milliseconds)) byLease.set(milliseconds, open({ prefix, policy, lease: milliseconds }));
          return byLease.get(milliseconds);
        };
        const customers = [...new Set(steps.map(({ customer }) => customer))];
        let now = 0;
        for (const [i, step] of steps.entries()) {
          await pass(redis, customers, prefix, step.at_ms - now);
          now = step.at_ms;
          const where = `step ${i}: ${JSON.stringify(step).slice(0, 200)}`;
          const deciding = decide(step, storeOf(step.lease_ms ?? lease), redis, prefix);
          if (step.error) {
            await assert.rejects(deciding, (error) => error instanceof CorruptCount && error.message.includes(step.error), where);
            continue;
          }
          const decisions = await deciding;
          if (!step.want) continue;
          assert.deepEqual(decisions.map(({ level, count, pending, resetIn }) => ({
            level, count, ...(lease && { pending }), reset_in_ms: Math.floor(resetIn / stretch),
          })), step.want, where);
          assert.ok(decisions.every(Object.isFrozen));
        }
        for (const store of byLease.values()) await store.close();
        await redis.del(customers.flatMap((customer) => keys(customer, prefix)));
      });
    }

    test('a script that the server forgot is sent once more, with its text', async () => {
      const prefix = `test-${randomUUID()}`;
      const store = open({ prefix, policy: { thresholds: [-1, -1 - process.pid] } }); // nobody else's script
      assert.deepEqual(await store.next('acme'), { level: 1, count: 0, pending: 0, resetIn: 1_500_000 });
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
