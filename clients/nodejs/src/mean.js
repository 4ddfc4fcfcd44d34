// How long documents of all customers take, the latest thousand that this process knows
// of: what a document costs is told in thousandths of that.

export class Mean {
  #seen = 0;
  #mean = 0;

  // Adds n documents that took so many milliseconds together, and returns the cost of
  // each; 0: it is not known yet.
  cost(milliseconds, n = 1) {
    if (!(milliseconds > 0)) return 0;
    const each = milliseconds / n;
    this.#seen = Math.min(this.#seen + n, 1000);
    this.#mean += ((each - this.#mean) * Math.min(n, this.#seen)) / this.#seen;
    if (this.#seen < 100) return 0;
    return Math.min(Math.max(Math.round((1000 * each) / this.#mean), 1), 999_999);
  }
}
