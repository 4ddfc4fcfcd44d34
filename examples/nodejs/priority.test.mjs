// Tests with the vectors that every port can be tested with. All but those of the keys
// need a Redis server of their own:
//
//   REDIS=127.0.0.1:6379 node --test

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { createClient } from 'redis';
import { Connection, NotCounted, OutcomeUnknown } from './connection.mjs';
import { Mean, Store, keyOf, scripts } from './priority.mjs';

const text = (file) => readFileSync(new URL(`../../vectors/${file}`, import.meta.url), 'utf8');
const vectors = (file) => JSON.parse(text(file));

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
    await client.eval(text('pass.lua'), { keys: keysOf(customer, prefix), arguments: [String(milliseconds), String(stretch)] });
  }
}

function keysOf(customer, prefix) {
  return ['count', 'pending', 'usage'].map((end) => keyOf(customer, prefix, end));
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
  const url = `redis://${process.env.REDIS}`;
  let client, connection;
  before(async () => {
    client = createClient({ url });
    await client.connect();
    connection = new Connection(url);
  });
  after(async () => {
    connection.close();
    await client.close();
  });
  const open = (options) => new Store(connection, { timeout: 60_000, ...options });

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
        const store = open({ prefix, scripts: scriptsOf(policy, step.lease_ms ?? lease_ms) });
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
      await client.del(customers.flatMap((customer) => keysOf(customer, prefix)));
    });
  }

  test('an unknown script is sent once more, with its text', async () => {
    const prefix = `test-${randomUUID()}`;
    const store = open({ prefix, scripts: { next: `${scripts.next}-- ${prefix}` } });
    assert.deepEqual(await store.next('acme'), { level: 1, count: 0 });
    assert.deepEqual(await store.next('acme', 5), { level: 3, count: -5 });
    await client.del(keyOf('acme', prefix));
  });

  test('what is no count is reported and left as it is', async () => {
    const prefix = `test-${randomUUID()}`;
    const key = keyOf('acme', prefix);
    await client.set(key, 'something');
    await assert.rejects(open({ prefix }).next('acme'), (error) => error instanceof NotCounted && /^CORRUPTCOUNT /.test(error.message));
    assert.equal(await client.get(key), 'something');
    await client.del(key);
  });

  test('what Redis refuses is not counted', async () => {
    const prefix = `test-${randomUUID()}`;
    await client.configSet('maxmemory', '1');
    try {
      await assert.rejects(open({ prefix }).next('acme'), (error) => error instanceof NotCounted && /^OOM /.test(error.message));
    } finally {
      await client.configSet('maxmemory', '0');
    }
    assert.equal(await client.get(keyOf('acme', prefix)), null);
  });

  test('what was refused in the middle of a script may have been counted', async () => {
    const scripts = { next: "redis.call('INCR', KEYS[1]) return redis.call('LPUSH', KEYS[1], 1)" };
    const prefix = `test-${randomUUID()}`;
    await assert.rejects(open({ prefix, scripts }).next('acme'), OutcomeUnknown);
    await client.del(keyOf('acme', prefix));
  });

  test('a call ends in time, and before its answer where that is late', async () => {
    const prefix = `test-${randomUUID()}`;
    await open({ prefix }).next('acme');
    await client.sendCommand(['CLIENT', 'PAUSE', '1500']); // less than the socket's timeout
    await assert.rejects(open({ prefix, timeout: 100 }).next('acme'), OutcomeUnknown);
    assert.match((await open({ prefix }).next('acme')).count.toString(), /^-[12]$/);
    await client.del(keyOf('acme', prefix));
  });

  test('a wrong call is told as such', async () => {
    await assert.rejects(open().submit('acme', 5), TypeError);
    await assert.rejects(open().next(''), RangeError);
  });

  test('what comes after the end is not counted', async () => {
    const ended = new Connection(url);
    ended.close();
    await assert.rejects(new Store(ended).next('acme'), NotCounted);
  });
});
