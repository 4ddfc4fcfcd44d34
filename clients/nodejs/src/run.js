// Runs one script, at most once where that matters, and in time.

import { judge, Lost } from './answers.js';
import { NotCounted, OutcomeUnknown } from './errors.js';
import { pauseToRepeat } from './pause.js';

/**
 * Returns the reply. call has the script ({ text, digest }), keys, args, isReply, whether it
 * is repeatable or readOnly, and for an error the operation and, of a customer, all keys by
 * their kinds (named).
 */
export async function run(wire, call, deadline) {
  const { script, keys, args, isReply } = call;
  let withText = false;
  let mayHaveRun = false;
  let before;
  for (let tries = 0; ; ) {
    const begun = performance.now();
    try {
      const command = [withText ? 'EVAL' : 'EVALSHA', withText ? script.text : script.digest, String(keys.length), ...keys, ...args];
      const reply = await wire.send(command, deadline, keys[0]);
      if (!Array.isArray(reply) || !isReply(reply)) throw new Lost("the reply is not the script's");
      return reply;
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      const { Class, again, noScript } = judge(error, call);
      if (noScript && !withText) {
        withText = true;
        continue;
      }
      mayHaveRun ||= Class === OutcomeUnknown;
      // What is sent so late that its answer would not come in time is better not sent.
      const trip = Math.min(2 * (performance.now() - begun), deadline.whole / 5);
      if (again && (await deadline.pause(pauseToRepeat(tries++), trip))) {
        before = error.message;
        continue;
      }
      throw new (mayHaveRun ? OutcomeUnknown : Class)(message(call, error, before), { cause: causeOf(error, deadline) });
    }
  }
}

/** Returns an isReply of at least n integers. */
export const isIntegers = (n) => (reply) => reply.length >= n && reply.every(Number.isSafeInteger);

// A failure is told with how the try before ended, where that was otherwise.
function message({ operation, named, keys }, { message: now }, before) {
  const [, kind] = /^CORRUPT(COUNT|PENDING|USAGE) /.exec(now) ?? [];
  const key = named && kind ? named[kind.toLowerCase()] : keys[0];
  return `docpriority: ${operation} ${key}: ${now}${before === undefined || before === now ? '' : `; before that: ${before}`}`;
}

const causeOf = (error, { over, cause }) => (over ? cause : (error.cause ?? error));
