'use strict';

// What memory knows of a customer, or of an account, and how that decides about documents: the
// same numbers as in lua/submit.lua, which explains them. Times are in milliseconds.

const { levelOfLoad } = require('./policy.js');
const { insert, placeOf, remove } = require('./sorted.js');

const day = 86_400_000;
const hour = 3_600_000;
const shortestLease = 180_000;
const maxRecent = 512_000; // thousandths of documents

/** Documents before the last load, or of a flood: their scores without signs, ascending. */
class Window {
  scores = [];

  /** Returns how many are due from one time to another. */
  count(from, to) {
    return placeOf(this.scores, 256 * (to + 1)) - placeOf(this.scores, 256 * from);
  }

  /** Returns the score of the oldest of them, Infinity if there is none. */
  oldest(from, to) {
    const score = this.scores[placeOf(this.scores, 256 * from)];
    return score < 256 * (to + 1) ? score : Infinity;
  }

  /** Returns the score of the newest of them, 0 if there is none. */
  newest(from, to) {
    const score = this.scores[placeOf(this.scores, 256 * (to + 1)) - 1];
    return score >= 256 * from ? score : 0;
  }
}

class Customer {
  count = 0;
  resetAt = -Infinity; // a document later than this resets the count
  fades = -Infinity; // when the recent documents have halved to half a document
  latency = 0; // the average from when a document was due to done, in tenths of a second; 0: unknown
  cost = 1000; // the average, in thousandths
  lost = -Infinity; // what was due before it is presumed lost, if before the last load
  countedTo = Infinity; // while documents are scheduled: later ones are not among the recent ones yet
  documents = new Map(); // the scores by id, negative for those of floods, in the order in which they were submitted
  ordinary = new Window();
  flood = new Window();
  #total;

  /** total counts the documents of all customers. */
  constructor(total) {
    this.#total = total;
  }

  add(id, score) {
    this.documents.set(id, score);
    insert(this.#windowOf(score).scores, Math.abs(score));
    this.#total.documents++;
  }

  /** Returns the document's score, undefined if there is none. */
  remove(id) {
    const score = this.documents.get(id);
    if (score === undefined) return undefined;
    this.documents.delete(id);
    remove(this.#windowOf(score).scores, Math.abs(score));
    this.#total.documents--;
    return score;
  }

  clear() {
    this.#total.documents -= this.documents.size;
    this.documents.clear();
    [this.ordinary.scores, this.flood.scores] = [[], []];
  }

  /**
   * Forgets the averages once the recent documents have faded, and documents that were due more
   * than a day ago, which count nowhere. To look for them takes time, so it waits until they are half of all.
   */
  forget(now) {
    if (now > this.fades) [this.latency, this.cost] = [0, 1000];
    const old = this.due(0, now - day - 1);
    if (old === 0 || 2 * old < this.documents.size) return;
    const kept = [...this.documents].filter(([, score]) => timeOf(score) >= now - day);
    this.clear();
    for (const [id, score] of kept) this.add(id, score);
  }

  /** Returns how many documents are due from one time to another. */
  due(from, to) {
    return this.ordinary.count(from, to) + this.flood.count(from, to);
  }

  /** Returns how long a document before the last load counts as pending. */
  lease(longest) {
    return this.latency === 0 ? longest : Math.min(leaseOf(this.latency), longest);
  }

  /** Learns from a document that is done. One that was late must not make others look pending for hours. */
  learn(now, latency, isFlood, cost) {
    if (!isFlood) {
      const tenths = Math.max(Math.floor((latency + 50) / 100), 1);
      const previous = this.latency;
      this.latency = previous === 0 ? tenths : average(previous, Math.min(tenths, 3 * Math.max(previous, 90)));
      // What was presumed lost does not come back.
      if (previous > 0 && leaseOf(this.latency) > leaseOf(previous)) this.lost = Math.max(this.lost, now - leaseOf(previous));
    }
    if (cost > 0) this.cost = average(this.cost, Math.min(cost, 8 * Math.max(this.cost, 1000))); // one outlier must not make later ones expensive
  }

  #windowOf(score) {
    return score < 0 ? this.flood : this.ordinary;
  }
}

/** What a call knows of a customer, or of an account. */
class Book {
  #now;
  #counted; // the recent documents, in thousandths, without those that are not among them yet
  #isChanged = false; // whether these are to be saved
  #prefix;
  #lease;
  #longestLease; // of a flood's documents

  /** prefix is that of the documents of a user in the account's book. */
  constructor(customer, prefix, now, longestLease) {
    customer.forget(now);
    this.customer = customer;
    this.#prefix = prefix;
    this.#now = now;
    this.#counted = recentOf(customer.fades - now);
    this.#lease = customer.lease(longestLease);
    this.#longestLease = longestLease;
  }

  // What was due before it is done or presumed lost at a time, and the same of a flood.
  #since(time) {
    return Math.max(time - this.#lease, this.customer.lost);
  }

  #floodsSince(time) {
    return time - this.#longestLease;
  }

  // Until when documents are due that count beside one. One with a delay counts those that are due
  // soon after it, too: else a flood that is submitted latest first would see nothing of itself.
  #until(due) {
    return due + Math.min(due - this.#now, this.#lease);
  }

  /** Returns how many documents are pending at a time, before the last load. */
  ordinary(due) {
    return this.customer.ordinary.count(this.#since(due), this.#until(due));
  }

  /** Returns how many documents of a flood are pending at a time. */
  flood(due) {
    return this.customer.flood.count(this.#floodsSince(due), this.#until(due));
  }

  scheduled() {
    return this.customer.due(this.#now + 1, Infinity);
  }

  /** Returns how many documents are due at a time that are not among the recent ones yet. */
  uncounted(due) {
    const { countedTo } = this.customer;
    const until = this.#until(due);
    return until > countedTo ? this.customer.due(Math.max(countedTo + 1, due - day), until) : 0;
  }

  /** Returns how many documents are recent when one is due, in thousandths. further ones are nowhere yet. */
  recent(due, further = 0) {
    return Math.min(this.#counted + 1000 * (this.uncounted(due) + further), maxRecent);
  }

  /**
   * Returns the scores, without signs, of the newest pending documents that are due no later than a
   * time: of those before the last load, and of those of a flood; 0 if there is none.
   */
  newest(due) {
    return [this.customer.ordinary.newest(this.#since(this.#now), due), this.customer.flood.newest(this.#floodsSince(this.#now), due)];
  }

  /** Returns when the oldest pending document became due, now if there is none. */
  oldest() {
    const { ordinary, flood } = this.customer;
    const now = this.#now;
    return Math.min(timeOf(ordinary.oldest(this.#since(now), now)), timeOf(flood.oldest(this.#floodsSince(now), now)), now);
  }

  /**
   * Returns the level that a document in order must not be earlier than. One that was scheduled, or
   * is submitted again, may be the newest with an early level, and a flood must not be overtaken for it.
   */
  order(due) {
    return Math.max(...this.newest(due).map(levelIn));
  }

  /** Begins a submit. Once an hour, the documents that have become due are added to the recent ones. */
  settle(isDelayed) {
    const { customer } = this;
    if (customer.countedTo === Infinity) {
      if (isDelayed) customer.countedTo = this.#now;
    } else if (this.#now - customer.countedTo >= hour) {
      this.#counted = this.recent(this.#now);
      this.#isChanged = true;
      customer.countedTo = isDelayed || this.scheduled() > 0 ? this.#now : Infinity;
    }
  }

  /** Takes a document out, and counts it as recent when it is due. Returns its score if it was pending. */
  take(id, due) {
    const score = this.customer.remove(this.#idOf(id));
    const isPending = score >= 256 * this.#since(this.#now) || score <= -256 * this.#floodsSince(this.#now);
    let recent = 1000;
    this.#isChanged ||= !isPending || this.customer.countedTo < Infinity;
    if (isPending && !(timeOf(score) > this.customer.countedTo)) {
      recent = Math.min(this.#counted, 1000);
      this.#counted -= recent;
    }
    this.arrive(due, recent);
    return isPending ? score : undefined;
  }

  /** Counts a document as recent, unless that is done when it is due. */
  arrive(due, recent = 1000) {
    if (due <= this.customer.countedTo) this.#counted = Math.min(this.#counted + recent, maxRecent);
  }

  put(id, score) {
    this.customer.add(this.#idOf(id), score);
  }

  /** Decides about a document that has arrived and is not put: its load and level, and whether it is of a flood. */
  judge(policy, due, cost) {
    const recent = this.recent(due, due > this.customer.countedTo ? 1 : 0);
    const load = loadOf(recent, this.ordinary(due) + 1, cost);
    const level = levelOfLoad(policy, load, this.flood(due) + 1);
    return { load, level, isFlood: level > policy.loads.length };
  }

  /** Ends a submit. */
  save() {
    if (this.customer.fades === -Infinity || this.#isChanged) this.#rememberRecent();
  }

  /** Ends documents, and returns the reply of lua/done.lua. */
  end(ids, cost) {
    const { customer } = this;
    const now = this.#now;
    let isRemembered = now <= customer.fades;
    let uncounted = 0;
    const reply = ids.flatMap((id) => {
      const score = customer.remove(this.#idOf(id));
      const due = timeOf(score ?? 0);
      if (due < now - day) return [0, 0];
      if (due > customer.countedTo && due <= now) {
        uncounted++;
        isRemembered = true;
      }
      const latency = Math.max(now - due, 0);
      if (due <= now && isRemembered) customer.learn(now, latency, score < 0, cost);
      return [latency, levelIn(score)];
    });
    this.#counted = Math.min(this.#counted + 1000 * uncounted, maxRecent);
    if (uncounted > 0) this.#rememberRecent();
    return reply;
  }

  #rememberRecent() {
    this.customer.fades = this.#now + Math.max(leftOf(this.#counted), 0);
  }

  // No document's id looks like another's, or like that of a user's document.
  #idOf(id) {
    return this.#prefix === '' && id.startsWith(':') ? `:${id}` : this.#prefix + id;
  }
}

/** Decides by the book of a customer, and of the account if there is one. */
function judge([user, account], policy, due, cost) {
  const own = user.judge(policy, due, cost);
  if (!account) return own;
  const { level, isFlood } = account.judge(policy, due, cost);
  if (own.isFlood || isFlood) return { load: own.load, level: levelOfLoad(policy, Infinity, account.flood(due) + 1), isFlood: true };
  return { ...own, level: Math.max(own.level, level - 1) };
}

const timeOf = (score) => Math.floor(Math.abs(score) / 256);

const levelIn = (score) => Math.abs(score) % 256;

// Recent documents, in thousandths, by the milliseconds until they have faded; and the other way.
const recentOf = (left) => (left > 0 ? Math.min(Math.floor(1000 * 2 ** (left / day - 1) + 0.5), maxRecent) : 0);
const leftOf = (recent) => Math.floor(day * (1 + Math.log2(recent / 1000)) + 0.5);

// In millionths, from thousandths.
const loadOf = (recent, pending, cost) => Math.min(recent * pending * cost, 1e15);

const leaseOf = (tenths) => Math.max(20 * 100 * tenths, shortestLease);

const average = (previous, next) => Math.max(Math.floor((9 * previous + next + 5) / 10), 1);

module.exports = { Book, Customer, judge, leftOf, levelIn, loadOf, recentOf };
