// Tests with the vectors that every port can be tested with. Those of the rule need a
// Redis server of their own:
//
//   REDIS=127.0.0.1:6379 node --test

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
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

const standard = {
  thresholds: [-2, -4, -6, -8, -10, -12, -14, -20],
  reset_interval_ms: 1_500_000,
  reset_mode: 'since_last_update',
};

// The script of a policy: the file as it is, or with other numbers between "begin" and
// "end".
function scriptOf(policy) {
  return isDeepStrictEqual(policy, standard) ? nextScript : rendered(policy);
}

function rendered({ thresholds, reset_interval_ms, reset_mode }) {
  const policy = `local interval = '${reset_interval_ms}'\nlocal since_last_reset = ${reset_mode === 'since_last_reset'}\n`;
  const levels = thresholds.map((threshold, i) => `if count < ${threshold} then level = ${i + 2} end\n`);
  const replace = (script, name, lines) =>
    script.replace(new RegExp(`(-- begin ${name}\n)[^]*(-- end ${name}\n)`), (_, begin, end) => begin + lines + end);
  return replace(replace(nextScript, 'policy', policy), 'levels', `local level = 1\n${levels.join('')}`);
}

// A server's clock cannot be moved. So time passes by hand: counts that are overdue
// are deleted, and the others get what is left of their time and a minute more.
class Hand {
  #client;
  #policy;
  #prefix;
  #now = 0;
  #due = new Map();

  constructor(client, policy, prefix) {
    this.#client = client;
    this.#policy = policy;
    this.#prefix = prefix;
  }

  async moveTo(now) {
    if (now === this.#now) return;
    this.#now = now;
    for (const [customer, due] of this.#due) {
      const key = keyOf(customer, this.#prefix);
      if (due < now) {
        this.#due.delete(customer);
        await this.#client.del(key);
      } else {
        await this.#client.pExpire(key, due - now + 60_000);
      }
    }
  }

  counted(customer) {
    if (!this.#due.has(customer) || this.#policy.reset_mode === 'since_last_update') {
      this.#due.set(customer, this.#now + this.#policy.reset_interval_ms);
    }
  }

  async reset(customer) {
    this.#due.delete(customer);
    await this.#client.del(keyOf(customer, this.#prefix));
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
    // A count that is gone before the next call is made cannot be tested in real time.
    test(name, { skip: policy.reset_interval_ms < 1000 ? 'its interval is too short for real time' : false }, async () => {
      const prefix = `test-${randomUUID()}`;
      const store = new Store(client, { prefix, script: scriptOf(policy) });
      const hand = new Hand(client, policy, prefix);
      const customers = new Set();
      for (const { at_ms, do: operation, customer, n, want } of steps) {
        await hand.moveTo(at_ms);
        customers.add(customer);
        if (operation === 'next') {
          hand.counted(customer);
          const { resetIn = policy.reset_interval_ms, ...decision } = await store.next(customer, n);
          const { reset_in_ms, ...wanted } = want.at(-1);
          assert.deepEqual(decision, wanted, `at ${at_ms}`);
          const late = resetIn - reset_in_ms;
          assert.ok(-60_000 <= late && late <= 60_000, `at ${at_ms} it is reset in ${resetIn}, not ${reset_in_ms}`);
        } else if (operation === 'reset') {
          await hand.reset(customer);
        } else {
          assert.equal(operation, 'peek'); // which this worker does not do
        }
      }
      for (const customer of customers) await hand.reset(customer);
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
