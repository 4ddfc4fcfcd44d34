'use strict';

// Counts the results of calls for the fleet's reports: exactly for the last minute, less so for the last hour.

const { isUtf8 } = require('node:buffer');
const { Corrupt, NotCounted, OutcomeUnknown } = require('./errors.js');

const steps = 12; // of the window, and of the hour
const [stepLength, partLength, day] = [5_000, 300_000, 86_400_000]; // milliseconds
const mostCustomers = 1_000; // counted separately in a step
const [mostBusiest, mostOthers] = [20, 10];
const mostBytes = 12_288; // of a report, and of the waits in it
const mostBytesOfWaits = 4_096;
const lastBucket = 107;

class Collector {
  #up; // milliseconds since the process joined
  #minute = new Steps(stepLength);
  #hour = new Steps(partLength);
  #waiting = new Map(); // the last decisions by load

  /** now returns milliseconds from any start. */
  constructor(now = () => performance.now()) {
    const joined = now();
    this.#up = () => Math.floor(now() - joined);
  }

  /** Counts the decisions of a call, rule being 'count' or 'load'. The customer is bytes in Latin-1. */
  decided(rule, customer, decisions) {
    const at = this.#up();
    const [minute, hour] = [this.#minute.at(at), this.#hour.at(at)];
    for (const { level, ruleLevel, degraded } of decisions) {
      add(minute.numbers, `by_${rule}.${level}`, 1);
      if (level !== ruleLevel) add(minute.numbers, 'overridden', 1);
      if (degraded) add(minute.numbers, 'fallback', 1);
    }
    const { level, pending, [rule]: number } = decisions.at(-1);
    const last = { at, rule, level, pending, [rule]: number };
    for (const { customers } of [minute, hour]) countCustomer(customers, customer, decisions.length, last);
    if (rule !== 'load') return;
    if (!this.#waiting.has(customer) && this.#waiting.size >= mostCustomers) {
      this.#waiting = new Map([...this.#waiting].sort(([, a], [, b]) => b.pending - a.pending).slice(0, mostCustomers / 2));
    }
    this.#waiting.set(customer, last);
  }

  /** Counts documents that were done. */
  ended(ended) {
    for (const { level, latency } of ended) {
      const [at, bucket] = [this.#up(), bucketOf(latency)];
      add(this.#minute.at(at).numbers, `waits.${level}.${bucket}`, 1);
      if (level === 1) add(this.#hour.at(at).numbers, `first_hour.${bucket}`, 1);
    }
  }

  /** Counts the documents of a call that failed. */
  failed(documents, error) {
    add(this.#minute.at(this.#up()).numbers, `errors.${classOf(error)}`, documents);
  }

  /** Returns a report's numbers. */
  report() {
    const up = this.#up();
    const [minute, hour] = [this.#minute.sum(up), this.#hour.sum(up)];
    for (const [name, { at }] of this.#waiting) if (up - at > day) this.#waiting.delete(name);
    const report = {
      up_ms: up, window_ms: up - Math.max(minute.number - steps + 1, 0) * stepLength, overridden: 0, fallback: 0,
      by_count: {}, by_load: {}, errors: {}, waits: {},
    };
    for (const [path, n] of Object.entries({ ...minute.numbers, ...hour.numbers })) {
      const places = path.split('.');
      const place = places.pop();
      places.reduce((of, outer) => (of[outer] ??= {}), report)[place] = n;
    }
    const busiest = busiestOf(minute, hour, this.#waiting).map((name) => {
      const its = minute.customers.get(name);
      const known = [its?.last, hour.customers.get(name)?.last, this.#waiting.get(name)].filter(Boolean);
      const { at, pending, ...last } = known.reduce((a, b) => (b.at > a.at ? b : a));
      const parts = this.#hour.all.map(({ customers }) => customers.get(name)).filter(Boolean).reverse();
      const numbers = parts.map(({ first, documents, last: { level } }) => `${Math.floor((up - first) / 1000)} ${documents} ${level}`);
      return {
        ...customerOf(name), documents: its?.documents ?? 0, ...last, ago_ms: up - at,
        pending: pending || undefined, hour: numbers.join(' ') || undefined,
      };
    });
    return { ...report, busiest };
  }
}

/** The last twelve steps of a length in milliseconds. */
class Steps {
  all = []; // the current one last

  constructor(length) {
    this.length = length;
  }

  /** Returns the current step, and forgets those that are over. */
  at(up) {
    const number = Math.floor(up / this.length);
    if (this.all.at(-1)?.number !== number) this.all = [...this.all.filter((step) => step.number > number - steps), newStep(number)];
    return this.all.at(-1);
  }

  sum(up) {
    const sum = newStep(this.at(up).number);
    for (const { numbers, customers } of this.all) {
      for (const [path, n] of Object.entries(numbers)) add(sum.numbers, path, n);
      for (const [name, { documents, last }] of customers) countAll(sum.customers, name, documents, last);
    }
    return sum;
  }
}

// The numbers, by their places in a report.
const newStep = (number) => ({ number, numbers: {}, customers: new Map() });

const add = (to, key, n) => (to[key] = (to[key] ?? 0) + n);

// Counts exactly up to mostCustomers. Beyond that, it counts no customer too high, and too low by
// at most a thousandth of all documents, so the busiest stay (Misra and Gries).
function countCustomer(customers, name, documents, last) {
  if (!customers.has(name) && customers.size >= mostCustomers) {
    let fewest = documents;
    for (const other of customers.values()) fewest = Math.min(fewest, other.documents);
    for (const [key, other] of customers) {
      other.documents -= fewest;
      if (other.documents === 0) customers.delete(key);
    }
    documents -= fewest;
    if (documents === 0) return;
  }
  countAll(customers, name, documents, last);
}

function countAll(customers, name, documents, last) {
  const { documents: before, first } = customers.get(name) ?? { documents: 0, first: last.at };
  customers.set(name, { documents: before + documents, first, last });
}

/**
 * Returns the customers with the most documents in the minute, then others with the most pending,
 * then others with the most documents in the hour.
 */
function busiestOf(minute, hour, waiting) {
  const named = new Set();
  const levelOf = (name) => minute.customers.get(name)?.last.level ?? 0;
  for (const [most, customers, number] of [
    [mostBusiest, minute.customers, 'documents'], [mostOthers, waiting, 'pending'], [mostOthers, hour.customers, 'documents'],
  ]) {
    const others = [...customers].filter(([name]) => !named.has(name));
    others.sort(([a, x], [b, y]) => y[number] - x[number] || levelOf(b) - levelOf(a) || (a < b ? -1 : 1));
    for (const [name] of others.slice(0, most)) named.add(name);
  }
  return [...named];
}

function customerOf(name) {
  const raw = Buffer.from(name, 'latin1');
  return isUtf8(raw) ? { customer: raw.toString() } : { customer_base64: raw.toString('base64') };
}

/** Returns a report in JSON of at most 12 KB: it drops the least busy customers. */
function jsonOf(report) {
  const fit = { ...report };
  for (let n = 2; bytes(fit.waits) > mostBytesOfWaits && n <= lastBucket; n *= 2) fit.waits = coarser(report.waits, n);
  while (bytes(fit) > mostBytes && fit.busiest.length > 0) fit.busiest = fit.busiest.slice(0, -1);
  if (bytes(fit) > mostBytes) delete fit.waits; // of hundreds of levels
  return JSON.stringify(fit);
}

const bytes = (value) => Buffer.byteLength(JSON.stringify(value));

// Bucket i counts waits of at most 2^(i/4) milliseconds.
const bucketOf = (milliseconds) => (milliseconds <= 1 ? 0 : Math.min(Math.ceil(4 * Math.log2(milliseconds)), lastBucket));

// Returns histograms with every n buckets merged into the one with the longest waits.
function coarser(waits, n) {
  return Object.fromEntries(Object.entries(waits).map(([level, buckets]) => {
    const coarse = {};
    for (const [i, documents] of Object.entries(buckets)) add(coarse, Math.min(Math.ceil(i / n) * n, lastBucket), documents);
    return [level, coarse];
  }));
}

function classOf(error) {
  if (error instanceof NotCounted) return 'not_counted';
  if (error instanceof OutcomeUnknown) return 'outcome_unknown';
  if (error instanceof Corrupt) return 'corrupt';
  return error instanceof TypeError || error instanceof RangeError ? 'invalid' : 'error';
}

module.exports = { Collector, jsonOf, bucketOf };
