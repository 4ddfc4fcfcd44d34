// Everything here is documented in index.d.ts, where editors show it.

export { CorruptCount, NotCounted, OutcomeUnknown, PriorityError } from './errors.js';
export { keysOf } from './keys.js';
export { join } from './member.js';
export { defaultPolicy } from './policy.js';
export { Store } from './store.js';
