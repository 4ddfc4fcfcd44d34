'use strict';

// Counts the results of calls for the fleet's reports: exactly for a minute, less so for an hour.

const { isUtf8 } = require('node:buffer');
const { Corrupt, NotCounted, OutcomeUnknown } = require('./errors.js');

const steps = 12; // a minute has as many as an hour
const [stepOfMinute, stepOfHour, day] = [5_000, 300_000, 86_400_000]; // milliseconds
const maxCustomers = 1_000; // a step counts this number separately
const [maxBusiest, maxOthers] = [20, 10];
const maxBytes = 12_288; // a longer report drops customers
const maxBytesOfWaits = 4_096; // longer ones are made coarser
const lastBucket = 107;

class Collector {
  #uptime; // returns the milliseconds since the process joined
  #minute = new Steps(stepOfMinute);
  #hour = new Steps(stepOfHour);
  #added = -1; // the latest step that the fleet's history has
  #waiting = new Map(); // the latest decision by load of each customer, for a day

  /** now returns milliseconds from any start. */
  constructor(now = () => performance.now()) {
    const joined = now();
    this.#uptime = () => Math.floor(now() - joined);
  }

  /** Counts the decisions of a call, rule being 'count' or 'load'. The customer is bytes in Latin-1. */
  countDecisions(rule, customer, decisions) {
    const time = this.#uptime();
    const [minute, hour] = [this.#minute.current(time), this.#hour.current(time)];
    for (const { level, ruleLevel, degraded } of decisions) {
      add(minute.numbers, `by_${rule}.${level}`, 1);
      if (level !== ruleLevel) add(minute.numbers, 'overridden', 1);
      if (degraded) add(minute.numbers, 'fallback', 1);
      else if (rule === 'load') add(hour.numbers, 'submitted_hour', 1);
    }
    const decision = decisions.at(-1);
    const latest = { time, rule, level: decision.level, pending: decision.pending, [rule]: decision[rule] };
    for (const { customers } of [minute, hour]) countCustomer(customers, customer, decisions.length, latest);
    if (rule !== 'load') return;
    if (!this.#waiting.has(customer) && this.#waiting.size >= maxCustomers) {
      this.#waiting = new Map([...this.#waiting].sort(([, a], [, b]) => b.pending - a.pending).slice(0, maxCustomers / 2));
    }
    this.#waiting.set(customer, latest);
  }

  /** Counts documents that were done. */
  countEnded(ended) {
    for (const { level, latency } of ended) {
      const [time, bucket] = [this.#uptime(), bucketOf(latency)];
      const hour = this.#hour.current(time).numbers;
      add(this.#minute.current(time).numbers, `waits.${level}.${bucket}`, 1);
      add(hour, 'ended_hour', 1);
      if (level === 1) add(hour, `first_hour.${bucket}`, 1);
    }
  }

  /** Counts the documents of a call that failed. */
  countFailure(documents, error) {
    add(this.#minute.current(this.#uptime()).numbers, `errors.${classOf(error)}`, documents);
  }

  /** Returns a report's numbers. */
  report() {
    const up = this.#uptime();
    const [minute, hour] = [this.#minute.sum(up), this.#hour.sum(up)];
    for (const [name, { time }] of this.#waiting) if (up - time > day) this.#waiting.delete(name);
    const report = {
      up_ms: up, window_ms: up - Math.max(minute.number - steps + 1, 0) * stepOfMinute, overridden: 0, fallback: 0,
      by_count: {}, by_load: {}, errors: {}, waits: {},
    };
    for (const [path, n] of Object.entries({ ...minute.numbers, ...hour.numbers })) {
      const fields = path.split('.');
      const name = fields.pop();
      let object = report;
      for (const field of fields) object = object[field] ??= {};
      object[name] = n;
    }
    const busiest = busiestOf(minute, hour, this.#waiting).map((name) => {
      const inMinute = minute.customers.get(name);
      const decisions = [inMinute?.latest, hour.customers.get(name)?.latest, this.#waiting.get(name)].filter(Boolean);
      const { time, pending, ...latest } = decisions.reduce((a, b) => (b.time > a.time ? b : a));
      const parts = this.#hour.all.map(({ customers }) => customers.get(name)).filter(Boolean).reverse();
      const numbers = parts.map(({ first, documents, latest: { level } }) => `${Math.floor((up - first) / 1000)} ${documents} ${level}`);
      return {
        ...customerOf(name), documents: inMinute?.documents ?? 0, ...latest, ago_ms: up - time,
        pending: pending || undefined, hour: numbers.join(' ') || undefined,
      };
    });
    return { ...report, busiest };
  }

  /**
   * Returns what report.lua adds to the fleet's history: the fields with the numbers of the steps
   * that are over and not there yet, and in the end of the current one. Call added when Redis has them.
   */
  history(ending = false) {
    const last = this.#minute.current(this.#uptime()).number - (ending ? 0 : 1);
    const fields = {};
    for (const { number, numbers } of this.#minute.all) {
      if (number <= this.#added || number > last) continue;
      for (const [path, n] of Object.entries(numbers)) {
        const [name, level, bucket] = path.split('.');
        if (name === 'by_count' || name === 'by_load') add(fields, `d${level}`, n);
        if (name === 'waits') add(fields, `w${level}.${Math.ceil(bucket / 4)}`, n);
      }
    }
    return { fields, added: () => (this.#added = Math.max(this.#added, last)) };
  }
}

/** The current step and the eleven before it, each of a length in milliseconds. */
class Steps {
  all = []; // the oldest first

  constructor(length) {
    this.length = length;
  }

  /** Returns the current step, and forgets those that are too old. */
  current(up) {
    const number = Math.floor(up / this.length);
    if (this.all.at(-1)?.number !== number) this.all = [...this.all.filter((step) => step.number > number - steps), newStep(number)];
    return this.all.at(-1);
  }

  sum(up) {
    const sum = newStep(this.current(up).number);
    for (const { numbers, customers } of this.all) {
      for (const [path, n] of Object.entries(numbers)) add(sum.numbers, path, n);
      for (const [name, { documents, latest }] of customers) countAll(sum.customers, name, documents, latest);
    }
    return sum;
  }
}

// Each number is kept by its path in a report, such as 'by_count.1'.
const newStep = (number) => ({ number, numbers: {}, customers: new Map() });

const add = (to, key, n) => (to[key] = (to[key] ?? 0) + n);

// Counts up to maxCustomers exactly. With more, it counts no customer too high, and too low by
// at most a thousandth of all documents, so that the busiest stay (Misra and Gries).
function countCustomer(customers, name, documents, latest) {
  if (!customers.has(name) && customers.size >= maxCustomers) {
    let fewest = documents;
    for (const other of customers.values()) fewest = Math.min(fewest, other.documents);
    for (const [key, other] of customers) {
      other.documents -= fewest;
      if (other.documents === 0) customers.delete(key);
    }
    documents -= fewest;
    if (documents === 0) return;
  }
  countAll(customers, name, documents, latest);
}

function countAll(customers, name, documents, latest) {
  const { documents: before, first } = customers.get(name) ?? { documents: 0, first: latest.time };
  customers.set(name, { documents: before + documents, first, latest });
}

/**
 * Returns the customers with the most documents in the minute, then others with the most pending,
 * then others with the most documents in the hour.
 */
function busiestOf(minute, hour, waiting) {
  const names = new Set();
  const levelOf = (name) => minute.customers.get(name)?.latest.level ?? 0;
  for (const [length, customers, number] of [
    [maxBusiest, minute.customers, 'documents'], [maxOthers, waiting, 'pending'], [maxOthers, hour.customers, 'documents'],
  ]) {
    const others = [...customers].filter(([name]) => !names.has(name));
    others.sort(([a, x], [b, y]) => y[number] - x[number] || levelOf(b) - levelOf(a) || (a < b ? -1 : 1));
    for (const [name] of others.slice(0, length)) names.add(name);
  }
  return [...names];
}

function customerOf(name) {
  const raw = Buffer.from(name, 'latin1');
  return isUtf8(raw) ? { customer: raw.toString() } : { customer_base64: raw.toString('base64') };
}

/** Returns a report in JSON of at most 12 KB: it drops the least busy customers. */
function jsonOf(report) {
  const fit = { ...report };
  for (let n = 2; bytes(fit.waits) > maxBytesOfWaits && n <= lastBucket; n *= 2) fit.waits = coarser(report.waits, n);
  while (bytes(fit) > maxBytes && fit.busiest.length > 0) fit.busiest = fit.busiest.slice(0, -1);
  if (bytes(fit) > maxBytes) delete fit.waits; // there are hundreds of levels
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
