// A Redis Cluster: CLUSTER names one of its masters, which has two others beside it.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { join, NotCounted, OutcomeUnknown, Store } from 'docpriority';
import { createClient } from 'redis';
import { clusters, newest } from './clients.mjs';

describe('a cluster', { skip: process.env.CLUSTER || process.env.CI ? false : 'CLUSTER names no server: go test ./clients/nodejs starts one' }, () => {
  const url = `redis://${process.env.CLUSTER}`;
  let masters; // [{ id, from, to, redis }]
  before(async () => {
    const first = await createClient({ url }).connect();
    const slots = await first.sendCommand(['CLUSTER', 'SLOTS']);
    await first.close();
    masters = await Promise.all(slots.map(async ([from, to, [host, port, id]]) => {
      return { from, to, id, redis: await createClient({ socket: { host, port } }).connect() };
    }));
  });
  after(() => Promise.all(masters.map(({ redis }) => redis.close())));

  const slotOf = (key) => masters[0].redis.sendCommand(['CLUSTER', 'KEYSLOT', String(key)]);
  const masterFor = async (key) => {
    const slot = await slotOf(key);
    return masters.find(({ from, to }) => from <= slot && slot <= to);
  };
  const customers = Array.from({ length: 60 }, (_, i) => `customer ${i}`);

  for (const [kind, make] of newest(clusters)) {
    describe(kind, () => {
      const withStore = (name, body) => test(name, async () => {
        const store = new Store(make([url]), { prefix: randomUUID(), timeout: 60_000, overrides: true });
        try {
          await body(store);
        } finally {
          await store.close();
        }
      });

      test('a member follows policies and reports, wherever these keys are', async () => {
        const prefix = randomUUID();
        const [control, fleet] = (await Promise.all(['{control}', '{fleet}'].map(masterFor))).map(({ redis }) => redis);
        await control.set(`${prefix}:{control}:policies`, '{"version":1,"changed":1,"policies":{"thresholds":[-7]}}');
        const member = join(make([url]), { prefix, timeout: 60_000 });
        const members = `${prefix}:{fleet}:members`;
        while (!(await fleet.exists(members))) await sleep(5);
        const [id] = await fleet.zRange(members, 0, -1);
        while (JSON.parse(await fleet.get(`${prefix}:{fleet}:${id}`)).following.version !== 1) await sleep(5);
        await member.close();
        assert.equal(await fleet.exists([members, `${prefix}:{fleet}:${id}`]), 0);
        await control.del(`${prefix}:{control}:policies`);
      });

      withStore('a slot that moves to another server, key by key, loses no count, override or document and repeats none', async (store) => {
        const { count, pending, override } = store.keys('acme');
        const slot = await slotOf(count);
        const from = await masterFor(count);
        const to = masters.find((master) => master !== from);
        const set = (master, ...args) => master.redis.sendCommand(['CLUSTER', 'SETSLOT', String(slot), ...args]);
        const move = (source, { redis: { options: { socket: { host, port } } } }, key) => source.redis.sendCommand(['MIGRATE', host, String(port), String(key), '0', '5000']);
        const numbers = [];
        const next = async () => {
          const { level, count } = await store.next('acme');
          numbers.push([level, count]);
        };
        await next();
        await set(to, 'IMPORTING', from.id);
        await set(from, 'MIGRATING', to.id);
        await next(); // there is no override: TRYAGAIN
        await move(from, to, count); // from here on the old server says ASK
        await next();
        assert.equal((await store.submit('acme', 'd')).level, 1);
        for (const master of [to, from]) await set(master, 'NODE', to.id); // and from here on MOVED
        await to.redis.set(String(override), '=3');
        await next();
        await set(from, 'IMPORTING', to.id);
        await set(to, 'MIGRATING', from.id);
        await move(to, from, count);
        await next(); // the override has not moved: TRYAGAIN
        await move(to, from, pending);
        const { level, ruleLevel, pending: documents } = await store.submit('acme', 'e');
        assert.deepEqual([level, ruleLevel, documents], [3, 1, 2]);
        await move(to, from, override);
        for (const master of [from, to]) await set(master, 'NODE', from.id);
        await next();
        assert.deepEqual(numbers, [[1, 0], [1, -1], [1, -2], [3, -3], [3, -4], [3, -5]]);
        await from.redis.del(String(override));
        await store.reset('acme');
      });

      test('a server that stands still is the trouble of its own customers', async () => {
        const still = masters[1];
        const store = new Store(make([url]), { prefix: randomUUID(), timeout: 1_500 });
        const areStill = await Promise.all(customers.map(async (customer) => (await masterFor(store.keys(customer).count)) === still));
        for (let i = 0; i < 20; i++) await Promise.allSettled(customers.map((customer) => store.next(customer))); // each server is connected
        await still.redis.sendCommand(['CLIENT', 'PAUSE', '4000']);
        const ended = await Promise.allSettled(customers.map((customer) => store.next(customer)));
        for (const [i, { status, reason }] of ended.entries()) {
          assert.equal(status, areStill[i] ? 'rejected' : 'fulfilled', `${customers[i]}: ${reason}`);
          if (areStill[i]) assert.ok(reason instanceof OutcomeUnknown || reason instanceof NotCounted, reason);
        }
        await store.close();
      });
    });
  }

  for (const [kind, make] of Object.entries(clusters)) {
    test(`${kind}: each server gets the password of the settings`, async () => {
      const every = (...args) => Promise.all(masters.map(({ redis }) => redis.sendCommand(args)));
      await every('CONFIG', 'SET', 'requirepass', 'sesame');
      const store = new Store(make([url], { password: 'sesame' }), { prefix: randomUUID(), timeout: 60_000 });
      try {
        for (const customer of customers) assert.equal((await store.next(customer)).level, 1);
      } finally {
        await store.close();
        await every('CONFIG', 'SET', 'requirepass', '');
      }
    });
  }
});
