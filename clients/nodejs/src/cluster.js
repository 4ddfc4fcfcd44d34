// The servers of a Redis Cluster, each with a connection of its own: one that stands
// still is the trouble of its own customers.

import { Refused, Unsent } from './answers.js';
import { Connection } from './connection.js';
import { pauseToConnect } from './pause.js';
import { slotOf } from './slot.js';

const maxRedirects = 16;

export class Cluster {
  #ask;
  #Link;
  #addressOf; // of each slot
  #masters = new Map(); // by address: a client that has the settings for it
  #connections = new Map(); // by address
  #asking; // while the cluster is asked where the slots are
  #waiting = new Set(); // calls that wait for it
  #stale = false; // whether what is known was wrong since it was asked
  #tries = 0; // how often it was asked without a rest
  #again; // the timer until it may be asked again
  #trouble;
  #closed = false;

  /** ask tells where the slots are, and a Link is made of a client: see node-redis.js and ioredis.js. */
  constructor(ask, Link) {
    this.#ask = ask;
    this.#Link = Link;
  }

  /** Sends a command to the server that has a key. Rejects as a Connection does. */
  async send(args, deadline, key) {
    const slot = slotOf(key);
    let address = await this.#owner(slot, deadline);
    let asking = false;
    for (let redirects = 0; ; redirects++) {
      try {
        return await this.#connection(address).send(args, deadline, key, asking);
      } catch (error) {
        const [, kind, to] = (error instanceof Refused && /^(MOVED|ASK) \d+ (\S+)/.exec(error.message)) || [];
        if (!kind) {
          // It may be a server that others have taken the place of.
          const missing = error instanceof Refused ? error.message.startsWith('CLUSTERDOWN ') : deadline.timedOut || !deadline.over;
          if (missing) this.#refresh();
          throw error;
        }
        if (redirects === maxRedirects) throw error;
        asking = kind === 'ASK';
        const whole = /^:\d+$/.test(to) ? hostOf(address) + to : to; // a server may not know its own host
        address = await this.#follow(slot, whole, asking, deadline);
      }
    }
  }

  /** Ends all connections. No call may be under way. */
  async close() {
    this.#closed = true;
    clearTimeout(this.#again);
    await Promise.all([this.#asking, ...[...this.#connections.values()].map((connection) => connection.close())]);
  }

  #connection(address) {
    let connection = this.#connections.get(address);
    if (!connection) {
      const client = this.#masters.get(address);
      // A server that takes its first slot is not a master yet: another one's settings, but
      // for the address, will do.
      const [another] = this.#masters.values();
      const place = { host: hostOf(address), port: Number(address.slice(address.lastIndexOf(':') + 1)) };
      connection = new Connection(() => (client ? new this.#Link(client) : new this.#Link(another, place)));
      this.#connections.set(address, connection);
    }
    return connection;
  }

  // Where the cluster is asked from may be another network, with other addresses than the
  // servers tell of each other. So an address that is not known is asked about first.
  async #follow(slot, address, asking, deadline) {
    if (asking) return address; // for this once: the slot is another's until its move is over
    if (this.#masters.has(address)) {
      this.#addressOf[slot] = address;
      this.#refresh();
      return address;
    }
    const before = this.#addressOf[slot];
    await this.#refreshed(deadline);
    if (this.#masters.has(address) || this.#addressOf[slot] === before) return address;
    return this.#addressOf[slot];
  }

  async #owner(slot, deadline) {
    if (!this.#addressOf) await this.#refreshed(deadline);
    const address = this.#addressOf[slot];
    if (address) return address;
    this.#refresh();
    throw new Unsent(`no server has slot ${slot}`);
  }

  #refreshed(deadline) {
    this.#refresh();
    return deadline.in(this.#waiting, () => `no connection in time: ${this.#trouble?.message ?? 'the cluster does not answer'}`);
  }

  // A server that is down for long, and each slot that moves, would have it asked all the
  // time: the pauses grow until one passes in which nothing new was wrong.
  #refresh() {
    this.#stale = true;
    if (this.#closed || this.#asking || this.#again) return;
    this.#asking = this.#askMasters().then(
      (told) => this.#learn(told),
      (error) => (this.#trouble = error),
    ).then(() => {
      this.#asking = undefined;
      if (this.#closed) return;
      this.#again = setTimeout(() => {
        this.#again = undefined;
        if (this.#stale) this.#refresh();
        else this.#tries = 0;
      }, pauseToConnect(this.#tries++));
    });
  }

  // The servers that the caller has named may be gone while the cluster lives on.
  async #askMasters() {
    try {
      if (this.#masters.size > 0) return await this.#ask(this.#masters);
    } catch (error) {
      if (this.#closed) throw error;
    }
    return this.#ask(new Map());
  }

  #learn({ addressOf, masters }) {
    this.#stale = false;
    this.#trouble = undefined;
    this.#addressOf = addressOf;
    this.#masters = masters;
    for (const [address, connection] of this.#connections) {
      if (masters.has(address)) continue;
      this.#connections.delete(address);
      connection.close();
    }
    for (const { resolve } of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

const hostOf = (address) => address.slice(0, address.lastIndexOf(':'));
