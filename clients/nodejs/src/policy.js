'use strict';

// Policies: the level of a count or a load, and the scripts that decide it.

const { createHash } = require('node:crypto');
const { checkInteger, checkKind, checkNames } = require('./check.js');
const texts = require('./lua.js');

const longestLease = 86_400_000;
const maxLevels = 255; // as many as a one-byte priority can distinguish
const maxThreshold = 2 ** 53; // the largest that Redis's Lua, with doubles, compares exactly
const maxLoad = 1e9;

const defaultThresholds = [-2, -4, -6, -8, -10, -12, -14, -20];
const defaultLoads = [8, 64, 512, 8192, 32768]; // for six levels or more
const fewerLoads = [[], [], [32768], [8192, 32768], [128, 8192, 32768], [8, 512, 8192, 32768]]; // by number of levels

/**
 * Returns the policies of a store: { last, forTier }. last is the last level that any of them
 * gives; forTier(name) returns what decides for a tier: { policy, scripts, lease, levels }, levels
 * being those of the queue, by default as many as policy has; digest(tiered) returns 16 hex digits
 * of what decides, tiered saying whether customers have tiers. Throws a TypeError or RangeError
 * if a policy is wrong, or has too many levels.
 */
function policiesOf({ policy, tiers }, lease, queueLevels) {
  const filled = fillPolicy(policy);
  const last = lastLevelOf(filled);
  const levels = queueLevels ?? last;
  if (last > levels) throw new RangeError(`docpriority: its queue has ${levels} levels, the policies ${last}`);
  const withScripts = (policy) => ({ policy, scripts: scriptsOf(policy, lease, levels), lease, levels });
  const byTier = new Map(Object.entries(tiers).map(([name, tier]) => {
    const filledTier = fillPolicy(tier, `tiers[${JSON.stringify(name)}]`);
    // One queue compares the levels of all customers.
    if (lastLevelOf(filledTier) > last) throw new RangeError(`docpriority: tier ${JSON.stringify(name.slice(0, 80))} has ${lastLevelOf(filledTier)} levels, more than the ${last} of the policy`);
    return [name, withScripts(filledTier)];
  }));
  const withoutTier = withScripts(filled);
  return { last, forTier: (name) => byTier.get(name) ?? withoutTier, digest: (tiered) => digestOf([['', withoutTier], ...(tiered ? sortedByName(byTier) : [])]) };
}

const sortedByName = (byTier) => [...byTier].sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));

// The scripts have all numbers in their text, so processes with the same digest decide alike.
function digestOf(tiers) {
  const lines = tiers.map(([name, { scripts: { next, submit } }]) => `${name}\n${next.sha1}\n${submit.sha1}\n`);
  return sha1(lines.join('')).slice(0, 16);
}

const defaultPolicy = () => fillPolicy({});

// Returns a policy with every field filled in, and separate tables.
function fillPolicy(policy, where = 'policy') {
  checkNames(policy, ['thresholds', 'resetInterval', 'resetMode', 'loads', 'turns', 'inOrder'], where);
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
  const { turns = 0, inOrder = false } = policy;
  checkInteger(`${where}.turns, behind ${loads.length} loads,`, turns, 0, maxLevels - 1 - loads.length);
  checkKind(`${where}.inOrder`, inOrder, 'boolean');
  return { thresholds: [...thresholds], resetInterval, resetMode, loads: [...loads], turns: turns || (policy.loads ? 0 : levels - 1 - loads.length), inOrder };
}

function checkTable(table, where, isNext, order, kind, isOne) {
  if (!Array.isArray(table)) throw new TypeError(`docpriority: ${where} must be an array`);
  for (const [i, n] of table.entries()) {
    if (typeof n !== 'number' || !isOne(n)) throw new RangeError(`docpriority: ${where}[${i}] = ${n} must be ${kind}`);
    if (i > 0 && !isNext(table[i - 1], n)) throw new RangeError(`docpriority: ${where}[${i}] = ${n} must be ${order} ${table[i - 1]}, the one before`);
  }
}

const millionths = (load) => Math.round(load * 1e6);

/** Returns with how many documents of a flood turn k begins. */
const beginOf = (k, turns) => Math.ceil(2 ** ((12 * k) / turns));

function levelOf({ thresholds }, count) {
  const level = thresholds.findIndex((threshold) => count >= threshold);
  return 1 + (level < 0 ? thresholds.length : level);
}

/** Returns the level of a load in millionths, of which Infinity is beyond all. flood is how many of the customer's documents are a flood's, if this one is. */
function levelOfLoad({ loads, turns }, load, flood) {
  const level = loads.findIndex((bound) => load <= millionths(bound));
  return 1 + (level < 0 ? loads.length + turnOf(flood, turns) : level);
}

function turnOf(flood, turns) {
  let turn = 0;
  while (turn < turns && beginOf(turn + 1, turns) <= flood) turn++;
  return turn;
}

/** Returns a level within bounds; without them, the same level. */
const clamp = (level, earliest = 1, latest = Infinity) => Math.min(Math.max(level, earliest), latest);

// Returns the last level that either rule gives, turns included.
const lastLevelOf = ({ thresholds, loads, turns }) => 1 + Math.max(thresholds.length, loads.length + turns);

// Returns the scripts for a filled policy, a lease in milliseconds, and the
// levels of the queue.
function scriptsOf({ thresholds, resetInterval, resetMode, loads, turns, inOrder }, lease, levels) {
  const blocks = {
    policy: `local interval = '${resetInterval}'\nlocal since_last_reset = ${resetMode === 'sinceLastReset'}\n`,
    lease: `local longest_lease = ${lease}\n`,
    order: `local in_order = ${inOrder}\n`,
    queue: `local queue_levels = ${levels}\n`,
    levels: levelLines('count', thresholds, '<', '>='),
    loads: levelLines('load', loads.map(millionths), '>', '<=') + turnLines(loads.length + 1, turns),
  };
  return Object.fromEntries(['next', 'submit', 'done', 'peek', 'reset'].map((name) => [name, scriptOf(withBlocks(texts[name], blocks))]));
}

/** Returns a script with the digest by which Redis knows it. */
const scriptOf = (text) => ({ text, sha1: sha1(text) });

const sha1 = (text) => createHash('sha1').update(text).digest('hex');

function withBlocks(text, blocks) {
  for (const [name, lines] of Object.entries(blocks)) {
    text = text.replace(new RegExp(`(-- begin ${name}\n)[^]*?(-- end ${name}\n)`), (_, begin, end) => begin + lines + end);
  }
  return text;
}

// Returns the comparisons that find a level: over all bounds, or within one of them. They are
// written as the Go module writes them, so that Redis keeps one script for both.
function levelLines(number, bounds, isOver, isWithin) {
  if (bounds.length === 0) return 'local level = 1\n';
  const lines = bounds.map((bound, i) => `elseif ${number} ${isWithin} ${bound} then level = ${i + 1}\n`);
  return `local level = 1\nif ${number} ${isOver} ${bounds.at(-1)} then level = ${bounds.length + 1}\n${lines.join('')}end\n`;
}

// Returns the comparisons that find the turn of a flood's document. Without turns it has the level
// after those of the loads.
function turnLines(floodLevel, turns) {
  const lines = [];
  for (let k = turns; k > 0; k--) lines.push(`elseif pending_flood >= ${beginOf(k, turns)} then level = ${floodLevel + k}\n`);
  const found = turns > 0 ? `if not flood then -- its level stands\n${lines.join('')}end\n` : '';
  return `local flood = level == ${floodLevel} -- beyond the last load: take turns\n${found}`;
}

module.exports = { policiesOf, scriptOf, longestLease, defaultPolicy, levelOf, levelOfLoad, turnOf, clamp };
