'use strict';

// The time that one call has, until its timeout or the caller's AbortSignal.

const { setMaxListeners } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const { inspect } = require('node:util');
const { Lost } = require('./classify.js');

class Deadline {
  /** Whether the timeout has ended it, and not the caller. */
  timedOut = false;
  #controller = new AbortController();
  /** Aborts with an Error when the time is over, or with the caller's reason. */
  signal = this.#controller.signal;
  #ends;
  #timer;
  #callers;
  #lose;
  #lost = new Promise((_, reject) => (this.#lose = reject));
  #canceled = () => this.#end(this.#callers.reason);

  constructor(milliseconds, callers) {
    this.#lost.catch(() => {}); // if no call waits for it
    this.#ends = performance.now() + milliseconds;
    this.#timer = setTimeout(() => {
      this.timedOut = !this.over;
      this.#end(new Error(`it timed out after ${milliseconds} ms`));
    }, milliseconds);
    if (!callers) return;
    this.#callers = callers;
    if (callers.aborted) return this.#canceled();
    setMaxListeners(0, callers); // many calls may share a signal
    callers.addEventListener('abort', this.#canceled);
  }

  get over() {
    return this.signal.aborted;
  }

  /** Why the time is over, in words. */
  get why() {
    const { reason } = this.signal;
    return reason instanceof Error ? reason.message : inspect(reason);
  }

  /** Frees what the call holds. */
  end() {
    clearTimeout(this.#timer);
    this.#callers?.removeEventListener('abort', this.#canceled);
  }

  /** Returns what a promise resolves to, or rejects with Lost when the time is over. */
  race(promise) {
    return Promise.race([promise, this.#lost]);
  }

  /** Waits for a while; returns false if the time would end first. */
  async pause(milliseconds) {
    if (this.over || this.#ends - performance.now() < milliseconds) return false;
    return sleep(milliseconds, true, { signal: this.signal }).catch(() => false);
  }

  // In a busy process the reply may have arrived unread: one turn of the event loop later
  // it is read. Meanwhile the client gives back unsent commands.
  #end(cause) {
    if (this.over) return;
    this.#controller.abort(cause);
    setImmediate(() => this.#lose(new Lost(`no answer came: ${this.why}`)));
  }
}

module.exports = { Deadline };
