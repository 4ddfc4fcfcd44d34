// Policies: which level a count has, and the scripts that decide so.

import { readFileSync } from 'node:fs';

export const longestLease = 86_400_000;

const maxThresholds = 254; // 255 levels: a queue with one byte for the priority tells no more apart
const maxThreshold = 2 ** 53; // what Redis's Lua, whose numbers are doubles, compares exactly

export function defaultPolicy() {
  return { thresholds: [-2, -4, -6, -8, -10, -12, -14, -20], resetInterval: 1_500_000, resetMode: 'sinceLastUpdate' };
}

// Returns a policy with every field filled in, and thresholds of its own.
export function fillPolicy(policy, where = 'policy') {
  checkNames(policy, ['thresholds', 'resetInterval', 'resetMode'], where);
  const { thresholds, resetInterval, resetMode } = { ...defaultPolicy(), ...withoutUndefined(policy) };
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
  return { thresholds: [...thresholds], resetInterval, resetMode };
}

export function levelOf({ thresholds }, count) {
  const level = thresholds.findIndex((threshold) => count >= threshold);
  return 1 + (level < 0 ? thresholds.length : level);
}

// Returns the texts of the scripts for a filled policy and a lease in milliseconds.
export function scriptsOf({ thresholds, resetInterval, resetMode }, lease) {
  const blocks = {
    policy: `local interval = '${resetInterval}'\nlocal since_last_reset = ${resetMode === 'sinceLastReset'}\n`,
    levels: levelLines(thresholds),
    lease: `local longest_lease = ${lease}\n`,
    scale: `local first = ${Math.max(1, -(thresholds[0] ?? 0))}\nlocal levels = ${thresholds.length + 1}\n`,
  };
  return Object.fromEntries(Object.entries(files).map(([name, text]) => [name, withBlocks(text, blocks)]));
}

const files = Object.fromEntries(
  ['next', 'submit', 'done', 'peek', 'reset'].map((name) => [name, readFileSync(new URL(`../lua/${name}.lua`, import.meta.url), 'utf8')]),
);

function withBlocks(text, blocks) {
  for (const [name, lines] of Object.entries(blocks)) {
    text = text.replace(new RegExp(`(-- begin ${name}\n)[^]*?(-- end ${name}\n)`), (_, begin, end) => begin + lines + end);
  }
  return text;
}

// The comparisons that find a count's level, as the Go module writes them: so Redis keeps one
// script for both.
function levelLines(thresholds) {
  const n = thresholds.length;
  if (n === 0) return 'local level = 1\n';
  const lines = thresholds.map((threshold, i) => `elseif count >= ${threshold} then level = ${i + 1}\n`);
  return `local level = 1\nif count < ${thresholds[n - 1]} then level = ${n + 1}\n${lines.join('')}end\n`;
}

// Refuses what an object has by a name that nobody would read.
export function checkNames(object, names, what) {
  if (object === null || typeof object !== 'object') throw new TypeError(`docpriority: ${what} is not an object`);
  for (const name of Object.keys(object)) {
    if (!names.includes(name)) throw new TypeError(`docpriority: ${what} has no ${JSON.stringify(name)}, only ${names.join(', ')}`);
  }
}

function withoutUndefined(object) {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}
