'use strict';

// Runs one script, at most once where that matters, and in time.

const { isLate, judge, Lost, Unsent } = require('./classify.js');
const { OutcomeUnknown } = require('./errors.js');

/**
 * Returns the reply. call has the script ({ text, sha1 }), keys, args, isReply, and whether it
 * is repeatable or readOnly; for errors the operation; and if one of the keys is that of an override
 * that may be read by itself, overrideKey. With a clock, which is Redis's, the script takes a deadline
 * behind args, and replies Redis's time behind at least so many integers: what it would run after the
 * call has ended, it refuses.
 */
async function run(wire, call, deadline) {
  const { script, keys, overrideKey, args, isReply, bound, clock, integers } = call;
  let isApart = false; // whether the override is read by itself, because the cluster moves the keys' slot, and where one key is, another is not
  let isTimed = clock !== undefined;
  let mayHaveRun = false;
  let before; // how the previous try ended
  for (let tries = 0; ; ) {
    try {
      const bounds = isApart && (await readBounds(wire, call, deadline));
      const sent = isApart ? keys.filter((key) => key !== overrideKey) : keys;
      const sentAt = performance.now();
      const last = clock ? [String(isTimed ? clock.deadlineOf(deadline) : 0)] : [];
      const reply = await wire.runScript(script, [String(sent.length), ...sent, ...args, ...last], keys[0], deadline);
      if (!Array.isArray(reply) || !isReply(reply)) throw new Lost('unexpected reply');
      if (clock && reply.length > integers) clock.learn(reply.pop(), sentAt);
      return isApart ? bound(reply, bounds) : reply;
    } catch (error) {
      if (overrideKey && bound && !isApart && error.message.startsWith('TRYAGAIN ')) {
        isApart = true;
        continue;
      }
      if (isTimed && isLate(error)) { // its clock has stepped on, if the call still waits
        isTimed = false;
        clock.forget();
      }
      const { Class, again } = judge(error, call);
      mayHaveRun ||= Class === OutcomeUnknown;
      if (again && (await deadline.pause(pauseOf(tries++)))) {
        before = error.message;
        continue;
      }
      throw new (mayHaveRun ? OutcomeUnknown : Class)(message(call, error, before), { cause: error.cause ?? deadline.cause ?? error });
    }
  }
}

// Returns [earliest, latest], or an empty array. A key of another kind is no override.
async function readBounds(wire, { overrideKey, levels }, deadline) {
  try {
    return boundsOf(await wire.send(['GET', overrideKey], overrideKey, deadline), levels);
  } catch (error) {
    if (/^WRONGTYPE /.test(error.message)) return [];
    throw error instanceof Lost ? new Unsent(error.message, { cause: error.cause }) : error; // nothing has been counted
  }
}

/** Returns what an override's text means, as lua/next.lua reads it. */
function boundsOf(text, levels) {
  const [, how, digits] = /^([<>]?=)([1-9]\d?\d?)(?: |$)/.exec(text) ?? [];
  const level = Math.min(Number(digits), levels);
  return how ? [how === '<=' ? 1 : level, how === '>=' ? levels : level] : [];
}

// Returns 4 milliseconds at first, later up to 64; less by up to a half, at random, so that a fleet
// does not return all at once.
const pauseOf = (tries) => Math.min(4 * 2 ** Math.min(tries, 4), 64) * (0.5 + Math.random() / 2);

/** Returns an isReply of at least n integers. */
const isIntegers = (n) => (reply) => reply.length >= n && reply.every(Number.isSafeInteger);

// Also says how the previous try ended, if that differs.
function message({ operation, keys }, { message: now }, before) {
  const key = keys.find((each) => now.includes(each)) ?? keys[0]; // CORRUPTPENDING names the key
  return `docpriority: ${operation} ${key}: ${now}${before === undefined || before === now ? '' : `; before that: ${before}`}`;
}

module.exports = { boundsOf, isIntegers, run };
