// A Redis Cluster: CLUSTER names one of its masters, which has two others beside it.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { Store } from 'docpriority';
import { createClient } from 'redis';
import { clusters } from './clients.mjs';

describe('a cluster', { skip: process.env.CLUSTER || process.env.CI ? false : 'CLUSTER names no server: go test ./clients/nodejs starts one' }, () => {
  const url = `redis://${process.env.CLUSTER}`;
  let masters;
  before(async () => {
    const first = await createClient({ url }).connect();
    const slots = await first.sendCommand(['CLUSTER', 'SLOTS']);
    await first.close();
    masters = await Promise.all(slots.map(([, , [host, port]]) => createClient({ socket: { host, port } }).connect()));
  });
  after(() => Promise.all(masters.map((master) => master.close())));

  for (const [kind, make] of Object.entries(clusters)) {
    test(`${kind}: each server gets the password of the settings`, async () => {
      const every = (...args) => Promise.all(masters.map((master) => master.sendCommand(args)));
      await every('CONFIG', 'SET', 'requirepass', 'sesame');
      const store = new Store(make([url], { password: 'sesame' }), { prefix: randomUUID(), timeout: 60_000 });
      try {
        for (let i = 0; i < 60; i++) assert.equal((await store.next(`customer ${i}`)).level, 1);
      } finally {
        await store.close();
        await every('CONFIG', 'SET', 'requirepass', '');
      }
    });
  }
});
