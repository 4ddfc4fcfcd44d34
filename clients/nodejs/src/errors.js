'use strict';

// What a call may end with. Documented in index.d.ts.

class PriorityError extends Error {
  name = 'PriorityError';
}

class NotCounted extends PriorityError {
  name = 'NotCounted';
}

class OutcomeUnknown extends PriorityError {
  name = 'OutcomeUnknown';
}

class CorruptCount extends PriorityError {
  name = 'CorruptCount';
}

module.exports = { PriorityError, NotCounted, OutcomeUnknown, CorruptCount };
