// Counts documents of one customer and prints one line of JSON for each.
//
//   node worker.mjs --redis 127.0.0.1:6379 --customer acme --documents 1000

import { parseArgs } from 'node:util';
import { createClient } from 'redis';
import { OutcomeUnknown, Store } from './priority.mjs';

const usage = 'usage: node worker.mjs [--redis 127.0.0.1:6379] [--prefix priority] [--customer acme] [--documents 10]';

function options() {
  const { values } = parseArgs({
    options: {
      redis: { type: 'string', default: '127.0.0.1:6379' },
      prefix: { type: 'string', default: 'priority' },
      customer: { type: 'string', default: 'acme' },
      documents: { type: 'string', default: '10' },
    },
  });
  const documents = Number(values.documents);
  if (!Number.isSafeInteger(documents) || documents < 0) {
    throw new Error(`--documents ${values.documents} is not a number of documents`);
  }
  return { ...values, documents };
}

async function work({ redis, prefix, customer, documents }) {
  // node-redis never sends a command twice: after a lost connection it rejects those
  // that were sent, and sends those that were not when it is connected again. The
  // socket's timeout is for a server that is there and does not answer.
  const client = createClient({
    url: `redis://${redis}`,
    socket: {
      connectTimeout: 5_000,
      socketTimeout: 2_000,
      reconnectStrategy: (retries, cause) => (retries < 20 ? 100 : cause),
    },
  });
  client.on('error', () => {}); // the calls that fail tell
  await client.connect();
  const store = new Store(client, { prefix });
  let unknown = 0;
  for (let document = 0; document < documents; document++) {
    try {
      console.log(JSON.stringify(await store.next(customer)));
    } catch (error) {
      if (!(error instanceof OutcomeUnknown)) throw error;
      // It may have been counted: a worker goes on with a default level.
      console.error(`worker: ${error.message}`);
      unknown++;
    }
  }
  await client.close();
  return unknown;
}

function fail(status, ...messages) {
  for (const message of messages) console.error(message);
  process.exit(status);
}

let chosen;
try {
  chosen = options();
} catch (error) {
  fail(2, `worker: ${error.message}`, usage);
}
try {
  const unknown = await work(chosen);
  if (unknown > 0) fail(1, `worker: ${unknown} documents are of unknown outcome`);
} catch (error) {
  fail(1, `worker: ${error.message}`);
}
