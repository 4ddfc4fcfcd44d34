// How long documents of all customers take, the latest thousand or so that this process
// knows of: what a document costs is told in thousandths of that. It is worked out as in
// every other language.

const enough = 100; // documents until the mean is known, and what a batch counts as at most
const memory = 1_000; // documents, about, of which it is the mean
const maxCost = 100_000;
const outlier = 20; // a document counts as so many times the mean at most
const day = 86_400;

export class Mean {
  #seen = 0;
  #mean = 0; // seconds

  /** Returns the cost of each of n documents that took so long together; 0: it is not known. */
  relative(milliseconds, n) {
    const took = secondsOf(milliseconds);
    if (took === 0 || this.#seen < enough) return 0;
    return Math.floor(Math.min(Math.max((1000 * took) / n / this.#mean + 0.5, 1), maxCost));
  }

  /** Adds some of n documents that took so long together. */
  add(milliseconds, n, some) {
    const took = secondsOf(milliseconds);
    if (took === 0 || some < 1) return;
    let each = Math.min(took, day) / n;
    if (this.#seen >= enough) each = Math.min(each, outlier * this.#mean);
    const weight = Math.min(some, enough);
    this.#seen = Math.min(this.#seen + weight, memory);
    this.#mean += ((each - this.#mean) * weight) / this.#seen;
  }
}

// Whole seconds and the rest are summed, as Go does it: so no cost differs in the last
// digit. What is shorter than a nanosecond is no time.
function secondsOf(milliseconds) {
  return milliseconds >= 1e-6 ? Math.floor(milliseconds / 1000) + (milliseconds % 1000) / 1000 : 0;
}
