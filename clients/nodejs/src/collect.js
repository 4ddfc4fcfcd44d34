'use strict';

// Counts what callers got in the last minute, for the fleet's reports.

const { isUtf8 } = require('node:buffer');
const { Corrupt, NotCounted, OutcomeUnknown } = require('./errors.js');

const steps = 12; // of the window
const stepLength = 5_000; // milliseconds
const mostCustomers = 1_000; // that are told apart in a step
const mostBusiest = 20;
const mostBytes = 8_192; // of a report, and of the waits in it
const mostBytesOfWaits = 4_096;
const lastBucket = 107;

class Collector {
  #now;
  #joined;
  #steps = []; // the current one last

  /** now returns milliseconds from any begin. */
  constructor(now = () => performance.now()) {
    this.#now = now;
    this.#joined = now();
  }

  /** Counts the decisions of a call, rule being 'count' or 'load'. The customer is bytes in Latin-1. */
  decided(rule, customer, decisions) {
    const step = this.#step();
    for (const { level, ruleLevel, degraded } of decisions) {
      add(step[`by_${rule}`], level, 1);
      if (level !== ruleLevel) step.sums.overridden++;
      if (degraded) step.sums.fallback++;
    }
    const { level, [rule]: number } = decisions.at(-1);
    countCustomer(step.customers, customer, decisions.length, { rule, level, [rule]: number });
  }

  /** Counts documents that were done. */
  ended(ended) {
    const { waits } = this.#step();
    for (const { level, latency } of ended) add((waits[level] ??= {}), bucketOf(latency), 1);
  }

  /** Counts the documents of a call that failed. */
  failed(documents, error) {
    add(this.#step().errors, classOf(error), documents);
  }

  /** Returns a report's numbers. */
  report() {
    const up = Math.floor(this.#now() - this.#joined);
    const sum = newStep(this.#step().number);
    for (const step of this.#steps) {
      for (const name of ['by_count', 'by_load', 'errors', 'sums']) addAll(sum[name], step[name]);
      for (const [level, buckets] of Object.entries(step.waits)) addAll((sum.waits[level] ??= {}), buckets);
      for (const [customer, { documents, ...last }] of step.customers) {
        sum.customers.set(customer, { documents: documents + (sum.customers.get(customer)?.documents ?? 0), ...last });
      }
    }
    const { number, sums, customers, ...rest } = sum;
    const before = Math.max(number - steps + 1, 0) * stepLength;
    return { up_ms: up, window_ms: up - before, ...sums, ...rest, busiest: busiestOf(customers) };
  }

  #step() {
    const number = Math.floor((this.#now() - this.#joined) / stepLength);
    if (this.#steps.at(-1)?.number !== number) {
      this.#steps = [...this.#steps.filter((step) => step.number > number - steps), newStep(number)];
    }
    return this.#steps.at(-1);
  }
}

/** Returns a report in JSON of at most 8 KB: it leaves out the least busy customers. */
function jsonOf(report) {
  const { busiest, ...rest } = report;
  for (let n = 2; bytes(rest.waits) > mostBytesOfWaits && n <= lastBucket; n *= 2) rest.waits = coarser(report.waits, n);
  let size = bytes({ ...rest, busiest });
  const kept = [...busiest];
  while (size > mostBytes && kept.length > 0) size -= bytes(kept.pop());
  if (size > mostBytes) delete rest.waits; // of hundreds of levels
  return JSON.stringify({ ...rest, busiest: kept });
}

const bytes = (value) => Buffer.byteLength(JSON.stringify(value));

const newStep = (number) => ({ number, by_count: {}, by_load: {}, sums: { overridden: 0, fallback: 0 }, errors: {}, waits: {}, customers: new Map() });

const add = (to, key, n) => (to[key] = (to[key] ?? 0) + n);

function addAll(to, counts) {
  for (const [key, n] of Object.entries(counts)) add(to, key, n);
}

// Counts exactly while there are no more customers than are told apart; else it counts
// no customer too high, and too low by at most one in a thousand of all documents. So the
// busiest are among them (Misra and Gries).
function countCustomer(customers, name, documents, last) {
  const known = customers.get(name);
  if (!known && customers.size >= mostCustomers) {
    let fewest = documents;
    for (const other of customers.values()) fewest = Math.min(fewest, other.documents);
    for (const [key, other] of customers) {
      other.documents -= fewest;
      if (other.documents === 0) customers.delete(key);
    }
    documents -= fewest;
    if (documents === 0) return;
  }
  customers.set(name, { documents: documents + (known?.documents ?? 0), ...last });
}

function busiestOf(customers) {
  const all = [...customers].sort(([a, x], [b, y]) => y.documents - x.documents || y.level - x.level || (a < b ? -1 : 1));
  return all.slice(0, mostBusiest).map(([name, numbers]) => {
    const raw = Buffer.from(name, 'latin1');
    return { ...(isUtf8(raw) ? { customer: raw.toString() } : { customer_base64: raw.toString('base64') }), ...numbers };
  });
}

// Bucket i has what waited at most 2^(i/4) milliseconds.
const bucketOf = (milliseconds) => (milliseconds <= 1 ? 0 : Math.min(Math.ceil(4 * Math.log2(milliseconds)), lastBucket));

// Returns histograms with one bucket in place of n: with the longest waits among theirs.
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
