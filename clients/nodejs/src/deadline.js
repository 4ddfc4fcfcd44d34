// The time that one call has for all that it does, one thing after another: until its
// timeout, or until the caller's AbortSignal.

import { setMaxListeners } from 'node:events';
import { Lost, Unsent } from './answers.js';

const busyFor = 20; // milliseconds that a timer is late

export class Deadline {
  /** Whether the time is over. */
  over = false;
  /** Why: an Error, or whatever the caller has aborted with. */
  cause;
  /** Whether the timeout has ended it, and not the caller. */
  timedOut = false;
  /** Whether the process was too busy to see that its time was over, or that an answer had come. */
  late = false;

  /** Milliseconds from the begin to the timeout. */
  whole;

  #ends;
  #timer;
  #callers;
  #canceled;
  #giveUp; // what the call waits for at the moment

  constructor(milliseconds, callers) {
    this.whole = milliseconds;
    this.#ends = performance.now() + milliseconds;
    this.#arm(milliseconds);
    if (!callers) return;
    this.#callers = callers;
    this.#canceled = () => this.#end(callers.reason);
    if (callers.aborted) return this.#canceled();
    setMaxListeners(0, callers); // as many calls as there are may share a signal
    callers.addEventListener('abort', this.#canceled);
  }

  // For as long as the process was busy, nothing could be sent or read: the call gets that
  // time back, once, up to its whole time.
  #arm(milliseconds) {
    this.#timer = setTimeout(() => {
      const late = performance.now() - this.#ends;
      if (late > busyFor && !this.late && !this.over) {
        this.late = true;
        const more = Math.min(late, this.whole);
        this.#ends += late + more;
        return this.#arm(more);
      }
      this.timedOut = !this.over;
      this.#end(new Error(`its time is over after ${this.whole} ms`));
    }, milliseconds);
  }

  /** The cause in words. */
  get why() {
    try {
      return String(this.cause instanceof Error ? this.cause.message : this.cause);
    } catch {
      return 'it was canceled'; // for a reason that has no words
    }
  }

  /** Frees what the call holds. */
  end() {
    clearTimeout(this.#timer);
    this.#callers?.removeEventListener('abort', this.#canceled);
  }

  /** Returns what a promise of an answer resolves to. */
  answer(answer) {
    return new Promise((resolve, reject) => {
      // If the process was busy, the answer may be there and only not read: a turn of
      // the event loop from now it has been.
      this.#giveUp = () => setImmediate(() => reject(new Lost(`no answer came: ${this.why}`)));
      answer.then(resolve, reject);
    });
  }

  /**
   * Waits, before anything is sent, as a member of a set whose owner resolves or rejects
   * all that are in it. why tells what for.
   */
  in(set, why) {
    return new Promise((resolve, reject) => {
      if (this.over) throw new Unsent(`it was not sent: ${this.why}`);
      const waiting = { resolve, reject };
      set.add(waiting);
      this.#giveUp = () => {
        set.delete(waiting);
        reject(new Unsent(this.timedOut ? why() : `it was not sent: ${this.why}`));
      };
    });
  }

  /** Waits for a while; returns false if there would not be so much time left afterwards. */
  async pause(milliseconds, left) {
    if (this.over || this.#ends - performance.now() < milliseconds + left) return false;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds, true);
      this.#giveUp = () => {
        clearTimeout(timer);
        resolve(false);
      };
    });
  }

  #end(cause) {
    if (this.over) return;
    this.over = true;
    this.cause = cause;
    this.#giveUp?.();
  }
}
