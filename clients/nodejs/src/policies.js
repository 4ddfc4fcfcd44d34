// All policies of a store, each with its scripts.

import { createHash } from 'node:crypto';
import { fillPolicy, lastOf, scriptsOf } from './policy.js';

export class Policies {
  /** The last level that any of them gives. */
  last;
  #policy; // of customers without a tier
  #tiers = new Map(); // by name

  /**
   * levels is how many the queue has, where these are not its own policies. Throws a
   * TypeError or RangeError if a policy is wrong, or a tier has more levels than policy.
   */
  constructor(policy, tiers, lease, levels) {
    const filled = fillPolicy(policy);
    this.last = lastOf(filled);
    const known = new Map(); // equal policies share their scripts
    const withScripts = (its) => {
      const key = JSON.stringify(its);
      if (!known.has(key)) known.set(key, { policy: its, scripts: digested(scriptsOf(its, lease, levels ?? this.last)) });
      return known.get(key);
    };
    this.#policy = withScripts(filled);
    for (const [name, tier] of Object.entries(tiers)) {
      const its = fillPolicy(tier, `tiers[${JSON.stringify(name)}]`);
      // The levels of all customers stand in one queue, and are compared there.
      if (lastOf(its) > this.last) {
        throw new RangeError(`docpriority: tier ${JSON.stringify(name)} has ${lastOf(its)} levels, more than the ${this.last} of the policy`);
      }
      this.#tiers.set(name, withScripts(its));
    }
  }

  /** Returns the policy of a tier, and its scripts: { policy, scripts }. */
  of(tier) {
    return this.#tiers.get(tier) ?? this.#policy;
  }
}

function digested(texts) {
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => {
    return [name, { text, digest: createHash('sha1').update(text).digest('hex') }];
  }));
}
