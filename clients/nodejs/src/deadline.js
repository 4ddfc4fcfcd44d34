'use strict';

// The time that one call has.

const { setTimeout: sleep } = require('node:timers/promises');
const { Lost } = require('./classify.js');

const looks = 10; // at the clock, in the time of a call
const mostFree = 10 * looks; // of those that are no part of it

/** Whether calls wait for this process, and not for Redis: its event loop never rests, and replies arrive. */
class Pace {
  #loop = performance.eventLoopUtilization();
  #readAt = performance.now();
  #replies = 0; // since then
  #isBehind = false;

  noteReply() {
    this.#replies++;
  }

  get isBehind() {
    const now = performance.now();
    if (now - this.#readAt >= 10) {
      const loop = performance.eventLoopUtilization();
      this.#isBehind = this.#replies > 0 && performance.eventLoopUtilization(loop, this.#loop).utilization > 0.8;
      [this.#loop, this.#readAt, this.#replies] = [loop, now, 0];
    }
    return this.#isBehind;
  }
}

class Deadline {
  isOver = false;
  /** Milliseconds until it is over, unless the event loop is busy; up to a look more. */
  left;
  /** Why it is over. */
  cause;
  #timer;
  #lose; // rejects #lost
  #lost = new Promise((_, reject) => (this.#lose = reject));

  constructor(milliseconds, pace) {
    this.#lost.catch(() => {}); // else its rejection would end the process if no call waits for it
    this.#startTimer(milliseconds, pace);
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
  // counts no more than the look that it delays, and between two looks the loop makes a whole turn. A burst
  // of calls takes many turns: a look at one of them does not count.
  #startTimer(milliseconds, pace) {
    const look = Math.ceil(milliseconds / looks);
    let free = mostFree;
    this.left = milliseconds;
    this.#timer = setTimeout(() => {
      if (free > 0 && pace.isBehind) free--;
      else this.left -= look;
      if (this.left > 0) return setImmediate(() => this.#timer.refresh());
      this.isOver = true;
      this.cause = new Error(`it timed out after ${milliseconds} ms`);
      // The reply may have arrived, but not been read: one turn of the event loop later it is read.
      setImmediate(() => this.#lose(new Lost(`no answer came: ${this.cause.message}`)));
    }, look);
  }
}

module.exports = { Deadline, Pace };
