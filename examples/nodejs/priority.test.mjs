// Tests with the vectors that every port can be tested with. Those of the rule need a
// Redis server of their own:
//
//   REDIS=127.0.0.1:6379 node --test

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { createClient } from 'redis';
import { Store, keyOf, nextScript } from './priority.mjs';

const vectors = (file) => JSON.parse(readFileSync(new URL(`../../vectors/${file}`, import.meta.url), 'utf8'));

describe('keys', () => {
  for (const key of vectors('keys.json').keys) {
    test(`${key.prefix} ${key.shown}`, () => {
      assert.equal(keyOf(Buffer.from(key.customer_hex, 'hex'), key.prefix).toString('hex'), key.count_key_hex);
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

// How many milliseconds of Redis's time stand for one of a case's. A server's clock
// cannot be moved, but TTLs can be. Half a stretch more makes a case's "exactly then"
// and "a millisecond later" different, however slow the test is.
const stretch = 50_000;
const stretched = (milliseconds) => milliseconds * stretch + stretch / 2;

// The script of a policy: the file with other numbers between "begin" and "end".
function scriptOf({ thresholds, reset_interval_ms, reset_mode }) {
  const policy = `local interval = '${stretched(reset_interval_ms)}'\nlocal since_last_reset = ${reset_mode === 'since_last_reset'}\n`;
  const levels = thresholds.map((threshold, i) => `if count < ${threshold} then level = ${i + 2} end\n`);
  const replace = (script, name, lines) =>
    script.replace(new RegExp(`(-- begin ${name}\n)[^]*(-- end ${name}\n)`), (_, begin, end) => begin + lines + end);
  return replace(replace(nextScript, 'policy', policy), 'levels', `local level = 1\n${levels.join('')}`);
}

async function pass(client, keys, milliseconds) {
  for (const key of keys) {
    const left = (await client.pTTL(key)) - milliseconds * stretch;
    if (left > 0) await client.pExpire(key, left);
    else await client.del(key);
  }
}

describe('rule', { skip: process.env.REDIS ? false : 'REDIS names no server' }, () => {
  let client;
  before(async () => {
    client = createClient({ url: `redis://${process.env.REDIS}` });
    await client.connect();
  });
  after(() => client.close());

  for (const { name, policy, steps } of vectors('rule.json').cases) {
    test(name, async () => {
      const prefix = `test-${randomUUID()}`;
      const store = new Store(client, { prefix, script: scriptOf(policy) });
      const keys = [...new Set(steps.map(({ customer }) => customer))].map((customer) => keyOf(customer, prefix));
      let now = 0;
      for (const { at_ms, do: operation, customer, n, want } of steps) {
        await pass(client, keys, at_ms - now);
        now = at_ms;
        if (operation === 'next') {
          const { resetIn = stretched(policy.reset_interval_ms), ...decision } = await store.next(customer, n);
          assert.deepEqual({ ...decision, reset_in_ms: Math.floor(resetIn / stretch) }, want.at(-1), `at ${at_ms}`);
        } else if (operation === 'reset') {
          await client.del(keyOf(customer, prefix));
        } else {
          assert.equal(operation, 'peek'); // which this worker does not do
        }
      }
      await client.del(keys);
    });
  }

  test('an unknown script is sent once more, with its text', async () => {
    const prefix = `test-${randomUUID()}`;
    const store = new Store(client, { prefix, script: `${nextScript}-- ${prefix}` });
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
