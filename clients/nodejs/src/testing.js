'use strict';

// A store without Redis, for tests. Documented in testing.d.ts.

const { bytesOf } = require('./keys.js');
const { Memory } = require('./memory.js');
const { checkNames } = require('./policy.js');
const { Store } = require('./store.js');

class MemoryStore extends Store {
  #memory;
  #ahead;

  constructor({ clock = () => Date.now(), ...options } = {}) {
    if (typeof clock !== 'function') throw new TypeError('docpriority: clock is not a function');
    const ahead = { milliseconds: 0 };
    const memory = new Memory({ clock: () => clock() + ahead.milliseconds });
    super(memory, { overrides: true, ...options });
    this.#memory = memory;
    this.#ahead = ahead;
  }

  advance(milliseconds) {
    if (typeof milliseconds !== 'number') throw new TypeError(`docpriority: time is a number of milliseconds, not ${typeof milliseconds}`);
    if (!(milliseconds >= 0 && milliseconds < Infinity)) throw new RangeError(`docpriority: time does not pass by ${milliseconds} ms`);
    this.#ahead.milliseconds += milliseconds;
  }

  setOverride(customer, override) {
    const name = bytesOf(customer, 'a customer').toString('latin1');
    if (override === undefined) return this.#memory.override(name);
    checkNames(override, ['earliest', 'latest', 'endsIn'], 'an override');
    const { earliest = 1, latest = this.last, endsIn } = override;
    if (!Number.isInteger(earliest) || !Number.isInteger(latest) || earliest < 1 || latest < earliest || latest > this.last) {
      throw new RangeError(`docpriority: an override's levels are 1 to ${this.last}, not ${earliest} to ${latest}`);
    }
    if (endsIn !== undefined && !(endsIn > 0)) throw new RangeError(`docpriority: an override ends in more than 0 milliseconds, not ${endsIn}`);
    this.#memory.override(name, { earliest, latest }, endsIn);
  }

  clear() {
    this.#memory.clear();
  }
}

module.exports = { MemoryStore };
