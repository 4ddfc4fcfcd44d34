'use strict';

// The policies of a store, each with its scripts.

const { fillPolicy, lastOf, scriptsOf } = require('./policy.js');

const mostPolicies = 100; // of an operator's rules: each is scripts in Redis, which keeps 500 well

/** Why well-written rules are not for this process, in words for operators. */
class Unusable extends RangeError {}

class Policies {
  /** The last level that any of them gives. */
  last;
  #policy; // of customers without a tier
  #tiers = new Map(); // by name
  #known = new Map(); // by the policy in JSON: equal ones share their scripts
  #levels; // of the queue
  #lease;
  #most; // different ones

  /**
   * Throws a TypeError or RangeError if a policy is wrong, or a tier has more levels than
   * policy. own are the store's own policies if these are to replace them: the queue has
   * the levels of those.
   */
  constructor({ policy, tiers }, lease, own) {
    const filled = fillPolicy(policy);
    this.last = lastOf(filled);
    this.#levels = own?.last ?? this.last;
    this.#lease = lease;
    this.#most = own ? mostPolicies : Infinity;
    if (this.last > this.#levels) throw new Unusable(`its queue has ${this.#levels} levels, the rules ${this.last}`);
    this.#policy = this.#withScripts(filled);
    for (const [name, tier] of Object.entries(tiers)) {
      const its = fillPolicy(tier, `tiers[${JSON.stringify(name)}]`);
      // The levels of all customers stand in one queue, and are compared there.
      if (lastOf(its) > this.last) {
        throw new Unusable(`docpriority: tier ${JSON.stringify(name.slice(0, 80))} has ${lastOf(its)} levels, more than the ${this.last} of the policy`);
      }
      this.#tiers.set(name, this.#withScripts(its));
    }
  }

  /** Returns what decides for a tier: { policy, scripts, lease, levels }. */
  of(tier) {
    return this.#tiers.get(tier) ?? this.#policy;
  }

  #withScripts(policy) {
    const key = JSON.stringify(policy);
    let known = this.#known.get(key);
    if (!known && this.#known.size === this.#most) throw new Unusable(`more than ${mostPolicies} different policies`);
    if (!known) this.#known.set(key, (known = { policy, scripts: scriptsOf(policy, this.#lease, this.#levels), lease: this.#lease, levels: this.#levels }));
    return known;
  }
}

module.exports = { Unusable, Policies };
