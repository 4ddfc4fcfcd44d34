'use strict';

// The numbers of customers in this process: what the scripts under lua/ do in Redis, with the
// same replies. All calls are atomic.

const { levelOf, millionths } = require('./policy.js');

const day = 86_400_000; // milliseconds
const shortestLease = 180_000;
const mostLately = 512_000; // thousandths of documents
const mostEntries = 1_000_000; // customers and documents together

class Memory {
  #clock;
  #most;
  #latest = -Infinity; // of the clock, which may go back
  #customers = new Map(); // by their bytes in Latin-1
  #byUse = new List(); // who was counted last comes last
  #documents = 0;
  #overrides = new Map();

  /** clock returns milliseconds from any begin. */
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
    const now = this.#now();
    switch (script) {
      case 'next': return this.#next(name, args, settings, now);
      case 'submit': return this.#submit(name, args, settings, now);
      case 'done': return this.#done(name, args, now);
      case 'peek': return this.#peek(name, settings, now);
      case 'reset': return this.#reset(name);
    }
    throw new RangeError(`there is no script ${script}`);
  }

  #next(name, [n = 1], { policy, levels }, now) {
    const c = this.#use(name, now);
    const isNew = now > c.resetAt;
    c.count = (isNew ? 1 : c.count) - n;
    if (isNew || policy.resetMode === 'sinceLastUpdate' || c.resetAt - now > policy.resetInterval) {
      c.resetAt = now + policy.resetInterval;
    }
    const ruled = levelOf(policy, c.count);
    const override = this.#override(name, levels, now);
    if (!override) return [ruled, c.count, c.resetAt - now];
    return [within(ruled, override), c.count, c.resetAt - now, ruled, ...override];
  }

  #submit(name, args, { policy, lease, levels }, now) {
    const c = this.#use(name, now);
    const since = now - c.lease(lease);
    let lately = c.lately(now);
    let pending = c.pending(since);
    let isNew = false;
    // Documents that are pending already, as after a lost reply, are decided about as if
    // they were not there.
    const ids = args.filter((_, i) => i % 2 === 0).map((id) => id.toString('latin1'));
    const again = new Set();
    for (const id of ids) {
      const known = c.documents.get(id);
      if (!known) continue;
      if (known.at >= since) {
        again.add(id);
        lately = Math.max(lately - 1000, 0);
      }
      this.#remove(c, known);
    }
    let ordinary = c.ordinary.since(since);
    let beyond = c.beyond.since(since);
    const override = this.#override(name, levels, now);
    const reply = [];
    for (const [i, id] of ids.entries()) {
      const twice = c.documents.get(id); // in this call
      if (twice) {
        if (twice.isBeyond) beyond--;
        else ordinary--;
        this.#remove(c, twice);
      } else {
        lately += 1000;
        if (!again.has(id)) {
          isNew = true;
          pending++;
        }
      }
      lately = Math.min(lately, mostLately);
      const load = loadOf(lately, ordinary + 1, Number(args[2 * i + 1]) || c.cost);
      let level = levelOfLoad(policy, load, beyond + 1);
      const isBeyond = level > policy.loads.length;
      if (isBeyond) beyond++;
      else ordinary++;
      const ruled = override ? level : 0;
      if (override) level = within(level, override);
      this.#add(c, { id, at: now, level: Math.min(level, 63), isBeyond, isYoung: true });
      reply.push(level, load, pending, ruled);
    }
    if (isNew) c.submitted(lately, now);
    this.#evict(c);
    return override ? [...reply, ...override] : reply;
  }

  #done(name, [cost, ...ids], now) {
    const c = this.#customers.get(name);
    const reply = [];
    if (c) this.#expire(c, now);
    for (const id of ids) {
      const document = c?.documents.get(id.toString('latin1'));
      if (!document) {
        reply.push(0, 0);
        continue;
      }
      this.#remove(c, document);
      const sojourn = now - document.at;
      c.learn(sojourn, document.isBeyond, Number(cost), now);
      reply.push(sojourn, document.level);
    }
    return reply;
  }

  #peek(name, { policy, lease: longest, levels }, now) {
    const c = this.#customers.get(name);
    const override = this.#override(name, levels, now);
    const overridden = (reply) => {
      const ruled = override ? reply[2] : 0;
      if (override) reply[2] = within(ruled, override);
      reply.push(ruled, ...(override ?? [0, 0, 0]));
      return reply;
    };
    const isCounted = c !== undefined && now <= c.resetAt;
    const count = isCounted ? c.count : 0;
    const resetIn = isCounted ? c.resetAt - now : 0;
    if (c) this.#expire(c, now);
    const lease = c?.lease(longest);
    const pending = c?.pending(now - lease);
    if (c === undefined || (pending === 0 && now > c.fades)) {
      const nextLevel = levelOf(policy, isCounted ? count - 1 : 0);
      return overridden([isCounted ? 1 : 0, isCounted ? levelOf(policy, count) : 0, nextLevel, count, resetIn, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    const ordinary = c.ordinary.young;
    const beyond = c.beyond.young;
    const lately = c.lately(now);
    const load = loadOf(Math.min(lately + 1000, mostLately), ordinary + 1, c.cost);
    const { level, oldest } = c.ends(now);
    return overridden([
      2, level, levelOfLoad(policy, load, beyond + 1), count, resetIn, load, lately, c.cost, pending, beyond, now - oldest, 100 * c.sojourn, lease,
    ]);
  }

  #reset(name) {
    const c = this.#customers.get(name);
    if (c) this.#drop(c);
    return [c ? 1 : 0];
  }

  /** Sets the bounds of a customer's levels; without them, there are none. lasts: milliseconds, if they end. */
  override(name, bounds, lasts = Infinity) {
    if (!bounds) this.#overrides.delete(name);
    else this.#overrides.set(name, { ...bounds, ends: this.#now() + lasts });
  }

  /** Forgets all customers, but not the overrides. */
  clear() {
    this.#customers.clear();
    this.#byUse = new List();
    this.#documents = 0;
  }

  #now() {
    const now = Math.floor(this.#clock());
    if (now > this.#latest) this.#latest = now;
    return this.#latest;
  }

  // Returns what is known of a customer who is counted now.
  #use(name, now) {
    let c = this.#customers.get(name);
    if (c) {
      this.#expire(c, now);
      this.#byUse.remove(c);
    } else {
      this.#customers.set(name, (c = new Customer(name)));
    }
    this.#byUse.add(c);
    this.#evict(c);
    return c;
  }

  // Forgets the customers who were counted longest ago, while there are too many entries; of
  // the one who is counted now, the oldest documents.
  #evict(used) {
    while (this.size > this.#most) {
      const oldest = this.#byUse.head;
      if (oldest !== used) this.#drop(oldest);
      else if (used.documents.size > 0) this.#remove(used, used.oldest());
      else return;
    }
  }

  #drop(c) {
    this.#documents -= c.documents.size;
    this.#customers.delete(c.name);
    this.#byUse.remove(c);
  }

  #add(c, document) {
    c.documents.set(document.id, document);
    this.#documents++;
    (document.isBeyond ? c.beyond : c.ordinary).add(document);
  }

  #remove(c, document) {
    c.documents.delete(document.id);
    this.#documents--;
    (document.isBeyond ? c.beyond : c.ordinary).remove(document);
  }

  // Forgets documents of more than a day ago, and what has faded.
  #expire(c, now) {
    for (const window of [c.ordinary, c.beyond]) {
      while (window.head && now - window.head.at > day) this.#remove(c, window.head);
    }
    c.fade(now);
  }

  // Returns [earliest, latest, ends_in], or undefined.
  #override(name, levels, now) {
    const override = this.#overrides.get(name);
    if (!override) return undefined;
    const { earliest, latest = levels, ends } = override;
    if (now > ends) {
      this.#overrides.delete(name);
      return undefined;
    }
    return [Math.min(earliest, levels), Math.min(latest, levels), ends === Infinity ? -1 : ends - now];
  }
}

class Customer {
  count = 0;
  resetAt = -Infinity; // a document later than this resets the count
  fades = -Infinity; // when what was submitted lately is half a document
  sojourn = 0; // the average from submit to done, in tenths of a second; 0: not known
  cost = 1000; // the average, in thousandths
  documents = new Map(); // by id
  ordinary = new Window();
  beyond = new Window(); // those beyond the last load

  constructor(name) {
    this.name = name;
  }

  fade(now) {
    if (now <= this.fades) return;
    this.sojourn = 0;
    this.cost = 1000;
  }

  lately(now) {
    const left = this.fades - now;
    return left > 0 ? Math.min(Math.floor(1000 * 2 ** (left / day - 1) + 0.5), mostLately) : 0;
  }

  submitted(lately, now) {
    this.fades = now + Math.floor(day * (1 + Math.log2(lately / 1000)) + 0.5);
  }

  lease(longest) {
    return this.sojourn === 0 ? longest : Math.min(Math.max(20 * 100 * this.sojourn, shortestLease), longest);
  }

  pending(since) {
    return this.ordinary.since(since) + this.beyond.since(since);
  }

  /** Learns from a document that is done. One that was late must not make others look pending for hours. */
  learn(sojourn, isBeyond, cost, now) {
    if (now > this.fades) return;
    if (!isBeyond) {
      const tenths = Math.max(Math.floor((sojourn + 50) / 100), 1);
      this.sojourn = this.sojourn === 0 ? tenths : average(this.sojourn, Math.min(tenths, 3 * Math.max(this.sojourn, 90)));
    }
    if (cost > 0) this.cost = average(this.cost, cost);
  }

  /** Returns the level of the newest document that is pending, and when the oldest was submitted. */
  ends(now) {
    let newest;
    let oldest = now;
    for (const { first, tail, young } of [this.ordinary, this.beyond]) {
      if (young === 0) continue;
      oldest = Math.min(oldest, first.at);
      for (let d = tail; d && d.at === tail.at; d = d.before) {
        if (!newest || d.at > newest.at || (d.at === newest.at && d.level > newest.level)) newest = d;
      }
    }
    return { level: newest?.level ?? 0, oldest };
  }

  oldest() {
    const [a, b] = [this.ordinary.head, this.beyond.head];
    return a && !(b?.at < a.at) ? a : b;
  }
}

// A list that anything is taken out of at once, of objects that have before and after for it.
class List {
  head;
  tail;

  add(one) {
    one.before = this.tail;
    one.after = undefined;
    if (this.tail) this.tail.after = one;
    else this.head = one;
    this.tail = one;
  }

  remove({ before, after }) {
    if (before) before.after = after;
    else this.head = after;
    if (after) after.before = before;
    else this.tail = before;
  }
}

// Documents in the order of their times, and how many of them are from a time on that moves
// little from one time to the next.
class Window extends List {
  first; // of the young ones
  young = 0;

  add(document) {
    super.add(document);
    this.first ??= document;
    this.young++;
  }

  remove(document) {
    super.remove(document);
    if (document.isYoung) this.young--;
    if (this.first === document) this.first = document.after;
  }

  since(since) {
    for (; this.first && this.first.at < since; this.first = this.first.after) {
      this.first.isYoung = false;
      this.young--;
    }
    for (;;) {
      const before = this.first ? this.first.before : this.tail;
      if (!before || before.at < since) return this.young;
      before.isYoung = true;
      this.young++;
      this.first = before;
    }
  }
}

// In millionths, from thousandths.
const loadOf = (lately, pending, cost) => Math.min(lately * pending * cost, 1e15);

/** Returns which of the turns a document takes, where so many are beyond the last load. */
const turnOf = (beyond, turns) => Math.min(31 - Math.clz32(beyond), turns);

function levelOfLoad({ loads, turns }, load, beyond) {
  let level = 1;
  while (level <= loads.length && load > millionths(loads[level - 1])) level++;
  return level > loads.length ? level + turnOf(beyond, turns) : level;
}

const within = (level, [earliest, latest]) => Math.min(Math.max(level, earliest), latest);

const average = (of, next) => Math.max(Math.floor((9 * of + next + 5) / 10), 1);

module.exports = { Memory, loadOf, turnOf };
