'use strict';

// Runs one script, at most once where that matters, and in time.

const { judge, Lost } = require('./classify.js');
const { OutcomeUnknown } = require('./errors.js');

/**
 * Returns the reply. call has the script ({ text, digest }), keys, args, isReply, whether it
 * is repeatable or readOnly, and for an error the operation and, of a customer, all keys by
 * their kinds (named).
 */
async function run(wire, call, deadline) {
  const { script, keys, args, isReply } = call;
  let misses = 0; // of the script: it is loaded after the first, and comes with the call after the second
  let mayHaveRun = false;
  let before;
  for (let tries = 0; ; ) {
    try {
      const command = [...(misses < 2 ? ['EVALSHA', script.digest] : ['EVAL', script.text]), String(keys.length), ...keys, ...args];
      const reply = await wire.send(command, keys[0], deadline);
      if (!Array.isArray(reply) || !isReply(reply)) throw new Lost('unexpected reply');
      return reply;
    } catch (error) {
      const { Class, again, noScript } = judge(error, call);
      if (noScript && misses < 2) {
        if (misses++ === 0) wire.load(script.text, keys[0], deadline); // Redis 7.4 keeps only 500 that came by EVAL
        continue;
      }
      mayHaveRun ||= Class === OutcomeUnknown;
      if (again && (await deadline.pause(pauseOf(tries++)))) {
        before = error.message;
        continue;
      }
      throw new (mayHaveRun ? OutcomeUnknown : Class)(message(call, error, before), { cause: deadline.over ? deadline.signal.reason : (error.cause ?? error) });
    }
  }
}

// 4 milliseconds at first, at most 64. Half is jitter, so that a fleet does not return all
// at once.
const pauseOf = (tries) => Math.min(4 * 2 ** Math.min(tries, 4), 64) * (0.5 + Math.random() / 2);

/** Returns an isReply of at least n integers. */
const isIntegers = (n) => (reply) => reply.length >= n && reply.every(Number.isSafeInteger);

// Also says how the previous try ended, if that differs.
function message({ operation, named, keys }, { message: now }, before) {
  const [, kind] = /^CORRUPT(COUNT|PENDING) /.exec(now) ?? [];
  const key = named && kind ? named[kind.toLowerCase()] : keys[0];
  return `docpriority: ${operation} ${key}: ${now}${before === undefined || before === now ? '' : `; before that: ${before}`}`;
}

module.exports = { isIntegers, run };
