// The vectors that clients/conformance cannot ask a driver for: decisions of the store in memory,
// reports, and what a process follows.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Corrupt, NotCounted, OutcomeUnknown } from 'docpriority';
import { bucketOf, Collector, jsonOf } from '../src/collect.js';
import { Follower } from '../src/follow.js';
import { Memory } from '../src/memory.js';
import { policiesOf } from '../src/policy.js';
import { boundsOf } from '../src/run.js';

const vectors = (file) => JSON.parse(readFileSync(new URL(`../../../vectors/${file}`, import.meta.url), 'utf8'));
const modes = { since_last_update: 'sinceLastUpdate', since_last_reset: 'sinceLastReset' };
const policyOf = ({ thresholds, reset_interval_ms: resetInterval, reset_mode: mode, loads, turns, in_order: inOrder }) => ({ thresholds, resetInterval, resetMode: modes[mode] ?? mode, loads, turns, inOrder });

const ruleNumbers = { unknown: 0, by_count: 1, by_load: 2 };

// Cases without what only other programs leave in Redis.
const overrides = vectors('edges.json').cases.filter(({ steps }) => steps.every(({ do: what, key }) => what !== 'set' || key === 'override'));
const cases = [...['rule', 'submit', 'due', 'accounts'].flatMap((file) => vectors(`${file}.json`).cases), ...overrides];

test('the vectors are there', () => assert.ok(overrides.length > 10 && cases.length > 60, `${overrides.length} of ${cases.length}`));

for (const { name, policy, lease_ms: caseLease = 86_400_000, accounts, steps } of cases) {
  test(name, () => {
    let now = 0;
    const memory = new Memory({ clock: () => now, accounts });
    for (const { at_ms: at, do: what, customer, n, documents = [], costs = [], delays = [], cost = 0, lease_ms: lease = caseLease, value, ttl_ms: lasts, want, state } of steps) {
      now = 1e12 + at;
      const settings = policiesOf({ policy: policyOf(policy), tiers: {} }, lease).forTier();
      const ids = documents.map((document) => Buffer.from(document));
      const run = (...args) => memory.run(what, customer, args, settings);
      if (what === 'set') {
        const [earliest, latest] = boundsOf(value, Infinity);
        memory.setOverride(customer, earliest && { earliest, latest }, lasts);
      }
      if (what === 'reset') run();
      if (what === 'next') {
        const [level, count, resetIn, ruleLevel] = run(n);
        assert.deepEqual({ level, count, reset_in_ms: resetIn, rule_level: ruleLevel }, { rule_level: level, ...want.at(-1) });
      }
      if (what === 'submit') {
        const reply = run(...ids.flatMap((id, i) => [id, `${costs[i] ?? 0}${delays[i] ? ` ${delays[i]}` : ''}`]));
        const got = want.map((_, i) => reply.slice(4 * i, 4 * i + 4));
        assert.deepEqual(got, want.map(({ level, load, pending, rule_level: ruleLevel = level }) => [level, load, pending, ruleLevel]));
      }
      if (what === 'done') assert.deepEqual(run(String(cost), '', ...ids), want.flatMap(({ level, latency_ms: latency }) => [latency, level]));
      if (what === 'peek') {
        const {
          rule, rule_level: ruleLevel = state.next_level, earliest = 0, latest = 0, override_ends_in_ms: endsIn = latest ? -1 : 0,
          scheduled = 0, account_load: load = 0, account_flood: flood = 0, ...rest
        } = state;
        assert.deepEqual(run(), [ruleNumbers[rule], ...Object.values(rest), ruleLevel, earliest, latest, endsIn, scheduled, load, flood]);
      }
    }
  });
}

test('waits are in the buckets of the vectors', () => {
  for (const [milliseconds, bucket] of vectors('reports.json').buckets) assert.equal(bucketOf(milliseconds), bucket, `${milliseconds} ms`);
});

const errors = {
  invalid: new RangeError(), not_counted: new NotCounted(), outcome_unknown: new OutcomeUnknown(), corrupt: new Corrupt(), error: new Error(),
};

test('reports are as in the vectors', async (t) => {
  for (const { name, steps } of vectors('reports.json').writes) {
    await t.test(name, () => {
      let now = 1e6;
      const collector = new Collector(() => now);
      for (const { at_ms: at, do: what, levels, count, load, pending = 0, overridden, fallback: degraded, ended, class: kind, documents, report, history = {}, ending, ...step } of steps) {
        now = 1e6 + at;
        const customer = (step.customer ? Buffer.from(step.customer) : Buffer.from(step.customer_base64 ?? '', 'base64')).toString('latin1');
        const decisions = levels?.map((level) => ({ level, count, load, pending, ruleLevel: overridden ? level + 1 : level, degraded }));
        if (what === 'next') collector.countDecisions('count', customer, decisions);
        if (what === 'submit') collector.countDecisions('load', customer, decisions);
        if (what === 'done') collector.countEnded(ended.map(([latency, level]) => ({ latency, level })));
        if (what === 'error') collector.countFailure(documents, errors[kind]);
        if (what === 'history') {
          const { fields, added } = collector.history(ending);
          added();
          assert.deepEqual(fields, history);
        }
        if (what !== 'report') continue;
        const got = Object.entries(JSON.parse(jsonOf(collector.report())));
        assert.deepEqual(Object.fromEntries(got.filter(([, value]) => Object.keys(value).length > 0 || typeof value === 'number')), report);
      }
    });
  }
});

test('a report of many customers names those who matter, in 12 KB', () => {
  const collector = new Collector(() => 0);
  const submit = (name, pending, n = 1) => collector.countDecisions('load', name, Array(n).fill({ level: 1, ruleLevel: 1, load: 1, pending }));
  submit('waits', 2);
  for (let i = 0; i < 5_000; i++) submit(`${i} ${'x'.repeat(400)}`, 1);
  submit('busy', 1, 50);
  for (let level = 1; level < 64; level++) collector.countEnded(Array.from({ length: 108 }, (_, i) => ({ level, latency: 2 ** (i / 4) })));
  const { busiest } = collector.report();
  assert.deepEqual([busiest[0].customer, busiest.some(({ customer }) => customer === 'waits')], ['busy', true]);
  const text = jsonOf(collector.report());
  assert.ok(text.length > 10_000 && text.length <= 12_288, text.length);
  const documents = Object.values(JSON.parse(text).waits).flatMap(Object.values).reduce((a, b) => a + b);
  assert.equal(documents, 63 * 108);
});

test('the policies of the vectors are followed', async (t) => {
  for (const { name, own, steps } of vectors('following.json').cases) {
    await t.test(name, async () => {
      const process = processOf(own);
      for (const { policies_key: text, version, code, digest, policies } of steps) {
        const following = await process.read(text);
        assert.deepEqual([following.version, following.code, process.digest()], [version, code, digest], following.detail);
        for (const [tier, policy] of Object.entries(policies)) assert.deepEqual(process.policyOf(tier), policy, tier);
      }
    });
  }
});

test('what the vectors refuse leaves the policies before in force', async () => {
  const { policies, policies_key: texts } = vectors('following.json').refused;
  const textOf = (version, policies) => `{"version":${version},"changed":${version},"policies":${policies}}`;
  for (const [text, code] of [...policies.map((one) => [textOf(2, one), 'invalid']), ...texts.map((text) => [text, 'corrupt'])]) {
    const process = processOf({});
    for (const [read, version, want] of [[textOf(1, '{"thresholds":[-1]}'), 1], [text, 1, code], [textOf(3, '{"thresholds":[-3]}'), 3]]) {
      const following = await process.read(read);
      assert.deepEqual([following.version, following.code, process.policyOf('none').thresholds], [version, want, [-version]], text);
    }
  }
});

const resetModes = { sinceLastUpdate: 'last-update', sinceLastReset: 'last-reset' };

/** Returns what a process does, whose customers are named as their tiers. */
function processOf({ tiers = {}, ...policy }) {
  const own = policiesOf({ policy, tiers }, 86_400_000);
  let policies = own;
  let text;
  const apply = (read) => (policies = read ? policiesOf(read, 86_400_000, own.last) : own);
  const follower = new Follower(async (head) => (head && text.startsWith(head) ? [Date.now(), 0] : [Date.now(), 0, text]), apply);
  return {
    read: async (key = '') => {
      text = key;
      await follower.poll();
      return follower.following;
    },
    digest: () => policies.digest(true),
    policyOf: (tier) => {
      const { thresholds, resetInterval, resetMode, loads, turns, inOrder } = policies.forTier(tier).policy;
      return { thresholds, reset_interval_ms: resetInterval, reset_mode: resetModes[resetMode], loads, turns, ...(inOrder && { in_order: true }) };
    },
  };
}
