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

const followEvery = 500; // milliseconds, like the next ones
const reportEvery = 5_000;
const timeout = 1_000;
const lasts = 3_600_000; // for which a report stays in Redis
const listEvery = 60_000; // a member is listed

const scripts = { follow: scriptOf(texts.follow), report: scriptOf(texts.report) };

function join(client, options = {}) {
  checkNames(options, [...optionNames, 'name'], 'options');
  const { name = `${hostname()}-${process.pid}`, overrides = true, fallback = true, ...settings } = options;
  checkKind('name', name, 'string');
  if (Buffer.byteLength(name) > 100) throw new RangeError('docpriority: name has more than 100 bytes');
  const store = new Store(client, { overrides, fallback, ...settings });
  store[enter]((fleet) => new Member(name, fleet));
  return store;
}

class Member {
  /** What callers got. */
  seen = new Collector();
  #fleet; // what the store gives its member
  #who; // the fields that are the same in all reports
  #rules;
  #over = new AbortController(); // when the member leaves
  #background;
  #listed; // when report.lua last ran
  #replied = 0; // by report.lua, the last time; 0: never

  constructor(name, fleet) {
    this.#fleet = fleet;
    this.#who = {
      format: 1, id: randomBytes(8).toString('hex'), name: plain(name, 100), language: 'nodejs', version,
      host: plain(hostname(), 100), pid: process.pid, levels: fleet.levels, overrides: fleet.overrides,
    };
    this.#rules = new Follower((known) => this.#askRules(known), fleet.goBy);
    this.#background = this.#run();
  }

  /** Removes the report. If that fails, it expires. */
  async leave() {
    this.#over.abort();
    await this.#background;
    if (this.#listed !== undefined) await this.#list('').catch(() => {});
  }

  // Nothing here keeps the process alive, or fails.
  async #run() {
    const { signal } = this.#over;
    const pause = (milliseconds) => sleep(milliseconds * (0.9 + Math.random() / 5), undefined, { ref: false, signal }).catch(() => {});
    await pause(0); // the caller gets the store before anything is sent
    for (let reported = -Infinity; !signal.aborted; await pause(followEvery)) {
      const isNews = await this.#rules.poll();
      if (signal.aborted || (!isNews && performance.now() - reported < reportEvery)) continue;
      reported = performance.now();
      await this.#report(signal).catch(() => {});
    }
  }

  #askRules(known) {
    return this.#ask('follow', ['{control}:rules'], [known], this.#over.signal, {
      readOnly: true, isReply: ([now, rules = '']) => Number.isSafeInteger(now) && typeof rules === 'string',
    });
  }

  // If there is a report, a SET renews it for a tenth of the cost of report.lua.
  async #report(signal) {
    const now = performance.now();
    const { status } = this.#rules;
    const text = jsonOf({
      ...this.#who, rules: { ...status, error: plain(status.error, 200) }, degraded: this.#fleet.isDegraded(),
      ...this.seen.report(),
    });
    const key = this.#fleet.key(`{fleet}:${this.#who.id}`);
    const renew = (wire, deadline) => wire.send(['SET', key, text, 'PX', String(lasts), 'XX'], key, deadline);
    if (now - this.#listed < listEvery && (await this.#fleet.within(timeout, signal, renew)) !== null) return;
    this.#listed ??= -Infinity; // from here on there may be a report
    [this.#replied] = await this.#list(text, signal);
    this.#listed = now;
  }

  // Writes a report and lists the member; an empty report removes both.
  #list(report, signal) {
    const { id } = this.#who;
    const args = [id, report, String(this.#replied)];
    return this.#ask('report', [`{fleet}:${id}`, '{fleet}:members', '{fleet}:emptied'], args, signal, { repeatable: true, isReply: isIntegers(1) });
  }

  #ask(name, keys, args, signal, rest) {
    const call = { operation: name, script: scripts[name], keys: keys.map(this.#fleet.key), args, ...rest };
    return this.#fleet.within(timeout, signal, (wire, deadline) => run(wire, call, deadline));
  }
}

// Returns a printable text of at most so many bytes.
function plain(text, most) {
  let printed = text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '?');
  while (Buffer.byteLength(printed) > most) printed = [...printed].slice(0, -1).join('');
  return printed;
}

module.exports = { join };
