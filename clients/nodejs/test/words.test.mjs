// What needs no server: keys, policies, classes of errors, costs, wrong calls.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { createSentinel } from 'redis';
import { CorruptCount, defaultPolicy, keysOf, NotCounted, OutcomeUnknown, PriorityError, Store } from 'docpriority';
import { judge, Lost, Refused, Unsent } from '../src/answers.js';
import { eachOf, Mean } from '../src/mean.js';
import { fillPolicy, lastOf, levelOf } from '../src/policy.js';
import { slotOf } from '../src/slot.js';
import { clients, clusters } from './clients.mjs';

const vectors = (file) => JSON.parse(readFileSync(new URL(`../../../vectors/${file}`, import.meta.url), 'utf8'));
const client = clients['ioredis 6']('redis://127.0.0.1:1');
const policyOf = ({ thresholds, reset_interval_ms: resetInterval, reset_mode: mode, loads, turns }) => ({
  thresholds, resetInterval, loads, turns, resetMode: { since_last_update: 'sinceLastUpdate', since_last_reset: 'sinceLastReset' }[mode] ?? mode,
});

describe('keys', () => {
  for (const key of vectors('keys.json').keys) {
    test(`${key.prefix} ${key.shown}`, () => {
      const { count, pending, usage, override } = keysOf(Buffer.from(key.customer_hex, 'hex'), key.prefix);
      assert.deepEqual([count, pending, usage, override].map((bytes) => bytes.toString('hex')), [key.count_key_hex, key.pending_key_hex, key.usage_key_hex, key.override_key_hex]);
    });
  }

  test('a string is its UTF-8', () => {
    assert.equal(keysOf('größer}').count.toString(), 'priority:{größer%7D}:count');
    assert.deepEqual(new Store(client, { prefix: 'p' }).keys('größer'), keysOf(new TextEncoder().encode('größer'), 'p'));
  });

  test('the slots are as in a Redis Cluster', () => {
    // CLUSTER KEYSLOT of the same keys
    assert.deepEqual(['acme', '123456789', 'größer}'].map((customer) => slotOf(keysOf(customer).count)), [11_304, 12_739, 14_706]);
  });
});

describe('policies', () => {
  const { policies, refused, always } = vectors('policies.json');
  for (const { name, policy, lease_ms: lease, loads, last, levels, sha1 } of policies) {
    test(name, () => {
      const store = new Store(client, { policy: policyOf(policy), lease });
      const filled = fillPolicy(policyOf(policy));
      assert.deepEqual([filled.loads, lastOf(filled)], [loads, last]);
      for (const [script, want] of Object.entries({ ...sha1, ...always })) {
        const { text, sha1: digest } = store.script(script);
        assert.equal(digest, want, `${script}\n${text}`);
        assert.equal(createHash('sha1').update(text).digest('hex'), want);
      }
      for (const [count, level] of levels) assert.equal(levelOf(filled, count), level, `level of ${count}`);
    });
  }
  for (const { why, policy, lease_ms: lease } of refused) {
    test(why, () => assert.throws(() => new Store(client, { policy: policyOf(policy), lease }), RangeError));
  }

  test('a field that is not there has its default', () => {
    assert.deepEqual(fillPolicy({ resetMode: 'sinceLastReset' }), { ...defaultPolicy(), resetMode: 'sinceLastReset' });
    assert.deepEqual(fillPolicy({ thresholds: undefined, turns: undefined }), defaultPolicy());
  });

  test('each tier has scripts of its own', () => {
    const tierOf = (customer) => (String(customer).startsWith('gold') ? 'gold' : 'unknown');
    const store = new Store(client, { tiers: { gold: { thresholds: [-50] } }, tierOf });
    assert.match(store.script('next', 'gold mine').text, /if count < -50 then level = 2\nelseif count >= -50 then level = 1\nend\n/);
    assert.deepEqual(store.script('next', 'acme'), new Store(client).script('next'));
  });
});

describe('errors', () => {
  const { answers } = vectors('errors.json');
  const classes = { not_counted: NotCounted, outcome_unknown: OutcomeUnknown, corrupt: CorruptCount };
  for (const { answer, class: name, then } of answers) {
    test(answer, () => {
      const { Class, again = false, noScript = false } = judge(new Refused(answer), { repeatable: true });
      assert.deepEqual([Class, again, noScript], [classes[name], then === 'again', then === 'text']);
      const peeked = judge(new Refused(answer), { readOnly: true }).Class;
      assert.equal(peeked, name === 'outcome_unknown' ? NotCounted : Class);
      assert.ok(Class.prototype instanceof PriorityError);
    });
  }

  test('only what may be called twice is called again after a lost answer', () => {
    assert.deepEqual(judge(new Lost(), {}), { Class: OutcomeUnknown, again: undefined });
    assert.deepEqual(judge(new Lost(), { repeatable: true }), { Class: OutcomeUnknown, again: true });
    assert.deepEqual(judge(new Lost(), { readOnly: true }), { Class: NotCounted, again: true });
    assert.deepEqual(judge(new Unsent(), {}), { Class: NotCounted, again: true });
  });
});

describe('costs', () => {
  for (const { name, steps } of vectors('mean.json').cases) {
    test(name, () => {
      const [told, took] = [new Mean(), new Mean()];
      for (const [i, { costs, took_ms: together = 0, n, ended = 0, sent }] of steps.entries()) {
        const each = eachOf(together, n);
        const [mean, asked, added] = costs ? [told, costs, costs] : [took, [each], Array(ended).fill(each)];
        assert.deepEqual(asked.map((cost) => mean.relative(cost)), sent, `step ${i}`);
        for (const cost of added) mean.add(cost);
      }
    });
  }

  test('what is told, however odd, is compared as a whole number', () => {
    for (const odd of [Number.MIN_VALUE, 1e-6, 1e308, Number.MAX_VALUE]) {
      const mean = new Mean();
      for (const told of [odd, odd, 5, Number.MIN_VALUE, Number.MAX_VALUE, 5]) {
        for (let added = 0; added < 100; added++) mean.add(told);
        for (const next of [odd, 5]) {
          const cost = mean.relative(next);
          assert.ok(Number.isInteger(cost) && cost >= 1 && cost <= 100_000, `${odd} ${told} ${next}: ${cost}`);
        }
      }
    }
  });

  test('no time, however odd, is more than a day', () => {
    const odd = [0, Number.MIN_VALUE, 9e-7, 250, 86_400_001, Number.MAX_VALUE];
    assert.deepEqual(odd.map((took) => eachOf(took, 2)), [0, 0, 0, 0.125, 43_200, 43_200]);
  });
});

describe('a wrong call is refused before anything is sent', () => {
  const store = new Store(client); // nothing listens there: what were sent would end with NotCounted
  const calls = {
    'no customer': [() => store.next(''), RangeError],
    'a long customer': [() => store.next('ü'.repeat(257)), RangeError],
    'half a character': [() => store.next('\ud800'), RangeError],
    'a number for a customer': [() => store.next(5), TypeError],
    'an array for a customer': [() => store.next([1]), TypeError],
    'no document': [() => store.submit('acme', ''), RangeError],
    'a document that is none': [() => store.submit('acme'), TypeError],
    'no documents': [() => store.submitN('acme', []), RangeError],
    '101 documents': [() => store.submitN('acme', Array(101).fill('d')), RangeError],
    '1001 documents': [() => store.doneN('acme', Array(1001).fill('d')), RangeError],
    'a hole among the documents': [() => store.submitN('acme', ['a', , 'b']), TypeError], // eslint-disable-line no-sparse-arrays
    'a hole among what is done': [() => store.doneN('acme', Array(2)), TypeError],
    'documents in a string': [() => store.submitN('acme', 'abc'), TypeError],
    'a negative cost': [() => store.submit('acme', 'd', { cost: -1 }), RangeError],
    'no number for a cost': [() => store.submit('acme', 'd', { cost: NaN }), RangeError],
    'a cost without end': [() => store.submitN('acme', ['a', 'd'], { costs: [1, Infinity] }), RangeError],
    'a cost in words': [() => store.submit('acme', 'd', { cost: '5' }), TypeError],
    'a cost without its name': [() => store.submit('acme', 'd', 5), TypeError],
    'costs of one document': [() => store.submit('acme', 'd', { costs: [5] }), TypeError],
    'one cost of many documents': [() => store.submitN('acme', ['a', 'd'], { cost: 5 }), TypeError],
    'costs that are none': [() => store.submitN('acme', ['a', 'd'], { costs: 5 }), TypeError],
    'too few costs': [() => store.submitN('acme', ['a', 'd'], { costs: [5] }), RangeError],
    'too many costs': [() => store.submitN('acme', ['a'], { costs: [5, 5] }), RangeError],
    'a hole among the costs': [() => store.submitN('acme', ['a', 'd'], { costs: [5, , ] }), TypeError], // eslint-disable-line no-sparse-arrays
    'zero of them': [() => store.nextN('acme', 0), RangeError],
    'half of one': [() => store.nextN('acme', 1.5), RangeError],
    'too many': [() => store.nextN('acme', 1_000_001), RangeError],
    'a number in a string': [() => store.nextN('acme', '3'), TypeError],
    'negative time': [() => store.done('acme', 'd', -1), RangeError],
    'no time': [() => store.done('acme', 'd', NaN), RangeError],
    'options for a time': [() => store.done('acme', 'd', {}), TypeError],
    'no signal': [() => store.next('acme', { signal: {} }), TypeError],
    'an unknown option': [() => store.next('acme', { timeout: 5 }), TypeError],
    'a promise of a tier': [() => new Store(client, { tiers: { gold: {} }, tierOf: async () => 'gold' }).next('acme'), TypeError],
  };
  for (const [name, [call, error]] of Object.entries(calls)) test(name, () => assert.rejects(call, error));
});

describe('a wrong option is refused', () => {
  const wrong = {
    'a brace in the prefix': [{ prefix: 'a{b' }, RangeError],
    'an empty prefix': [{ prefix: '' }, RangeError],
    'no time': [{ timeout: 0 }, RangeError],
    'time without end': [{ timeout: Infinity }, RangeError],
    'time in words': [{ timeout: '1s' }, TypeError],
    'a lease of nothing': [{ lease: 0 }, RangeError],
    'thresholds that are none': [{ policy: { thresholds: 'no' } }, TypeError],
    'loads that are none': [{ policy: { loads: 8 } }, TypeError],
    'loads that are no numbers': [{ policy: { loads: ['8'] } }, RangeError],
    'half a turn': [{ policy: { turns: 0.5 } }, RangeError],
    'a tier with more levels': [{ policy: { thresholds: [-1] }, tiers: { gold: {} }, tierOf: () => 'gold' }, RangeError],
    'a tier with more turns': [{ tiers: { gold: { turns: 1 } }, tierOf: () => 'gold' }, RangeError],
    'tiers without a tierOf': [{ tiers: { gold: {} } }, TypeError],
    'overrides in words': [{ overrides: 'yes' }, TypeError],
    'an unknown name': [{ timeoutMs: 5 }, TypeError],
    'an unknown name in a policy': [{ policy: { interval: 5 } }, TypeError],
  };
  for (const [name, [options, error]] of Object.entries(wrong)) test(name, () => assert.throws(() => new Store(client, options), error));

  test('a client that is none', () => {
    const sentinel = createSentinel({ name: 'counts', sentinelRootNodes: [{ host: '127.0.0.1', port: 1 }] });
    for (const none of [undefined, null, {}, sentinel]) assert.throws(() => new Store(none), TypeError);
  });

  test('an address in place of a client', () => {
    const wanted = { name: 'TypeError', message: /: a client is needed, not a URL/ };
    for (const url of ['redis://127.0.0.1', new URL('redis://127.0.0.1')]) assert.throws(() => new Store(url), wanted);
  });

  test('a store names the last level of its queue', () => {
    assert.equal(new Store(client).last, 9);
    assert.equal(new Store(client, { policy: { turns: 13 } }).last, 22);
    assert.equal(new Store(client, { policy: { thresholds: [-1], loads: [] } }).last, 2);
  });

  test('a store that is closed names the key that would be asked', async () => {
    const store = new Store(client);
    await store[Symbol.asyncDispose]();
    for (const [call, kind] of [['next', 'count'], ['submit', 'pending'], ['done', 'pending'], ['peek', 'count']]) {
      await assert.rejects(store[call]('acme', ...(call === 'next' || call === 'peek' ? [] : ['a'])), {
        name: 'NotCounted', message: `docpriority: ${call} priority:{acme}:${kind}: the store is closed`,
      });
    }
  });

  test('a client of each kind, and none of them connects', () => {
    for (const make of Object.values(clients)) new Store(make('redis://127.0.0.1:1'));
    for (const make of Object.values(clusters)) new Store(make(['redis://127.0.0.1:1']));
  });
});
