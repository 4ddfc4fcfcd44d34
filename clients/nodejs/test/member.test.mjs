// A member of a fleet, on the Redis server that REDIS names: what it follows and reports.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect, isDeepStrictEqual } from 'node:util';
import { join, NotCounted } from 'docpriority';
import { createClient } from 'redis';
import { clients, newest, oddSettings } from './clients.mjs';

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

  /** Runs a test with a member of a separate fleet, and removes what it has left. */
  const withMember = (name, options, body, make = clients['ioredis 6']) => test(name, async () => {
    const member = join(make(url), { prefix, timeout: 60_000, ...options });
    try {
      await body(member);
    } finally {
      await member.close();
      const left = await redis.keys(`${prefix}:*`);
      assert.deepEqual(left.filter((key) => key.includes(':{fleet}:') && !/:(emptied|history:\d+)$/.test(key)), []);
      if (left.length > 0) await redis.del(left);
    }
  });

  /** Does what lua/policies.lua does. */
  const setPolicies = (version, policies) => redis.set(`${prefix}:{control}:policies`, JSON.stringify({ version, changed: version, by: 'mary', why: 'a test', policies }));
  /** Returns the only report of the fleet. */
  async function readReport() {
    const keys = (await redis.keys(`${prefix}:{fleet}:*`)).filter((key) => !/:(members|emptied|history:\d+)$/.test(key));
    assert.ok(keys.length < 2, `${keys}`);
    return keys.length === 1 ? JSON.parse(await redis.get(keys[0])) : undefined;
  }
  /** Waits for a report that the version is followed, and why not a newer one. */
  const follows = (version, why = {}, own = false) => {
    const following = { version, own, ...why };
    return until(`the report has ${inspect(following)}`, async () => isDeepStrictEqual((await readReport())?.following, following));
  };

  for (const [kind, make] of newest(clients)) {
    withMember(`${kind}: policies are followed while they are there, and given up when they are withdrawn`, {}, async (member) => {
      assert.equal((await member.nextN('acme', 3)).at(-1).level, 1);
      const own = member.script('next').sha1;
      await setPolicies(3, { thresholds: [-1, -2], reset_interval_ms: 60_000, reset_mode: 'last-reset', loads: [1], turns: 2 });
      await follows(3);
      assert.equal((await member.next('acme')).level, 3);
      assert.match(member.script('submit').text, /local queue_levels = 9\n[^]*elseif pending_flood >= 64 then level = 3\n/);
      await setPolicies(4, { thresholds: [-1, -2, -3, -4, -5, -6, -7, -8, -9] });
      await follows(3, { code: 'invalid', detail: 'its queue has 9 levels, the policies 10' });
      await redis.del(`${prefix}:{fleet}:${(await readReport()).id}`); // and not what lists it
      await setPolicies(5, null);
      await follows(5, {}, true);
      assert.equal(member.script('next').sha1, own);
      await redis.set(`${prefix}:{control}:policies`, 'junk');
      await follows(5, { code: 'corrupt' }, true);
      assert.equal(await redis.get(`${prefix}:{fleet}:emptied`), null);
      await redis.del((await redis.keys(`${prefix}:*`))); // as by a restart
      await follows(5, { code: 'lost', detail: 'version 5 was known, none is there' }, true);
      assert.equal(await redis.zCard(`${prefix}:{fleet}:members`), 1);
      await setPolicies(6, {});
      await follows(6);
      assert.ok(Number(await redis.get(`${prefix}:{fleet}:emptied`)) > 0);
    }, (address) => make(address, oddSettings[kind]));
  }

  test('what keeps a member from reading the policies has a code', async (t) => {
    const key = `${prefix}:{control}:policies`;
    const allow = (...rights) => redis.sendCommand(['ACL', 'SETUSER', 'limited', 'on', '>secret', '+@all', ...rights]);
    await allow(`~${prefix}:{fleet}:*`);
    const member = join(clients['ioredis 6'](`redis://limited:secret@${process.env.REDIS}`), { prefix });
    t.after(async () => {
      await member.close();
      await redis.sendCommand(['ACL', 'DELUSER', 'limited']);
      await redis.del([key, `${prefix}:{fleet}:emptied`]);
    });
    await follows(0, { code: 'refused', detail: 'NOPERM' }, true);
    await allow('~*');
    await setPolicies(1, {});
    await follows(1);
  });

  test('close removes the report, takes no more calls, and may come first or twice', async () => {
    const member = join(clients['ioredis 6'](url), { prefix });
    await until('there is a report', readReport);
    const last = member.next('acme');
    await Promise.all([member.close(), member.close()]);
    assert.equal((await last).level, 1);
    assert.equal(await readReport(), undefined);
    await assert.rejects(member.next('acme'), NotCounted);
    await member.close();
    await join(clients['ioredis 6'](url), { prefix }).close();
    assert.equal(await readReport(), undefined);
    assert.equal(await redis.exists(`${prefix}:{fleet}:members`), 0);
    await redis.del(await redis.keys(`${prefix}:*`));
  });
});
