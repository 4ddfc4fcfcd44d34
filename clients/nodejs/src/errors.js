// What a call may end with. Documented in index.d.ts.

export class PriorityError extends Error {
  name = 'PriorityError';
}

export class NotCounted extends PriorityError {
  name = 'NotCounted';
}

export class OutcomeUnknown extends PriorityError {
  name = 'OutcomeUnknown';
}

export class CorruptCount extends PriorityError {
  name = 'CorruptCount';
}
