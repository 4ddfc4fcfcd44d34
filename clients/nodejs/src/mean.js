'use strict';

// What the documents of all customers cost, the latest thousand or so that this process knows
// of: a document's cost is compared with that. It is computed as in every other language.

const enough = 100; // documents until the mean is known
const memory = 1_000; // documents, about, of which it is the mean
const maxCost = 100_000;
const outlier = 20; // a document counts as 20 times the mean at most
const day = 86_400;

/** Of costs in any one unit: what submit is told, or seconds. */
class Mean {
  #seen = 0;
  #mean = 0;

  /** Returns a cost in thousandths of the mean; 0: the cost or the mean is not known. */
  relative(cost) {
    if (cost === 0 || this.#seen < enough) return 0;
    return Math.floor(Math.min(Math.max(1000 * (cost / this.#mean) + 0.5, 1), maxCost));
  }

  /** Adds a document. */
  add(cost) {
    if (cost === 0) return;
    if (this.#seen >= enough) cost = Math.min(cost, outlier * this.#mean);
    this.#seen = Math.min(this.#seen + 1, memory);
    this.#mean += (cost - this.#mean) / this.#seen;
  }
}

/**
 * Returns the seconds that each of n documents took which took some milliseconds together.
 * Whole seconds and the rest are summed, as Go does it: so no cost differs in the last digit.
 * What is shorter than a nanosecond is no time.
 */
function eachOf(milliseconds, n) {
  if (milliseconds < 1e-6) return 0;
  return Math.min(Math.floor(milliseconds / 1000) + (milliseconds % 1000) / 1000, day) / n;
}

module.exports = { Mean, eachOf };
