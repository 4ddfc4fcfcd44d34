// One connection of a client library, from its making to its end. It is never made twice:
// no library sends anything again on a connection that does not come again.

import { Refused } from './answers.js';

/** Tells whether a client has methods of such names. */
export const has = (client, ...names) => names.every((name) => typeof client[name] === 'function');

export class Link {
  /** How many calls were sent on it and are not over. */
  calls = 0;
  /** Why it has ended, where that is known. */
  why;
  #end;

  constructor() {
    /** Resolves when the link has ended, with why. */
    this.ended = new Promise((resolve) => (this.#end = resolve));
  }

  /**
   * Awaits the library's own handshake, and that the server answers: a server that stands
   * still takes connections too.
   */
  begin(connected) {
    this.ready = connected.then(() => this.greet());
    this.ready.catch((error) => this.end(error));
  }

  /** Awaits an answer: a refusal is one, but where all other commands would be refused too. */
  async greet() {
    try {
      await this.send(['PING']);
    } catch (error) {
      if (!(error instanceof Refused) || /^(NOAUTH|WRONGPASS|ERR max number of clients) /.test(error.message)) throw error;
    }
  }

  /** Ends the link; all that was sent on it and not answered is lost. */
  end(why) {
    this.why ??= why;
    this.#end(this.why);
    this.hangUp();
  }
}
