'use strict';

// Runs one script, at most once where that matters, and in time.

const { judge, Lost } = require('./classify.js');
const { OutcomeUnknown } = require('./errors.js');

/**
 * Returns the reply. call has the script ({ text, sha1 }), keys, args, isReply, and whether it
 * is repeatable or readOnly; and for errors the operation and, if it is about a customer,
 * keysByKind: the key to be named is not always among keys.
 */
async function run(wire, call, deadline) {
  const { script, keys, args, isReply } = call;
  let misses = 0; // how often Redis did not know the script: then it is loaded, and the second time it is sent with the call
  let mayHaveRun = false;
  let before; // how the previous try ended
  for (let tries = 0; ; ) {
    try {
      const command = [...(misses < 2 ? ['EVALSHA', script.sha1] : ['EVAL', script.text]), String(keys.length), ...keys, ...args];
      const reply = await wire.send(command, keys[0], deadline);
      if (!Array.isArray(reply) || !isReply(reply)) throw new Lost('unexpected reply');
      return reply;
    } catch (error) {
      const { Class, again, noScript } = judge(error, call);
      if (noScript && misses < 2) {
        if (misses++ === 0) wire.load(script.text, keys[0], deadline); // because Redis 7.4 keeps no more than 500 scripts that came by EVAL
        continue;
      }
      mayHaveRun ||= Class === OutcomeUnknown;
      if (again && (await deadline.pause(pauseOf(tries++)))) {
        before = error.message;
        continue;
      }
      throw new (mayHaveRun ? OutcomeUnknown : Class)(message(call, error, before), { cause: deadline.isOver ? deadline.signal.reason : (error.cause ?? error) });
    }
  }
}

// Returns 4 milliseconds at first, later up to 64; less by up to a half, at random, so that a fleet
// does not return all at once.
const pauseOf = (tries) => Math.min(4 * 2 ** Math.min(tries, 4), 64) * (0.5 + Math.random() / 2);

/** Returns an isReply of at least n integers. */
const isIntegers = (n) => (reply) => reply.length >= n && reply.every(Number.isSafeInteger);

// Also says how the previous try ended, if that differs.
function message({ operation, keysByKind, keys }, { message: now }, before) {
  const [, kind] = /^CORRUPT(COUNT|PENDING) /.exec(now) ?? [];
  const key = keysByKind?.[kind?.toLowerCase()] ?? keys[0];
  return `docpriority: ${operation} ${key}: ${now}${before === undefined || before === now ? '' : `; before that: ${before}`}`;
}

module.exports = { isIntegers, run };
