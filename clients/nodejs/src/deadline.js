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
  /** When it is over, as performance.now() tells the time. */
  endsAt;
  #timer;
  #callerSignal;
  #lose; // rejects #lost
  #lost = new Promise((_, reject) => (this.#lose = reject));
  #cancel = () => this.#end(this.#callerSignal.reason);

  constructor(milliseconds, callerSignal) {
    this.#lost.catch(() => {}); // else its rejection would end the process if no call waits for it
    this.endsAt = performance.now() + milliseconds;
    this.#timer = setTimeout(() => {
      this.timedOut = !this.isOver;
      this.#end(new Error(`it timed out after ${milliseconds} ms`));
    }, milliseconds);
    this.#callerSignal = callerSignal;
    if (callerSignal?.aborted) this.#cancel();
    else if (callerSignal) {
      setMaxListeners(0, callerSignal); // many calls may share a signal
      callerSignal.addEventListener('abort', this.#cancel);
    }
  }

  get isOver() {
    return this.signal.aborted;
  }

  /** Says why the time is over. */
  get reason() {
    const { reason } = this.signal;
    return reason instanceof Error ? reason.message : inspect(reason);
  }

  /** Frees what the deadline holds. */
  end() {
    clearTimeout(this.#timer);
    this.#callerSignal?.removeEventListener('abort', this.#cancel);
  }

  /** Returns what a promise resolves to, or rejects with Lost when the time is over. */
  race(promise) {
    return Promise.race([promise, this.#lost]);
  }

  /** Waits for a while; returns false if the time would end first. */
  async pause(milliseconds) {
    if (this.isOver || this.endsAt - performance.now() < milliseconds) return false;
    return sleep(milliseconds, true, { signal: this.signal }).catch(() => false);
  }

  // In a busy process the reply may have arrived, but not been read: one turn of the event loop
  // later it is read. Meanwhile the client gives back the commands that it has not sent.
  #end(cause) {
    if (this.isOver) return;
    this.#controller.abort(cause);
    setImmediate(() => this.#lose(new Lost(`no answer came: ${this.reason}`)));
  }
}

module.exports = { Deadline };
