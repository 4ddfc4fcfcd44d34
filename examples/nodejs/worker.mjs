// Counts documents of one customer and prints one line of JSON for each.
//
//   node worker.mjs --redis 127.0.0.1:6379 --customer acme --documents 1000
//
// SIGTERM ends it after the document that it is at.

import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { join, NotCounted, OutcomeUnknown } from 'docpriority';
import { Redis } from 'ioredis';
import { createClient } from 'redis';

const usage =
  'usage: node worker.mjs [--redis 127.0.0.1:6379] [--client node-redis|ioredis]\n' +
  '       [--prefix priority] [--customer acme] [--documents 10] [--pause 0]\n' +
  '       [--timeout 250]     times are in milliseconds';

const clients = {
  'node-redis': (url) => createClient({ url }),
  ioredis: (url) => new Redis(url, { lazyConnect: true }),
};

function options() {
  const { values } = parseArgs({
    options: {
      redis: { type: 'string', default: '127.0.0.1:6379' },
      client: { type: 'string', default: 'node-redis' },
      prefix: { type: 'string', default: 'priority' },
      customer: { type: 'string', default: 'acme' },
      documents: { type: 'string', default: '10' },
      pause: { type: 'string', default: '0' },
      timeout: { type: 'string', default: '250' },
    },
  });
  if (!Object.hasOwn(clients, values.client)) throw new Error(`--client ${values.client} is not one of ${Object.keys(clients)}`);
  const numbers = ['documents', 'pause', 'timeout'].map((name) => [name, whole(name, values[name])]);
  return { ...values, ...Object.fromEntries(numbers) };
}

function whole(name, text) {
  const number = Number(text);
  if (text === '' || !Number.isSafeInteger(number) || number < 0) {
    throw new Error(`--${name} ${text} is not a whole number`);
  }
  return number;
}

// Throws where an option is wrong, and sends nothing.
function storeOf({ redis, client, prefix, customer, timeout }) {
  const { href } = new URL(`redis://${redis}`);
  // Without a fallback: this worker shows what became of each document.
  const store = join(clients[client](href), { prefix, timeout, onChange, fallback: false });
  store.keys(customer);
  return store;
}

function onChange({ error }) {
  if (error) console.error(`worker: the operators' newest rules are not followed: ${error}`);
}

async function work(store, { customer, documents, pause }) {
  let ended = false;
  process.once('SIGTERM', () => (ended = true));
  const failed = { NotCounted: 0, OutcomeUnknown: 0 };
  for (let document = 0; document < documents && !ended; document++) {
    console.log(JSON.stringify(await decide(store, customer, failed)));
    if (pause > 0) await sleep(pause);
  }
  await store.close();
  return failed;
}

// An upload must not wait for Redis to come back: a document that could not be counted
// goes on with the first level. So an outage makes levels better, and never worse.
async function decide(store, customer, failed) {
  try {
    const { level, count } = await store.next(customer);
    return { level, count };
  } catch (error) {
    if (!(error instanceof NotCounted || error instanceof OutcomeUnknown)) throw error;
    failed[error.name]++;
    console.error(`worker: ${error.name}: ${error.message}`);
    return { level: 1, degraded: true };
  }
}

function fail(status, ...messages) {
  for (const message of messages) console.error(message);
  process.exit(status);
}

let chosen, store;
try {
  chosen = options();
  store = storeOf(chosen);
} catch (error) {
  fail(2, `worker: ${error.message}`, usage);
}
try {
  const { NotCounted: not, OutcomeUnknown: unknown } = await work(store, chosen);
  if (not + unknown > 0) fail(1, `worker: ${not} documents were not counted, and ${unknown} perhaps`);
} catch (error) {
  fail(1, `worker: ${error.message}`);
}
