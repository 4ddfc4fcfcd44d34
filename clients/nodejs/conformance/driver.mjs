// Drives this client for the conformance checks: JSON lines in, JSON lines out. See
// clients/conformance/README.md in the repository.

import { createInterface } from 'node:readline';
import { Corrupt, join, NotCounted, OutcomeUnknown, Store } from '../src/index.js';

const clients = {
  'node-redis': async (url) => (await import('redis')).createClient({ url }),
  'node-redis-cluster': async (url) => (await import('redis')).createCluster({ rootNodes: [{ url }] }),
  ioredis: async (url) => new (await import('ioredis')).Redis(url, { lazyConnect: true }),
  'ioredis-cluster': async (url) => new (await import('ioredis')).Cluster([url], { lazyConnect: true }),
};

const rules = { byCount: 'by_count', byLoad: 'by_load', unknown: 'unknown' };
const resetModes = { since_last_update: 'sinceLastUpdate', since_last_reset: 'sinceLastReset' };

function policyOf({ thresholds, reset_interval_ms: resetInterval, reset_mode: mode, loads, turns, in_order: inOrder }) {
  return { thresholds, resetInterval, resetMode: mode && (resetModes[mode] ?? mode), loads, turns, inOrder };
}

const decisionOf = ({ resetIn, ruleLevel, ...decision }) => ({ ...decision, reset_in_ms: resetIn, rule_level: ruleLevel });

const endedOf = ({ document, latency, level }) => ({ document: document.toString('base64'), latency_ms: latency, level });

function stateOf({ rule, nextLevel, resetIn, pendingFlood, accountLoad, accountFlood, oldest, latency, lease, ruleLevel, bounds, overrideEndsIn, ...state }) {
  return {
    ...state, rule: rules[rule], next_level: nextLevel, reset_in_ms: resetIn, pending_flood: pendingFlood,
    account_load: accountLoad, account_flood: accountFlood,
    oldest_ms: oldest, latency_ms: latency, lease_ms: lease, rule_level: ruleLevel,
    ...bounds, override_ends_in_ms: overrideEndsIn,
  };
}

let store;

async function answer(request) {
  const { do: what, documents = [], n = 1 } = request;
  const customer = request.customer && Buffer.from(request.customer, 'base64');
  const ids = documents.map((document) => Buffer.from(document, 'base64'));
  switch (what) {
    case 'open': {
      const { url, client = 'node-redis', prefix, timeout_ms: timeout, lease_ms: lease, overrides, accounts, fallback, policy, join: joins, as: name } = request;
      const options = { prefix, timeout, lease, overrides, accounts, fallback, policy: policy && policyOf(policy) };
      await store?.close();
      const redis = await clients[client](url);
      store = joins ? join(redis, { name, ...options }) : new Store(redis, options);
      return {};
    }
    case 'next':
      return { decisions: (n === 1 ? [await store.next(customer)] : await store.nextN(customer, n)).map(decisionOf) };
    case 'submit': {
      const { costs = ids.map(() => 0), delays = [] } = request;
      if (costs.length !== ids.length) throw new RangeError(`there are ${costs.length} costs for ${ids.length} documents`);
      const items = ids.map((id, i) => ({ id, cost: costs[i], delay: delays[i] }));
      const decisions = items.length === 1 ? [await store.submit(customer, ids[0], { cost: costs[0], delay: delays[0] })] : await store.submitN(customer, items);
      return { decisions: decisions.map(decisionOf) };
    }
    case 'done': {
      const ended = ids.length === 1 ? await store.done(customer, ids[0], request.took_ms) : await store.doneN(customer, ids, request.took_ms);
      return { ended: [ended ?? []].flat().map(endedOf) };
    }
    case 'peek':
      return { state: stateOf(await store.peek(customer)) };
    case 'reset':
      await store.reset(customer);
      return {};
    case 'key':
      return { key: store.keys(customer)[request.kind].toString('base64') };
    case 'script': {
      const { text, sha1 } = store.script(request.name);
      return { script: text, sha1 };
    }
  }
  throw new RangeError(`there is no request ${what}`);
}

function classOf(error) {
  if (error instanceof NotCounted) return 'not_counted';
  if (error instanceof OutcomeUnknown) return 'outcome_unknown';
  if (error instanceof Corrupt) return 'corrupt';
  if (error instanceof TypeError || error instanceof RangeError) return 'invalid';
  throw error;
}

async function serve(request) {
  let reply;
  try {
    reply = await answer(request);
  } catch (error) {
    reply = { error: { class: classOf(error), message: error.message } };
  }
  process.stdout.write(`${JSON.stringify({ id: request.id, ...reply })}\n`);
}

const requests = new Set();
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const serving = serve(JSON.parse(line)).finally(() => requests.delete(serving));
  requests.add(serving);
}
await Promise.all(requests);
await store?.close();
