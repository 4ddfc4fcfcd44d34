// A connection to one server, which comes about in the background and after each loss
// again, for ever, until it is closed.

import { isReplica, Lost, Refused, Unsent } from './answers.js';
import { pauseToConnect } from './pause.js';

/** So many calls are under way on a connection at a time: the others wait for their turn. */
export const mostCalls = 1_024;

const checkEvery = 1_000; // milliseconds: a link is asked whether it is still there
const patience = 2_000; // so long a link may take to come about, or to answer a check

export class Connection {
  #open;
  #opening; // the link that comes about
  #link; // the link that is used
  #links = new Set(); // these two, and those that only wait for answers to what they have sent
  #waiting = new Set(); // calls that wait for a link
  #calls = 0; // under way, or waiting for a link
  #queue = new Set(); // calls that wait for their turn
  #tries = 0; // links that were given up since a call was answered
  #again; // the timer until the next try
  #trouble; // why there is no link
  #closed; // why it takes no more calls

  /** open returns a new link: see node-redis.js and ioredis.js. */
  constructor(open) {
    this.#open = open;
  }

  /**
   * Sends a command and returns the answer; asking: after ASKING. It is for a Cluster to go
   * by the key. Rejects with Refused, Unsent or Lost.
   */
  async send(args, deadline, key, asking = false) {
    if (this.#calls < mostCalls) this.#calls++;
    else await deadline.in(this.#queue, () => (this.#link ? `${mostCalls} calls are under way` : this.#noLink));
    try {
      return await this.#sendNow(args, deadline, asking);
    } finally {
      const [next] = this.#queue;
      if (next) {
        this.#queue.delete(next);
        next.resolve(); // in the place of this call
      } else {
        this.#calls--;
      }
    }
  }

  /** Takes no more calls, and ends when those that were sent are answered or over. */
  async close() {
    this.#closed ??= new Unsent('the connection is closed');
    clearTimeout(this.#again);
    for (const { reject } of this.#waiting) reject(this.#closed);
    this.#waiting.clear();
    const links = [...this.#links];
    this.#opening?.end();
    this.#link = undefined;
    for (const link of links) endIfIdle(link);
    await Promise.all(links.map((link) => link.ended));
  }

  async #sendNow(args, deadline, asking) {
    const link = this.#link ?? (await this.#ready(deadline));
    if (deadline.over) throw new Unsent(`it was not sent: ${deadline.why}`);
    link.calls++;
    try {
      if (asking) link.send(['ASKING']).catch(() => {}); // for what comes next
      const answer = await deadline.answer(link.send(args));
      this.#isWell();
      return answer;
    } catch (error) {
      // A replica may be the master of before, and a new link may lead to the new one. If the
      // process was busy, that no answer was read is not the link's fault.
      if (isReplica(error) || (error instanceof Lost && deadline.timedOut && !deadline.late)) this.#retire(link, error);
      else if (error instanceof Refused) this.#isWell();
      throw error;
    } finally {
      link.calls--;
      if (link !== this.#link) endIfIdle(link);
    }
  }

  #ready(deadline) {
    if (this.#closed) throw this.#closed;
    this.#connect();
    return deadline.in(this.#waiting, () => this.#noLink);
  }

  get #noLink() {
    return `no connection in time: ${this.#trouble?.message ?? 'the server does not answer'}`;
  }

  #connect() {
    if (this.#closed || this.#link || this.#opening || this.#again) return;
    let link;
    try {
      link = this.#open();
    } catch (error) {
      this.#trouble = error; // a setting of the caller that no link can have
      return this.#connectLater();
    }
    this.#opening = link;
    this.#links.add(link);
    const slow = setTimeout(() => link.end(new Error('the server does not answer')), patience);
    let checks;
    link.ready.then(() => {
      clearTimeout(slow);
      if (this.#closed || link !== this.#opening) return link.end();
      checks = setInterval(() => this.#check(link), checkEvery).unref();
      this.#opening = undefined;
      this.#link = link;
      for (const { resolve } of this.#waiting) resolve(link);
      this.#waiting.clear();
    }, () => {}); // it has ended
    link.ended.then((why) => {
      clearTimeout(slow);
      clearInterval(checks);
      this.#links.delete(link);
      const wanted = link === this.#opening || link === this.#link;
      if (!wanted) return;
      this.#trouble = why ?? this.#trouble;
      this.#opening = this.#link = undefined;
      this.#connectLater();
    });
  }

  #isWell() {
    this.#tries = 0;
    this.#trouble = undefined;
  }

  // The pause grows until a call is answered: a server that is only slow greets at once,
  // and must not get more and more connections.
  #connectLater() {
    if (this.#closed) return;
    this.#again = setTimeout(() => {
      this.#again = undefined;
      this.#connect();
    }, pauseToConnect(this.#tries++));
  }

  // A link that owes an answer is of no more use: the network may have lost it without a
  // word. New calls go to a new one; those that were sent on it may be answered yet.
  #retire(link, why) {
    if (link !== this.#link) return;
    this.#link = undefined;
    this.#trouble = why;
    this.#connectLater();
    endIfIdle(link);
  }

  #check(link) {
    const silent = setTimeout(() => this.#retire(link, new Error('the server does not answer')), patience).unref();
    const answered = () => clearTimeout(silent);
    link.send(['PING']).then(answered, (error) => {
      if (error instanceof Refused) answered();
    });
  }
}

function endIfIdle(link) {
  if (link.calls === 0) link.end();
}
