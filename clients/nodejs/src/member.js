'use strict';

// A process's place in the fleet: it follows what operators set, and reports what it did.

const { randomBytes } = require('node:crypto');
const { hostname } = require('node:os');
const { setTimeout: sleep } = require('node:timers/promises');
const { checkKind, checkNames } = require('./check.js');
const { Collector, jsonOf } = require('./collect.js');
const { Follower } = require('./follow.js');
const { version } = require('../package.json');
const texts = require('./lua.js');
const { scriptOf } = require('./policy.js');
const { isIntegers, run } = require('./run.js');
const { enter, optionNames, Store } = require('./store.js');

// In milliseconds:
const followEvery = 500;
const reportEvery = 5_000;
const addEvery = 45_000; // to the history, before the collector forgets a step
const timeout = 1_000; // nobody waits for these calls

const scripts = { follow: scriptOf(texts.follow), report: scriptOf(texts.report) };

function join(client, options = {}) {
  checkNames(options, [...optionNames, 'name'], 'options');
  const { name = `${hostname()}-${process.pid}`, overrides = true, fallback = true, ...settings } = options;
  checkKind('name', name, 'string');
  if (Buffer.byteLength(name) > 100) throw new RangeError('docpriority: name has more than 100 bytes');
  const store = new Store(client, { overrides, fallback, ...settings });
  store[enter]((internals) => new Member(name, internals));
  return store;
}

class Member {
  /** Counts what callers got. */
  collector = new Collector();
  #store; // the internals that its store lends to the member
  #identity; // the fields that are the same in all reports
  #follower;
  #leaving = new AbortController();
  #background;
  #mayBeReported = false; // if so, the report must be removed in the end
  #addedAt = -Infinity; // to the history
  #replied = 0; // Redis's time in the latest reply of report.lua; 0: there was none

  constructor(name, store) {
    this.#store = store;
    this.#identity = {
      format: 1, id: randomBytes(8).toString('hex'), name: printable(name, 100), language: 'nodejs', version,
      host: printable(hostname(), 100), pid: process.pid, levels: store.levels, overrides: store.overrides, accounts: store.accounts || undefined,
    };
    this.#follower = new Follower((head) => this.#askPolicies(head), store.applyPolicies);
    this.#background = this.#run();
  }

  /** Removes the report. If that fails, it expires. */
  async leave() {
    this.#leaving.abort();
    await this.#background;
    if (this.#mayBeReported) await this.#write('', true).catch(() => {});
  }

  // Nothing here keeps the process alive, or fails.
  async #run() {
    const { signal } = this.#leaving;
    const pause = (milliseconds) => sleep(milliseconds * (0.9 + Math.random() / 5), undefined, { ref: false, signal }).catch(() => {});
    await pause(0); // the caller gets the store before anything is sent
    for (let reportedAt = -Infinity; !signal.aborted; await pause(followEvery)) {
      const isNews = await this.#follower.poll();
      if (signal.aborted || (!isNews && performance.now() - reportedAt < reportEvery)) continue;
      reportedAt = performance.now();
      await this.#report().catch(() => {});
    }
  }

  #askPolicies(head) {
    return this.#ask('follow', ['{control}:policies', '{control}:log'], [head], {
      readOnly: true, isReply: ([now, latest, text = '']) => Number.isSafeInteger(now) && Number.isSafeInteger(latest) && typeof text === 'string',
    });
  }

  async #report() {
    const now = performance.now();
    const { following, changed } = this.#follower;
    const text = jsonOf({
      ...this.#identity, following: { ...following, detail: following.detail && printable(following.detail, 200) },
      written_ms: Date.now(), digest: this.#store.digest(), changed_ms: changed || undefined,
      degraded: this.#store.isDegraded(), ...this.collector.report(),
    });
    this.#mayBeReported = true;
    await this.#write(text, now - this.#addedAt >= addEvery);
  }

  // Writes a report, and perhaps adds to the history; an empty report ends all of it.
  async #write(report, adds) {
    const { id } = this.#identity;
    const { fields, added } = adds ? this.collector.history(report === '') : { fields: {} };
    const args = [id, report, String(this.#replied), ...Object.entries(fields).flat().map(String)];
    const keys = [`{fleet}:${id}`, '{fleet}:members', '{fleet}:emptied', '{fleet}:history'];
    [this.#replied] = await this.#ask('report', keys, args, { repeatable: true, isReply: isIntegers(1) });
    if (!adds) return;
    added();
    this.#addedAt = performance.now();
  }

  #ask(name, keys, args, properties) {
    const call = { operation: name, script: scripts[name], keys: keys.map(this.#store.key), args, ...properties };
    return this.#store.withDeadline(timeout, (wire, deadline) => run(wire, call, deadline));
  }
}

// Returns a text of at most so many bytes, with a question mark for what cannot be printed.
function printable(text, maxBytes) {
  let printed = text.slice(0, maxBytes).replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '?');
  while (Buffer.byteLength(printed) > maxBytes) printed = [...printed].slice(0, -1).join('');
  return printed;
}

module.exports = { join };
