'use strict';

// Both rules in this process's memory, with the same replies as the scripts under lua/. Nothing
// here is asynchronous, so that each call is atomic.

const { Book, Customer, judge, levelIn } = require('./book.js');
const { accountOf } = require('./keys.js');
const { clamp, levelOf } = require('./policy.js');

class Memory {
  #clock;
  #maxSize;
  #accounts;
  #latest = -Infinity; // the latest time, because the clock may go back
  #customers = new Map(); // by their bytes in Latin-1, in the order in which they were counted
  #total = { documents: 0 };
  #overrides = new Map();

  /** clock returns milliseconds from any start; accounts says whether names are split. */
  constructor({ clock = () => performance.now(), maxSize = 1_000_000, accounts = false } = {}) {
    this.#clock = clock;
    this.#maxSize = maxSize;
    this.#accounts = accounts;
  }

  /** How many customers and documents it knows. */
  get size() {
    return this.#customers.size + this.#total.documents;
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

  /** Forgets a customer, and the account if the customer is its user. */
  forget(name) {
    for (const each of this.#withAccount(name)) this.#drop(each);
  }

  /** Forgets all customers, but not the overrides. */
  clear() {
    this.#customers.clear();
    this.#total.documents = 0;
  }

  next(name, now, { policy, levels }, [n = 1]) {
    const customer = this.#use(name);
    const isNew = now > customer.resetAt;
    customer.count = (isNew ? 1 : customer.count) - n;
    if (isNew || policy.resetMode === 'sinceLastUpdate' || customer.resetAt - now > policy.resetInterval) customer.resetAt = now + policy.resetInterval;
    this.#evict([customer], now);
    const ruleLevel = levelOf(policy, customer.count);
    const override = this.#overrideOf(name, levels, now);
    return [clamp(ruleLevel, ...override), customer.count, customer.resetAt - now, ruleLevel, ...override];
  }

  submit(name, now, { policy, lease, levels }, args) {
    const documents = [];
    for (let i = 0; i < args.length; i += 2) {
      const [cost, delay = 0] = String(args[i + 1]).split(' ').map(Number);
      documents.push({ id: args[i].latin1Slice(), cost, due: now + delay });
    }
    const books = this.#booksOf(name, now, lease, (each) => this.#use(each));
    const isDelayed = documents.some(({ due }) => due > now);
    for (const book of books) book.settle(isDelayed);
    const [user] = books;
    const override = this.#overrideOf(name, levels, now);
    const reply = documents.flatMap(({ id, cost, due }) => {
      const order = policy.inOrder ? Math.min(user.order(due), levels) : 1;
      const [pending] = books.map((book) => book.take(id, due));
      const judged = judge(books, policy, due, cost || user.customer.cost);
      let [isFlood, ruleLevel] = [judged.isFlood, Math.max(judged.level, order)];
      let level = clamp(ruleLevel, ...override);
      if (pending !== undefined) [isFlood, ruleLevel, level] = [pending < 0, levelIn(pending), levelIn(pending)];
      for (const book of books) book.put(id, (isFlood ? -1 : 1) * (256 * due + level));
      return [level, judged.load, user.ordinary(due) + user.flood(due), ruleLevel];
    });
    for (const book of books) book.save();
    this.#evict(books.map(({ customer }) => customer), now);
    return reply;
  }

  done(name, now, { lease }, [cost, , ...documents]) {
    const ids = documents.map((id) => id.latin1Slice());
    const [reply] = this.#booksOf(name, now, lease).map((book) => book.end(ids, Number(cost)));
    return reply;
  }

  peek(name, now, { policy, lease, levels }) {
    const books = this.#booksOf(name, now, lease);
    const [user, account] = books;
    const { customer } = user;
    const isCounted = now <= customer.resetAt;
    const [count, resetIn] = isCounted ? [customer.count, customer.resetAt - now] : [0, 0];
    const [ordinary, flood, scheduled, recent] = [user.ordinary(now), user.flood(now), user.scheduled(), user.recent(now)];
    let reply;
    let further = [0, 0, 0];
    const isKnown = (book) => book.ordinary(now) + book.flood(now) + book.uncounted(now) > 0 || now <= book.customer.fades;
    if (scheduled > 0 || books.some(isKnown)) {
      for (const book of books) book.arrive(now);
      const { load, level } = judge(books, policy, now, customer.cost);
      reply = [
        2, levelIn(Math.max(...user.newest(now))), policy.inOrder ? Math.max(level, Math.min(user.order(now), levels)) : level, count, resetIn, load, recent, customer.cost,
        ordinary + flood, flood, now - user.oldest(), 100 * customer.latency, customer.lease(lease),
      ];
      further = [scheduled, account ? account.judge(policy, now, customer.cost).load : 0, account?.flood(now) ?? 0];
    } else {
      reply = [isCounted ? 1 : 0, isCounted ? levelOf(policy, count) : 0, levelOf(policy, isCounted ? count - 1 : 0), count, resetIn, 0, 0, 0, 0, 0, 0, 0, 0];
    }
    const override = this.#overrideOf(name, levels, now);
    const ruleLevel = reply[2];
    reply[2] = clamp(ruleLevel, ...override);
    return [...reply, ruleLevel, ...(override.length > 0 ? override : [0, 0, 0]), ...further];
  }

  reset(name) {
    return [this.#drop(name) ? 1 : 0];
  }

  // Time is offset so that documents' scores are above 0, whatever the clock shows.
  #now() {
    return (this.#latest = Math.max(this.#latest, Math.floor(1e12 + this.#clock())));
  }

  // Returns a customer, and the account if the customer is its user.
  #withAccount(name) {
    const account = this.#accounts ? accountOf(name) : undefined;
    return account === undefined ? [name] : [name, account];
  }

  // Returns their books.
  #booksOf(name, now, lease, find = (each) => this.#customers.get(each) ?? new Customer(this.#total)) {
    return this.#withAccount(name).map((each) => {
      const user = name.slice(each.length + 1);
      return new Book(find(each), each === name ? '' : `:/${user.length}/${user}`, now, lease);
    });
  }

  // Returns the numbers of a customer who is counted now.
  #use(name) {
    const customer = this.#customers.get(name) ?? new Customer(this.#total);
    this.#customers.delete(name);
    this.#customers.set(name, customer);
    return customer;
  }

  // Forgets customers without numbers and, while there are too many entries, the customers
  // counted least recently; of those who are counted now, the oldest documents.
  #evict(used, now) {
    for (const [name, customer] of this.#customers) {
      if (used.includes(customer)) break;
      customer.forget(now);
      if (this.size <= this.#maxSize && (customer.documents.size > 0 || now <= customer.fades || now <= customer.resetAt)) break;
      this.#drop(name);
    }
    for (const customer of used.reverse()) { // an account has the documents of all its users
      for (const id of customer.documents.keys()) {
        if (this.size <= this.#maxSize) return;
        customer.remove(id);
      }
    }
  }

  #drop(name) {
    this.#customers.get(name)?.clear();
    return this.#customers.delete(name);
  }

  // Returns [earliest, latest, ends_in] as the scripts do, or an empty array. An account's override
  // holds for users who have none.
  #overrideOf(name, levels, now) {
    for (const each of this.#withAccount(name)) {
      const { earliest, latest = levels, ends } = this.#overrides.get(each) ?? { ends: -Infinity };
      if (now <= ends) return [Math.min(earliest, levels), Math.min(latest, levels), ends === Infinity ? -1 : ends - now];
      this.#overrides.delete(each);
    }
    return [];
  }
}

module.exports = { Memory };
