// Dones that Redis has not taken yet.

import { List } from './list.js';

const most = 100_000;
const mostAtOnce = 1_000; // documents of a call
const searchEvery = 1_000;
const day = 86_400_000; // milliseconds, after which Redis has forgotten a document by itself

export class Owed {
  size = 0;
  #tried = 0; // of these
  #customers = new Map(); // by name, { byId, debts }
  #spare = []; // those for documents that were submitted in memory alone, and more that are not held
  #spareFrom = 0; // those before are not held
  #paying = new Map(); // by name, a set of ids
  #greatest; // the customer with the most, when that was looked for last
  #skips = 0; // Dones that are let go until it is looked for again

  /** How many there are that nobody is asking Redis to take. */
  get due() {
    return this.size - this.#tried;
  }

  /**
   * Remembers a Done, if there is room. isSpare: the document need not be pending in Redis.
   * isTried: Redis is being asked to take it, so it is not due until that fails.
   */
  hold(name, id, took, isSpare, isTried = false) {
    this.#remove(this.#find(name, id));
    if (this.size >= most && !this.#makeRoom(name, isSpare)) return undefined;
    let customer = this.#customers.get(name);
    if (!customer) this.#customers.set(name, (customer = { byId: new Map(), debts: new List() }));
    const debt = { name, id, took, at: performance.now(), isSpare, isTried, isHeld: true, before: undefined, after: undefined };
    if (isSpare) this.#addSpare(debt);
    customer.byId.set(id, debt);
    customer.debts.add(debt);
    this.size++;
    if (isTried) this.#tried++;
    return debt;
  }

  /** Forgets Dones, unless others of the same documents have come since. */
  release(debts) {
    for (const debt of debts) {
      if (debt?.isHeld) this.#remove(debt);
    }
  }

  /** Redis has not taken these Dones. */
  fail(debts) {
    for (const debt of debts) {
      if (!debt?.isHeld) continue;
      debt.isTried = false;
      this.#tried--;
    }
  }

  /** Takes out the Dones of documents that are submitted again, and returns them. */
  take(name, ids) {
    const taken = ids.map((id) => this.#find(name, id)).filter(Boolean);
    for (const debt of taken) this.#remove(debt);
    return taken;
  }

  /** Remembers Dones again that were taken out. */
  giveBack(debts) {
    for (const { name, id, took } of debts) {
      if (!this.#find(name, id)) this.hold(name, id, took, false);
    }
  }

  /** Tells whether the Done of one of these documents is on its way to Redis. */
  isPaying(name, ids) {
    const paying = this.#paying.get(name);
    return paying !== undefined && ids.some((id) => paying.has(id));
  }

  forget(name) {
    for (const debt of this.#customers.get(name)?.byId.values() ?? []) this.#remove(debt);
  }

  names() {
    return [...this.#customers.keys()];
  }

  /**
   * Begins to pay some of a customer's Dones: returns them, and how long the documents took
   * together. Those of which that is not known go by themselves.
   */
  pay(name) {
    const since = performance.now() - day;
    const debts = [];
    let took = 0;
    let { debts: { head: next } = {} } = this.#customers.get(name) ?? {};
    while (next && debts.length < mostAtOnce) {
      const debt = next;
      next = debt.after;
      if (debt.at < since) {
        this.#remove(debt);
      } else if (debt.isTried) {
        continue;
      } else if (debts.length === 0 || (debt.took === 0) === (debts[0].took === 0)) {
        debts.push(debt);
        took += debt.took;
      }
    }
    this.#paying.set(name, new Set(debts.map(({ id }) => id)));
    return { debts, took: Math.min(took, Number.MAX_VALUE) };
  }

  /** Ends that. */
  paid(name, debts) {
    this.#paying.delete(name);
    this.release(debts);
  }

  #find(name, id) {
    return this.#customers.get(name)?.byId.get(id);
  }

  #remove(debt) {
    if (!debt) return;
    const customer = this.#customers.get(debt.name);
    customer.byId.delete(debt.id);
    customer.debts.remove(debt);
    debt.isHeld = false;
    if (customer.byId.size === 0) this.#customers.delete(debt.name);
    this.size--;
    if (debt.isTried) this.#tried--;
  }

  #addSpare(debt) {
    if (this.#spare.length >= 3 * most) {
      this.#spare = this.#spare.filter(({ isHeld }) => isHeld);
      this.#spareFrom = 0;
    }
    this.#spare.push(debt);
  }

  // First those go that matter least, and then of the customer with the most.
  #makeRoom(name, isSpare) {
    while (this.#spareFrom < this.#spare.length) {
      const oldest = this.#spare[this.#spareFrom++];
      if (!oldest.isHeld) continue;
      this.#remove(oldest);
      return true;
    }
    if (isSpare) return false;
    const own = (this.#customers.get(name)?.byId.size ?? 0) + 1;
    if (!(this.#greatest?.byId.size > own)) {
      if (this.#skips-- > 0) return false;
      this.#skips = searchEvery;
      this.#greatest = undefined;
      for (const customer of this.#customers.values()) {
        if (!(customer.byId.size <= this.#greatest?.byId.size)) this.#greatest = customer;
      }
      if (!(this.#greatest.byId.size > own)) return false;
    }
    this.#remove(this.#greatest.debts.head);
    return true;
  }
}
