// Gives documents their levels as they arrive, and works on them in that order. Each line of
// the standard input is a document: its customer and its id.
//
//   printf '%s\n' 'flood a' 'flood b' 'flood c' 'bakery d' | node worker.mjs redis://127.0.0.1:6379
//
// It is a member of the fleet: workers in Go, Python and Node.js on the same Redis share the
// numbers, and operators see and steer all of them with priorityctl.

import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { join } from 'docpriority';
import { createClient } from 'redis';

const [url = 'redis://127.0.0.1:6379'] = process.argv.slice(2);
const store = join(createClient({ url }));

// In a service this is a queue with priorities, such as BullMQ: see docs/queues.md.
const queue = [];

for await (const line of createInterface({ input: process.stdin })) {
  const [customer, document] = line.split(' ');
  // Without Redis the process's own memory decides: no upload has to wait or fails.
  const { level, degraded } = await store.submit(customer, document);
  console.log(`${document} of ${customer} has level ${level}${degraded ? ', without Redis' : ''}`);
  queue.push({ customer, document, level });
}

let isOver = false;
process.once('SIGTERM', () => (isOver = true)); // after the document that it is at

queue.sort((a, b) => a.level - b.level); // 1 is first; of one level, who came first
for (const { customer, document } of queue) {
  if (isOver) break;
  const began = performance.now();
  await work(document);
  // Until it is done, a document makes its customer's next ones wait.
  await store.done(customer, document, performance.now() - began);
  console.log(`${document} is done`);
}
await store.close();

async function work() {
  await sleep(5); // what your service does
}
