// The store in memory against one on the Redis server that REDIS names, number by number: random
// calls, over days, by a clock that both read.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Store } from 'docpriority';
import { MemoryStore } from 'docpriority/testing';
import texts from '../src/lua.js';
import { clients } from './clients.mjs';

// The scripts read the clock in a key.
for (const name of ['submit', 'done', 'peek']) texts[name] = texts[name].replace(/(redis\.)?call\('TIME'\)/, "{0, redis.call('GET', 'clock') * 1000}");

const [second, hour] = [1_000, 3_600_000];
const customers = ['acme', 'acme/mary', 'acme/tom', 'acme/', 'acme/a/b', '/tom', 'glob%ex}/ümit', 'globex'];
const policies = [{}, { inOrder: true }, { loads: [2, 30], turns: 3, inOrder: true }, { loads: [1, 8, 64] }];

/** Returns a function that returns random numbers from 0 to below n: the same ones for the same seed (mulberry32). */
function randomOf(seed) {
  return (n) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor(((t ^ (t >>> 14)) >>> 0) / 2 ** 32 * n);
  };
}

describe('memory decides as Redis does', { skip: process.env.REDIS || process.env.CI ? false : 'REDIS names no server: go test ./clients/nodejs starts one' }, () => {
  const seeds = process.env.SEED ? [Number(process.env.SEED)] : Array.from({ length: 4 }, () => Math.floor(Math.random() * 2 ** 31));
  for (const [i, seed] of seeds.entries()) {
    const accounts = i % 2 > 0;
    test(`SEED=${seed}${accounts ? ', accounts' : ''}`, { timeout: 60_000 }, async (t) => {
      const admin = clients['ioredis 6'](`redis://${process.env.REDIS}`);
      const random = randomOf(seed);
      const pick = (all) => all[random(all.length)];
      let now = Date.now();
      const options = { prefix: `random${i}`, timeout: 30_000, accounts, policy: pick(policies), lease: pick([hour, 24 * hour]) };
      const redis = new Store(clients['ioredis 6'](`redis://${process.env.REDIS}`), { overrides: true, ...options });
      const memory = new MemoryStore({ clock: () => now, ...options });
      t.after(async () => {
        await admin.del('clock', ...(await admin.keys(`${options.prefix}:*`)));
        admin.disconnect();
        await redis.close();
      });

      const idOf = () => `${pick(['', ':', ':/4/mary'])}${random(pick([4, 400]))}`;
      const delayOf = () => pick([0, 0, 0, random(10 * second), 600 * second, random(40 * hour)]);
      const calls = {
        submit: () => {
          const [of, delay] = [pick([() => 0, () => delay, delayOf]), delayOf()];
          return ['submitN', Array.from({ length: 1 + random(pick([2, 100])) }, () => ({ id: idOf(), cost: pick([0, 1, random(1_000)]), delay: of() }))];
        },
        done: () => ['doneN', Array.from({ length: 1 + random(pick([3, 200])) }, idOf), pick([0, random(100 * second)])],
        peek: () => ['peek'],
        reset: () => ['reset'],
      };
      for (let step = 0; step < 250; step++) {
        now += pick([0, 0, 1, random(second), random(300 * second), random(pick([1, 1, 30]) * hour)]);
        await admin.set('clock', now);
        const customer = pick(customers);
        const [call, ...args] = calls[pick(['submit', 'submit', 'submit', 'done', 'peek', step % 50 ? 'peek' : 'reset'])]();
        if (random(100) === 0) {
          const earliest = 1 + random(3);
          await admin.set(redis.keys(customer).override, `>=${earliest}`);
          memory.setOverride(customer, { earliest });
        }
        const [got, want] = await Promise.all([memory, redis].map((store) => store[call](customer, ...args)));
        assert.deepEqual(got, want, `step ${step}: ${call} ${customer} ${JSON.stringify(args)}`);
      }
    });
  }
});
