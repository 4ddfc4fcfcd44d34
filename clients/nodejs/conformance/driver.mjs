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

function policyOf({ thresholds, reset_interval_ms: resetInterval, reset_mode: mode, loads, turns }) {
  return { thresholds, resetInterval, resetMode: mode && (resetModes[mode] ?? mode), loads, turns };
}

const decisionOf = ({ resetIn, ruleLevel, ...decision }) => ({ ...decision, reset_in_ms: resetIn, rule_level: ruleLevel });

const endedOf = ({ document, latency, level }) => ({ document: document.toString('base64'), latency_ms: latency, level });

function stateOf({ rule, nextLevel, resetIn, pendingLast, oldest, latency, lease, ruleLevel, override, ...state }) {
  return {
    ...state, rule: rules[rule], next_level: nextLevel, reset_in_ms: resetIn, pending_last: pendingLast,
    oldest_ms: oldest, latency_ms: latency, lease_ms: lease, rule_level: ruleLevel,
    ...(override && { earliest: override.earliest, latest: override.latest, override_ends_in_ms: override.endsIn ?? 0 }),
  };
}

let store;

async function answer(request) {
  const { do: what, customer, documents = [], costs, n = 1 } = request;
  const whose = customer === undefined ? undefined : Buffer.from(customer, 'base64');
  const ids = documents.map((document) => Buffer.from(document, 'base64'));
  switch (what) {
    case 'open': {
      const { url, client = 'node-redis', prefix, timeout_ms: timeout, lease_ms: lease, overrides, fallback, policy, join: joins, as: name } = request;
      const options = { prefix, timeout, lease, overrides, fallback, policy: policy && policyOf(policy) };
      const redis = await clients[client](url);
      store = joins ? join(redis, { name, ...options }) : new Store(redis, options);
      return {};
    }
    case 'next':
      return { decisions: (n === 1 ? [await store.next(whose)] : await store.nextN(whose, n)).map(decisionOf) };
    case 'submit': {
      const one = ids.length === 1 && (costs === undefined || costs.length === 1);
      const decisions = one ? [await store.submit(whose, ids[0], { cost: costs?.[0] })] : await store.submitN(whose, ids, { costs });
      return { decisions: decisions.map(decisionOf) };
    }
    case 'done': {
      const ended = ids.length === 1 ? await store.done(whose, ids[0], request.took_ms) : await store.doneN(whose, ids, request.took_ms);
      return { ended: [ended ?? []].flat().map(endedOf) };
    }
    case 'peek':
      return { state: stateOf(await store.peek(whose)) };
    case 'reset':
      await store.reset(whose);
      return {};
    case 'key':
      return { key: store.keys(whose)[request.kind].toString('base64') };
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

const under = new Set();
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const serving = serve(JSON.parse(line)).finally(() => under.delete(serving));
  under.add(serving);
}
await Promise.all(under);
await store?.close();
