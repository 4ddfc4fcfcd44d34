'use strict';

// The costs of documents, relative to the costs of the customers that this process has seen,
// as in every language: vectors/README.md, costs.json.

const { insert, remove } = require('./sorted.js');

const minCustomers = 3; // with fewer, costs are not compared
const maxCustomers = 1_000;
const maxDocuments = 3; // of each customer, the latest are remembered
const maxCost = 100_000;

/** Costs in any one unit: those passed to submit, or milliseconds. */
class Costs {
  #customers = new Map(); // the costs of each customer's latest documents, in order of arrival
  #medians = []; // the median of each customer, in ascending order

  /** Returns a cost in thousandths of the customers' median; 0: the cost or the median is not known. */
  relative(cost) {
    if (cost === 0 || this.#medians.length < minCustomers) return 0;
    return Math.floor(Math.min(Math.max(1000 * (cost / middleOf(this.#medians)) + 0.5, 1), maxCost));
  }

  /** Adds a document of a customer. */
  add(customer, cost) {
    if (cost === 0) return;
    const costs = this.#customers.get(customer) ?? this.#enter(customer);
    if (costs.length > 0) remove(this.#medians, medianOf(costs));
    if (costs.push(cost) > maxDocuments) costs.shift();
    insert(this.#medians, medianOf(costs));
  }

  #enter(customer) {
    if (this.#customers.size === maxCustomers) {
      const [[first, costs]] = this.#customers;
      remove(this.#medians, medianOf(costs));
      this.#customers.delete(first);
    }
    const costs = [];
    this.#customers.set(customer, costs);
    return costs;
  }
}

const medianOf = (costs) => middleOf(costs.toSorted((a, b) => a - b));

// Of an even number, the upper median.
const middleOf = (ascending) => ascending[ascending.length >> 1];

module.exports = { Costs };
