// Calls and options: which are refused, what the store in memory does, and that calls mean the same
// with all clients, whatever their settings, on the Redis server that REDIS names.

import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { createClientPool, createSentinel } from 'redis';
import { Store } from 'docpriority';
import { MemoryStore } from 'docpriority/testing';
import { Memory } from '../src/memory.js';
import { policiesOf } from '../src/policy.js';
import { clients, oddSettings } from './clients.mjs';

const client = clients['ioredis 6']('redis://127.0.0.1:1');
const settings = policiesOf({ policy: {}, tiers: {} }, 86_400_000).forTier();

describe('a wrong call is refused before anything is sent', () => {
  const store = new Store(client); // nothing listens there: a call that is not refused ends with NotCounted
  after(() => store.close());
  const calls = {
    'a lone surrogate': [() => store.submit('acme', 'in\ud800'), { message: String.raw`docpriority: a document has a lone surrogate: "in\ud800"` }],
    'a hole among the documents': [() => store.submitN('acme', ['a', , 'b']), TypeError],
    'documents in a string': [() => store.submitN('acme', 'abc'), TypeError],
    'a cost in words': [() => store.submit('acme', 'd', { cost: '5' }), TypeError],
    'a cost without its name': [() => store.submit('acme', 'd', 5), { message: 'docpriority: the third argument of submit: an object such as { cost: 12 } is needed, not Number' }],
    'a cost of another name': [() => store.submitN('acme', [{ id: 'a', costs: 5 }]), { message: 'docpriority: a document: there is no "costs", only id, cost, delay' }],
    'a delay before now': [() => store.submit('acme', 'd', { delay: -1 }), RangeError],
    'a delay of more than a year': [() => store.submitN('acme', [{ id: 'a', delay: 31_536_000_001 }]), { message: 'docpriority: a delay must be 0 to 31536000000 milliseconds, a year, not 31536000001' }],
    'a document without an id': [() => store.submitN('acme', [{ cost: 5 }]), TypeError],
    'a number for a document': [() => store.submitN('acme', ['a', 5]), { message: "docpriority: a document: an id, or an object such as { id: 'invoice-4711', cost: 12 }, is needed, not Number" }],
    'a number in a string': [() => store.nextN('acme', '3'), TypeError],
    'options for a time': [() => store.done('acme', 'd', {}), TypeError],
    'a promise of a tier': [() => new Store(client, { tiers: { gold: {} }, tierOf: async () => 'gold' }).next('acme'), TypeError],
  };
  for (const [name, [call, error]] of Object.entries(calls)) test(name, () => assert.rejects(call, error));
});

describe('a wrong option is refused', () => {
  const wrong = {
    'a brace in the prefix': [{ prefix: 'a{b' }, RangeError],
    'no time': [{ timeout: 0 }, RangeError],
    'time without end': [{ timeout: Infinity }, RangeError],
    'thresholds that are none': [{ policy: { thresholds: 'no' } }, TypeError],
    'a tier with more levels': [{ policy: { thresholds: [-1] }, tiers: { gold: {} }, tierOf: () => 'gold' }, RangeError],
    'tiers without a tierOf': [{ tiers: { gold: {} } }, TypeError],
    'overrides in words': [{ overrides: 'yes' }, TypeError],
    'an unknown name': [{ timeoutMs: 5 }, TypeError],
    'an unknown name in a policy': [{ policy: { interval: 5 } }, TypeError],
  };
  for (const [name, [options, error]] of Object.entries(wrong)) test(name, () => assert.throws(() => new Store(client, options), error));

  test('a client that is none', () => {
    const sentinel = createSentinel({ name: 'counts', sentinelRootNodes: [{ host: '127.0.0.1', port: 1 }] });
    for (const other of [undefined, null, {}, 'redis://127.0.0.1', new URL('redis://127.0.0.1'), sentinel, createClientPool()]) {
      assert.throws(() => new Store(other), /^TypeError: docpriority: a client or cluster of .* is needed, from createClient, createCluster, .* not \w+$/);
    }
  });
});

test('the tier is asked for once, and each tier has scripts of its own', async () => {
  let asked = 0;
  const store = new MemoryStore({ tiers: { gold: { resetInterval: 7 } }, tierOf: (customer) => ++asked && customer });
  assert.deepEqual([(await store.next('gold')).resetIn, (await store.next('acme')).resetIn, asked], [7, 1_500_000, 2]);
  assert.match(store.script('next', 'gold').text, /local interval = '7'/);
});

describe('a store in memory', () => {
  test('has a clock that a test moves', async () => {
    let now = 0;
    const store = new MemoryStore({ clock: () => now });
    await store.nextN('acme', 30);
    now += 1_500_000;
    assert.equal((await store.next('acme')).level, 9);
    now += 1_500_001;
    assert.equal((await store.next('acme')).level, 1);
    await store.submit('acme', 'a');
    now -= 2_500; // it stands still
    store.advance(1_000);
    store.advance(4_500);
    assert.deepEqual(await store.done('acme', 'a'), { document: 'a', latency: 3_000, level: 1 });
    assert.throws(() => store.advance(-1), RangeError);
  });

  test('has overrides, tiers, errors and options like a store on Redis', async () => {
    const store = new MemoryStore({ policy: { turns: 6 }, tiers: { gold: { thresholds: [-1] } }, tierOf: (customer) => customer, lease: 1_000 });
    assert.equal(store.last, 12);
    assert.deepEqual((await store.nextN('gold', 3)).map(({ level }) => level), [1, 1, 2]);
    store.setOverride('acme', { earliest: 7, endsIn: 60_000 });
    const { level, ruleLevel } = await store.submit('acme', 'a');
    assert.deepEqual([level, ruleLevel], [7, 1]);
    assert.deepEqual((await store.nextN('acme', 2)).map((decision) => [decision.level, decision.ruleLevel]), [[7, 1], [7, 1]]);
    const { bounds, overrideEndsIn } = await store.peek('acme');
    assert.deepEqual([bounds, overrideEndsIn <= 60_000], [{ earliest: 7, latest: 12 }, true]);
    await store.reset('acme');
    assert.equal((await store.peek('acme')).nextLevel, 7);
    store.setOverride('acme', undefined);
    assert.equal((await store.peek('acme')).nextLevel, 1);
    for (const wrong of [{ earliest: 0 }, { latest: 13 }, { earliest: 3, latest: 2 }, { endsIn: 0 }]) assert.throws(() => store.setOverride('acme', wrong), RangeError);
    assert.throws(() => store.setOverride('acme', { level: 1 }), TypeError);
    assert.throws(() => new MemoryStore({ clock: 5 }), TypeError);
    assert.throws(() => new MemoryStore({ interval: 5 }), TypeError);
    await assert.rejects(store.next(''), RangeError);
    await store.submit('acme', 'b');
    store.clear();
    assert.equal((await store.peek('acme')).rule, 'unknown');
    await store.close();
    await assert.rejects(store.submit('acme', 'a'), { name: 'NotCounted', message: 'docpriority: submit priority:{acme}:pending: the store is closed' });
  });

  test('keeps no more than its bound, and forgets who was counted longest ago', () => {
    const memory = new Memory({ clock: () => 0, maxSize: 10 });
    const submit = (name, ...ids) => memory.run('submit', name, ids.flatMap((id) => [Buffer.from(id), '0']), settings);
    for (let i = 0; i < 12; i++) memory.run('next', `quiet ${i}`, [], settings);
    assert.equal(memory.size, 10);
    assert.deepEqual([memory.run('peek', 'quiet 1', [], settings)[0], memory.run('peek', 'quiet 2', [], settings)[0]], [0, 1]);
    for (let i = 0; i < 30; i++) submit('flood', `d${i}`);
    assert.equal(memory.size, 10);
    assert.equal(memory.run('peek', 'flood', [], settings)[8], 9);
    submit('flood', ...Array.from({ length: 100 }, (_, i) => `e${i}`));
    const [, evicted, , kept] = memory.run('done', 'flood', ['0', '', Buffer.from('e90'), Buffer.from('e91')], settings);
    assert.deepEqual([evicted, kept > 0, memory.size], [0, true, 9]);
  });
});

test('customers leave the memory when their counts are over and their recent documents have faded', () => {
  let now = 0;
  const memory = new Memory({ clock: () => now });
  memory.run('submit', 'two documents', ['a', '0', 'b', '0'].map((arg) => Buffer.from(arg)), settings);
  memory.run('next', 'a count', [], settings);
  for (const [hours, size] of [[24, 5], [48, 3], [48.1, 1]]) {
    now = 3_600_000 * hours;
    memory.run('next', 'other', [], settings);
    assert.equal(memory.size, size, `after ${hours} hours`);
  }
});

describe('on a server', { skip: process.env.REDIS || process.env.CI ? false : 'REDIS names no server: go test ./clients/nodejs starts one' }, () => {
  const url = `redis://${process.env.REDIS}`;

  for (const [kind, make] of Object.entries(clients)) {
    test(`${kind}: a call means the same with all settings of the caller`, async (t) => {
      const store = new Store(make(url, oddSettings[kind]), { prefix: kind, timeout: 60_000 });
      t.after(() => store.close());
      const decisions = await store.nextN('größer}', 4);
      assert.deepEqual(decisions.map(({ level, count }) => [level, count]), [[1, 0], [1, -1], [1, -2], [2, -3]]);
      await store.submit('größer}', 'd');
      await store.submitN('größer}', [{ id: 'e', cost: 7 }, Buffer.from('f')]);
      const { resetIn, oldest, ...state } = await store.peek('größer}');
      assert.deepEqual(state, {
        rule: 'byLoad', level: 2, nextLevel: 2, count: -3, load: 16, recent: 3, cost: 1,
        pending: 3, pendingFlood: 0, scheduled: 0, accountLoad: 0, accountFlood: 0, latency: 0, lease: 86_400_000, degraded: false, ruleLevel: 2, bounds: undefined, overrideEndsIn: undefined,
      });
      assert.deepEqual((await store.doneN('größer}', ['d', 'none', 'f'])).map(({ document, level }) => [document, level]), [['d', 1], ['f', 2]]);
      assert.ok(Object.isFrozen(decisions[0]) && resetIn <= 1_500_000 && oldest >= 0);
      await store.reset('größer}');
    });
  }

  for (const [kind, make] of Object.entries(clients)) {
    test(`${kind}: a wrong password is reported at once`, async (t) => {
      const admin = clients['ioredis 6'](url);
      await admin.config('SET', 'requirepass', 'right');
      const store = new Store(make(`redis://:wrong@${process.env.REDIS}`), { timeout: 5_000 });
      t.after(async () => {
        await store.close();
        await admin.config('SET', 'requirepass', '');
        admin.disconnect();
      });
      await assert.rejects(store.next('acme'), (error) => /^docpriority: next priority:{acme}:count: (no answer came: )?WRONGPASS /.test(error.message));
      assert.equal(await admin.exists(String(store.keys('acme').count)), 0);
    });
  }
});
