'use strict';

// Everything here is documented in index.d.ts, where editors show it.

const { Corrupt, NotCounted, OutcomeUnknown, PriorityError } = require('./errors.js');
const { join } = require('./member.js');
const { defaultPolicy } = require('./policy.js');
const { Store } = require('./store.js');

// It is a literal because import { join } finds the names in nothing else.
module.exports = { Corrupt, NotCounted, OutcomeUnknown, PriorityError, Store, defaultPolicy, join };
