// The servers of a Redis Cluster, each with a connection of its own: one that stands
// still is the trouble of its own customers.

import { Refused, Unsent } from './answers.js';
import { Connection } from './connection.js';
import { pauseOf } from './pause.js';
import { slotOf } from './slot.js';

const patience = 3_000; // milliseconds that the cluster has to tell where the slots are
const maxRedirects = 16;

export class Cluster {
  /** Why it takes no more calls; undefined: it does. */
  closed;

  #ask;
  #addressOf; // of each slot
  #open = new Map(); // of each address: what opens a link to it
  #connections = new Map(); // by address
  #asking; // while the cluster is asked where the slots are
  #waiting = new Set(); // calls that wait for it
  #tries = 0;
  #again;
  #trouble;

  /** ask returns where the slots are: see node-redis.js and ioredis.js. */
  constructor(ask) {
    this.#ask = ask;
  }

  /** Sends a command to the server that has a key. Rejects as a Connection does. */
  async send(args, deadline, key) {
    const slot = slotOf(key);
    let address = await this.#owner(slot, deadline);
    let asking = false;
    for (let redirects = 0; ; redirects++) {
      try {
        return await this.#connection(address).send(args, deadline, asking);
      } catch (error) {
        const [, kind, to] = (error instanceof Refused && /^(MOVED|ASK) \d+ (\S+)/.exec(error.message)) || [];
        if (!kind) {
          // It may be a server that others have taken the place of.
          if (!(error instanceof Refused) || error.message.startsWith('CLUSTERDOWN ')) this.#refresh();
          throw error;
        }
        if (redirects === maxRedirects) throw error;
        asking = kind === 'ASK';
        address = await this.#follow(slot, to.startsWith(':') ? hostOf(address) + to : to, asking, deadline);
      }
    }
  }

  async close() {
    this.closed ??= new Unsent('the store is closed');
    clearTimeout(this.#again);
    for (const { reject } of this.#waiting) reject(this.closed);
    this.#waiting.clear();
    await Promise.all([this.#asking, ...[...this.#connections.values()].map((connection) => connection.close())]);
  }

  #connection(address) {
    if (this.closed) throw this.closed;
    let connection = this.#connections.get(address);
    if (!connection) {
      const place = { host: hostOf(address), port: Number(address.slice(address.lastIndexOf(':') + 1)) };
      const open = this.#open.get(address);
      const [other] = this.#open.values();
      connection = new Connection(() => (open ? open() : other(place)));
      this.#connections.set(address, connection);
    }
    return connection;
  }

  // Where the cluster is asked from may be another network, with other addresses than the
  // servers tell of each other. So an address that is not known is asked about first.
  async #follow(slot, address, asking, deadline) {
    if (this.#open.has(address)) {
      if (!asking) {
        this.#addressOf[slot] = address;
        this.#refresh();
      }
      return address;
    }
    const before = this.#addressOf[slot];
    await this.#refreshed(deadline);
    if (this.#open.has(address) || asking || this.#addressOf[slot] === before) return address;
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
    if (this.closed) throw this.closed;
    this.#refresh();
    return deadline.in(this.#waiting, () => `no connection in time: ${this.#trouble?.message ?? 'the cluster does not answer'}`);
  }

  #refresh() {
    if (this.closed || this.#asking || this.#again) return;
    this.#asking = this.#ask(inTime).then(
      (told) => this.#learn(told),
      (error) => (this.#trouble = error),
    ).then(() => {
      this.#asking = undefined;
      if (this.closed) return;
      // Not more often than that, however many calls fail; and on and on until it is known.
      this.#again = setTimeout(() => {
        this.#again = undefined;
        if (this.#waiting.size > 0) this.#refresh();
      }, pauseOf(this.#trouble ? this.#tries++ : 0));
    });
  }

  #learn({ addressOf, open }) {
    this.#tries = 0;
    this.#trouble = undefined;
    this.#addressOf = addressOf;
    this.#open = open;
    for (const [address, connection] of this.#connections) {
      if (open.has(address)) continue;
      this.#connections.delete(address);
      connection.close();
    }
    for (const { resolve } of this.#waiting) resolve();
    this.#waiting.clear();
  }
}

const hostOf = (address) => address.slice(0, address.lastIndexOf(':'));

async function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('the cluster does not answer')), patience);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
