// The store in memory: by the vectors, and against a Redis server that REDIS names.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { NotCounted, Store } from 'docpriority';
import { MemoryStore } from 'docpriority/testing';
import { loadOf, Memory, turnOf } from '../src/memory.js';
import { Policies } from '../src/policies.js';
import { clients } from './clients.mjs';

const vectors = (file) => JSON.parse(readFileSync(new URL(`../../../vectors/${file}`, import.meta.url), 'utf8'));
const resetModes = { since_last_update: 'sinceLastUpdate', since_last_reset: 'sinceLastReset' };
const rules = { unknown: 0, by_count: 1, by_load: 2 };

// Cases without what only other programs leave in Redis.
const overrides = vectors('edges.json').cases.filter(({ steps }) => steps.every(({ do: what, key }) => what !== 'set' || key === 'override'));
const cases = [...vectors('rule.json').cases, ...vectors('submit.json').cases, ...overrides];

test('the vectors are there', () => assert.ok(overrides.length > 10 && cases.length > 60, `${overrides.length} of ${cases.length}`));

for (const { name, policy, lease_ms: caseLease = 86_400_000, steps } of cases) {
  test(name, () => {
    let now = 0;
    const memory = new Memory({ clock: () => now });
    const { thresholds, reset_interval_ms: resetInterval, reset_mode: mode, loads, turns } = policy;
    for (const { at_ms: at, do: what, customer, n, documents = [], costs = [], cost = 0, lease_ms: lease = caseLease, value, ttl_ms: lasts, want, state } of steps) {
      now = 1e12 + at;
      const settings = new Policies({ policy: { thresholds, resetInterval, resetMode: resetModes[mode], loads, turns }, tiers: {} }, lease).of();
      const ids = documents.map((document) => Buffer.from(document));
      const run = (...args) => memory.run(what, customer, args, settings);
      if (what === 'set') memory.override(customer, boundsOf(value), lasts);
      if (what === 'reset') run();
      if (what === 'next') {
        const [level, count, resetIn, ruled] = run(n);
        assert.deepEqual({ level, count, reset_in_ms: resetIn, ruled }, { ruled: undefined, ...want.at(-1) });
      }
      if (what === 'submit') {
        const reply = run(...ids.flatMap((id, i) => [id, String(costs[i] ?? 0)]));
        const got = want.map((_, i) => reply.slice(4 * i, 4 * i + 4));
        assert.deepEqual(got, want.map(({ level, load, pending, ruled = 0 }) => [level, load, pending, ruled]));
      }
      if (what === 'done') assert.deepEqual(run(String(cost), ...ids), want.flatMap(({ level, sojourn_ms: sojourn }) => [sojourn, level]));
      if (what === 'peek') {
        const { rule, ruled = 0, earliest = 0, latest = 0, override_ends_in_ms: endsIn = ruled ? -1 : 0, ...rest } = state;
        assert.deepEqual(run(), [rules[rule], ...Object.values(rest), ruled, earliest, latest, endsIn]);
      }
    }
  });
}

function boundsOf(text) {
  const [, how, level] = /^([<>]?=)([1-9]\d?\d?)$/.exec(text) ?? [];
  return how && { earliest: how === '<=' ? 1 : Number(level), latest: how === '>=' ? undefined : Number(level) };
}

test('loads and turns are as in the vectors', () => {
  const { loads, turns } = vectors('load.json');
  for (const [lately, pending, cost, load] of loads) assert.equal(loadOf(Math.min(lately, 512_000), pending, cost), load);
  for (const [beyond, most, turn] of turns) assert.equal(turnOf(beyond, most), turn);
});

describe('a store in memory', () => {
  test('has a clock that a test moves', async () => {
    let now = 0;
    await disposing(new MemoryStore({ clock: () => now }), async (store) => {
      await store.nextN('acme', 30);
      now += 1_500_000;
      assert.equal((await store.next('acme')).level, 9);
      now += 1_500_001;
      assert.equal((await store.next('acme')).level, 1);
      await store.submit('acme', 'a');
      now += 2_500;
      now -= 5_000; // back: it stands still
      store.advance(1_000);
      store.advance(4_500);
      assert.deepEqual(await store.done('acme', 'a'), { document: 'a', sojourn: 3_000, level: 1 });
      assert.throws(() => store.advance(-1), RangeError);
    });
  });

  test('has overrides, tiers, errors and options like a store on Redis', async () => {
    const store = new MemoryStore({ policy: { turns: 3 }, tiers: { gold: { thresholds: [-1] } }, tierOf: (customer) => customer, lease: 1_000 });
    assert.equal(store.last, 12);
    assert.deepEqual((await store.nextN('gold', 3)).map(({ level }) => level), [1, 1, 2]);
    store.setOverride('acme', { earliest: 7, endsIn: 60_000 });
    const { level, ruled } = await store.submit('acme', 'a');
    assert.deepEqual([level, ruled], [7, 1]);
    assert.deepEqual((await store.nextN('acme', 2)).map((decision) => [decision.level, decision.ruled]), [[7, 1], [7, 1]]);
    const { override } = await store.peek('acme');
    assert.deepEqual([override.earliest, override.latest, override.endsIn <= 60_000], [7, 12, true]);
    await store.reset('acme');
    assert.equal((await store.peek('acme')).nextLevel, 7);
    store.setOverride('acme', undefined);
    assert.equal((await store.peek('acme')).nextLevel, 1);
    for (const wrong of [{ earliest: 0 }, { latest: 13 }, { earliest: 3, latest: 2 }, { endsIn: 0 }]) assert.throws(() => store.setOverride('acme', wrong), RangeError);
    assert.throws(() => store.setOverride('acme', { level: 1 }), TypeError);
    assert.throws(() => new MemoryStore({ clock: 5 }), TypeError);
    assert.throws(() => new MemoryStore({ interval: 5 }), TypeError);
    await assert.rejects(store.next(''), RangeError);
    await assert.rejects(store.next('acme', { signal: AbortSignal.abort() }), NotCounted);
    await store.submit('acme', 'b');
    store.clear();
    assert.equal((await store.peek('acme')).rule, 'unknown');
    await store.close();
    await assert.rejects(store.submit('acme', 'a'), { name: 'NotCounted', message: 'docpriority: submit priority:{acme}:pending: the store is closed' });
  });

  test('keeps no more than its bound, and forgets who was counted longest ago', () => {
    const memory = new Memory({ clock: () => 0, most: 10 });
    const settings = new Policies({ policy: {}, tiers: {} }, 86_400_000).of();
    const submit = (name, ...ids) => memory.run('submit', name, ids.flatMap((id) => [Buffer.from(id), '0']), settings);
    for (let i = 0; i < 12; i++) memory.run('next', `quiet ${i}`, [], settings);
    assert.equal(memory.size, 10);
    assert.deepEqual([memory.run('peek', 'quiet 1', [], settings)[0], memory.run('peek', 'quiet 2', [], settings)[0]], [0, 1]);
    for (let i = 0; i < 30; i++) submit('flood', `d${i}`);
    assert.equal(memory.size, 10);
    assert.equal(memory.run('peek', 'flood', [], settings)[8], 9);
    submit('flood', ...Array.from({ length: 100 }, (_, i) => `e${i}`));
    const [, before, , after] = memory.run('done', 'flood', ['0', Buffer.from('e90'), Buffer.from('e91')], settings);
    assert.deepEqual([before, after > 0, memory.size], [0, true, 9]);
  });

  test('forgets what is over even of customers who do not come again', () => {
    let now = 0;
    const memory = new Memory({ clock: () => now });
    const settings = new Policies({ policy: {}, tiers: {} }, 86_400_000).of();
    for (let i = 0; i < 100; i++) {
      memory.run('next', `counted ${i}`, [], settings);
      memory.run('submit', `submitted ${i}`, [Buffer.from('d'), '0'], settings);
    }
    assert.equal(memory.size, 300);
    now = 86_400_001;
    for (let i = 0; i < 300; i++) memory.run('next', 'acme', [], settings);
    assert.equal(memory.size, 1);
  });
});

async function disposing(store, use) {
  await use(store);
  await store[Symbol.asyncDispose]();
  await assert.rejects(store.next('acme'), NotCounted);
}

describe('on a server', { skip: process.env.REDIS || process.env.CI ? false : 'REDIS names no server: go test ./clients/nodejs starts one' }, () => {
  const random = (n) => Math.floor(Math.random() * n);
  for (const [what, policy] of Object.entries({
    'the default policy': {},
    'turns, and small tables': { thresholds: [-1, -3, -9], loads: [2, 20], turns: 4, resetMode: 'sinceLastReset' },
    'one level': { thresholds: [], loads: [] },
  })) {
    test(`random calls are decided about as Redis does: ${what}`, async (t) => {
      const prefix = `random-${what.replace(/\W/g, '-')}`;
      const client = clients['ioredis 6'](`redis://${process.env.REDIS}`);
      const redis = new Store(client, { prefix, policy, overrides: true, timeout: 60_000 });
      const memory = new MemoryStore({ policy });
      t.after(async () => {
        for (const customer of ['c0', 'c1', 'c2']) await redis.reset(customer);
        await redis.close();
        client.disconnect();
      });
      const document = () => `d${random(40)}`;
      const documents = () => Array.from({ length: 1 + random(8) }, document);
      const calls = [];
      for (let i = 0; i < 1_500; i++) {
        const customer = `c${random(3)}`;
        const several = documents();
        const took = random(3) * 100;
        const choice = [
          ['next', customer], ['nextN', customer, 1 + random(5)],
          ['submit', customer, document(), { cost: random(5) }], ['submit', customer, document()],
          ['submitN', customer, several, { costs: several.map(() => random(300)) }],
          ['done', customer, document(), took], ['doneN', customer, documents(), took], ['done', customer, document()],
          ['peek', customer], ...(random(20) === 0 ? [['reset', customer]] : []),
        ];
        const [name, ...args] = choice[random(choice.length)];
        calls.push(`${name}(${JSON.stringify(args)})`);
        const [a, b] = [seen(await redis[name](...args)), seen(await memory[name](...args))];
        const last = `after ${calls.slice(-30).join('\n')}`;
        assert.deepEqual(b.exact, a.exact, last);
        for (const [k, load] of a.loads.entries()) assert.ok(Math.abs(b.loads[k] - load) <= load / 500, `${b.loads[k]}, not ${load}: ${last}`);
      }
    });
  }
});

// What does not depend on how fast a store is, and the loads, which fade. Which document of a
// millisecond is a peek's newest depends on it too.
function seen(answer) {
  const all = [answer ?? []].flat();
  return {
    exact: all.map(({ load, lately, resetIn, oldest, sojourn, lease, level, ...exact }) => ({ ...exact, level: exact.rule === 'byLoad' ? level > 0 : level })),
    loads: all.map(({ load }) => load).filter((load) => load !== undefined),
  };
}
