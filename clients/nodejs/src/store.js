'use strict';

// The numbers of a fleet. Documented in index.d.ts.

const { bytesOf, checkAmount, checkDelay, checkInteger, checkKind, checkNames, checkPrefix, isObject } = require('./check.js');
const { Wire } = require('./client.js');
const { Clock } = require('./clock.js');
const { Costs } = require('./costs.js');
const { Deadline, Pace } = require('./deadline.js');
const { NotCounted } = require('./errors.js');
const { Fallback } = require('./fallback.js');
const { accountOf, defaultPrefix, keysOf } = require('./keys.js');
const { Memory } = require('./memory.js');
const { clamp, levelOf, longestLease, policiesOf } = require('./policy.js');
const { isIntegers, run } = require('./run.js');

const maxDocuments = { next: 1_000_000, submit: 100, done: 1_000 }; // as the scripts take them
const longestWork = 86_400_000; // milliseconds; work that took longer counts as this

// Names a method of stores that makes one a member of a fleet: a symbol, so that only join calls it.
const enter = Symbol('enter');
const optionNames = ['prefix', 'timeout', 'policy', 'tiers', 'tierOf', 'overrides', 'accounts', 'lease', 'fallback'];

// The keys of each script: its own, the customer's override, and those of the account of a user. Most
// errors name the first. bound gives a reply the bounds of an override that the script has not read.
// repeatable and readOnly say what a lost reply means, isTimed whether the script takes a deadline.
const scripts = {
  next: { kinds: ['count'], accountKinds: ['override'], readsOverride: true, bound: ([level, count, resetIn], bounds) => [level, count, resetIn, level, ...bounds] },
  submit: { kinds: ['pending'], accountKinds: ['pending', 'override'], readsOverride: true, bound: (reply, bounds) => reply.map((n, i) => (i % 4 === 0 ? clamp(n, ...bounds) : n)), repeatable: true, isTimed: true },
  done: { kinds: ['pending'], accountKinds: ['pending'], repeatable: true },
  peek: { kinds: ['count', 'pending'], accountKinds: ['pending', 'override'], readsOverride: true, readOnly: true },
  reset: { kinds: ['count', 'pending'], accountKinds: [] },
};
const rules = ['unknown', 'byCount', 'byLoad']; // as peek.lua numbers them

class Store {
  #wire;
  #pace = new Pace(); // of replies on the wire
  #clock = new Clock(); // Redis's
  #memory; // a MemoryStore has one instead of a wire
  #fallback;
  #member; // a store of join has one
  #prefix;
  #timeout;
  #tierOf;
  #overrides; // whether it reads them
  #accounts; // whether it splits names
  #ownPolicies; // what the options say
  #policies; // what decides: its own policies, or those that operators have set
  #lease;
  #submittedCosts = new Costs();
  #workTimes = new Costs(); // the seconds of work that done is told
  #calls = new Set(); // close waits for them
  #closing;

  constructor(client, options = {}) {
    checkNames(options, optionNames, 'options');
    const { prefix = defaultPrefix, timeout = 250, policy = {}, tiers = {}, tierOf, overrides = false, accounts = false, lease = longestLease, fallback = false } = options;
    checkPrefix(prefix);
    checkInteger('timeout', timeout, 1, 2 ** 31 - 1);
    checkInteger('lease', lease, 1_000, longestLease);
    checkKind('overrides', overrides, 'boolean');
    checkKind('accounts', accounts, 'boolean');
    checkKind('fallback', fallback, 'boolean');
    if (!isObject(tiers)) throw new TypeError('docpriority: tiers must be an object');
    if (tierOf !== undefined) checkKind('tierOf', tierOf, 'function');
    else if (Object.keys(tiers).length > 0) throw new TypeError('docpriority: tiers without a tierOf would never be used');
    [this.#prefix, this.#timeout, this.#tierOf, this.#overrides, this.#accounts, this.#lease] = [prefix, timeout, tierOf, overrides || accounts, accounts, lease];
    this.#ownPolicies = this.#policies = policiesOf({ policy, tiers }, lease);
    if (client instanceof Memory) this.#memory = client;
    else this.#wire = new Wire(client, this.#pace);
    if (fallback && this.#wire) this.#fallback = new Fallback((call) => this.#askRedis(call), accounts);
  }

  async next(customer) {
    const [decision] = await this.#countFailures(1, () => this.#next('next', customer, 1));
    return decision;
  }

  async nextN(customer, n) {
    return this.#countFailures(n, () => this.#next('nextN', customer, n));
  }

  async submit(customer, document, options = {}) {
    const [decision] = await this.#countFailures(1, () => {
      // A caller may have passed the cost itself.
      checkNames(options, ['cost', 'delay'], 'the third argument of submit', 'an object such as { cost: 12 }');
      return this.#submit('submit', customer, [{ id: document, ...options }]);
    });
    return decision;
  }

  async submitN(customer, documents) {
    return this.#countFailures(documents?.length, () => this.#submit('submitN', customer, documents));
  }

  async done(customer, document, took = 0) {
    const [ended] = await this.#countFailures(1, () => this.#done('done', customer, [document], took));
    return ended;
  }

  async doneN(customer, documents, took = 0) {
    return this.#countFailures(documents?.length, () => this.#done('doneN', customer, documents, took));
  }

  async peek(customer) {
    const { reply, degraded } = await this.#run('peek', 'peek', customer, [], 20);
    const [rule, level, nextLevel, count, resetIn, load, recent, cost, pending, pendingFlood, oldest, latency, lease, ruleLevel, earliest, latest, endsIn, scheduled, accountLoad, accountFlood] = reply;
    return Object.freeze({
      rule: rules[rule], level, nextLevel, count, resetIn, load: load / 1e6, recent: recent / 1_000, cost: cost / 1_000,
      pending, pendingFlood, scheduled, accountLoad: accountLoad / 1e6, accountFlood, oldest, latency, lease, degraded, ruleLevel,
      bounds: latest === 0 ? undefined : Object.freeze({ earliest, latest }),
      overrideEndsIn: latest === 0 || endsIn < 0 ? undefined : endsIn,
    });
  }

  async reset(customer) {
    await this.#run('reset', 'reset', customer, [], 1);
  }

  keys(customer) {
    return keysOf(customer, this.#prefix, this.#accounts);
  }

  script(name, customer) {
    const { scripts } = customer === undefined ? this.#policies.forTier() : this.#tierFor(customer);
    if (!Object.hasOwn(scripts, name)) throw new RangeError(`docpriority: there is no script ${JSON.stringify(name)}`);
    return { ...scripts[name] };
  }

  get last() {
    return this.#ownPolicies.last;
  }

  get degraded() {
    return this.#fallback?.degraded ?? false;
  }

  async close() {
    this.#closing ??= this.#close();
    await this.#closing;
  }

  async [Symbol.asyncDispose]() {
    await this.close();
  }

  async #close() {
    const told = Promise.allSettled([...this.#calls]).then(() => this.#fallback?.close(clamp(2 * this.#timeout, 500, 3_000)));
    await Promise.allSettled([told, this.#member?.leave()]);
    this.#wire?.close();
  }

  [enter](newMember) {
    this.#member = newMember({
      levels: this.last,
      overrides: this.#overrides,
      accounts: this.#accounts,
      key: (end) => Buffer.from(`${this.#prefix}:${end}`),
      withDeadline: (...args) => this.#withDeadline(...args),
      isDegraded: () => this.degraded,
      digest: () => this.#policies.digest(this.#tierOf !== undefined),
      // Calls in progress end by the policies with which they began.
      applyPolicies: (policies) => (this.#policies = policies ? policiesOf(policies, this.#lease, this.last) : this.#ownPolicies),
    });
  }

  async #next(operation, customer, n) {
    checkInteger('the number of documents', n, 1, maxDocuments.next);
    const { reply, name, policy, degraded } = await this.#run(operation, 'next', customer, n === 1 ? [] : [String(n)], 2);
    const [level, finalCount, resetIn = policy.resetInterval, finalRuleLevel = level, earliest, latest] = reply;
    const decisions = Array.from({ length: n }, (_, i) => {
      const count = finalCount + n - 1 - i;
      const ruleLevel = count === finalCount ? finalRuleLevel : levelOf(policy, count);
      return Object.freeze({ level: clamp(ruleLevel, earliest, latest), count, resetIn, load: 0, pending: 0, degraded, ruleLevel });
    });
    this.#member?.collector.countDecisions('count', name, decisions);
    return decisions;
  }

  async #submit(operation, customer, items) {
    const documents = copyOf(items, maxDocuments.submit).map(documentOf);
    const args = documents.flatMap(({ id, cost, delay }) => [id, `${this.#submittedCosts.relative(cost)}${delay > 0 ? ` ${delay}` : ''}`]);
    const { reply, name, degraded } = await this.#run(operation, 'submit', customer, args, 4 * documents.length);
    for (const { cost } of documents) this.#submittedCosts.add(this.#payerOf(name), cost);
    const decisions = documents.map((_, i) => {
      const [level, load, pending, ruleLevel] = reply.slice(4 * i, 4 * i + 4);
      return Object.freeze({ level, count: 0, resetIn: 0, load: load / 1e6, pending, degraded, ruleLevel });
    });
    this.#member?.collector.countDecisions('load', name, decisions);
    return decisions;
  }

  async #done(operation, customer, documents, took) {
    const passed = copyOf(documents, maxDocuments.done);
    const ids = passed.map((id) => bytesOf(id, 'a document'));
    checkAmount('took, in milliseconds,', took, '0 (unknown)');
    const work = Math.min(took, longestWork) / 1000 / ids.length; // seconds for each document
    const read = (reply, name) => {
      const ended = passed.flatMap((document, i) => {
        const [latency, level] = reply.slice(2 * i, 2 * i + 2);
        return level === 0 ? [] : Object.freeze({ document, latency, level }); // 0: it was not pending
      });
      for (let i = 0; i < ended.length; i++) this.#workTimes.add(this.#payerOf(name), work);
      this.#member?.collector.countEnded(ended);
      return ended;
    };
    const args = [String(this.#workTimes.relative(work)), '', ...ids];
    const { reply, name } = await this.#run(operation, 'done', customer, args, 2 * ids.length, read);
    return read(reply, name);
  }

  // Whose costs are compared with others': an account with all its users is one customer.
  #payerOf(name) {
    return (this.#accounts ? accountOf(name) : undefined) ?? name;
  }

  // Makes a call. If it fails, its documents are counted as failed.
  async #countFailures(documents, call) {
    try {
      return await call();
    } catch (error) {
      this.#member?.collector.countFailure(Number.isInteger(documents) && documents > 0 ? documents : 1, error);
      throw error;
    }
  }

  // Returns the reply of a script (at least so many integers), whether memory gave it, the
  // customer's bytes in Latin-1, and the policy. A done may be answered later: then read is called.
  async #run(operation, script, customer, args, integers, read) {
    const bytes = bytesOf(customer, 'a customer');
    const keysByKind = this.keys(bytes);
    const name = bytes.latin1Slice();
    const tier = this.#tierFor(customer); // once a call: the next time tierOf might return another
    if (this.#closing) throw new NotCounted(`docpriority: ${operation} ${keysByKind[scripts[script].kinds[0]]}: the store is closed`);
    const running = this.#answer({ operation, script, name, keysByKind, tier, args, read, integers, isReply: isIntegers(integers) });
    this.#calls.add(running);
    try {
      const { reply, degraded = false } = await running;
      return { reply, degraded, name, policy: tier.policy };
    } finally {
      this.#calls.delete(running);
    }
  }

  async #answer(call) {
    if (this.#fallback) return this.#fallback.answer(call);
    if (this.#wire) return { reply: await this.#askRedis(call) };
    const { name, script, args, tier } = call;
    return { reply: this.#memory.run(script, name, args, tier) };
  }

  #askRedis({ script, name, keysByKind, tier, ...call }) {
    const { kinds, accountKinds, readsOverride, isTimed, ...properties } = scripts[script];
    const keys = kinds.map((kind) => keysByKind[kind]);
    let overrideKey = readsOverride && this.#overrides ? keysByKind.override : undefined;
    if (overrideKey) keys.push(overrideKey);
    const account = this.#accounts ? accountOf(name) : undefined;
    if (account !== undefined) {
      const keysOfAccount = keysOf(Buffer.from(account, 'latin1'), this.#prefix);
      keys.push(...accountKinds.map((kind) => keysOfAccount[kind]));
      overrideKey = undefined; // no use to read it by itself: the script needs the account's keys, too
    }
    const request = { ...call, ...properties, keys, overrideKey, levels: tier.levels, script: tier.scripts[script], clock: isTimed ? this.#clock : undefined };
    return this.#withDeadline(this.#timeout, (wire, deadline) => run(wire, request, deadline));
  }

  async #withDeadline(timeout, call) {
    const deadline = new Deadline(timeout, this.#pace);
    try {
      return await call(this.#wire, deadline);
    } finally {
      deadline.end();
    }
  }

  #tierFor(customer) {
    const name = this.#tierOf?.(customer);
    if (typeof name?.then === 'function') {
      name.then(undefined, () => {}); // else a rejection would end the process
      throw new TypeError('docpriority: tierOf returns a promise, and not a tier');
    }
    return this.#policies.forTier(name);
  }
}

// Copies what a caller may change during the call. Array.from also keeps holes, as undefined.
function copyOf(documents, longest) {
  if (!Array.isArray(documents)) throw new TypeError('docpriority: the documents must be an array');
  checkInteger('the number of documents', documents.length, 1, longest);
  return Array.from(documents);
}

// Returns a document of a submit, which may be a plain id.
function documentOf(item) {
  const document = typeof item === 'string' || item instanceof Uint8Array ? { id: item } : item;
  checkNames(document, ['id', 'cost', 'delay'], 'a document', "an id, or an object such as { id: 'invoice-4711', cost: 12 },");
  const { id, cost = 0, delay = 0 } = document;
  checkAmount('a cost', cost, '0 (unknown)');
  checkDelay(delay);
  return { id: bytesOf(id, 'a document'), cost, delay: Math.floor(delay) };
}

module.exports = { enter, optionNames, Store };
