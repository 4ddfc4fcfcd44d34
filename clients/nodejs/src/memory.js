'use strict';

// Both rules in this process's memory, with the same replies as the scripts under lua/. All
// calls are atomic.

const { levelOf, levelOfLoad, within } = require('./policy.js');
const { insert, placeOf, remove } = require('./sorted.js');

const day = 86_400_000; // milliseconds
const shortestLease = 180_000;
const mostRecent = 512_000; // thousandths of documents
const mostEntries = 1_000_000; // customers and documents together

class Memory {
  #clock;
  #most;
  #latest = -Infinity; // time of the clock, which may go back
  #customers = new Map(); // by their bytes in Latin-1; most recently counted last
  #documents = 0;
  #overrides = new Map();

  /** clock returns milliseconds from any start. */
  constructor({ clock = () => performance.now(), most = mostEntries } = {}) {
    this.#clock = clock;
    this.#most = most;
  }

  /** How many customers and documents it knows. */
  get size() {
    return this.#customers.size + this.#documents;
  }

  /** Returns the reply of a script for a customer. settings are the policy, the lease, and the levels of the queue. */
  run(script, name, args, settings) {
    return this[script](name, this.#now(), settings, args);
  }

  /** Sets the bounds of a customer's levels, or removes them. lasts: milliseconds, if they end. */
  override(name, bounds, lasts = Infinity) {
    if (!bounds) this.#overrides.delete(name);
    else this.#overrides.set(name, { ...bounds, ends: this.#now() + lasts });
  }

  /** Forgets all customers, but not the overrides. */
  clear() {
    this.#customers.clear();
    this.#documents = 0;
  }

  next(name, now, { policy, levels }, [n = 1]) {
    const c = this.#use(name, now);
    const isNew = now > c.resetAt;
    c.count = (isNew ? 1 : c.count) - n;
    if (isNew || policy.resetMode === 'sinceLastUpdate' || c.resetAt - now > policy.resetInterval) c.resetAt = now + policy.resetInterval;
    const ruleLevel = levelOf(policy, c.count);
    const override = this.#override(name, levels, now);
    return [within(ruleLevel, ...override), c.count, c.resetAt - now, ruleLevel, ...override];
  }

  submit(name, now, { policy, lease, levels }, args) {
    const c = this.#use(name, now);
    const since = c.since(now, lease);
    const override = this.#override(name, levels, now);
    let recent = recentOf(c.fades - now);
    let pending = c.ordinary(since) + c.beyond(since);
    let isNew = false;
    // Documents that are already pending, as after a lost reply, are decided as if they
    // were new.
    const ids = args.filter((_, i) => i % 2 === 0).map((id) => id.latin1Slice());
    const again = new Map(); // by id, its share of the recent documents
    for (const id of ids) {
      if (!(Math.abs(this.#remove(c, id)) >= since)) continue;
      again.set(id, Math.min(recent, 1000));
      recent -= again.get(id);
    }
    const reply = [];
    for (const [i, id] of ids.entries()) {
      if (this.#remove(c, id) === undefined) { // else it is twice in this call
        recent = Math.min(recent + (again.get(id) ?? 1000), mostRecent);
        if (!again.has(id)) {
          isNew = true;
          pending++;
        }
      }
      const load = loadOf(recent, c.ordinary(since) + 1, Number(args[2 * i + 1]) || c.cost);
      const ruleLevel = levelOfLoad(policy, load, c.beyond(since) + 1);
      const level = within(ruleLevel, ...override);
      this.#add(c, id, (ruleLevel > policy.loads.length ? -1 : 1) * (256 * now + level));
      reply.push(level, load, pending, ruleLevel);
    }
    if (isNew) c.fades = now + leftOf(recent);
    this.#evict(c, now);
    return [...reply, ...override];
  }

  done(name, now, _, [cost, ...ids]) {
    const c = this.#customers.get(name);
    if (c) this.#expire(c, now);
    return ids.flatMap((id) => {
      const score = c && this.#remove(c, id.latin1Slice());
      if (score === undefined) return [0, 0];
      const latency = now - timeOf(score);
      c.learn(latency, score < 0, Number(cost));
      return [latency, levelIn(score)];
    });
  }

  peek(name, now, { policy, lease, levels }) {
    const c = this.#customers.get(name) ?? new Customer();
    this.#expire(c, now);
    const isCounted = now <= c.resetAt;
    const [count, resetIn] = isCounted ? [c.count, c.resetAt - now] : [0, 0];
    const since = c.since(now, lease);
    const [ordinary, beyond] = [c.ordinary(since), c.beyond(since)];
    let reply;
    if (ordinary + beyond > 0 || now <= c.fades) {
      const recent = recentOf(c.fades - now);
      const load = loadOf(Math.min(recent + 1000, mostRecent), ordinary + 1, c.cost);
      // The scores of the newest documents and of the oldest.
      const newest = Math.max(ordinary > 0 ? c.scores.at(-1) : 0, beyond > 0 ? -c.scores[0] : 0);
      const oldest = Math.min(...(ordinary > 0 ? [c.scores.at(-ordinary)] : []), ...(beyond > 0 ? [-c.scores[beyond - 1]] : []), 256 * now);
      reply = [
        2, levelIn(newest), levelOfLoad(policy, load, beyond + 1), count, resetIn, load, recent, c.cost,
        ordinary + beyond, beyond, now - timeOf(oldest), 100 * c.latency, c.lease(lease),
      ];
    } else {
      reply = [isCounted ? 1 : 0, isCounted ? levelOf(policy, count) : 0, levelOf(policy, isCounted ? count - 1 : 0), count, resetIn, 0, 0, 0, 0, 0, 0, 0, 0];
    }
    const override = this.#override(name, levels, now);
    const ruleLevel = reply[2];
    reply[2] = within(ruleLevel, ...override);
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
    const c = this.#customers.get(name) ?? new Customer();
    this.#customers.delete(name);
    this.#customers.set(name, c);
    this.#expire(c, now);
    this.#evict(c, now);
    return c;
  }

  // Forgets customers without numbers and, while there are too many entries, the customers
  // counted least recently; of the customer who is counted now, the oldest documents.
  #evict(used, now) {
    for (const [name, c] of this.#customers) {
      if (c === used) break;
      this.#expire(c, now);
      if (this.size <= this.#most && (c.documents.size > 0 || now <= c.fades || now <= c.resetAt)) break;
      this.#drop(name);
    }
    for (const id of used.documents.keys()) {
      if (this.size <= this.#most) break;
      this.#remove(used, id);
    }
  }

  // Forgets documents older than a day, and recent ones that have faded.
  #expire(c, now) {
    for (const [id, score] of c.documents) {
      if (timeOf(score) >= now - day) break;
      this.#remove(c, id);
    }
    if (now > c.fades) [c.latency, c.cost] = [0, 1000];
  }

  #add(c, id, score) {
    c.documents.set(id, score);
    insert(c.scores, score);
    this.#documents++;
  }

  // Returns the document's score, undefined if there is none.
  #remove(c, id) {
    const score = c.documents.get(id);
    if (score === undefined) return undefined;
    c.documents.delete(id);
    remove(c.scores, score);
    this.#documents--;
    return score;
  }

  #drop(name) {
    this.#documents -= this.#customers.get(name)?.documents.size ?? 0;
    return this.#customers.delete(name);
  }

  // Returns [earliest, latest, ends_in], or an empty array.
  #override(name, levels, now) {
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
  scores = []; // the same, ascending

  lease(longest) {
    return this.latency === 0 ? longest : Math.min(Math.max(20 * 100 * this.latency, shortestLease), longest);
  }

  /** Returns the score from which on documents are pending. */
  since(now, longest) {
    return 256 * (now - this.lease(longest));
  }

  ordinary(since) {
    return this.scores.length - placeOf(this.scores, since);
  }

  /** How many pending documents are beyond the last load. */
  beyond(since) {
    return placeOf(this.scores, -since);
  }

  /** Learns from a document that is done. One that was late must not make others look pending for hours. */
  learn(latency, isBeyond, cost) {
    if (!isBeyond) {
      const tenths = Math.max(Math.floor((latency + 50) / 100), 1);
      this.latency = this.latency === 0 ? tenths : average(this.latency, Math.min(tenths, 3 * Math.max(this.latency, 90)));
    }
    if (cost > 0) this.cost = average(this.cost, Math.min(cost, 8 * Math.max(this.cost, 1000))); // one outlier must not make later ones expensive
  }
}

const timeOf = (score) => Math.floor(Math.abs(score) / 256);

const levelIn = (score) => Math.abs(score) % 256;

// Recent documents, in thousandths, by the milliseconds until they have faded; and the other way.
const recentOf = (left) => (left > 0 ? Math.min(Math.floor(1000 * 2 ** (left / day - 1) + 0.5), mostRecent) : 0);
const leftOf = (recent) => Math.floor(day * (1 + Math.log2(recent / 1000)) + 0.5);

// In millionths, from thousandths.
const loadOf = (recent, pending, cost) => Math.min(recent * pending * cost, 1e15);

const average = (of, next) => Math.max(Math.floor((9 * of + next + 5) / 10), 1);

module.exports = { Memory, leftOf, loadOf, recentOf };
