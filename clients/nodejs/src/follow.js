'use strict';

// The policies that operators set while the fleet runs: lua/follow.lua says what is read.

const { checkNames, isObject } = require('./check.js');
const { Unusable } = require('./policy.js');

const format = 1; // of rules
const longestInterval = 9_223_372_036_854; // milliseconds, the limit of Go's durations
const none = { version: 0, changed: 0 };

class Follower {
  /** The version of the rules that are followed, or of their withdrawal; whether the options apply; and why newer rules do not. */
  status = { version: 0, own: true, error: '' };
  #ask;
  #use;
  #head = ''; // beginning of the rules in Redis, for follow.lua
  #newest = none; // that was read, usable or not
  #followed = none;
  #refused = ''; // why the rules that were read are not used

  /**
   * ask gets the beginning of the known rules and returns the script's reply; use
   * follows { policy, tiers }, or the options if undefined, or throws.
   */
  constructor(ask, use) {
    this.#ask = ask;
    this.#use = use;
  }

  /** Asks once, and returns whether the status has changed. Whatever fails, the known rules stay in force. */
  async poll() {
    const before = this.#followed;
    let error;
    try {
      const [, text] = await this.#ask(this.#head);
      if (text !== undefined) this.#refused = this.#read(text);
      error = this.#refused;
    } catch (failure) {
      error = reasonOf(failure);
    }
    const isNews = this.#followed !== before || this.status.error !== error;
    this.status = { version: this.#followed.version, own: this.#followed.rules === undefined, error };
    return isNews;
  }

  // Follows the rules that were read, or returns why not.
  #read(text) {
    this.#head = text && (/^\{"version":\d+,"changed":\d+/.exec(text)?.[0] ?? 'junk');
    try {
      const { version, changed } = this.#newest;
      const read = itemOf(text);
      if (read.version <= version && read.changed <= changed && (read.version < version || read.changed < changed)) {
        return `Redis lost data: version ${version} was known, ${read.version || 'none'} is there`;
      }
      this.#newest = read;
      this.#use(rulesOf(read.rules));
      this.#followed = read;
      return '';
    } catch (error) {
      return error instanceof Unusable ? error.message.replace(/^docpriority: /, '') : unreadable;
    }
  }
}

const unreadable = 'the rules in Redis cannot be read';

// Parses what rules.lua stores; without a value, version 0 and no rules.
function itemOf(text) {
  if (text === '') return none;
  const item = JSON.parse(text);
  if (item?.format > format) throw new Unusable('a later version of the library wrote the rules');
  const { version, changed, rules } = item;
  if (![version, changed].every((n) => Number.isSafeInteger(n) && n > 0) || version >= 1e13) throw new TypeError('not written by rules.lua');
  return { version, changed, rules: rules ?? undefined };
}

function rulesOf(rules) {
  if (rules === undefined) return undefined;
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

// Tells operators why the rules cannot be read now.
function reasonOf({ cause }) {
  const [, code] = /^([A-Z]{3,}) /.exec(cause?.message) ?? [];
  if (code === 'CORRUPT') return unreadable;
  return code ? `Redis refuses to show the rules: ${code}` : 'Redis does not answer';
}

module.exports = { Follower };
