// The counts. Documented in index.d.ts.

import { createHash } from 'node:crypto';
import { Cluster } from './cluster.js';
import { Connection } from './connection.js';
import { Deadline } from './deadline.js';
import { NotCounted } from './errors.js';
import { askIoredisCluster, IoredisLink, isIoredis, isIoredisCluster } from './ioredis.js';
import { bytesOf, checkPrefix, defaultPrefix, keysOf } from './keys.js';
import { Mean } from './mean.js';
import { askNodeRedisCluster, isNodeRedis, isNodeRedisCluster, NodeRedisLink } from './node-redis.js';
import { checkNames, fillPolicy, levelOf, longestLease, scriptsOf } from './policy.js';
import { run } from './run.js';

const most = { next: 1_000_000, submit: 100, done: 1_000 }; // documents in one call

export class Store {
  #wire;
  #prefix;
  #timeout;
  #tierOf;
  #tiers = new Map(); // by name; undefined: customers without one
  #mean = new Mean();
  #calls = new Set(); // that are under way
  #closed = false;

  constructor(client, options = {}) {
    checkNames(options, ['prefix', 'timeout', 'policy', 'tiers', 'tierOf', 'lease'], 'options');
    const { prefix = defaultPrefix, timeout = 250, policy = {}, tiers = {}, tierOf, lease = longestLease } = options;
    checkPrefix(prefix);
    checkMilliseconds('timeout', timeout, 2 ** 31 - 1);
    checkMilliseconds('lease', lease, longestLease);
    this.#prefix = prefix;
    this.#timeout = timeout;
    this.#tierOf = checkTierOf(tierOf, tiers);
    this.#tiers.set(undefined, tierFor(fillPolicy(policy), lease));
    for (const [name, its] of Object.entries(tiers)) {
      this.#tiers.set(name, tierFor(fillPolicy(its, `tiers[${JSON.stringify(name)}]`), lease));
    }
    checkLevels(this.#tiers);
    this.#wire = wireOf(client);
  }

  async next(customer, options) {
    const [decision] = await this.#next('next', customer, 1, options);
    return decision;
  }

  async nextN(customer, n, options) {
    checkNumber(n, most.next);
    return this.#next('nextN', customer, n, options);
  }

  async submit(customer, document, options) {
    const [decision] = await this.#submit('submit', customer, [document], options);
    return decision;
  }

  async submitN(customer, documents, options) {
    checkDocuments(documents, most.submit);
    return this.#submit('submitN', customer, documents, options);
  }

  async done(customer, document, took = 0, options) {
    await this.#done('done', customer, [document], took, options);
  }

  async doneN(customer, documents, took = 0, options) {
    checkDocuments(documents, most.done);
    await this.#done('doneN', customer, documents, took, options);
  }

  async peek(customer, options) {
    const { reply } = await this.#run('peek', customer, { script: 'peek', kinds: ['count', 'pending', 'usage'], integers: 11, readOnly: true }, options);
    const [level, count, pending, resetIn] = reply;
    return decisionOf(level, count, pending, resetIn);
  }

  async reset(customer, options) {
    await this.#run('reset', customer, { script: 'reset', kinds: ['count', 'pending', 'usage'], integers: 1 }, options);
  }

  keys(customer) {
    return keysOf(customer, this.#prefix);
  }

  script(name, customer) {
    const { scripts } = customer === undefined ? this.#tiers.get(undefined) : this.#tier(customer);
    if (!Object.hasOwn(scripts, name)) throw new RangeError(`docpriority: there is no script ${JSON.stringify(name)}`);
    const { text, digest } = scripts[name];
    return { text, sha1: digest };
  }

  async close() {
    this.#closed = true;
    await Promise.allSettled(this.#calls);
    await this.#wire.close();
  }

  async #next(operation, customer, n, options) {
    const args = n === 1 ? [] : [String(n)];
    const { reply, policy } = await this.#run(operation, customer, { script: 'next', kinds: ['count'], args, integers: 2 }, options);
    const [level, last, resetIn = policy.resetInterval] = reply;
    return Array.from({ length: n }, (_, i) => {
      const count = last + n - 1 - i;
      return decisionOf(i === n - 1 ? level : levelOf(policy, count), count, 0, resetIn);
    });
  }

  async #submit(operation, customer, documents, options) {
    const args = idsOf(documents);
    const call = { script: 'submit', kinds: ['count', 'pending', 'usage'], args, integers: 3 * args.length + 1, repeatable: true };
    const { reply } = await this.#run(operation, customer, call, options);
    const resetIn = reply[3 * args.length];
    return args.map((_, i) => decisionOf(...reply.slice(3 * i, 3 * i + 3), resetIn));
  }

  async #done(operation, customer, documents, took, options) {
    const ids = idsOf(documents);
    if (typeof took !== 'number') throw new TypeError(`docpriority: took is a number of milliseconds, not ${typeof took}`);
    if (!(took >= 0 && took < Infinity)) throw new RangeError(`docpriority: documents cannot have taken ${took} ms`);
    const args = [String(this.#mean.relative(took, ids.length)), ...ids];
    const call = { script: 'done', kinds: ['pending', 'usage'], args, integers: 1, repeatable: true };
    const { reply: [done] } = await this.#run(operation, customer, call, options);
    this.#mean.add(took, ids.length, done); // a second done must not change the mean
  }

  async #run(operation, customer, { script, kinds, args = [], ...call }, options = {}) {
    checkNames(options, ['signal'], 'the options of a call');
    const { signal } = options;
    if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError('docpriority: signal is not an AbortSignal');
    const named = this.keys(customer);
    const { policy, scripts } = this.#tier(customer); // asked once: the caller may answer otherwise the next time
    if (this.#closed) throw new NotCounted(`docpriority: ${operation} ${named.count}: the store is closed`);
    const deadline = new Deadline(this.#timeout, signal);
    const running = run(this.#wire, { ...call, operation, named, script: scripts[script], keys: kinds.map((kind) => named[kind]), args }, deadline);
    this.#calls.add(running);
    try {
      return { reply: await running, policy };
    } finally {
      this.#calls.delete(running);
      deadline.end();
    }
  }

  #tier(customer) {
    const name = this.#tierOf?.(customer);
    if (typeof name?.then === 'function') {
      name.then(undefined, () => {}); // its error is nobody's
      throw new TypeError('docpriority: tierOf returns a promise, and not a tier');
    }
    return this.#tiers.get(name) ?? this.#tiers.get(undefined);
  }
}

function wireOf(client) {
  if (client === null || typeof client !== 'object') throw new TypeError('docpriority: there is no client');
  if (isIoredisCluster(client)) return new Cluster((known) => askIoredisCluster(client, known), IoredisLink);
  if (isNodeRedisCluster(client)) return new Cluster((known) => askNodeRedisCluster(client, known), NodeRedisLink);
  if (isIoredis(client)) return new Connection(() => new IoredisLink(client));
  if (isNodeRedis(client)) return new Connection(() => new NodeRedisLink(client));
  throw new TypeError('docpriority: the client is none of node-redis (5 or later) or ioredis (5 or later), nor a cluster of one');
}

function tierFor(policy, lease) {
  const scripts = Object.entries(scriptsOf(policy, lease)).map(([name, text]) => {
    return [name, { text, digest: createHash('sha1').update(text).digest('hex') }];
  });
  return { policy, scripts: Object.fromEntries(scripts) };
}

// The levels of all customers stand in one queue, and are compared there.
function checkLevels(tiers) {
  const last = tiers.get(undefined).policy.thresholds.length + 1;
  for (const [name, { policy }] of tiers) {
    const its = policy.thresholds.length + 1;
    if (its > last) throw new RangeError(`docpriority: tier ${JSON.stringify(name)} has ${its} levels, more than the ${last} of the policy`);
  }
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

const decisionOf = (level, count, pending, resetIn) => Object.freeze({ level, count, pending, resetIn });
