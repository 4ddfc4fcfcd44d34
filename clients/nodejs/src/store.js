'use strict';

// The numbers of a fleet. Documented in index.d.ts.

const { bytesOf, checkAmount, checkInteger, checkKind, checkNames, checkPrefix, isObject } = require('./check.js');
const { Wire } = require('./client.js');
const { Costs } = require('./costs.js');
const { Deadline } = require('./deadline.js');
const { NotCounted } = require('./errors.js');
const { Fallback } = require('./fallback.js');
const { defaultPrefix, keysOf } = require('./keys.js');
const { Memory } = require('./memory.js');
const { levelOf, longestLease, policiesOf, within } = require('./policy.js');
const { isIntegers, run } = require('./run.js');

const most = { next: 1_000_000, submit: 100, done: 1_000 }; // documents in one call
const longestWork = 86_400_000; // milliseconds, of a document's cost
const callOptions = { next: 'second', nextN: 'third', submit: 'third', submitN: 'third', done: 'fourth', doneN: 'fourth', peek: 'second', reset: 'second' };

// Makes a store a member of a fleet.
const enter = Symbol('enter');
const optionNames = ['prefix', 'timeout', 'policy', 'tiers', 'tierOf', 'overrides', 'lease', 'fallback'];

// The keys of each script, without the override's; errors name the first.
const scripts = {
  next: { kinds: ['count'], hasOverride: true },
  submit: { kinds: ['pending'], hasOverride: true, repeatable: true },
  done: { kinds: ['pending'], repeatable: true },
  peek: { kinds: ['count', 'pending'], hasOverride: true, readOnly: true },
  reset: { kinds: ['count', 'pending'] },
};
const rules = ['unknown', 'byCount', 'byLoad']; // as peek.lua numbers them

class Store {
  #wire;
  #memory; // instead of Redis
  #fallback; // if there is one
  #member; // of a fleet, if it is one
  #prefix;
  #timeout;
  #tierOf;
  #overrides; // whether overrides are read
  #own; // the policies of the options
  #policies; // those in force
  #lease;
  #submitted = new Costs(); // as passed to submit
  #took = new Costs(); // milliseconds, as passed to done
  #calls = new Set(); // in progress
  #closing;

  constructor(client, options = {}) {
    checkNames(options, optionNames, 'options');
    const { prefix = defaultPrefix, timeout = 250, policy = {}, tiers = {}, tierOf, overrides = false, lease = longestLease, fallback = false } = options;
    checkPrefix(prefix);
    checkInteger('timeout', timeout, 1, 2 ** 31 - 1);
    checkInteger('lease', lease, 1_000, longestLease);
    checkKind('overrides', overrides, 'boolean');
    checkKind('fallback', fallback, 'boolean');
    if (!isObject(tiers)) throw new TypeError('docpriority: tiers is not an object');
    if (tierOf !== undefined) checkKind('tierOf', tierOf, 'function');
    else if (Object.keys(tiers).length > 0) throw new TypeError('docpriority: tiers without a tierOf would never be used');
    [this.#prefix, this.#timeout, this.#tierOf, this.#overrides, this.#lease] = [prefix, timeout, tierOf, overrides, lease];
    this.#own = this.#policies = policiesOf({ policy, tiers }, lease);
    if (client instanceof Memory) this.#memory = client;
    else this.#wire = new Wire(client);
    if (fallback && this.#wire) this.#fallback = new Fallback((call, signal) => this.#askRedis(call, signal));
  }

  async next(customer, options) {
    const [decision] = await this.#noted(1, () => this.#next('next', customer, 1, options));
    return decision;
  }

  async nextN(customer, n, options) {
    return this.#noted(n, () => this.#next('nextN', customer, n, options));
  }

  async submit(customer, document, options = {}) {
    const [decision] = await this.#noted(1, () => {
      checkOptions('submit', options, ['cost'], 'an object such as { cost: 12 }');
      const { cost = 0, signal } = options;
      return this.#submit('submit', customer, [document], [cost], { signal });
    });
    return decision;
  }

  async submitN(customer, documents, options = {}) {
    return this.#noted(documents?.length, () => {
      checkOptions('submitN', options, ['costs'], 'an object such as { costs: [12] }');
      const { costs, signal } = options;
      return this.#submit('submitN', customer, documents, costs, { signal });
    });
  }

  async done(customer, document, took = 0, options) {
    const [ended] = await this.#noted(1, () => this.#done('done', customer, [document], took, options));
    return ended;
  }

  async doneN(customer, documents, took = 0, options) {
    return this.#noted(documents?.length, () => this.#done('doneN', customer, documents, took, options));
  }

  async peek(customer, options) {
    const { reply, degraded } = await this.#run('peek', 'peek', customer, [], 17, options);
    const [rule, level, nextLevel, count, resetIn, load, recent, cost, pending, pendingLast, oldest, latency, lease, ruleLevel, earliest, latest, endsIn] = reply;
    return Object.freeze({
      rule: rules[rule], level, nextLevel, count, resetIn, load: load / 1e6, recent: recent / 1_000, cost: cost / 1_000,
      pending, pendingLast, oldest, latency, lease, degraded, ruleLevel,
      override: latest === 0 ? undefined : Object.freeze({ earliest, latest, endsIn: endsIn < 0 ? undefined : endsIn }),
    });
  }

  async reset(customer, options) {
    await this.#run('reset', 'reset', customer, [], 1, options);
  }

  keys(customer) {
    return keysOf(customer, this.#prefix);
  }

  script(name, customer) {
    const { scripts } = customer === undefined ? this.#policies.of() : this.#tier(customer);
    if (!Object.hasOwn(scripts, name)) throw new RangeError(`docpriority: there is no script ${JSON.stringify(name)}`);
    const { text, digest } = scripts[name];
    return { text, sha1: digest };
  }

  get last() {
    return this.#own.last;
  }

  get degraded() {
    return this.#fallback?.degraded ?? false;
  }

  async close() {
    await (this.#closing ??= this.#close());
  }

  async [Symbol.asyncDispose]() {
    await this.close();
  }

  async #close() {
    await Promise.allSettled([...this.#calls, this.#member?.leave()]);
    this.#wire?.close();
  }

  [enter](member) {
    this.#member = member({
      levels: this.last,
      overrides: this.#overrides,
      key: (end) => Buffer.from(`${this.#prefix}:${end}`),
      within: (timeout, signal, call) => this.#within(timeout, signal, call),
      isDegraded: () => this.degraded,
      // Calls in progress end by the policies with which they began.
      goBy: (rules) => (this.#policies = rules ? policiesOf(rules, this.#lease, this.last) : this.#own),
    });
  }

  async #next(operation, customer, n, options) {
    checkInteger('the number of documents', n, 1, most.next);
    const { reply, name, policy, degraded } = await this.#run(operation, 'next', customer, n === 1 ? [] : [String(n)], 2, options);
    const [level, last, resetIn = policy.resetInterval, lastRuleLevel = level, earliest, latest] = reply;
    const decisions = Array.from({ length: n }, (_, i) => {
      const count = last + n - 1 - i;
      const ruleLevel = i === n - 1 ? lastRuleLevel : levelOf(policy, count);
      return Object.freeze({ level: within(ruleLevel, earliest, latest), count, resetIn, load: 0, pending: 0, degraded, ruleLevel });
    });
    this.#member?.seen.decided('count', name, decisions);
    return decisions;
  }

  async #submit(operation, customer, documents, given, options) {
    const ids = idsOf(documents, most.submit);
    const costs = costsOf(ids.length, given);
    const args = ids.flatMap((id, i) => [id, String(this.#submitted.relative(costs[i]))]);
    const { reply, name, degraded } = await this.#run(operation, 'submit', customer, args, 4 * ids.length, options);
    for (const cost of costs) this.#submitted.add(name, cost);
    const decisions = ids.map((_, i) => {
      const [level, load, pending, ruleLevel] = reply.slice(4 * i, 4 * i + 4);
      return Object.freeze({ level, count: 0, resetIn: 0, load: load / 1e6, pending, degraded, ruleLevel });
    });
    this.#member?.seen.decided('load', name, decisions);
    return decisions;
  }

  async #done(operation, customer, documents, took, options) {
    const ids = idsOf(documents, most.done);
    checkAmount('took, in milliseconds,', took, '0 (unknown)');
    const given = Array.from(documents); // the caller may change the array
    const each = Math.min(took, longestWork) / ids.length;
    const { reply, name } = await this.#run(operation, 'done', customer, [String(this.#took.relative(each)), ...ids], 2 * ids.length, options);
    const ended = given.flatMap((document, i) => {
      const [latency, level] = reply.slice(2 * i, 2 * i + 2);
      return level === 0 ? [] : Object.freeze({ document, latency, level }); // 0: it was not pending
    });
    for (let i = 0; i < ended.length; i++) this.#took.add(name, each);
    this.#member?.seen.ended(ended);
    return ended;
  }

  // Makes a call, and counts its documents if it fails.
  async #noted(documents, call) {
    try {
      return await call();
    } catch (error) {
      this.#member?.seen.failed(Number.isInteger(documents) && documents > 0 ? documents : 1, error);
      throw error;
    }
  }

  // Returns the reply of a script, of at least so many integers, the customer in Latin-1, the
  // policy, and whether the reply is degraded.
  async #run(operation, script, customer, args, integers, options = {}) {
    checkOptions(operation, options);
    const { signal } = options;
    if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError('docpriority: signal is not an AbortSignal');
    const bytes = bytesOf(customer, 'a customer');
    const named = this.keys(bytes);
    const name = bytes.latin1Slice();
    const tier = this.#tier(customer); // called once: a second call might return another tier
    if (this.#closing) throw new NotCounted(`docpriority: ${operation} ${named[scripts[script].kinds[0]]}: the store is closed`);
    const running = this.#answer({ operation, script, name, named, tier, args, isReply: isIntegers(integers) }, signal);
    this.#calls.add(running);
    try {
      const { reply, degraded = false } = await running;
      return { reply, degraded, name, policy: tier.policy };
    } finally {
      this.#calls.delete(running);
    }
  }

  async #answer(call, signal) {
    if (this.#fallback) return this.#fallback.answer(call, signal);
    if (this.#wire) return { reply: await this.#askRedis(call, signal) };
    const { operation, name, script, args, tier } = call;
    if (signal?.aborted) throw new NotCounted(`docpriority: ${operation}: it was canceled`, { cause: signal.reason });
    return { reply: this.#memory.run(script, name, args, tier) };
  }

  #askRedis({ script, named, tier, ...call }, signal) {
    const { kinds, hasOverride, ...its } = scripts[script];
    const keys = [...kinds, ...(hasOverride && this.#overrides ? ['override'] : [])].map((kind) => named[kind]);
    const asked = { ...call, ...its, named, keys, script: tier.scripts[script] };
    return this.#within(this.#timeout, signal, (wire, deadline) => run(wire, asked, deadline));
  }

  async #within(timeout, signal, call) {
    const deadline = new Deadline(timeout, signal);
    try {
      return await call(this.#wire, deadline);
    } finally {
      deadline.end();
    }
  }

  #tier(customer) {
    const name = this.#tierOf?.(customer);
    if (typeof name?.then === 'function') {
      name.then(undefined, () => {}); // or Node.js would end the process for its error
      throw new TypeError('docpriority: tierOf returns a promise, and not a tier');
    }
    return this.#policies.of(name);
  }
}

// Names the argument: callers may pass the cost itself, or a document, by mistake.
function checkOptions(operation, options, names = [], example = 'an object such as { signal }') {
  checkNames(options, [...names, 'signal'], `the ${callOptions[operation]} argument of ${operation}`, example);
}

// An array may have holes, which map would leave out.
function idsOf(documents, longest) {
  if (!Array.isArray(documents)) throw new TypeError('docpriority: the documents are not an array');
  checkInteger('the number of documents', documents.length, 1, longest);
  return Array.from(documents, (document) => bytesOf(document, 'a document'));
}

// Returns a copy of the costs of n documents.
function costsOf(n, costs = Array(n).fill(0)) {
  if (!Array.isArray(costs)) throw new TypeError('docpriority: the costs are not an array');
  if (costs.length !== n) throw new RangeError(`docpriority: ${costs.length} costs for ${n} documents`);
  return Array.from(costs, (cost) => {
    checkAmount('a cost', cost, '0 (unknown)');
    return cost;
  });
}

module.exports = { enter, optionNames, Store };
