// A member of a fleet, on the Redis server that REDIS names: what it follows and reports.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { join, keysOf, NotCounted } from 'docpriority';
import { createClient } from 'redis';
import { clients, oddSettings } from './clients.mjs';

const skip = process.env.REDIS || process.env.CI ? false : 'REDIS names no server: go test ./clients/nodejs starts one';
const url = `redis://${process.env.REDIS}`;

/** Waits until something is as wanted. */
async function until(what, holds) {
  for (const begun = performance.now(); !(await holds()); await sleep(5)) {
    if (performance.now() - begun > 60_000) throw new Error(`in a minute it did not come that ${what}`);
  }
}

describe('a member', { skip }, () => {
  let redis, prefix;
  before(async () => {
    redis = await createClient({ url }).connect();
  });
  after(() => redis.close());
  beforeEach(() => {
    prefix = `test-${randomUUID()}`;
  });

  /** Runs a test with a member of a fleet of its own, and removes what it has left. */
  const withMember = (name, options, body, make = clients['ioredis 6']) => test(name, async () => {
    const statuses = [];
    const member = join(make(url), { prefix, interval: 10, timeout: 60_000, onChange: (status) => statuses.push(status), ...options });
    try {
      await body(member, statuses);
    } finally {
      await member.close();
      const left = await redis.keys(`${prefix}:*`);
      assert.deepEqual(left.filter((key) => key.includes(':{fleet}:')), []);
      if (left.length > 0) await redis.del(left);
    }
  });

  const versionKey = () => `${prefix}:{control}:version`;
  const rulesKey = () => `${prefix}:{control}:rules`;

  /** Sets rules as lua/change.lua does. */
  async function set(version, rules, at = version) {
    const item = JSON.stringify({ version, at, until: 0, by: 'mary', why: 'a test', rules });
    await redis.multi().set(versionKey(), `${version} ${at} ${Math.floor(Math.random() * 1e9)}`).set(rulesKey(), item).exec();
  }
  const is = (member, version, error) => until(`version ${version} is followed, and ${error || 'nothing'} is wrong`, () => {
    return member.rules.version === version && member.rules.error === error;
  });
  /** Returns the only report of the fleet. */
  async function reported() {
    const keys = (await redis.keys(`${prefix}:{fleet}:*`)).filter((key) => !key.endsWith(':members'));
    assert.ok(keys.length < 2, `${keys}`);
    return keys.length === 1 ? JSON.parse(await redis.get(keys[0])) : undefined;
  }

  for (const [kind, make] of Object.entries(clients)) {
    withMember(`${kind}: rules are followed while they are there, and given up when they are withdrawn`, {}, async (member, statuses) => {
      assert.equal((await member.nextN('acme', 3)).at(-1).level, 1);
      const own = member.script('next').sha1;
      await set(3, { thresholds: [-1, -2], reset_interval_ms: 60_000, reset_mode: 'last-reset', loads: [1], turns: 2 });
      await is(member, 3, '');
      assert.equal((await member.next('acme')).level, 3);
      const { text } = member.script('submit');
      assert.match(text, /local queue_levels = 9\n/);
      assert.match(text, /local last, turns = 2, 2\n/);
      await set(4, null);
      await is(member, 4, '');
      assert.equal(member.script('next').sha1, own);
      assert.deepEqual(statuses, [{ version: 3, error: '' }, { version: 4, error: '' }]);
      await until('version 4 is reported', async () => (await reported())?.rules.version === 4);
      await redis.del((await redis.keys(`${prefix}:{fleet}:*`))); // as by a restart
      await set(5, {});
      await until('the member is there again', async () => (await reported())?.rules.version === 5);
      assert.equal(await redis.zCard(`${prefix}:{fleet}:members`), 1);
    }, (address) => make(address, oddSettings[kind]));
  }

  const tierOf = (customer) => customer.split('-')[0];
  withMember('tiers are followed by their names', { tiers: { gold: { thresholds: [-9] } }, tierOf }, async (member) => {
    const policy = { thresholds: [-5] };
    await set(1, { ...policy, tiers: { silver: { thresholds: [] }, bronze: policy } });
    await is(member, 1, '');
    assert.match(member.script('next', 'silver-1').text, /-- begin levels\nlocal level = 1\n-- end levels/);
    for (const other of ['bronze-1', 'gold-1', 'acme']) assert.deepEqual(member.script('next', other), member.script('next'));
  });

  withMember('rules that this queue has no levels for are not followed', { policy: { thresholds: [-1, -2], loads: [5, 6] } }, async (member, statuses) => {
    await set(1, { thresholds: [-7], loads: [7] });
    await is(member, 1, '');
    const before = member.script('next').sha1;
    await set(2, {});
    await is(member, 1, 'its queue has 3 levels, the rules 9');
    assert.equal(member.script('next').sha1, before);
    await set(3, { thresholds: [-7], loads: [7], turns: 1 });
    await is(member, 3, '');
    assert.equal(statuses.length, 3);
  });

  withMember('rules that cannot be used leave the others in force, with the reason', {}, async (member) => {
    await set(1, { thresholds: [-7] });
    await is(member, 1, '');
    const many = Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`tier ${i}`, { thresholds: [-i] }]));
    const wrong = [
      [{ thresholds: [1, 2] }, 'the rules in Redis cannot be read'],
      [{ thresholds: [-1], tiers: { gold: { thresholds: [-1, -2] } } }, 'tier "gold" has 3 levels, more than the 2 of the policy'],
      [{ tiers: many }, 'more than 100 different policies'],
      [{ tiers: { ['x'.repeat(500_000)]: { turns: 1 } } }, `tier "${'x'.repeat(80)}" has 10 levels, more than the 9 of the policy`],
      [{ ['x'.repeat(500_000)]: 5 }, 'the rules in Redis cannot be read'],
    ];
    for (const [i, [rules, error]] of wrong.entries()) {
      await set(i + 2, rules);
      await is(member, 1, error);
    }
    for (const [i, junk] of ['no JSON', '[]', 'null', '{"version":"1"}'].entries()) {
      await redis.multi().set(versionKey(), `${10 + 2 * i} 99 1`).set(rulesKey(), junk).exec();
      await is(member, 1, 'the rules in Redis cannot be read');
      await set(11 + 2 * i, { thresholds: [-7, -8], tiers: many });
      await is(member, 1, 'more than 100 different policies');
    }
    await redis.multi().set(versionKey(), '50 99 1').set(rulesKey(), '{"format":2}').exec();
    await is(member, 1, 'a later version of the library wrote the rules');
    await until('the reason is reported', async () => (await reported()).rules.error === member.rules.error);
    await redis.del(versionKey());
    await redis.hSet(versionKey(), 'a', 'b');
    await is(member, 1, 'the rules in Redis cannot be read');
    assert.match(member.script('next').text, /count < -7 /);
    await redis.del(versionKey());
    await set(100, {});
    await is(member, 100, '');
  });

  withMember('a Redis that lost its data changes nothing until an operator decides', {}, async (member) => {
    await set(10, { thresholds: [-7] }, 5_000);
    await is(member, 10, '');
    const before = member.script('next').sha1;
    await redis.del([versionKey(), rulesKey()]);
    await is(member, 10, 'Redis lost data: rules of version 10 were known, none are there');
    await set(9, { thresholds: [-8] }, 4_000); // from an old replica
    await is(member, 10, 'Redis lost data: rules of version 10 were known, 9 is there');
    await redis.set(rulesKey(), '{"version":10,"at":5000,"until":0,"by":"mary","why":"a test","rules":{"thresholds":[-7]}}');
    await redis.set(versionKey(), '1 4500 1'); // of the version alone
    await is(member, 10, 'Redis lost data: version 10 was known, 1 is there');
    await redis.del(rulesKey());
    await redis.set(versionKey(), '1 6000 7'); // an override was set meanwhile
    await is(member, 10, 'Redis lost data: rules of version 10 were known, none are there');
    assert.equal(member.script('next').sha1, before);
    await set(2, { thresholds: [-9] }, 7_000); // an import
    await is(member, 2, '');
    assert.notEqual(member.script('next').sha1, before);
    await set(3, null, 8_000);
    await is(member, 3, '');
  });

  test('overrides that were lost are noticed where there were never any rules', async () => {
    await redis.set(versionKey(), '7 1000 5');
    const member = join(clients['node-redis 6'](url), { prefix, interval: 10 });
    await until('there is a report, and so the version is known', reported);
    await redis.del(versionKey());
    await is(member, 0, 'Redis lost data: version 7 was known, 0 is there');
    await until('it is reported at once', async () => (await reported()).rules.error !== '');
    await member.close();
  });

  withMember('a report says what callers were told', { name: 'worker 4' }, async (member) => {
    await redis.set(keysOf('umbrella', prefix).override, '=2');
    await member.nextN('acme', 4);
    await member.next(Buffer.from([0xff]));
    await member.submit('umbrella', 'a');
    await member.submitN('umbrella', ['b', 'c']);
    await member.done('umbrella', 'a');
    await member.doneN('umbrella', ['a', 'b']);
    await assert.rejects(member.next(''), RangeError);
    await redis.set(keysOf('corrupt', prefix).count, 'something');
    await assert.rejects(member.nextN('corrupt', 3));
    await set(1, { thresholds: [-7] });
    await until('the report has all of it', async () => (await reported())?.rules.version === 1); // and at once
    const { id, host, version, up_ms: up, window_ms: window, waits, ...report } = await reported();
    assert.deepEqual(report, {
      format: 1, name: 'worker 4', language: 'nodejs', pid: process.pid, levels: 9, overrides: true, degraded: false,
      rules: { version: 1, error: '' }, by_count: { 1: 4, 2: 1 }, by_load: { 2: 3 }, overridden: 3, fallback: 0,
      errors: { invalid: 1, corrupt_count: 3 },
      busiest: [
        { customer: 'acme', documents: 4, rule: 'count', level: 2, count: -3 },
        { customer: 'umbrella', documents: 3, rule: 'load', level: 2, load: 9 },
        { customer_base64: '/w==', documents: 1, rule: 'count', level: 1, count: 0 },
      ],
    });
    await member.reset(Buffer.from([0xff])); // redis.keys would not give it back
    assert.deepEqual(Object.values(waits[2]).reduce((a, b) => a + b), 2);
    assert.ok(host && version && up >= window && window >= 0);
    assert.equal(await redis.zScore(`${prefix}:{fleet}:members`, id) > Date.now() - 86_400_000, true);
    const ttl = await redis.pTTL(`${prefix}:{fleet}:${id}`);
    assert.ok(ttl > 0 && ttl <= 30_000, ttl);
  });

  withMember('other rules are reported at once, however often', {}, async (member) => {
    const warnings = [];
    const warned = (warning) => warnings.push(warning.name);
    process.on('warning', warned);
    for (let version = 1; version <= 15; version++) {
      await set(version, { thresholds: [-version] });
      await until(`version ${version} is reported`, async () => (await reported())?.rules.version === version);
    }
    process.off('warning', warned);
    assert.deepEqual(warnings, []);
  });

  withMember('overrides may be left to others', { overrides: false }, async (member) => {
    await redis.set(keysOf('acme', prefix).override, '=5');
    assert.equal((await member.next('acme')).level, 1);
    await until('there is a report', reported);
    assert.equal((await reported()).overrides, false);
  });

  test('close removes the report, takes no more calls, and may come first or twice', async () => {
    const member = join(clients['ioredis 6'](url), { prefix });
    await until('there is a report', reported);
    const last = member.next('acme');
    await Promise.all([member.close(), member.close()]);
    assert.equal((await last).level, 1);
    assert.deepEqual(await redis.keys(`${prefix}:{fleet}:*`), []);
    await assert.rejects(member.next('acme'), NotCounted);
    await member.close();
    await join(clients['ioredis 6'](url), { prefix }).close();
    assert.deepEqual(await redis.keys(`${prefix}:{fleet}:*`), []);
    await redis.del(keysOf('acme', prefix).count);
  });

  test('close leaves no report, whatever is under way in the background', async () => {
    for (let i = 0; i < 100; i++) {
      const member = join(clients['node-redis 5'](url), { prefix, interval: 10, timeout: 10_000 });
      await member.next('acme');
      await sleep(i / 5);
      await member.close();
      assert.deepEqual(await redis.keys(`${prefix}:{fleet}:*`), [], `time ${i}`);
    }
    await redis.del(keysOf('acme', prefix).count);
  });

  for (const [kind, onChange] of [['throws', '() => { throw new Error("my mistake"); }'], ['rejects with', 'async () => { throw new Error("my mistake"); }']]) test(`what a callback ${kind} is a warning`, async () => {
    const program = `
      import { join } from 'docpriority';
      import { Redis } from 'ioredis';
      const member = join(new Redis('redis://127.0.0.1:1', { lazyConnect: true }), { interval: 10, onChange: ${onChange} });
      while (!member.rules.error) await new Promise((resolve) => setTimeout(resolve, 10));
      console.log(member.rules.error, member.report().rules.version);
      await member.close();`;
    const cwd = fileURLToPath(new URL('..', import.meta.url));
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], { cwd, timeout: 60_000 });
    assert.equal(stdout, 'Redis does not answer 0\n');
    assert.match(stderr, /my mistake/);
  });
});
