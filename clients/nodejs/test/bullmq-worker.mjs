// A worker of bullmq.test.mjs, in a process of its own, which is killed.

import { Worker } from 'bullmq';
import { join } from 'docpriority';
import { doneAfter, doneAtEnd } from 'docpriority/bullmq';
import { Redis } from 'ioredis';

const [address, name] = process.argv.slice(2);
const connection = new Redis(`redis://${address}`, { maxRetriesPerRequest: null });
const store = join(connection, { timeout: 60_000 });

const processor = async ({ data: { fails, hangs }, attemptsMade }) => {
  process.stdout.write('begun\n');
  if (hangs) await new Promise(() => {});
  await new Promise((resolve) => setTimeout(resolve, 20 * Math.random()));
  if (attemptsMade < fails) throw new Error('not yet');
};
const worker = new Worker(name, doneAfter(store, processor), { connection, concurrency: 4, lockDuration: 1_000, stalledInterval: 300, maxStalledCount: 1 });
worker.on('failed', doneAtEnd(store));
