'use strict';

// Policies: the level of a count or a load, and the scripts that decide it.

const { createHash } = require('node:crypto');
const { checkInteger, checkNames } = require('./check.js');
const texts = require('./lua.js');

const longestLease = 86_400_000;
const maxLevels = 255; // as many as a one-byte priority can distinguish
const maxThreshold = 2 ** 53; // the largest that Redis's Lua, with doubles, compares exactly
const maxLoad = 1e9;

const defaultThresholds = [-2, -4, -6, -8, -10, -12, -14, -20];
const defaultLoads = [8, 64, 512, 8_192, 32_768]; // for six levels or more
const fewerLoads = [[], [], [32_768], [8_192, 32_768], [128, 8_192, 32_768], [8, 512, 8_192, 32_768]]; // by number of levels

/** Why rules are not for this process, in words for operators. */
class Unusable extends RangeError {}

/**
 * Returns the policies of a store: { last, of }, last being the last level that any of them
 * gives, and of(tier) what decides for a tier: { policy, scripts, lease, levels }. levels are
 * those of the queue, by default as many as policy has. Throws a TypeError or RangeError if a
 * policy is wrong, or a tier has more levels than policy.
 */
function policiesOf({ policy, tiers }, lease, queueLevels) {
  const filled = fillPolicy(policy);
  const last = lastOf(filled);
  const levels = queueLevels ?? last;
  if (last > levels) throw new Unusable(`its queue has ${levels} levels, the rules ${last}`);
  const withScripts = (policy) => ({ policy, scripts: scriptsOf(policy, lease, levels), lease, levels });
  const ofTiers = new Map(Object.entries(tiers).map(([name, tier]) => {
    const its = fillPolicy(tier, `tiers[${JSON.stringify(name)}]`);
    // One queue compares the levels of all customers.
    if (lastOf(its) > last) throw new Unusable(`docpriority: tier ${JSON.stringify(name.slice(0, 80))} has ${lastOf(its)} levels, more than the ${last} of the policy`);
    return [name, withScripts(its)];
  }));
  const others = withScripts(filled);
  return { last, of: (tier) => ofTiers.get(tier) ?? others };
}

const defaultPolicy = () => fillPolicy({});

// Returns a policy with every field filled in, and separate tables.
function fillPolicy(policy, where = 'policy') {
  checkNames(policy, ['thresholds', 'resetInterval', 'resetMode', 'loads', 'turns'], where);
  const { thresholds = defaultThresholds, resetInterval = 1_500_000, resetMode = 'sinceLastUpdate' } = policy;
  checkTable(thresholds, `${where}.thresholds`, (a, b) => b < a, 'below', `a whole number within ±2^53`, (n) => Number.isInteger(n) && Math.abs(n) <= maxThreshold);
  const levels = thresholds.length + 1;
  if (levels > maxLevels) throw new RangeError(`docpriority: ${where}.thresholds: ${levels - 1} are more than ${maxLevels - 1}`);
  checkInteger(`${where}.resetInterval`, resetInterval, 1, Number.MAX_SAFE_INTEGER);
  if (resetMode !== 'sinceLastUpdate' && resetMode !== 'sinceLastReset') {
    throw new RangeError(`docpriority: ${where}.resetMode is ${JSON.stringify(resetMode)}, not 'sinceLastUpdate' or 'sinceLastReset'`);
  }
  const { loads = fewerLoads[levels] ?? defaultLoads } = policy;
  checkTable(loads, `${where}.loads`, (a, b) => millionths(b) > millionths(a), 'a millionth above', 'from a millionth to a billion', (load) => load >= 1e-6 && load <= maxLoad);
  const { turns = 0 } = policy;
  checkInteger(`${where}.turns, behind ${loads.length} loads,`, turns, 0, maxLevels - 1 - loads.length);
  return { thresholds: [...thresholds], resetInterval, resetMode, loads: [...loads], turns: turns || (policy.loads ? 0 : levels - 1 - loads.length) };
}

function checkTable(table, where, isNext, order, kind, isOne) {
  if (!Array.isArray(table)) throw new TypeError(`docpriority: ${where} is not an array`);
  for (const [i, n] of table.entries()) {
    if (typeof n !== 'number' || !isOne(n)) throw new RangeError(`docpriority: ${where}[${i}] = ${n} is not ${kind}`);
    if (i > 0 && !isNext(table[i - 1], n)) throw new RangeError(`docpriority: ${where}[${i}] = ${n} is not ${order} ${table[i - 1]}, the one before`);
  }
}

const millionths = (load) => Math.round(load * 1e6);

/** Returns with how many documents beyond the last load turn k begins. */
const beginOf = (k, turns) => Math.ceil(2 ** ((12 * k) / turns));

function levelOf({ thresholds }, count) {
  const level = thresholds.findIndex((threshold) => count >= threshold);
  return 1 + (level < 0 ? thresholds.length : level);
}

/** Returns the level of a load in millionths, with beyond documents beyond the last load, this one included. */
function levelOfLoad({ loads, turns }, load, beyond) {
  const level = loads.findIndex((most) => load <= millionths(most));
  return 1 + (level < 0 ? loads.length + turnOf(beyond, turns) : level);
}

function turnOf(beyond, turns) {
  let turn = 0;
  while (turn < turns && beginOf(turn + 1, turns) <= beyond) turn++;
  return turn;
}

/** Returns a level within the bounds of an override, if there is one. */
const within = (level, earliest = 1, latest = Infinity) => Math.min(Math.max(level, earliest), latest);

// Returns the last level that either rule gives, turns included.
const lastOf = ({ thresholds, loads, turns }) => 1 + Math.max(thresholds.length, loads.length + turns);

// Returns the scripts for a filled policy, a lease in milliseconds, and the
// levels of the queue.
function scriptsOf({ thresholds, resetInterval, resetMode, loads, turns }, lease, levels) {
  const blocks = {
    policy: `local interval = '${resetInterval}'\nlocal since_last_reset = ${resetMode === 'sinceLastReset'}\n`,
    lease: `local longest_lease = ${lease}\n`,
    queue: `local queue_levels = ${levels}\n`,
    levels: levelLines(thresholds, (threshold) => `count < ${threshold}`, (threshold) => `count >= ${threshold}`),
    loads: levelLines(loads.map(millionths), (load) => `load > ${load}`, (load) => `load <= ${load}`) + turnLines(loads.length + 1, turns),
  };
  return Object.fromEntries(['next', 'submit', 'done', 'peek', 'reset'].map((name) => [name, scriptOf(withBlocks(texts[name], blocks))]));
}

/** Returns a script with its digest, by which Redis knows it. */
const scriptOf = (text) => ({ text, digest: createHash('sha1').update(text).digest('hex') });

function withBlocks(text, blocks) {
  for (const [name, lines] of Object.entries(blocks)) {
    text = text.replace(new RegExp(`(-- begin ${name}\n)[^]*?(-- end ${name}\n)`), (_, begin, end) => begin + lines + end);
  }
  return text;
}

// The comparisons that find a level: beyond the last bound, or within one of them. They are
// written as the Go module writes them, so Redis keeps one script for both.
function levelLines(bounds, beyond, within) {
  const n = bounds.length;
  if (n === 0) return 'local level = 1\n';
  const lines = bounds.map((bound, i) => `elseif ${within(bound)} then level = ${i + 1}\n`);
  return `local level = 1\nif ${beyond(bounds[n - 1])} then level = ${n + 1}\n${lines.join('')}end\n`;
}

// The comparisons that find the turn of a document beyond the last load, whose level is last.
function turnLines(last, turns) {
  const lines = [];
  for (let k = turns; k > 0; k--) lines.push(`elseif beyond + 1 >= ${beginOf(k, turns)} then level = ${last + k}\n`);
  const found = turns > 0 ? `if not flood then -- its level stands\n${lines.join('')}end\n` : '';
  return `local flood = level == ${last} -- beyond the last load: take turns\n${found}`;
}

module.exports = { policiesOf, Unusable, scriptOf, longestLease, defaultPolicy, fillPolicy, levelOf, levelOfLoad, turnOf, within, lastOf };
