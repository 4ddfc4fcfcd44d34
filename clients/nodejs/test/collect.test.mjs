// What reports count, without a server and by a clock of the test's own.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NotCounted, OutcomeUnknown } from 'docpriority';
import { bucketOf, Collector, jsonOf } from '../src/collect.js';

const decision = (level, count = -1, ruled = 0) => ({ level, count, ruled });

test('the window slides in steps over the last minute', () => {
  let now = 1e6;
  const seen = new Collector(() => now);
  const ages = [];
  for (const pause of [0, 4_000, 2_000, 53_999, 1, 5_000, 60_000]) {
    now += pause;
    const { up_ms: up, window_ms: window, by_count: byCount } = seen.report();
    ages.push([up, window, byCount[1] ?? 0]);
    seen.decided('count', 'acme', [decision(1)]);
  }
  assert.deepEqual(ages, [
    [0, 0, 0], [4_000, 4_000, 1], [6_000, 6_000, 2], [59_999, 59_999, 3], [60_000, 55_000, 2], [65_000, 55_000, 2], [125_000, 55_000, 0],
  ]);
});

test('waits are in buckets of a quarter of a doubling', () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5_000, 1e8, 1e15].map(bucketOf), [0, 0, 4, 7, 8, 50, 107, 107]);
});

test('whoever is busy is told, however many others come', () => {
  const seen = new Collector(() => 0);
  for (let i = 0; i < 30_000; i++) {
    seen.decided('count', `customer ${i}`, [decision(1)]);
    if (i % 100 === 0) seen.decided('count', 'busy', [decision(1), decision(9, -7)]);
  }
  const { busiest, by_count: byCount } = seen.report();
  assert.deepEqual({ ...busiest[0], documents: 600 }, { customer: 'busy', documents: 600, rule: 'count', level: 9, count: -7 });
  assert.ok(busiest[0].documents <= 600 && busiest[0].documents >= 570, String(busiest[0].documents));
  assert.deepEqual(byCount, { 1: 30_300, 9: 300 });
});

test('a report has at most 8 KB', () => {
  const seen = new Collector(() => 0);
  for (let i = 0; i < 50; i++) seen.decided('load', `${i}`.padEnd(512, '"'), [{ level: 1, load: 1 / 3, ruled: 0 }]);
  seen.decided('load', Buffer.alloc(512, 0xff), [{ level: 1, load: 1, ruled: 0 }, { level: 1, load: 1, ruled: 0 }]);
  for (let level = 1; level < 64; level++) seen.ended(Array.from({ length: 107 }, (_, i) => ({ level, sojourn: 2 ** (i / 4) })));
  const report = seen.report();
  const json = jsonOf(report);
  assert.ok(json.length <= 8_192 && json.length > 4_096, String(json.length));
  const { busiest, waits } = JSON.parse(json);
  assert.deepEqual(busiest, report.busiest.slice(0, busiest.length));
  assert.ok(busiest.length > 0);
  for (const level of Object.keys(report.waits)) assert.equal(Object.values(waits[level]).reduce((a, b) => a + b), 107);
});

test('a report of hundreds of levels has at most 8 KB too', () => {
  const many = (n, value) => Object.fromEntries(Array.from({ length: n }, (_, i) => [i + 1, value]));
  const report = { ...new Collector(() => 0).report(), by_count: many(255, 1e12), by_load: many(63, 1e12), waits: many(63, many(107, 1e9)) };
  const json = jsonOf(report);
  assert.ok(json.length <= 8_192, String(json.length));
  assert.equal(JSON.parse(json).waits, undefined);
});

test('a member whose last call was not answered is degraded for a while', () => {
  let now = 0;
  const seen = new Collector(() => now);
  const after = (error, pause = 0) => {
    if (error) seen.failed(2, error);
    now += pause;
    return seen.report().degraded;
  };
  assert.deepEqual([after(), after(new TypeError()), after(new NotCounted()), after(new OutcomeUnknown())], [false, false, true, true]);
  seen.decided('count', 'acme', [decision(1)]);
  assert.deepEqual([after(), after(new NotCounted(), 9_999), after(undefined, 1)], [false, true, false]);
  assert.deepEqual(seen.report().errors, { invalid: 2, not_counted: 4, outcome_unknown: 2 });
});
