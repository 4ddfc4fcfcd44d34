'use strict';

// A process's place in the fleet: it goes by what operators set, and reports what it did.
// Documented in index.d.ts.

const { randomBytes } = require('node:crypto');
const { hostname } = require('node:os');
const { setTimeout: sleep } = require('node:timers/promises');
const { Collector, jsonOf } = require('./collect.js');
const { Follower } = require('./follow.js');
const { version } = require('../package.json');
const texts = require('./lua.js');
const { scriptOf } = require('./policy.js');
const { isIntegers } = require('./run.js');
const { ask, goBy, part, set, Store } = require('./store.js');

const reportEvery = 5_000; // milliseconds, as the following ones
const reportTimeout = 1_000;
const lasts = 30_000; // for which a report stays in Redis
const listEvery = 60_000; // a member is listed
const followTimeout = 2_000;

const scripts = { follow: scriptOf(texts.follow), report: scriptOf(texts.report) };

const join = (client, options) => new Member(client, options);

class Member extends Store {
  #fallback; // whether there is one
  #who; // what is the same in all reports
  #interval;
  #rules;
  #seen = new Collector();
  #over = new AbortController(); // when the member is closed
  #calls = new AbortController(); // ends those in the background
  #background;
  #changed = () => {}; // ends the pause before the next report
  #listed; // when report.lua was run last

  constructor(client, { name = `${hostname()}-${process.pid}`, interval = 500, onChange, overrides = true, fallback = true, ...options } = {}) {
    super(client, { overrides, fallback, ...options });
    this.#fallback = fallback;
    if (typeof name !== 'string') throw new TypeError('docpriority: name is not a string');
    if (Buffer.byteLength(name) > 100) throw new RangeError('docpriority: name has more than 100 bytes');
    if (!Number.isInteger(interval) || interval < 10 || interval > 60_000) {
      throw new RangeError(`docpriority: interval = ${interval} is not a whole number of milliseconds from 10 to 60000`);
    }
    if (onChange !== undefined && typeof onChange !== 'function') throw new TypeError('docpriority: onChange is not a function');
    this.#who = {
      format: 1, id: randomBytes(8).toString('hex'), name: plain(name, 100), language: 'nodejs', version,
      host: plain(hostname(), 100), pid: process.pid, levels: this.last, overrides,
    };
    this.#interval = interval;
    this.#rules = new Follower((known, signal) => this.#askRules(known, signal), (rules) => this[goBy](rules), (status) => {
      this.#changed();
      tell(onChange, status);
    });
    this.#background = this.#run();
  }

  get rules() {
    return this.#rules.status;
  }

  report() {
    const { version: followed, error } = this.rules;
    const seen = this.#seen.report();
    if (this.#fallback) seen.degraded = this.degraded;
    return { ...this.#who, rules: { version: followed, error: plain(error, 200) }, ...seen };
  }

  async next(customer, options) {
    return this.#decided('count', customer, 1, super.next(customer, options));
  }

  async nextN(customer, n, options) {
    return this.#decided('count', customer, n, super.nextN(customer, n, options));
  }

  async submit(customer, document, options) {
    return this.#decided('load', customer, 1, super.submit(customer, document, options));
  }

  async submitN(customer, documents, options) {
    return this.#decided('load', customer, documents?.length, super.submitN(customer, documents, options));
  }

  async done(customer, document, took, options) {
    return this.#ended(1, super.done(customer, document, took, options));
  }

  async doneN(customer, documents, took, options) {
    return this.#ended(documents?.length, super.doneN(customer, documents, took, options));
  }

  async close() {
    this.#over.abort();
    this.#changed();
    this.#calls.abort();
    await super.close();
  }

  // Before the connections end, the report is removed. Where that fails, it ends by itself.
  async [part]() {
    await this.#background;
    if (this.#listed === undefined) return;
    this.#listed = undefined;
    await this.#list('').catch(() => {});
  }

  async #decided(rule, customer, documents, call) {
    const answer = await this.#noted(documents, call);
    this.#seen.decided(rule, customer, [answer].flat());
    return answer;
  }

  async #ended(documents, call) {
    const answer = await this.#noted(documents, call);
    this.#seen.ended([answer ?? []].flat());
    return answer;
  }

  async #noted(documents, call) {
    try {
      return await call;
    } catch (error) {
      this.#seen.failed(Number.isInteger(documents) && documents > 0 ? documents : 1, error);
      throw error;
    }
  }

  // Nothing here keeps the process from ending, or fails.
  async #run() {
    const { signal: over } = this.#over;
    const pause = (milliseconds, signal = over) => sleep(milliseconds * (0.9 + Math.random() / 5), undefined, { ref: false, signal }).catch(() => {});
    await pause(0); // the caller has the member before anything is sent
    const poll = () => !over.aborted && this.#rules.poll(this.#calls.signal);
    await poll(); // so the first report says what is followed
    const follow = async () => {
      while (!over.aborted) {
        await pause(this.#interval);
        await poll();
      }
    };
    const report = async () => {
      while (!over.aborted) {
        const changed = new AbortController();
        this.#changed = () => changed.abort();
        await this.#write(jsonOf(this.report()), this.#calls.signal).catch(() => {});
        await pause(reportEvery, changed.signal);
      }
    };
    await Promise.all([follow(), report()]);
  }

  #askRules(known, signal) {
    return this[ask]({
      operation: 'follow', keys: ['{control}:version', '{control}:rules'], args: [known], script: scripts.follow,
      readOnly: true, timeout: followTimeout, isReply: ([text, rules]) => typeof text === 'string' && (rules == null || typeof rules === 'string'),
    }, signal);
  }

  // A SET renews a report for a tenth of what report.lua costs, if there is one.
  async #write(report, signal) {
    const now = performance.now();
    if (now - this.#listed < listEvery && (await this[set](`{fleet}:${this.#who.id}`, report, lasts, reportTimeout, signal))) return;
    this.#listed ??= -Infinity; // from here on there may be a report
    await this.#list(report, reportTimeout, signal);
    this.#listed = now;
  }

  // Writes a report and lists the member; an empty report removes both.
  #list(report, timeout, signal) {
    const { id } = this.#who;
    return this[ask]({
      operation: 'report', keys: [`{fleet}:${id}`, '{fleet}:members'], args: [id, report], script: scripts.report,
      repeatable: true, timeout, isReply: isIntegers(1),
    }, signal);
  }
}

// What a caller's function throws is not the member's error.
async function tell(onChange, status) {
  try {
    await onChange?.(status);
  } catch (error) {
    process.emitWarning(error instanceof Error ? error : String(error));
  }
}

// Returns a text of at most so many bytes that can be printed.
function plain(text, most) {
  let printed = text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '?');
  while (Buffer.byteLength(printed) > most) printed = [...printed].slice(0, -1).join('');
  return printed;
}

module.exports = { join };
