// A Redis Cluster: CLUSTER names one of its masters, which has two others beside it.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { join, NotCounted, OutcomeUnknown, Store } from 'docpriority';
import { createClient } from 'redis';
import { askIoredisCluster, isIoredisCluster } from '../src/ioredis.js';
import { askNodeRedisCluster } from '../src/node-redis.js';
import { slotOf } from '../src/slot.js';
import { clients, clusters } from './clients.mjs';
import { Server } from './server.mjs';

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

  const masterOf = (slot) => masters.find(({ from, to }) => from <= slot && slot <= to);
  const customers = Array.from({ length: 60 }, (_, i) => `customer ${i}`);

  for (const [kind, make] of Object.entries(clusters)) {
    describe(kind, () => {
      const withStore = (name, body) => test(name, async () => {
        const store = new Store(make([url]), { prefix: randomUUID(), timeout: 60_000 });
        try {
          await body(store);
        } finally {
          await store.close();
        }
      });
      const slotFor = (store, customer) => slotOf(store.keys(customer).count);

      withStore('each customer has a count on the server of their slot', async (store) => {
        for (const count of [0, -1]) {
          const decisions = await Promise.all(customers.map((customer) => store.next(customer)));
          assert.deepEqual(new Set(decisions.map((decision) => decision.count)), new Set([count]));
        }
        for (const customer of customers) {
          assert.equal((await store.submit(customer, 'd')).pending, 1);
          await store.done(customer, 'd', 5);
          const slot = slotFor(store, customer);
          const { redis } = masterOf(slot);
          const key = store.keys(customer).count.toString();
          assert.equal(await redis.sendCommand(['CLUSTER', 'KEYSLOT', key]), slot);
          assert.equal(await redis.get(key), '-1');
          await store.reset(customer);
        }
      });

      test('a member follows rules and reports, wherever these keys are', async () => {
        const prefix = randomUUID();
        const [control, fleet] = ['control', 'fleet'].map((tag) => masterOf(slotOf(Buffer.from(`{${tag}}`))).redis);
        await control.set(`${prefix}:{control}:rules`, '{"version":1,"at":1,"rules":{"thresholds":[-7]}}');
        await control.set(`${prefix}:{control}:version`, '1 1 1');
        const member = join(make([url]), { prefix, timeout: 60_000 });
        const members = `${prefix}:{fleet}:members`;
        while (member.rules.version !== 1 || !(await fleet.exists(members))) await sleep(5);
        const [id] = await fleet.zRange(members, 0, -1);
        assert.equal(JSON.parse(await fleet.get(`${prefix}:{fleet}:${id}`)).rules.version, 1);
        await member.close();
        assert.equal(await fleet.exists([members, `${prefix}:{fleet}:${id}`]), 0);
        await control.del([`${prefix}:{control}:rules`, `${prefix}:{control}:version`]);
      });

      withStore('a slot that moves to another server loses no count and repeats none', async (store) => {
        const { count } = store.keys('acme');
        const slot = slotOf(count);
        const from = masterOf(slot);
        const to = masters.find((master) => master !== from);
        const { host, port } = to.redis.options.socket;
        const set = (master, ...args) => master.redis.sendCommand(['CLUSTER', 'SETSLOT', String(slot), ...args]);
        const move = (source, target, { host, port }) => source.redis.sendCommand(['MIGRATE', host, String(port), count.toString(), '0', '5000']);
        const given = [];
        const next = async () => given.push((await store.next('acme')).count);
        await next();
        await set(to, 'IMPORTING', from.id);
        await set(from, 'MIGRATING', to.id);
        await next();
        await move(from, to, { host, port }); // now the one server says ASK
        await next();
        await next();
        for (const master of [to, from]) await set(master, 'NODE', to.id); // and now MOVED
        await next();
        await next();
        await set(from, 'IMPORTING', to.id);
        await set(to, 'MIGRATING', from.id);
        await move(to, from, from.redis.options.socket);
        await next();
        for (const master of [from, to]) await set(master, 'NODE', from.id);
        await next();
        assert.deepEqual(given, [0, -1, -2, -3, -4, -5, -6, -7]);
        await store.reset('acme');
      });

      test('each server gets the password of the settings', async () => {
        const every = (...args) => Promise.all(masters.map(({ redis }) => redis.sendCommand(args)));
        await every('CONFIG', 'SET', 'requirepass', 'sesame');
        try {
          const settings = { password: 'sesame', ...(kind.startsWith('ioredis') && { commandTimeout: 1 }) };
          const store = new Store(make([url], settings), { prefix: randomUUID(), timeout: 60_000 });
          for (const customer of customers) assert.equal((await store.next(customer)).level, 1);
          await store.close();
        } finally {
          await every('CONFIG', 'SET', 'requirepass', '');
        }
      });

      test('masters that are known are asked without the servers of the caller, and not all of them', async () => {
        const ask = isIoredisCluster(make([url])) ? askIoredisCluster : askNodeRedisCluster;
        const made = async () => {
          const each = await Promise.all(masters.map(({ redis }) => redis.info('stats')));
          return each.reduce((sum, text) => sum + Number(/total_connections_received:(\d+)/.exec(text)[1]), 0);
        };
        const first = await ask(make([url]), new Map());
        const before = await made();
        const again = await ask(make(['redis://127.0.0.1:1']), first.masters);
        assert.deepEqual([...again.masters.keys()], [...first.masters.keys()]);
        assert.deepEqual(again.addressOf, first.addressOf);
        assert.ok((await made()) - before < masters.length, `${(await made()) - before} connections`);
      });

      test('a server that stands still is the trouble of its own customers', async () => {
        const still = masters[1];
        const store = new Store(make([url]), { prefix: randomUUID(), timeout: 1_500 });
        const patient = new Store(make([url]), { prefix: randomUUID(), timeout: 60_000 });
        await Promise.all(customers.map((customer) => patient.next(customer))); // the cluster is known, and each server connected
        await Promise.all(customers.map((customer) => store.reset(customer)));
        await still.redis.sendCommand(['CLIENT', 'PAUSE', '4000']);
        const ended = await Promise.allSettled(customers.map((customer) => store.next(customer)));
        for (const [i, { status, reason }] of ended.entries()) {
          const its = masterOf(slotFor(store, customers[i])) === still;
          assert.equal(status, its ? 'rejected' : 'fulfilled', `${customers[i]}: ${reason}`);
          if (its) assert.ok(reason instanceof OutcomeUnknown || reason instanceof NotCounted, reason);
        }
        await Promise.all(customers.map((customer) => patient.next(customer)));
        await Promise.all([store.close(), patient.close()]);
      });
    });
  }

  test('without a server that answers nothing is counted, and the reason is told', async () => {
    for (const make of Object.values(clusters)) {
      const store = new Store(make(['redis://127.0.0.1:1']), { timeout: 1_000 });
      await assert.rejects(store.next('acme'), (error) => error instanceof NotCounted && /no connection in time: (connect ECONNREFUSED|no startup node)/.test(error.message));
      await store.close();
    }
  });
});

for (const [kind, make] of Object.entries(clusters)) {
  const ask = isIoredisCluster(make([])) ? askIoredisCluster : askNodeRedisCluster;
  const asks = {
    'that is known': (still) => ask(make(['redis://127.0.0.1:1']), new Map([[`127.0.0.1:${still.port}`, clients[kind](still.url)]])),
    'that the caller has named': (still) => ask(make([still.url]), new Map()),
  };
  for (const [which, asking] of Object.entries(asks)) {
    test(`a server ${which} keeps no connection when it stands still as ${kind} asks it`, async () => {
      const still = await Server.start(() => {}, { greets: false });
      await assert.rejects(asking(still));
      await still.until(() => still.open.size === 0);
      await still.close();
    });
  }
}
