// Reports and rules, by the vectors that programs in all languages share.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { CorruptCount, NotCounted, OutcomeUnknown } from 'docpriority';
import { bucketOf, Collector, jsonOf } from '../src/collect.js';

const vectors = (file) => JSON.parse(readFileSync(new URL(`../../../vectors/${file}`, import.meta.url), 'utf8'));

test('waits are in the buckets of the vectors', () => {
  for (const [milliseconds, bucket] of vectors('reports.json').buckets) assert.equal(bucketOf(milliseconds), bucket, `${milliseconds} ms`);
});

const errors = {
  invalid: new RangeError(), not_counted: new NotCounted(), outcome_unknown: new OutcomeUnknown(), corrupt_count: new CorruptCount(), error: new Error(),
};

test('reports are those of the vectors', async (t) => {
  for (const { name, steps } of vectors('reports.json').writes) {
    if (steps.some(({ fallback }) => fallback)) continue; // this client has none
    await t.test(name, () => {
      let now = 1e6;
      const seen = new Collector(() => now);
      for (const { at_ms: at, do: what, levels, count, load, overridden, ended, class: kind, documents, report, ...step } of steps) {
        now = 1e6 + at;
        const customer = step.customer ?? Buffer.from(step.customer_base64 ?? '', 'base64');
        const ruled = overridden ? 1 : 0;
        if (what === 'next') seen.decided('count', customer, levels.map((level) => ({ level, count, ruled })));
        if (what === 'submit') seen.decided('load', customer, levels.map((level) => ({ level, load, ruled })));
        if (what === 'done') seen.ended(ended.map(([sojourn, level]) => ({ sojourn, level })));
        if (what === 'error') seen.failed(documents, errors[kind]);
        if (what !== 'report') continue;
        const { degraded, ...got } = JSON.parse(jsonOf(seen.report()));
        assert.deepEqual(Object.fromEntries(Object.entries(got).filter(([, value]) => Object.keys(value).length > 0 || typeof value === 'number')), report);
      }
    });
  }
});
