// Reports and rules, by the vectors that programs in all languages share.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { CorruptCount, NotCounted, OutcomeUnknown } from 'docpriority';
import { bucketOf, Collector, jsonOf } from '../src/collect.js';
import { Follower } from '../src/follow.js';
import { Policies } from '../src/policies.js';

const vectors = (file) => JSON.parse(readFileSync(new URL(`../../../vectors/${file}`, import.meta.url), 'utf8'));

test('waits are in the buckets of the vectors', () => {
  for (const [milliseconds, bucket] of vectors('reports.json').buckets) assert.equal(bucketOf(milliseconds), bucket, `${milliseconds} ms`);
});

const errors = {
  invalid: new RangeError(), not_counted: new NotCounted(), outcome_unknown: new OutcomeUnknown(), corrupt_count: new CorruptCount(), error: new Error(),
};

test('reports are as in the vectors', async (t) => {
  for (const { name, steps } of vectors('reports.json').writes) {
    await t.test(name, () => {
      let now = 1e6;
      const seen = new Collector(() => now);
      for (const { at_ms: at, do: what, levels, count, load, overridden, fallback: degraded, ended, class: kind, documents, report, ...step } of steps) {
        now = 1e6 + at;
        const customer = step.customer ?? Buffer.from(step.customer_base64 ?? '', 'base64');
        const ruled = overridden ? 1 : 0;
        if (what === 'next') seen.decided('count', customer, levels.map((level) => ({ level, count, ruled, degraded })));
        if (what === 'submit') seen.decided('load', customer, levels.map((level) => ({ level, load, ruled, degraded })));
        if (what === 'done') seen.ended(ended.map(([sojourn, level]) => ({ sojourn, level })));
        if (what === 'error') seen.failed(documents, errors[kind]);
        if (what !== 'report') continue;
        const { degraded: failing, ...got } = JSON.parse(jsonOf(seen.report()));
        assert.deepEqual(Object.fromEntries(Object.entries(got).filter(([, value]) => Object.keys(value).length > 0 || typeof value === 'number')), report);
      }
    });
  }
});

test('the rules of the vectors are followed', async (t) => {
  for (const { name, own, steps } of vectors('rules.json').cases) {
    await t.test(name, async () => {
      const process = new Process(own);
      for (const { version_key: version, rules_key: rules, policies, ...want } of steps) {
        assert.deepEqual(await process.reads(version, rules), { version: want.version, error: want.error ?? '' }, process.why);
        for (const [tier, policy] of Object.entries(policies)) assert.deepEqual(process.policyOf(tier), policy, tier);
      }
    });
  }
});

test('what the vectors refuse leaves the rules before in force', async () => {
  const { rules, rules_key: texts, version_keys: versions } = vectors('rules.json').refused;
  const item = (version, text) => `{"version":${version},"at":${version},"rules":${text}}`;
  for (const [version, text] of [
    ...rules.map((one) => ['2 2 7', item(2, one)]), ...texts.map((one) => ['2 2 7', one]), ...versions.map((one) => [one, item(2, '{}')]),
  ]) {
    const process = new Process({});
    await process.reads('1 1 7', item(1, '{"thresholds":[-1]}'));
    const what = `${version}, ${text}`;
    assert.deepEqual([await process.reads(version, text), process.policyOf('none').thresholds], [{ version: 1, error: 'refused' }, [-1]], what);
    assert.deepEqual([await process.reads('3 3 7', item(3, '{"thresholds":[-3]}')), process.policyOf('none').thresholds], [{ version: 3, error: '' }, [-3]], what);
  }
});

const resetModes = { sinceLastUpdate: 'last-update', sinceLastReset: 'last-reset' };

// A process with policies of its own.
class Process {
  #policies;
  #keys;
  #follower;

  constructor({ tiers = {}, ...policy }) {
    const own = new Policies({ policy, tiers }, 86_400_000);
    this.#policies = own;
    const use = (rules) => (this.#policies = rules ? new Policies(rules, 86_400_000, own) : own);
    this.#follower = new Follower(async () => this.#keys, use, () => {});
  }

  async reads(version = '', rules = null) {
    this.#keys = [version, rules, 7];
    await this.#follower.poll(new AbortController().signal);
    const { version: followed, error } = this.#follower.status;
    const kind = error.startsWith('Redis lost data') ? 'lost' : error.startsWith('a later version') ? 'newer' : error && 'refused';
    return { version: followed, error: kind };
  }

  get why() {
    return this.#follower.status.error || undefined;
  }

  policyOf(tier) {
    const { thresholds, resetInterval, resetMode, loads, turns } = this.#policies.of(tier).policy;
    return { thresholds, reset_interval_ms: resetInterval, reset_mode: resetModes[resetMode], loads, turns };
  }
}
