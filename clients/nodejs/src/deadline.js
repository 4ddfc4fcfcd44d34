// The time that one call has for all that it does: until its timeout, or until the
// caller's AbortSignal.

import { setMaxListeners } from 'node:events';
import { Lost, Unsent } from './answers.js';

export class Deadline {
  /** Whether the time is over. */
  over = false;
  /** Why: an Error, or whatever the caller has aborted with. */
  cause;
  /** Whether the timeout has ended it, and not the caller. */
  timedOut = false;

  /** Milliseconds from the begin to the timeout. */
  whole;

  #ends;
  #timer;
  #callers;
  #canceled = () => this.#end(this.#callers.reason);
  #waits = new Set();

  constructor(milliseconds, callers) {
    this.whole = milliseconds;
    this.#ends = performance.now() + milliseconds;
    this.#timer = setTimeout(() => {
      this.timedOut = !this.over;
      this.#end(new Error(`its time is over after ${milliseconds} ms`));
    }, milliseconds);
    if (!callers) return;
    this.#callers = callers;
    if (callers.aborted) return this.#canceled();
    setMaxListeners(0, callers); // as many calls as there are may share a signal
    callers.addEventListener('abort', this.#canceled);
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

  /**
   * Returns the answer to what send sends. It is given an AbortSignal, by which what was
   * not sent in time never will be.
   */
  answer(send) {
    const unsent = new AbortController();
    const answer = send(unsent.signal);
    return this.#wait(
      (resolve, reject) => answer.then(resolve, reject),
      (_, reject) => {
        unsent.abort();
        // If the process was busy, the answer may be there and only not read: a turn of
        // the event loop from now it has been.
        setImmediate(() => reject(new Lost(`no answer came: ${this.why}`)));
      },
    );
  }

  /**
   * Waits, before anything is sent, as a member of a set whose owner resolves or rejects
   * all that are in it. why tells what for.
   */
  in(set, why) {
    if (this.over) throw new Unsent(`it was not sent: ${this.why}`);
    let waiting;
    return this.#wait(
      (resolve, reject) => set.add((waiting = { resolve, reject })),
      (_, reject) => {
        set.delete(waiting);
        reject(new Unsent(this.timedOut ? why() : `it was not sent: ${this.why}`));
      },
    );
  }

  /** Waits for a while; returns false if there would not be so much time left afterwards. */
  async pause(milliseconds, left) {
    if (this.over || this.#ends - performance.now() < milliseconds + left) return false;
    let timer;
    return this.#wait(
      (resolve) => (timer = setTimeout(resolve, milliseconds, true)),
      (resolve) => {
        clearTimeout(timer);
        resolve(false);
      },
    );
  }

  async #wait(begin, giveUp) {
    let wait;
    try {
      return await new Promise((resolve, reject) => {
        begin(resolve, reject);
        wait = () => giveUp(resolve, reject);
        this.#waits.add(wait);
      });
    } finally {
      this.#waits.delete(wait);
    }
  }

  #end(cause) {
    if (this.over) return;
    this.over = true;
    this.cause = cause;
    for (const wait of this.#waits) wait();
  }
}
