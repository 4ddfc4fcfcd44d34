'use strict';

// The policies that operators set while the fleet runs: lua/follow.lua says what is read.

const { checkNames, isObject } = require('./check.js');
const { Unusable } = require('./policy.js');

const format = 1; // of rules
const longestInterval = 9_223_372_036_854; // milliseconds, as Go has times
const wholeEvery = 60_000; // milliseconds: the rules alone may have been lost, or repaired

class Follower {
  /** The version of the rules that are followed, or of their withdrawal, and why no newer ones are. */
  status = { version: 0, error: '' };
  #ask;
  #use;
  #seen = ''; // what the key of the version held
  #wholeAt = 0; // when the rules were read
  #newest = versionOf('');
  #rules = versionOf(''); // that are followed
  #refused = ''; // why what was read is not used

  /**
   * ask is given the text of the version that is known, and returns the script's reply; use
   * goes by { policy, tiers }, undefined: by the options, or throws.
   */
  constructor(ask, use) {
    this.#ask = ask;
    this.#use = use;
  }

  /** Asks once, and returns whether the status has changed. Whatever fails, the known rules stay in force. */
  async poll() {
    const before = this.status;
    let error;
    const now = performance.now();
    try {
      const reply = await this.#ask(now - this.#wholeAt > wholeEvery ? '' : this.#seen);
      if (reply.length > 1) {
        this.#wholeAt = now;
        this.#refused = this.#learn(reply[0], reply[1] ?? '');
      }
      error = this.#refused;
    } catch (failure) {
      error = reasonOf(failure);
    }
    this.status = { version: this.#rules.version, error };
    return before.version !== this.status.version || before.error !== error;
  }

  // Goes by what was read. Returns why it does not, or what Redis has lost.
  #learn(seen, text) {
    try {
      this.#seen = seen;
      const version = versionOf(seen);
      let lost = '';
      if (isNewer(version, this.#newest)) this.#newest = version;
      else if (seen !== this.#newest.text) lost = lostData('version', this.#newest, `${version.version} is there`);
      if (text === this.#rules.text) return lost;
      if (text === '') return lostData('rules of version', this.#rules, 'none are there');
      const rules = itemOf(text);
      if (!isNewer(rules, this.#rules)) return lostData('rules of version', this.#rules, `${rules.version} is there`);
      this.#use(rules.rules);
      this.#rules = rules;
      return lost;
    } catch (error) {
      return error instanceof Unusable ? error.message.replace(/^docpriority: /, '') : unreadable;
    }
  }
}

// After a failover two changes may have the same version.
const isNewer = (a, b) => a.version > b.version || a.at > b.at || (a.version === b.version && a.text !== b.text);

// An operator decides what then holds, and not this process.
const lostData = (what, { version }, there) => `Redis lost data: ${what} ${version} ${what === 'version' ? 'was' : 'were'} known, ${there}`;

const unreadable = 'the rules in Redis cannot be read';

// Reads what the key of the version holds; nothing is version 0.
function versionOf(text) {
  if (text === '') return { version: 0, at: 0, text };
  const [, version, at] = /^([1-9]\d{0,14}) (\d{1,15}) [^ ]+$/.exec(text) ?? [];
  if (version === undefined) throw new TypeError('the version is not one');
  return { version: Number(version), at: Number(at), text };
}

// Reads what the key of the rules holds.
function itemOf(text) {
  const item = JSON.parse(text);
  if (item?.format > format) throw new Unusable('a later version of the library wrote the rules');
  const { version, at, rules } = item;
  if (![version, at].every((n) => Number.isSafeInteger(n) && n > 0)) throw new TypeError('the rules are not an item of lua/change.lua');
  return { version, at, text, rules: rules == null ? undefined : rulesOf(rules) };
}

function rulesOf(rules) {
  if (!isObject(rules)) throw new TypeError('rules is not an object');
  const { tiers, ...policy } = rules;
  if (tiers != null && !isObject(tiers)) throw new TypeError('tiers is not an object');
  const all = Object.entries(tiers ?? {}).map(([name, tier]) => [name, policyOf(tier)]);
  return { policy: policyOf(policy), tiers: Object.fromEntries(all) };
}

const resetModes = { '': undefined, 'last-update': 'sinceLastUpdate', 'last-reset': 'sinceLastReset' };

// A field that is absent, null or 0 has its default, as Go reads it.
function policyOf(policy) {
  checkNames(policy, ['thresholds', 'reset_interval_ms', 'reset_mode', 'loads', 'turns'], 'a policy');
  const { thresholds, reset_interval_ms: interval, reset_mode: mode, loads, turns } = policy;
  if (!Object.hasOwn(resetModes, mode ?? '')) throw new RangeError('reset_mode is not last-update or last-reset');
  if (interval > longestInterval) throw new RangeError('reset_interval_ms is too long');
  return {
    thresholds: thresholds ?? undefined, resetInterval: interval || undefined, resetMode: resetModes[mode ?? ''],
    loads: loads ?? undefined, turns: turns ?? undefined,
  };
}

// Says for operators why the rules cannot be read now.
function reasonOf({ cause }) {
  const [, code] = /^([A-Z]{3,}) /.exec(cause?.message) ?? [];
  if (code === 'CORRUPT') return unreadable;
  return code ? `Redis refuses to show the rules: ${code}` : 'Redis does not answer';
}

module.exports = { Follower };
