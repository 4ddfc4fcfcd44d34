'use strict';

// Follows the policies that operators set while the fleet runs: lua/follow.lua says what is read.

const { isDeepStrictEqual } = require('node:util');
const { checkNames, isObject } = require('./check.js');

const knownFormat = 1; // a later version of the library may store another one
const longestInterval = 9_223_372_036_854; // milliseconds, the limit of Go's durations
const noPolicies = { version: 0, changed: 0 };

class Follower {
  /**
   * What a report says: the version of the policies that are followed, or of their withdrawal;
   * whether the process's own options apply; and, unless the newest policies are followed, why
   * not, as a code for programs and a detail for operators.
   */
  following = { version: 0, own: true };
  /** When operators last changed something, in milliseconds of Redis's clock; 0: they never did. A later reading of an older log leaves it. */
  changed = 0;
  #ask;
  #apply;
  #head = ''; // how the text that is followed begins, so that follow.lua need not send it again
  #newest = noPolicies; // what was read, even if it cannot be followed
  #followed = noPolicies;

  /**
   * ask passes how the known text begins to follow.lua, and returns its reply. apply makes the
   * store decide by { policy, tiers }, or by its own options if undefined, or throws.
   */
  constructor(ask, apply) {
    this.#ask = ask;
    this.#apply = apply;
  }

  /** Asks once, and returns whether that is news for a report. Whatever fails, what is followed stays in force. */
  async poll() {
    let refusal;
    try {
      const [now, latest, text] = await this.#ask(this.#head);
      this.changed = Math.max(this.changed, Math.min(latest, now));
      if (text !== undefined) refusal = this.#read(now, text);
    } catch (error) {
      refusal = refusalOf(error);
    }
    const before = this.following;
    this.following = { version: this.#followed.version, own: this.#followed.policies == null, ...refusal };
    return !isDeepStrictEqual(this.following, before);
  }

  // Follows the policies in a text, or returns why not.
  #read(now, text) {
    this.#head = 'refused'; // so that it is read again: people may repair it and leave its beginning
    const item = parse(text);
    if (item?.format > knownFormat) return { code: 'newer' };
    if (!isValid(item)) return { code: 'corrupt' };
    const { version, changed } = this.#newest;
    if (item.version <= version && item.changed <= changed && (item.version < version || item.changed < changed)) {
      return { code: 'lost', detail: `version ${version} was known, ${item.version || 'none'} is there` };
    }
    this.#newest = { ...item, changed: Math.min(item.changed, now) }; // a time to come would outdo all later changes
    try {
      this.#apply(policiesOf(item.policies));
    } catch (error) {
      return { code: 'invalid', detail: error.message.replace(/^docpriority: /, '') };
    }
    this.#followed = item;
    this.#head = /^\{"version":\d+,"changed":\d+/.exec(text)?.[0] ?? '';
    return undefined;
  }
}

// Returns why Redis's answer did not come. Redis begins its errors with a word in capitals; a
// connection's errors do not begin so.
function refusalOf({ cause }) {
  const [, word] = /^([A-Z][A-Z0-9]{2,}) /.exec(cause?.message) ?? [];
  if (word === 'CORRUPT') return { code: 'corrupt' };
  return word ? { code: 'refused', detail: word } : { code: 'unreachable' };
}

function parse(text) {
  if (text === '') return noPolicies; // the key does not exist
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isValid(item) {
  if (item === noPolicies) return true;
  return [item?.version, item?.changed].every((n) => Number.isSafeInteger(n) && n > 0) && item.version < 1e13;
}

function policiesOf(fields) {
  if (fields == null) return undefined; // they are withdrawn
  if (!isObject(fields)) throw new TypeError('policies must be an object');
  const { tiers, ...policy } = fields;
  if (tiers != null && !isObject(tiers)) throw new TypeError('tiers must be an object');
  const all = Object.entries(tiers ?? {}).map(([name, tier]) => [name, policyOf(tier)]);
  return { policy: policyOf(policy), tiers: Object.fromEntries(all) };
}

const resetModes = { '': undefined, 'last-update': 'sinceLastUpdate', 'last-reset': 'sinceLastReset' };

// A field that is absent, null or 0 has its default, as Go reads it.
function policyOf(fields) {
  checkNames(fields, ['thresholds', 'reset_interval_ms', 'reset_mode', 'loads', 'turns', 'in_order'], 'a policy');
  const { thresholds, reset_interval_ms: interval, reset_mode: mode, loads, turns, in_order: inOrder } = fields;
  if (!Object.hasOwn(resetModes, mode ?? '')) throw new RangeError('reset_mode must be last-update or last-reset');
  if (interval > longestInterval) throw new RangeError('reset_interval_ms is too long');
  return {
    thresholds: thresholds ?? undefined, resetInterval: interval || undefined, resetMode: resetModes[mode ?? ''],
    loads: loads ?? undefined, turns: turns ?? undefined, inOrder: inOrder ?? undefined,
  };
}

module.exports = { Follower };
