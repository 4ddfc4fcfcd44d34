'use strict';

// The counts. Documented in index.d.ts.

const { Wire } = require('./client.js');
const { Deadline } = require('./deadline.js');
const { NotCounted } = require('./errors.js');
const { Fallback } = require('./fallback.js');
const { bytesOf, checkPrefix, defaultPrefix, keysOf } = require('./keys.js');
const { eachOf, Mean } = require('./mean.js');
const { Memory } = require('./memory.js');
const { Policies } = require('./policies.js');
const { checkNames, levelOf, longestLease } = require('./policy.js');
const { isIntegers, run } = require('./run.js');

const most = { next: 1_000_000, submit: 100, done: 1_000 }; // documents in one call
// What a Member needs of a Store, and nobody else: to go by other policies, to ask Redis for
// what is not a customer's, to set a key that is there, and to part before the connections end.
const goBy = Symbol('goBy');
const ask = Symbol('ask');
const set = Symbol('set');
const part = Symbol('part');

const rules = ['unknown', 'byCount', 'byLoad']; // as peek.lua numbers them

class Store {
  #wire;
  #memory; // in place of Redis
  #fallback; // if there is one
  #prefix;
  #timeout;
  #tierOf;
  #overrides; // the key of a customer's override, if it is read
  #own; // the policies of the options
  #policies; // those in force
  #lease;
  #told = new Mean(); // what documents cost, by submit
  #took = new Mean(); // how many seconds they took, by done
  #calls = new Set(); // that are under way
  #closed = false;
  #closing;

  constructor(client, options = {}) {
    checkNames(options, ['prefix', 'timeout', 'policy', 'tiers', 'tierOf', 'overrides', 'lease', 'fallback'], 'options');
    const { prefix = defaultPrefix, timeout = 250, policy = {}, tiers = {}, tierOf, overrides = false, lease = longestLease, fallback = false } = options;
    checkPrefix(prefix);
    checkMilliseconds('timeout', timeout, 2 ** 31 - 1);
    checkMilliseconds('lease', lease, longestLease);
    this.#prefix = prefix;
    this.#timeout = timeout;
    if (typeof overrides !== 'boolean') throw new TypeError('docpriority: overrides is not true or false');
    this.#overrides = overrides ? ['override'] : [];
    this.#tierOf = checkTierOf(tierOf, tiers);
    this.#lease = lease;
    this.#own = this.#policies = new Policies({ policy, tiers }, lease);
    if (typeof fallback !== 'boolean') throw new TypeError('docpriority: fallback is not true or false');
    if (client instanceof Memory) this.#memory = client;
    else this.#wire = new Wire(client);
    if (fallback && !this.#memory) {
      this.#fallback = new Fallback((call, signal) => this.#askRedis(call, signal));
    }
  }

  async next(customer, options) {
    const [decision] = await this.#next('next', customer, 1, options);
    return decision;
  }

  async nextN(customer, n, options) {
    checkNumber(n, most.next);
    return this.#next('nextN', customer, n, options);
  }

  async submit(customer, document, options = {}) {
    checkOptions(options, 'cost', 'signal');
    const { cost = 0, signal } = options;
    const [decision] = await this.#submit('submit', customer, [document], [cost], { signal });
    return decision;
  }

  async submitN(customer, documents, options = {}) {
    checkDocuments(documents, most.submit);
    checkOptions(options, 'costs', 'signal');
    const { costs = Array(documents.length).fill(0), signal } = options;
    return this.#submit('submitN', customer, documents, costs, { signal });
  }

  async done(customer, document, took = 0, options) {
    const [ended] = await this.#done('done', customer, [document], took, options);
    return ended;
  }

  async doneN(customer, documents, took = 0, options) {
    checkDocuments(documents, most.done);
    return this.#done('doneN', customer, documents, took, options);
  }

  async peek(customer, options) {
    const call = { script: 'peek', kinds: ['count', 'pending', 'usage', ...this.#overrides], isReply: isIntegers(17), readOnly: true };
    const { reply, degraded } = await this.#run('peek', customer, call, options);
    const [rule, level, nextLevel, count, resetIn, load, lately, cost, pending, pendingLast, oldest, sojourn, lease, ruled, earliest, latest, endsIn] = reply;
    return Object.freeze({
      rule: rules[rule], level, nextLevel, count, resetIn, load: load / 1e6, lately: lately / 1_000, cost: cost / 1_000,
      pending, pendingLast, oldest, sojourn, lease, degraded, ruled,
      override: ruled === 0 ? undefined : Object.freeze({ earliest, latest, endsIn: endsIn < 0 ? undefined : endsIn }),
    });
  }

  async reset(customer, options) {
    await this.#run('reset', customer, { script: 'reset', kinds: ['count', 'pending', 'usage'], isReply: isIntegers(1) }, options);
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

  async [Symbol.asyncDispose]() {
    await this.close();
  }

  async close() {
    this.#closed = true;
    await (this.#closing ??= this.#close());
  }

  async #close() {
    await Promise.allSettled(this.#calls);
    await this[part]?.();
    this.#wire?.close();
  }

  get last() {
    return this.#own.last;
  }

  get degraded() {
    return this.#fallback?.degraded ?? false;
  }

  // Calls that are under way end by the policies with which they began.
  [goBy](policies) {
    this.#policies = policies ? new Policies(policies, this.#lease, this.#own) : this.#own;
  }

  [ask]({ keys, timeout = this.#timeout, ...call }, signal) {
    const asked = { ...call, keys: keys.map((key) => this.#key(key)) };
    return this.#within(timeout, signal, (deadline) => run(this.#wire, asked, deadline));
  }

  // Returns whether the key was there.
  async [set](key, value, lasts, timeout, signal) {
    const name = this.#key(key);
    return (await this.#within(timeout, signal, (deadline) => this.#wire.send(['SET', name, value, 'PX', String(lasts), 'XX'], name, deadline))) !== null;
  }

  #key(end) {
    return Buffer.from(`${this.#prefix}:${end}`);
  }

  async #next(operation, customer, n, options) {
    const args = n === 1 ? [] : [String(n)];
    const { reply, policy, degraded } = await this.#run(operation, customer, { script: 'next', kinds: ['count', ...this.#overrides], args, isReply: isIntegers(2) }, options);
    const [level, last, resetIn = policy.resetInterval, ruled = 0, earliest, latest] = reply;
    return Array.from({ length: n }, (_, i) => {
      const count = last + n - 1 - i;
      const its = { level, count, resetIn, load: 0, pending: 0, degraded, ruled };
      if (i < n - 1) {
        its.level = levelOf(policy, count);
        if (ruled > 0) [its.ruled, its.level] = [its.level, Math.min(Math.max(its.level, earliest), latest)];
      }
      return Object.freeze(its);
    });
  }

  async #submit(operation, customer, documents, costs, options) {
    const ids = idsOf(documents);
    const told = costsOf(costs, ids.length);
    const args = ids.flatMap((id, i) => [id, String(this.#told.relative(told[i]))]);
    const call = { script: 'submit', kinds: ['pending', 'usage', ...this.#overrides], args, isReply: isIntegers(4 * ids.length), repeatable: true };
    const { reply, degraded } = await this.#run(operation, customer, call, options);
    for (const cost of told) this.#told.add(cost);
    return ids.map((_, i) => {
      const [level, load, pending, ruled] = reply.slice(4 * i, 4 * i + 4);
      return Object.freeze({ level, count: 0, resetIn: 0, load: load / 1e6, pending, degraded, ruled });
    });
  }

  async #done(operation, customer, documents, took, options) {
    const ids = idsOf(documents);
    if (typeof took !== 'number') throw new TypeError(`docpriority: took is a number of milliseconds, not ${typeof took}`);
    if (!(took >= 0 && took < Infinity)) throw new RangeError(`docpriority: documents cannot have taken ${took} ms`);
    const given = Array.from(documents); // the caller may change theirs
    const each = eachOf(took, ids.length);
    const call = { script: 'done', kinds: ['pending', 'usage'], args: [String(this.#took.relative(each)), ...ids], isReply: isIntegers(2 * ids.length), repeatable: true };
    const { reply } = await this.#run(operation, customer, call, options);
    const ended = [];
    for (const [i, document] of given.entries()) {
      const [sojourn, level] = reply.slice(2 * i, 2 * i + 2);
      if (level === 0) continue; // it was not pending: a second done must not change the mean
      this.#took.add(each);
      ended.push(Object.freeze({ document, sojourn, level }));
    }
    return ended;
  }

  async #run(operation, customer, call, options = {}) {
    checkOptions(options, 'signal');
    const { signal } = options;
    if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError('docpriority: signal is not an AbortSignal');
    const name = bytesOf(customer, 'a customer');
    const tier = this.#tier(customer); // asked once: the caller may answer otherwise the next time
    if (this.#closed) throw new NotCounted(`docpriority: ${operation} ${this.keys(name)[call.kinds[0]]}: the store is closed`);
    const running = this.#answer({ operation, name, tier, args: [], ...call }, signal);
    this.#calls.add(running);
    try {
      const { reply, degraded = false } = await running;
      return { reply, degraded, policy: tier.policy };
    } finally {
      this.#calls.delete(running);
    }
  }

  // Returns the reply of a call's script, and whether it is degraded.
  async #answer(call, signal) {
    if (this.#fallback) return this.#fallback.answer(call, signal);
    if (this.#wire) return { reply: await this.#askRedis(call, signal) };
    const { operation, name, script, args, tier } = call;
    if (signal?.aborted) throw new NotCounted(`docpriority: ${operation}: it was canceled`, { cause: signal.reason });
    return { reply: this.#memory.run(script, name.toString('latin1'), args, tier) };
  }

  #askRedis({ name, script, kinds, tier, ...call }, signal) {
    const named = this.keys(name);
    const asked = { ...call, named, script: tier.scripts[script], keys: kinds.map((kind) => named[kind]) };
    return this.#within(this.#timeout, signal, (deadline) => run(this.#wire, asked, deadline));
  }

  async #within(timeout, signal, call) {
    const deadline = new Deadline(timeout, signal);
    try {
      return await call(deadline);
    } finally {
      deadline.end();
    }
  }

  #tier(customer) {
    const name = this.#tierOf?.(customer);
    if (typeof name?.then === 'function') {
      name.then(undefined, () => {}); // its error is nobody's
      throw new TypeError('docpriority: tierOf returns a promise, and not a tier');
    }
    return this.#policies.of(name);
  }
}

function checkOptions(options, ...names) {
  checkNames(options, names, 'the options of a call');
}

function checkTierOf(tierOf, tiers) {
  if (tiers === null || typeof tiers !== 'object') throw new TypeError('docpriority: tiers is not an object');
  if (tierOf !== undefined && typeof tierOf !== 'function') throw new TypeError('docpriority: tierOf is not a function');
  if (Object.keys(tiers).length > 0 && !tierOf) throw new TypeError('docpriority: tiers without a tierOf would never be used');
  return tierOf;
}

function checkMilliseconds(name, value, longest) {
  if (typeof value !== 'number') throw new TypeError(`docpriority: ${name} is a number of milliseconds, not ${typeof value}`);
  if (!Number.isInteger(value) || value < 1 || value > longest) {
    throw new RangeError(`docpriority: ${name} = ${value} is not a whole number of milliseconds from 1 to ${longest}`);
  }
}

function checkNumber(n, longest) {
  if (typeof n !== 'number') throw new TypeError(`docpriority: the number of documents is a number, not ${typeof n}`);
  if (!Number.isInteger(n) || n < 1 || n > longest) throw new RangeError(`docpriority: the number of documents is 1 to ${longest}, not ${n}`);
}

function checkDocuments(documents, longest) {
  if (!Array.isArray(documents)) throw new TypeError('docpriority: the documents are not an array');
  checkNumber(documents.length, longest);
}

// An array may have holes, which map would leave out.
const idsOf = (documents) => Array.from(documents, (document) => bytesOf(document, 'a document'));

// Returns a copy of the costs of n documents.
function costsOf(costs, n) {
  if (!Array.isArray(costs)) throw new TypeError('docpriority: the costs are not an array');
  if (costs.length !== n) throw new RangeError(`docpriority: ${costs.length} costs for ${n} documents`);
  return Array.from(costs, (cost) => {
    if (typeof cost !== 'number') throw new TypeError(`docpriority: a cost is a number, not ${cost === null ? 'null' : typeof cost}`);
    if (!(cost >= 0 && cost < Infinity)) throw new RangeError(`docpriority: a cost is a finite number of at least 0, not ${cost}`);
    return cost;
  });
}

module.exports = { ask, goBy, part, set, Store };
