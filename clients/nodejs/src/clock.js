'use strict';

/**
 * How far Redis's clock is ahead of this process's, at most. The replies to timed calls teach it:
 * Redis read its clock after each was sent. Of a cluster's clocks, it is the one that is least ahead.
 */
class Clock {
  #ahead; // milliseconds; undefined: it is not known

  /** Returns when a call ends by Redis's clock, or a little later; 0: that is not known. */
  deadlineOf({ left }) {
    return this.#ahead === undefined ? 0 : Math.ceil(performance.now() + left + this.#ahead);
  }

  /** Learns from the reply to a call that was sent then. Of several, the least is the best. */
  learn(nowThere, sent) {
    this.#ahead = Math.min(this.#ahead ?? Infinity, nowThere + 1 - sent);
  }

  /** Forgets what is known of a clock that has stepped on. */
  forget() {
    this.#ahead = undefined;
  }
}

module.exports = { Clock };
