'use strict';

// The time that one call has, until its timeout or the caller's AbortSignal.

const { setMaxListeners } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const { inspect } = require('node:util');
const { Lost } = require('./classify.js');

const looks = 10; // at the clock, in the time of a call

class Deadline {
  isOver = false;
  /** Whether the timeout has ended it, and not the caller. */
  timedOut = false;
  /** Milliseconds until it is over, unless the event loop is busy; up to a look more. */
  left;
  /** Why it is over: an Error, or the caller's reason. */
  cause;
  #timer;
  #callerSignal;
  #lose; // rejects #lost
  #lost = new Promise((_, reject) => (this.#lose = reject));
  #cancel = () => this.#end({ cause: this.#callerSignal.reason });

  constructor(milliseconds, callerSignal) {
    this.#lost.catch(() => {}); // else its rejection would end the process if no call waits for it
    this.#startTimer(milliseconds);
    this.#callerSignal = callerSignal;
    if (callerSignal?.aborted) this.#cancel();
    else if (callerSignal) {
      setMaxListeners(0, callerSignal); // many calls may share a signal
      callerSignal.addEventListener('abort', this.#cancel);
    }
  }

  get canceled() {
    return this.isOver && !this.timedOut;
  }

  /** Says why the time is over. */
  get reason() {
    return this.cause instanceof Error ? this.cause.message : inspect(this.cause);
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

  /** Waits for a while; returns false if the time ends first. */
  async pause(milliseconds) {
    if (this.isOver) return false;
    return this.race(sleep(milliseconds, true)).catch(() => false);
  }

  // While other code keeps the event loop busy, nothing is sent and no reply is read. So such a time
  // counts no more than the look that it delays, and between two looks the loop makes a whole turn.
  #startTimer(milliseconds) {
    const look = Math.ceil(milliseconds / looks);
    this.left = milliseconds;
    this.#timer = setTimeout(() => {
      this.left -= look;
      if (this.left > 0) return setImmediate(() => this.#timer.refresh());
      this.#end({ timedOut: true, cause: new Error(`it timed out after ${milliseconds} ms`) });
    }, look);
  }

  // The reply may have arrived, but not been read: one turn of the event loop later it is read.
  #end(how) {
    if (this.isOver) return;
    Object.assign(this, how, { isOver: true });
    setImmediate(() => this.#lose(new Lost(`no answer came: ${this.reason}`)));
  }
}

module.exports = { Deadline };
