'use strict';

// The dones that Redis has not answered.

const { setTimeout: sleep } = require('node:timers/promises');
const { Corrupt } = require('./errors.js');

const maxDocuments = 10_000;
const [firstPause, longestPause] = [50, 1_000]; // milliseconds after a failure, doubled each time
const day = 86_400_000; // milliseconds: Redis knows no older document

/**
 * Sends Redis the dones that it has not answered, in the background, until it does: else their
 * documents would look pending. Each says how long ago it was, so that a document that was submitted
 * again meanwhile stays pending.
 */
class Dones {
  #ask;
  #owed = new Map(); // by customer and documents
  #documents = 0;
  #until = Infinity;
  #isSending = false;

  /** ask runs a call on Redis. */
  constructor(ask) {
    this.#ask = ask;
  }

  /** Remembers a done, and when it was. If there are too many, the customer with the most loses some. */
  owe(call, since) {
    const ids = call.args.slice(2);
    const place = JSON.stringify([call.name, ...ids.map((id) => id.latin1Slice())]);
    this.#forget(place);
    this.#owed.set(place, { call, since, ids });
    this.#documents += ids.length;
    while (this.#documents > maxDocuments) this.#makeRoom();
    if (!this.#isSending) this.#sendInBackground();
  }

  /** Sends what is owed, for so many milliseconds; then nothing is sent any more. */
  async flush(milliseconds) {
    this.#until = performance.now() + milliseconds;
    await this.#send();
    if (this.#documents > 0) process.emitWarning(`docpriority: Redis was not told that documents are done (${this.#documents}): they may look pending until their leases end`);
  }

  async #sendInBackground() {
    this.#isSending = true;
    do await this.#send();
    while (this.#owed.size > 0 && performance.now() < this.#until);
    this.#isSending = false;
  }

  async #send() {
    let failures = 0;
    while (this.#owed.size > 0) {
      for (const [place, done] of [...this.#owed]) {
        if (performance.now() >= this.#until) return;
        if (await this.#wasSent(done)) {
          failures = 0;
          if (this.#owed.get(place) === done) this.#forget(place); // else it was submitted and done again
        } else {
          await sleep(Math.min(firstPause * 2 ** Math.min(failures++, 10), longestPause), undefined, { ref: this.#until < Infinity });
        }
      }
    }
  }

  // Sends a done, and tells whether Redis has answered.
  async #wasSent({ call, since, ids }) {
    const age = Math.floor(performance.now() - since);
    if (age > day) return true;
    try {
      await this.#ask({ ...call, args: [call.args[0], ids.map(() => age).join(' '), ...ids] });
      return true;
    } catch (error) {
      return error instanceof Corrupt;
    }
  }

  #makeRoom() {
    const counts = new Map();
    for (const { call: { name } } of this.#owed.values()) counts.set(name, (counts.get(name) ?? 0) + 1);
    const [fullest, calls] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a));
    const places = [...this.#owed].filter(([, { call }]) => call.name === fullest).map(([place]) => place);
    for (const place of places.slice(0, Math.ceil(calls / 2))) this.#forget(place);
  }

  #forget(place) {
    this.#documents -= this.#owed.get(place)?.ids.length ?? 0;
    this.#owed.delete(place);
  }
}

module.exports = { Dones };
