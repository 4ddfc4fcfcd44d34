// Tests with the vectors that every port can be tested with. All but those of the keys
// need a Redis server of their own:
//
//   REDIS=127.0.0.1:6379 node --test

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { createClient } from 'redis';
import { Mean, Store, keyOf, scripts } from './priority.mjs';

const vectors = (file) => JSON.parse(readFileSync(new URL(`../../vectors/${file}`, import.meta.url), 'utf8'));

describe('keys', () => {
  for (const key of vectors('keys.json').keys) {
    test(`${key.prefix} ${key.shown}`, () => {
      const hex = (end) => keyOf(Buffer.from(key.customer_hex, 'hex'), key.prefix, end).toString('hex');
      assert.deepEqual([hex('count'), hex('pending'), hex('usage')], [key.count_key_hex, key.pending_key_hex, key.usage_key_hex]);
    });
  }

  test('a string is its UTF-8', () => {
    assert.equal(keyOf('größer}').toString(), 'priority:{größer%7D}:count');
  });

  test('what is no customer or no prefix', () => {
    assert.equal(keyOf('x'.repeat(512)).length, 'priority:{}:count'.length + 512);
    for (const wrong of [[''], ['x'.repeat(513)], ['ü'.repeat(257)], ['acme', 'a{b'], ['acme', '}']]) {
      assert.throws(() => keyOf(...wrong), RangeError);
    }
  });
});

test('a cost is known after 100 documents', () => {
  const mean = new Mean();
  const first = Array.from({ length: 99 }, () => mean.cost(200));
  assert.deepEqual(new Set(first), new Set([0]));
  assert.equal(mean.cost(200), 1000);
  assert.equal(mean.cost(0), 0);
  assert.equal(mean.cost(4000), 16_833); // 4000 ÷ (200 + 3800 ÷ 101)
});

// How many milliseconds of Redis's time stand for one of a case's, of what concerns the
// count. A server's clock cannot be moved, but TTLs can be. Half a stretch more makes a
// case's "exactly then" and "a millisecond later" different, however slow the test is.
const stretch = 50_000;
const stretched = (milliseconds) => milliseconds * stretch + stretch / 2;

// The scripts of a policy and a lease: the files with other numbers between "begin" and
// "end".
function scriptsOf({ thresholds, reset_interval_ms, reset_mode }, lease = 86_400_000) {
  const blocks = {
    policy: `local interval = '${stretched(reset_interval_ms)}'\nlocal since_last_reset = ${reset_mode === 'since_last_reset'}\n`,
    levels: `local level = 1\n${thresholds.map((threshold, i) => `if count < ${threshold} then level = ${i + 2} end\n`).join('')}`,
    lease: `local longest_lease = ${lease}\n`,
    scale: `local first = ${Math.max(1, -(thresholds[0] ?? 0))}\nlocal levels = ${thresholds.length + 1}\n`,
  };
  const replace = (script, [name, lines]) =>
    script.replace(new RegExp(`(-- begin ${name}\n)[^]*(-- end ${name}\n)`), (_, begin, end) => begin + lines + end);
  return Object.fromEntries(Object.entries(scripts).map(([name, script]) => [name, Object.entries(blocks).reduce(replace, script)]));
}

// Lets time pass: of the count's key stretched, of the others as it is.
async function pass(client, customers, prefix, milliseconds) {
  if (milliseconds === 0) return;
  for (const customer of customers) {
    const pending = keyOf(customer, prefix, 'pending');
    for (const { value, score } of (await client.type(pending)) === 'zset' ? await client.zRangeWithScores(pending, 0, -1) : []) {
      await client.zAdd(pending, { value, score: score - Math.sign(score) * milliseconds });
    }
    for (const end of ['count', 'pending', 'usage']) {
      const key = keyOf(customer, prefix, end);
      const left = await client.pTTL(key);
      if (left < 0) continue; // it has none
      const passed = end === 'count' ? milliseconds * stretch : milliseconds;
      if (left > passed) await client.pExpire(key, left - passed);
      else await client.del(key);
    }
  }
}

// Does a step, and returns the decisions that it comes to.
async function decide(step, store, client, prefix, interval) {
  const { do: operation, customer, n, documents, cost = 0, key = 'count', value, ttl_ms: ttl } = step;
  switch (operation) {
    case 'next':
      return [{ pending: 0, resetIn: interval, ...(await store.next(customer, n)) }];
    case 'submit':
      return await store.submit(customer, ...documents);
    case 'done':
      return (await store.done(customer, cost, ...documents)) ?? [];
    case 'peek':
      return [await store.peek(customer)];
    case 'reset':
      return (await store.reset(customer)) ?? [];
    case 'set':
      await client.set(keyOf(customer, prefix, key), value, ttl && { PX: key === 'count' ? stretched(ttl) : ttl });
      return [];
  }
  throw new Error(`no store does ${operation}`);
}

// What the case has taken makes a usage smaller and a lease longer.
function allowing(took, { usage, ordinary, cost, lease: lease_ms }, want) {
  if (usage < want.usage && want.usage - usage <= 1 + (want.usage * took) / 86_400_000) usage = want.usage;
  if (lease_ms > want.lease_ms && lease_ms - want.lease_ms <= 20 * took) lease_ms = want.lease_ms;
  return { usage, ordinary, cost, lease_ms };
}

// This worker settles nothing.
const cases = ['rule.json', 'submit.json', 'edges.json']
  .flatMap((file) => vectors(file).cases.map((vector) => ({ file, ...vector })))
  .map((vector) => ({ ...vector, steps: vector.steps.filter((step) => step.do !== 'settle' || step.want) }))
  .filter(({ steps }) => steps.every((step) => step.do !== 'settle'));

describe('decisions', { skip: process.env.REDIS ? false : 'REDIS names no server' }, () => {
  let client;
  before(async () => {
    client = createClient({ url: `redis://${process.env.REDIS}` });
    await client.connect();
  });
  after(() => client.close());

  for (const { file, name, policy, lease_ms, steps } of cases) {
    test(`${file}: ${name}`, async () => {
      const prefix = `test-${randomUUID()}`;
      const customers = [...new Set(steps.map(({ customer }) => customer))];
      const began = Date.now();
      let now = 0;
      for (const [i, step] of steps.entries()) {
        await pass(client, customers, prefix, step.at_ms - now);
        now = step.at_ms;
        const where = `step ${i}: ${JSON.stringify(step).slice(0, 200)}`;
        const store = new Store(client, { prefix, scripts: scriptsOf(policy, step.lease_ms ?? lease_ms) });
        const deciding = decide(step, store, client, prefix, stretched(policy.reset_interval_ms));
        if (step.error) {
          await assert.rejects(deciding, new RegExp(step.error), where);
          continue;
        }
        const decisions = await deciding;
        const wants = step.do === 'next' ? step.want.slice(-1) : (step.want ?? []);
        assert.deepEqual(
          decisions.map(({ level, count, pending, resetIn }) => ({
            level, count, ...(lease_ms && { pending }), reset_in_ms: Math.floor(resetIn / stretch),
          })), wants, where);
        if (step.made_of) {
          assert.deepEqual(allowing(Date.now() - began, decisions[0], step.made_of), step.made_of, where);
        }
      }
      await client.del(customers.flatMap((customer) => ['count', 'pending', 'usage'].map((end) => keyOf(customer, prefix, end))));
    });
  }

  test('an unknown script is sent once more, with its text', async () => {
    const prefix = `test-${randomUUID()}`;
    const store = new Store(client, { prefix, scripts: { next: `${scripts.next}-- ${prefix}` } });
    assert.deepEqual(await store.next('acme'), { level: 1, count: 0 });
    assert.deepEqual(await store.next('acme', 5), { level: 3, count: -5 });
    await client.del(keyOf('acme', prefix));
  });

  test('what is no count is reported and left as it is', async () => {
    const prefix = `test-${randomUUID()}`;
    const key = keyOf('acme', prefix);
    await client.set(key, 'something');
    await assert.rejects(new Store(client, { prefix }).next('acme'), /^.*CORRUPTCOUNT/);
    assert.equal(await client.get(key), 'something');
    await client.del(key);
  });
});
