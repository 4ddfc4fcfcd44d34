'use strict';

// Both rules in this process's memory, with the same replies as the scripts under lua/. Nothing
// here is asynchronous, so that each call is atomic.

const { clamp, levelOf, levelOfLoad } = require('./policy.js');
const { insert, placeOf, remove } = require('./sorted.js');

const day = 86_400_000; // milliseconds
const shortestLease = 180_000;
const maxRecent = 512_000; // thousandths of documents

class Memory {
  #clock;
  #maxSize;
  #latest = -Infinity; // the latest time, because the clock may go back
  #customers = new Map(); // by their bytes in Latin-1, in the order in which they were counted
  #documents = 0;
  #overrides = new Map();

  /** clock returns milliseconds from any start. */
  constructor({ clock = () => performance.now(), maxSize = 1_000_000 } = {}) {
    this.#clock = clock;
    this.#maxSize = maxSize;
  }

  /** How many customers and documents it knows. */
  get size() {
    return this.#customers.size + this.#documents;
  }

  /** Returns the reply of a script for a customer. settings are the policy, the lease, and the levels of the queue. */
  run(script, name, args, settings) {
    return this[script](name, this.#now(), settings, args);
  }

  /** Sets the bounds of a customer's levels for some milliseconds, or removes them. */
  setOverride(name, bounds, milliseconds = Infinity) {
    if (!bounds) this.#overrides.delete(name);
    else this.#overrides.set(name, { ...bounds, ends: this.#now() + milliseconds });
  }

  /** Forgets all customers, but not the overrides. */
  clear() {
    this.#customers.clear();
    this.#documents = 0;
  }

  next(name, now, { policy, levels }, [n = 1]) {
    const customer = this.#use(name, now);
    const isNew = now > customer.resetAt;
    customer.count = (isNew ? 1 : customer.count) - n;
    if (isNew || policy.resetMode === 'sinceLastUpdate' || customer.resetAt - now > policy.resetInterval) customer.resetAt = now + policy.resetInterval;
    const ruleLevel = levelOf(policy, customer.count);
    const override = this.#overrideOf(name, levels, now);
    return [clamp(ruleLevel, ...override), customer.count, customer.resetAt - now, ruleLevel, ...override];
  }

  submit(name, now, { policy, lease, levels }, args) {
    const customer = this.#use(name, now);
    const since = customer.pendingSince(now, lease);
    const override = this.#overrideOf(name, levels, now);
    let recent = recentOf(customer.fades - now);
    let pending = customer.ordinary(since) + customer.flood(since);
    let isNew = false;
    // Documents that are already pending, as after a lost reply, are decided as if they were
    // new: so they first give back what they added to the recent documents.
    const ids = args.filter((_, i) => i % 2 === 0).map((id) => id.latin1Slice());
    const givenBack = new Map(); // how much, by id
    for (const id of ids) {
      const score = this.#remove(customer, id);
      if (score === undefined || Math.abs(score) < since) continue;
      givenBack.set(id, Math.min(recent, 1000));
      recent -= givenBack.get(id);
    }
    const reply = [];
    for (const [i, id] of ids.entries()) {
      const isRepeated = this.#remove(customer, id) !== undefined; // the call names it twice
      if (!isRepeated) recent = Math.min(recent + (givenBack.get(id) ?? 1000), maxRecent);
      if (!isRepeated && !givenBack.has(id)) {
        isNew = true;
        pending++;
      }
      const load = loadOf(recent, customer.ordinary(since) + 1, Number(args[2 * i + 1]) || customer.cost);
      const ruleLevel = levelOfLoad(policy, load, customer.flood(since) + 1);
      const level = clamp(ruleLevel, ...override);
      this.#add(customer, id, (ruleLevel > policy.loads.length ? -1 : 1) * (256 * now + level));
      reply.push(level, load, pending, ruleLevel);
    }
    if (isNew) customer.fades = now + leftOf(recent);
    this.#evict(customer, now);
    return [...reply, ...override];
  }

  done(name, now, _, [cost, , ...ids]) {
    const customer = this.#customers.get(name);
    if (customer) this.#expire(customer, now);
    return ids.flatMap((id) => {
      const score = customer && this.#remove(customer, id.latin1Slice());
      if (score === undefined) return [0, 0];
      const latency = now - timeOf(score);
      customer.learn(latency, score < 0, Number(cost));
      return [latency, levelIn(score)];
    });
  }

  peek(name, now, { policy, lease, levels }) {
    const customer = this.#customers.get(name) ?? new Customer();
    this.#expire(customer, now);
    const isCounted = now <= customer.resetAt;
    const [count, resetIn] = isCounted ? [customer.count, customer.resetAt - now] : [0, 0];
    const since = customer.pendingSince(now, lease);
    const [ordinary, flood] = [customer.ordinary(since), customer.flood(since)];
    let reply;
    if (ordinary + flood > 0 || now <= customer.fades) {
      const recent = recentOf(customer.fades - now);
      const load = loadOf(Math.min(recent + 1000, maxRecent), ordinary + 1, customer.cost);
      const ends = []; // the scores of the newest and the oldest pending documents
      if (ordinary > 0) ends.push(customer.scores.at(-1), customer.scores.at(-ordinary));
      if (flood > 0) ends.push(-customer.scores[0], -customer.scores[flood - 1]);
      reply = [
        2, levelIn(Math.max(0, ...ends)), levelOfLoad(policy, load, flood + 1), count, resetIn, load, recent, customer.cost,
        ordinary + flood, flood, now - timeOf(Math.min(256 * now, ...ends)), 100 * customer.latency, customer.lease(lease),
      ];
    } else {
      reply = [isCounted ? 1 : 0, isCounted ? levelOf(policy, count) : 0, levelOf(policy, isCounted ? count - 1 : 0), count, resetIn, 0, 0, 0, 0, 0, 0, 0, 0];
    }
    const override = this.#overrideOf(name, levels, now);
    const ruleLevel = reply[2];
    reply[2] = clamp(ruleLevel, ...override);
    return [...reply, ruleLevel, ...(override.length > 0 ? override : [0, 0, 0])];
  }

  reset(name) {
    return [this.#drop(name) ? 1 : 0];
  }

  // Time is offset so that documents' scores are above 0, whatever the clock shows.
  #now() {
    return (this.#latest = Math.max(this.#latest, Math.floor(1e12 + this.#clock())));
  }

  // Returns the numbers of a customer who is counted now.
  #use(name, now) {
    const customer = this.#customers.get(name) ?? new Customer();
    this.#customers.delete(name);
    this.#customers.set(name, customer);
    this.#expire(customer, now);
    this.#evict(customer, now);
    return customer;
  }

  // Forgets customers without numbers and, while there are too many entries, the customers
  // counted least recently; of the customer who is counted now, the oldest documents.
  #evict(used, now) {
    for (const [name, customer] of this.#customers) {
      if (customer === used) break;
      this.#expire(customer, now);
      if (this.size <= this.#maxSize && (customer.documents.size > 0 || now <= customer.fades || now <= customer.resetAt)) break;
      this.#drop(name);
    }
    for (const id of used.documents.keys()) {
      if (this.size <= this.#maxSize) break;
      this.#remove(used, id);
    }
  }

  // Forgets documents older than a day, and the averages once the recent documents have faded.
  #expire(customer, now) {
    for (const [id, score] of customer.documents) {
      if (timeOf(score) >= now - day) break;
      this.#remove(customer, id);
    }
    if (now > customer.fades) [customer.latency, customer.cost] = [0, 1000];
  }

  #add(customer, id, score) {
    customer.documents.set(id, score);
    insert(customer.scores, score);
    this.#documents++;
  }

  // Returns the document's score, undefined if there is none.
  #remove(customer, id) {
    const score = customer.documents.get(id);
    if (score === undefined) return undefined;
    customer.documents.delete(id);
    remove(customer.scores, score);
    this.#documents--;
    return score;
  }

  #drop(name) {
    this.#documents -= this.#customers.get(name)?.documents.size ?? 0;
    return this.#customers.delete(name);
  }

  // Returns [earliest, latest, ends_in] as the scripts do, or an empty array.
  #overrideOf(name, levels, now) {
    const { earliest, latest = levels, ends } = this.#overrides.get(name) ?? { ends: -Infinity };
    if (now <= ends) return [Math.min(earliest, levels), Math.min(latest, levels), ends === Infinity ? -1 : ends - now];
    this.#overrides.delete(name);
    return [];
  }
}

class Customer {
  count = 0;
  resetAt = -Infinity; // a document later than this resets the count
  fades = -Infinity; // when the recent documents have halved to half a document
  latency = 0; // the average from submit to done, in tenths of a second; 0: unknown
  cost = 1000; // the average, in thousandths
  documents = new Map(); // the scores, which lua/submit.lua explains, of documents by id, the oldest first
  scores = []; // the same, ascending: those of floods are negative

  lease(longest) {
    return this.latency === 0 ? longest : Math.min(Math.max(20 * 100 * this.latency, shortestLease), longest);
  }

  /** Returns the score from which on documents are pending. */
  pendingSince(now, longest) {
    return 256 * (now - this.lease(longest));
  }

  /** Returns how many pending documents are not a flood's. */
  ordinary(since) {
    return this.scores.length - placeOf(this.scores, since);
  }

  /** Returns how many pending documents are a flood's. */
  flood(since) {
    return placeOf(this.scores, -since);
  }

  /** Learns from a document that is done. One that was late must not make others look pending for hours. */
  learn(latency, isFlood, cost) {
    if (!isFlood) {
      const tenths = Math.max(Math.floor((latency + 50) / 100), 1);
      this.latency = this.latency === 0 ? tenths : average(this.latency, Math.min(tenths, 3 * Math.max(this.latency, 90)));
    }
    if (cost > 0) this.cost = average(this.cost, Math.min(cost, 8 * Math.max(this.cost, 1000))); // one outlier must not make later ones expensive
  }
}

const timeOf = (score) => Math.floor(Math.abs(score) / 256);

const levelIn = (score) => Math.abs(score) % 256;

// Recent documents, in thousandths, by the milliseconds until they have faded; and the other way.
const recentOf = (left) => (left > 0 ? Math.min(Math.floor(1000 * 2 ** (left / day - 1) + 0.5), maxRecent) : 0);
const leftOf = (recent) => Math.floor(day * (1 + Math.log2(recent / 1000)) + 0.5);

// In millionths, from thousandths.
const loadOf = (recent, pending, cost) => Math.min(recent * pending * cost, 1e15);

const average = (previous, next) => Math.max(Math.floor((9 * previous + next + 5) / 10), 1);

module.exports = { Memory, leftOf, loadOf, recentOf };
