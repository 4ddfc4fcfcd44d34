// ioredis with sentinels, of which the first takes connections and says nothing.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Redis } from 'ioredis';
import Redis5 from 'ioredis5';
import { Store } from 'docpriority';
import { integers, Server } from './server.mjs';

for (const [kind, Client] of Object.entries({ 'ioredis 6': Redis, 'ioredis 5': Redis5 })) {
  test(`${kind} asks the next sentinel, and close leaves no connection`, async () => {
    const master = await Server.start(() => integers(1, 0));
    const hung = await Server.start(undefined, { greets: false });
    const where = `*2\r\n$9\r\n127.0.0.1\r\n$${String(master.port).length}\r\n${master.port}\r\n`;
    const sentinel = await Server.start(undefined, { greets: (name) => (name === 'SENTINEL' ? where : true) });
    const sentinels = [hung, sentinel].map(({ port }) => ({ host: '127.0.0.1', port }));
    const store = new Store(new Client({ name: 'counts', sentinels, updateSentinels: false, lazyConnect: true }), { timeout: 60_000 });
    assert.equal((await store.next('acme')).level, 1);
    assert.ok(hung.connections > 0);
    await store.close();
    for (const server of [master, hung, sentinel]) await server.until(() => server.open.size === 0);
    await Promise.all([master.close(), hung.close(), sentinel.close()]);
  });
}
