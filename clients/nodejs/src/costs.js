'use strict';

// The costs of documents, relative to the costs of the customers that this process has seen,
// as in every language: vectors/README.md, costs.json.

const { insert, remove } = require('./sorted.js');

const minCustomers = 3; // with fewer, costs are not compared
const maxCustomers = 1_000;
const maxDocuments = 3; // of each customer, the latest are remembered
const maxCost = 100_000;
const billion = 1e9;

/** Costs in any one unit: those passed to submit, or seconds. */
class Costs {
  #customers = new Map(); // the logarithms of the costs of each customer's latest documents, in order of arrival
  #medians = []; // the median of each customer, in ascending order
  #usual = 0; // 0: to be computed from the medians

  /** Returns a cost in thousandths of the usual cost; 0: the cost or the usual cost is not known. */
  relative(cost) {
    if (cost === 0 || this.#medians.length < minCustomers) return 0;
    this.#usual ||= usualOf(this.#medians);
    return Math.floor(Math.min(Math.max(1000 * (cost / this.#usual) + 0.5, 1), maxCost));
  }

  /** Adds a document of a customer. */
  add(customer, cost) {
    if (cost === 0) return;
    const costs = this.#customers.get(customer) ?? this.#enter(customer);
    if (costs.length > 0) remove(this.#medians, medianOf(costs));
    if (costs.push(logarithmOf(cost)) > maxDocuments) costs.shift();
    insert(this.#medians, medianOf(costs));
    this.#usual = 0;
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

// In billionths. Of whole numbers any sum is exact, in every language.
const logarithmOf = (cost) => Math.floor(billion * Math.log(cost) + 0.5);

// Of an even number, the upper median.
const medianOf = (costs) => costs.toSorted((a, b) => a - b)[costs.length >> 1];

// The geometric mean without the cheapest fifth and the dearest fifth of the customers: no single one moves it far.
function usualOf(medians) {
  const outer = Math.floor((medians.length + 2) / 5);
  const middle = medians.slice(outer, medians.length - outer);
  return Math.exp(middle.reduce((sum, cost) => sum + cost, 0) / middle.length / billion);
}

module.exports = { Costs };
