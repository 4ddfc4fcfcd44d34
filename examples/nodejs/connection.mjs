// A connection that outlives every outage, and calls on it that end in time and tell
// what became of them.

import { AbortError, ClientClosedError, DisconnectsClientError, ErrorReply, TimeoutError, createClient } from 'redis';

/** Certainly not counted, now or later: the call may be made again. */
export class NotCounted extends Error {
  name = 'NotCounted';
}

/** It may have been counted, or may be yet: the call must not be made again. */
export class OutcomeUnknown extends Error {
  name = 'OutcomeUnknown';
}

/** A connection to a Redis server, which comes about in the background, and after each loss again. */
export class Connection {
  #url;
  #client;
  #trouble; // why there is no connection

  constructor(url) {
    this.#url = url;
    this.#open();
  }

  /**
   * Makes a call within some milliseconds: send is given a client of node-redis. Rejects
   * with NotCounted or OutcomeUnknown.
   */
  async call(milliseconds, send) {
    const unsent = new AbortController();
    let drop;
    const timer = setTimeout(() => {
      unsent.abort(); // a command that waits for a connection is never sent now, and the call is over
      drop = setImmediate(() => this.#reopen()); // else it was sent, and there is no answer
    }, milliseconds);
    try {
      return await send(this.#client.withAbortSignal(unsent.signal));
    } catch (error) {
      throw this.#outcome(error);
    } finally {
      clearTimeout(timer);
      clearImmediate(drop);
    }
  }

  /** Ends the connection and all calls. */
  close() {
    this.#client.destroy();
  }

  // node-redis never sends a command twice: after a lost connection it rejects those that
  // were sent, and keeps the others until it is connected again.
  #open() {
    const client = createClient({
      url: this.#url,
      pingInterval: 1_000, // so that a connection without work is not taken for a dead one
      socket: { connectTimeout: 1_000, socketTimeout: 2_000, reconnectStrategy: pause },
    });
    client.on('error', (error) => (this.#trouble = error));
    client.on('ready', () => (this.#trouble = undefined));
    client.connect().catch(() => {}); // tries for ever: only destroy ends it
    this.#client = client;
  }

  // A connection that owes an answer is of no more use: the network may have lost it
  // without a word. All calls that wait on it end.
  #reopen() {
    this.#client.destroy();
    this.#open();
  }

  #outcome(error) {
    if (error instanceof TypeError) return error; // the call was wrong, and nothing was sent
    if (error instanceof ClientClosedError) return new NotCounted(error.message, { cause: error });
    if (error instanceof AbortError || error instanceof TimeoutError) {
      const why = this.#trouble?.message ?? 'the server does not answer';
      return new NotCounted(`no connection in time: ${why}`, { cause: error });
    }
    if (error instanceof ErrorReply) {
      return new (refusal.test(error.message) ? NotCounted : OutcomeUnknown)(error.message, { cause: error });
    }
    const why = error instanceof DisconnectsClientError ? 'its time is over' : error.message;
    return new OutcomeUnknown(`no answer came: ${why}`, { cause: error });
  }
}

// Beginnings of Redis's answers when it did not run a script, or when the script has
// changed nothing. Any other error may come from the middle of it.
const refusal = new RegExp(
  '^(LOADING|READONLY|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|BUSY|NOSCRIPT|NOAUTH|WRONGPASS|NOPERM|OOM|MISCONF|NOREPLICAS' +
    '|MOVED|ASK|CROSSSLOT|CORRUPTCOUNT|CORRUPTPENDING|CORRUPTUSAGE' +
    '|ERR max number of clients reached|ERR unknown command|ERR the number of documents|ERR the cost)\\b',
);

// Milliseconds until the next try to connect: 50, doubled each time, at most 2000. Half of
// them are left to chance, so that a fleet does not come back in one moment.
function pause(tries) {
  return Math.min(50 * 2 ** tries, 2_000) * (0.5 + Math.random() / 2);
}
