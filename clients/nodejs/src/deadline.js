'use strict';

// The time that one call has.

const { setTimeout: sleep } = require('node:timers/promises');
const { Lost } = require('./classify.js');

const looks = 10; // at the clock, in the time of a call

class Deadline {
  isOver = false;
  /** Milliseconds until it is over, unless the event loop is busy; up to a look more. */
  left;
  /** Why it is over. */
  cause;
  #timer;
  #lose; // rejects #lost
  #lost = new Promise((_, reject) => (this.#lose = reject));

  constructor(milliseconds) {
    this.#lost.catch(() => {}); // else its rejection would end the process if no call waits for it
    this.#startTimer(milliseconds);
  }

  /** Frees what the deadline holds. */
  end() {
    clearTimeout(this.#timer);
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
      this.isOver = true;
      this.cause = new Error(`it timed out after ${milliseconds} ms`);
      // The reply may have arrived, but not been read: one turn of the event loop later it is read.
      setImmediate(() => this.#lose(new Lost(`no answer came: ${this.cause.message}`)));
    }, look);
  }
}

module.exports = { Deadline };
