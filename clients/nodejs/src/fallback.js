'use strict';

// Answers from this process's memory while Redis cannot.

const { Dones } = require('./dones.js');
const { Corrupt, NotCounted, OutcomeUnknown } = require('./errors.js');
const { Memory } = require('./memory.js');

const maxFailures = 10; // in a row, until calls no longer wait for Redis
const tryEvery = 500; // milliseconds, after which a call tries Redis again
const warnEvery = 60_000; // at most, because one node of a cluster may fail again and again
const maxSize = 100_000; // memory has room for this number of customers and documents

class Fallback {
  #ask;
  #memory;
  #failures = 0; // since the latest answer
  #triedAt = 0;
  #wasAway = false; // memory has answered for everybody since it was last cleared
  #warned = false; // in this outage
  #warnedAt = -Infinity;
  #dones;

  /** ask runs a call of the store on Redis; accounts says whether names are split. */
  constructor(ask, accounts) {
    this.#ask = ask;
    this.#memory = new Memory({ maxSize, accounts });
    this.#dones = new Dones(async (call) => {
      call.read(await ask(call), call.name);
      this.#noteAnswer();
    });
  }

  /** Whether Redis did not answer the latest call. */
  get degraded() {
    return this.#failures > 0;
  }

  /** Sends the dones that Redis has not answered, for so many milliseconds. No call may be in progress. */
  async close(milliseconds) {
    await this.#dones.flush(milliseconds);
  }

  /** Returns the reply of a call, and whether it comes from memory. */
  async answer(call) {
    const since = performance.now();
    const isReset = call.script === 'reset';
    if (isReset) this.#remember(call);
    else if (this.#isOpen()) return this.#remember(call, since);
    try {
      const reply = await this.#ask(call);
      this.#noteAnswer();
      if (call.script === 'next' || call.script === 'submit') this.#forget(call.name);
      return { reply };
    } catch (error) {
      if (error instanceof Corrupt) this.#noteAnswer(); // Redis did answer, if only about its key
      if (!isOutage(error)) throw error;
      this.#noteFailure();
      if (isReset) throw error;
      this.#warn(error);
      return this.#remember(call, since);
    }
  }

  #noteFailure() {
    if (++this.#failures >= maxFailures) this.#wasAway = true;
  }

  // Now that Redis counts a customer again, memory forgets that customer, which makes levels
  // better; and all after an outage. Others may live on a node that is still away.
  #forget(name) {
    if (this.#wasAway) this.#memory.clear();
    else this.#memory.forget(name);
    this.#wasAway = false;
  }

  #noteAnswer() {
    this.#failures = 0;
    this.#warned = false;
  }

  #warn({ message }) {
    const now = performance.now();
    if (this.#warned || now - this.#warnedAt < warnEvery) return;
    [this.#warned, this.#warnedAt] = [true, now];
    process.emitWarning(message.replace('docpriority: ', 'docpriority: Redis does not answer, so levels come from the memory of this process: '));
  }

  // While Redis fails, some of the calls probe whether it is back.
  #isOpen() {
    if (this.#failures < maxFailures) return false;
    const now = performance.now();
    if (now - this.#triedAt < tryEvery) return true;
    this.#triedAt = now;
    return false;
  }

  #remember(call, since) {
    const { script, name, args, tier } = call;
    if (script === 'done') this.#dones.owe(call, since);
    return { reply: this.#memory.run(script, name, args, tier), degraded: true };
  }
}

const isOutage = (error) => error instanceof NotCounted || error instanceof OutcomeUnknown;

module.exports = { Fallback };
