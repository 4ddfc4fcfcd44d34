'use strict';

// The errors of calls. Documented in index.d.ts.

class PriorityError extends Error {
  name = 'PriorityError';
}
class NotCounted extends PriorityError {
  name = 'NotCounted';
}
class OutcomeUnknown extends PriorityError {
  name = 'OutcomeUnknown';
}
class Corrupt extends PriorityError {
  name = 'Corrupt';
}

module.exports = { PriorityError, NotCounted, OutcomeUnknown, Corrupt };
