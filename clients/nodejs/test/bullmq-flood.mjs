// A flood on BullMQ, set as README.md says, for BenchmarkFlood. It adds the jobs that its input
// lists, works on four at once, and prints when each was added and begun.

import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Queue, Worker } from 'bullmq';
import { join } from 'docpriority';
import { doneAfter, doneAtEnd, submitJobs } from 'docpriority/bullmq';
import { Redis } from 'ioredis';

const { loads, arrivals } = JSON.parse(readFileSync(0));
const connect = () => new Redis(process.env.REDIS, { maxRetriesPerRequest: null });
const store = join(connect(), { timeout: 10_000, policy: { loads: loads ?? undefined } });
const note = (what, document) => process.stdout.write(`${what} ${document} ${performance.timeOrigin + performance.now()}\n`);

const queue = submitJobs(new Queue('documents', { connection: connect() }), store, { customerOf: (data) => data.customer });
const worker = new Worker('documents', doneAfter(store, async ({ data }) => {
  note('begun', data.document);
  await sleep(10);
}), { connection: connect(), concurrency: 4 });
worker.on('failed', doneAtEnd(store));
await worker.waitUntilReady();

const begin = performance.now();
for (const name of new Set(arrivals.map(([customer]) => customer))) {
  publish(arrivals.filter(([customer]) => customer === name));
}

async function publish(documents) {
  for (const [customer, document, milliseconds] of documents) {
    await sleep(Math.max(0, begin + milliseconds - performance.now()));
    await queue.add('document', { customer, document });
    note('queued', document);
  }
}
