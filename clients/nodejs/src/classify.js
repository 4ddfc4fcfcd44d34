'use strict';

// What became of one try of a call, and how to go on.

const { Corrupt, NotCounted, OutcomeUnknown } = require('./errors.js');

// What a connection rejects with:

/** Redis answered with an error. */
class Refused extends Error {}

/** It was not sent, and never will be. */
class Unsent extends Error {}

/** It may have been sent, but not answered. */
class Lost extends Error {}

/** Tells whether a server is only a replica: its master is elsewhere. */
const isReplica = (error) => error instanceof Refused && readOnlyServer.test(error.message);

/** Tells whether Redis does not know a script. A proxy may put a word in front. */
const isNoScript = (error) => error instanceof Refused && /^(ERR )?NOSCRIPT /.test(error.message);

/** Tells whether Redis did not run a script because the call's deadline was over, by Redis's clock. */
const isLate = (error) => error instanceof Refused && error.message.startsWith('LATE ');

/** Returns the class of error that a call ends with, and whether it may be retried. */
function judge(error, { repeatable, readOnly }) {
  if (error instanceof Unsent) return { Class: NotCounted, again: true };
  if (error instanceof Lost) {
    return readOnly ? { Class: NotCounted, again: true } : { Class: OutcomeUnknown, again: repeatable };
  }
  const text = error.message;
  if (corrupt.test(text)) return { Class: Corrupt };
  if (refusedForAMoment.test(text) || readOnlyServer.test(text)) return { Class: NotCounted, again: true };
  if (refused.test(text) || readOnly) return { Class: NotCounted };
  return { Class: OutcomeUnknown }; // the script may have written something before
}

// How Redis's errors begin if it did not run a script, or refused the script's first write, so that
// nothing was written. Redis before 7.0 puts other words in front if that happens within a script.
const readOnlyServer = /^READONLY |-READONLY |READONLY You can't write/;
const corrupt = /^(CORRUPTCOUNT|CORRUPTPENDING) /;
const refusedForAMoment = /^((LATE|LOADING|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|BUSY) |ERR max number of clients reached)/;
const refused = new RegExp(
  '^((NOAUTH|WRONGPASS|NOPERM|OOM|MISCONF|NOREPLICAS|MOVED|ASK|CROSSSLOT) |ERR unknown command|ERR the number of documents|ERR the cost|ERR the delay)' +
    '|-OOM |OOM command not allowed|-MISCONF |-NOREPLICAS ',
);

module.exports = { Refused, Unsent, Lost, isLate, isNoScript, isReplica, judge };
