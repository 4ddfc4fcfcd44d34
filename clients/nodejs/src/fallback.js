'use strict';

// Answers from this process's memory while Redis cannot.

const { Corrupt, NotCounted, OutcomeUnknown } = require('./errors.js');
const { Memory } = require('./memory.js');

const mostFailures = 10; // in a row, until calls no longer wait for Redis
const tryEvery = 500; // milliseconds: from then on, how often a call tries Redis
const warnEvery = 60_000; // at most: one node of a cluster may fail again and again
const most = 100_000; // customers and documents in memory

class Fallback {
  #ask;
  #memory = new Memory({ most });
  #failures = 0; // in a row
  #triedAt = 0;
  #warned = false; // that Redis does not answer
  #warnedAt = -Infinity;

  /** ask runs a call of the store on Redis. */
  constructor(ask) {
    this.#ask = ask;
  }

  /** Whether Redis did not answer when it was asked last. */
  get degraded() {
    return this.#failures > 0;
  }

  /** Returns the reply of a call, and whether it is degraded. */
  async answer(call, signal) {
    const isReset = call.script === 'reset';
    if (isReset) this.#remember(call);
    else if (this.#isOpen() && !signal?.aborted) return this.#remember(call);
    try {
      const reply = await this.#ask(call, signal);
      this.#answered();
      // Memory's counts are forgotten when Redis counts again: that makes levels better.
      if (call.script === 'next' || call.script === 'submit') this.#memory.clear();
      return { reply };
    } catch (error) {
      if (error instanceof Corrupt) this.#answered(); // Redis answers: only one customer is affected
      if (!isOutage(error) || isCanceled(signal)) throw error;
      if (!signal?.aborted) this.#failures++; // a caller with a shorter timeout than the store's proves nothing
      if (isReset) throw error;
      this.#warn(error);
      return this.#remember(call);
    }
  }

  #answered() {
    this.#failures = 0;
    this.#warned = false;
  }

  #warn({ message }) {
    const now = performance.now();
    if (this.#warned || now - this.#warnedAt < warnEvery) return;
    [this.#warned, this.#warnedAt] = [true, now];
    process.emitWarning(message.replace('docpriority: ', 'docpriority: Redis does not answer, so levels come from the memory of this process: '));
  }

  // While Redis fails, the calls themselves probe whether it is back.
  #isOpen() {
    if (this.#failures < mostFailures) return false;
    const now = performance.now();
    if (now - this.#triedAt < tryEvery) return true;
    this.#triedAt = now;
    return false;
  }

  #remember({ script, name, args, tier }) {
    return { reply: this.#memory.run(script, name, args, tier), degraded: true };
  }
}

const isOutage = (error) => error instanceof NotCounted || error instanceof OutcomeUnknown;

// Reports whether a caller no longer wants an answer. A caller that timed out still does.
const isCanceled = (signal) => signal?.aborted === true && signal.reason?.name !== 'TimeoutError';

module.exports = { Fallback };
