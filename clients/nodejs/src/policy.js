'use strict';

// Policies: which level a count or a load has, and the scripts that decide so.

const { createHash } = require('node:crypto');
const texts = require('./lua.js');

const longestLease = 86_400_000;

const maxThresholds = 254; // 255 levels: a queue with one byte for the priority tells no more apart
const maxThreshold = 2 ** 53; // what Redis's Lua, whose numbers are doubles, compares exactly
const maxLevelsByLoad = 63; // what the score of a pending document has room for
const maxLoad = 1e9;

const defaultThresholds = [-2, -4, -6, -8, -10, -12, -14, -20];
const defaultLoads = [2, 8, 32, 128, 512, 2_048, 8_192, 32_768];

const defaultPolicy = () => fillPolicy({});

// Returns a policy with every field filled in, and tables of its own.
function fillPolicy(policy, where = 'policy') {
  checkNames(policy, ['thresholds', 'resetInterval', 'resetMode', 'loads', 'turns'], where);
  const { thresholds = defaultThresholds, resetInterval = 1_500_000, resetMode = 'sinceLastUpdate', turns = 0 } = policy;
  if (!Array.isArray(thresholds)) throw new TypeError(`docpriority: ${where}.thresholds is not an array`);
  if (thresholds.length > maxThresholds) {
    throw new RangeError(`docpriority: ${where}.thresholds: ${thresholds.length} are more than ${maxThresholds}`);
  }
  for (const [i, threshold] of thresholds.entries()) {
    if (!Number.isInteger(threshold) || Math.abs(threshold) > maxThreshold) {
      throw new RangeError(`docpriority: ${where}.thresholds[${i}] = ${threshold} is not a whole number within ±2^53`);
    }
    if (i > 0 && threshold >= thresholds[i - 1]) {
      throw new RangeError(`docpriority: ${where}.thresholds[${i}] = ${threshold} is not below ${thresholds[i - 1]}, the one before`);
    }
  }
  if (!Number.isSafeInteger(resetInterval) || resetInterval < 1) {
    throw new RangeError(`docpriority: ${where}.resetInterval = ${resetInterval} is not a whole number of milliseconds from 1 up`);
  }
  if (resetMode !== 'sinceLastUpdate' && resetMode !== 'sinceLastReset') {
    throw new RangeError(`docpriority: ${where}.resetMode is ${JSON.stringify(resetMode)}, not 'sinceLastUpdate' or 'sinceLastReset'`);
  }
  const { loads = loadsOf(thresholds.length + 1) } = policy;
  checkLoads(loads, turns, where);
  return { thresholds: [...thresholds], resetInterval, resetMode, loads: [...loads], turns };
}

// Returns the default loads of so many levels, or of nine if there are more. With fewer,
// floods stay apart from those who send all day: the last two loads stay, and the levels
// below them are joined.
function loadsOf(levels) {
  const most = defaultLoads.length;
  if (levels > most) return defaultLoads;
  const first = [];
  const joined = levels - 2;
  for (let i = 1; i < joined; i++) {
    // Joined into so many, levels 1 to 7 end evenly spaced.
    first.push(defaultLoads[Math.floor((2 * (most - 1) * i + joined) / (2 * joined)) - 1]);
  }
  return [...first, ...defaultLoads.slice(most - Math.min(levels - 1, 2))];
}

function checkLoads(loads, turns, where) {
  if (!Array.isArray(loads)) throw new TypeError(`docpriority: ${where}.loads is not an array`);
  if (!Number.isInteger(turns) || turns < 0) throw new RangeError(`docpriority: ${where}.turns = ${turns} is not a whole number from 0 up`);
  if (loads.length + 1 + turns > maxLevelsByLoad) {
    throw new RangeError(`docpriority: ${where}: ${loads.length} loads and ${turns} turns are more than ${maxLevelsByLoad} levels`);
  }
  for (const [i, load] of loads.entries()) {
    if (typeof load !== 'number' || !(load >= 1e-6 && load <= maxLoad)) {
      throw new RangeError(`docpriority: ${where}.loads[${i}] = ${load} is not from a millionth to a billion`);
    }
    if (i > 0 && millionths(load) <= millionths(loads[i - 1])) {
      throw new RangeError(`docpriority: ${where}.loads[${i}] = ${load} is not above ${loads[i - 1]}, the one before, by a millionth`);
    }
  }
}

const millionths = (load) => Math.round(load * 1e6);

function levelOf({ thresholds }, count) {
  const level = thresholds.findIndex((threshold) => count >= threshold);
  return 1 + (level < 0 ? thresholds.length : level);
}

// Returns the last level that either rule gives, turns included.
const lastOf = ({ thresholds, loads, turns }) => 1 + Math.max(thresholds.length, loads.length + turns);

// Returns the scripts for a filled policy, a lease in milliseconds, and the
// levels of the queue.
function scriptsOf({ thresholds, resetInterval, resetMode, loads, turns }, lease, levels) {
  const blocks = {
    policy: `local interval = '${resetInterval}'\nlocal since_last_reset = ${resetMode === 'sinceLastReset'}\n`,
    lease: `local longest_lease = ${lease}\n`,
    turns: `local last, turns = ${loads.length + 1}, ${turns}\n`,
    queue: `local queue_levels = ${levels}\n`,
    levels: levelLines(thresholds, (threshold) => `count < ${threshold}`, (threshold) => `count >= ${threshold}`),
    loads: levelLines(loads.map(millionths), (load) => `load > ${load}`, (load) => `load <= ${load}`),
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

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

// Refuses what an object has by a name that nobody would read.
function checkNames(object, names, what) {
  if (!isObject(object)) throw new TypeError(`docpriority: ${what} is not an object`);
  for (const name of Object.keys(object)) {
    if (!names.includes(name)) throw new TypeError(`docpriority: ${what} has no ${JSON.stringify(name)}, only ${names.join(', ')}`);
  }
}

module.exports = { scriptOf, longestLease, defaultPolicy, fillPolicy, millionths, levelOf, lastOf, scriptsOf, isObject, checkNames };
