'use strict';

// A store without Redis, for tests. Documented in testing.d.ts.

const { bytesOf, checkAmount, checkInteger, checkKind, checkNames } = require('./check.js');
const { Memory } = require('./memory.js');
const { optionNames, Store } = require('./store.js');

class MemoryStore extends Store {
  #memory;
  #time;

  constructor(options = {}) {
    checkNames(options, [...optionNames, 'clock'], 'options');
    const { clock = () => Date.now(), ...settings } = options;
    checkKind('clock', clock, 'function');
    const time = { advanced: 0 };
    const memory = new Memory({ clock: () => clock() + time.advanced, accounts: settings.accounts });
    super(memory, { overrides: true, ...settings });
    [this.#memory, this.#time] = [memory, time];
  }

  advance(milliseconds) {
    checkAmount('the time that passes', milliseconds);
    this.#time.advanced += milliseconds;
  }

  setOverride(customer, override) {
    const name = bytesOf(customer, 'a customer').latin1Slice();
    if (override === undefined) return this.#memory.setOverride(name);
    checkNames(override, ['earliest', 'latest', 'endsIn'], 'an override');
    const { earliest = 1, latest = this.last, endsIn } = override;
    checkInteger("an override's latest", latest, 1, this.last);
    checkInteger("an override's earliest", earliest, 1, latest);
    if (endsIn !== undefined && !(endsIn > 0)) throw new RangeError(`docpriority: an override ends in more than 0 milliseconds, not ${endsIn}`);
    this.#memory.setOverride(name, { earliest, latest }, endsIn);
  }

  clear() {
    this.#memory.clear();
  }
}

module.exports = { MemoryStore };
