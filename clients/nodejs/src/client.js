'use strict';

// The connections of a store: a copy of the caller's client, whose library connects,
// reconnects, queues and follows a cluster. The settings here keep a command from being
// sent twice, and show whether it was sent at all.

const { isAscii } = require('node:buffer');
const { getEventListeners, setMaxListeners } = require('node:events');
const { isReplica, Lost, Refused, Unsent } = require('./classify.js');
const { kindOf } = require('./check.js');

const renewEvery = 2_000; // milliseconds
const endsAfter = 60_000; // by then no call waits for a replaced client

class Wire {
  #make;
  #client;
  #next; // the client that will replace it once ready
  #madeAt; // when the last client was created
  #clients = new Set(); // all that have not ended

  constructor(client) {
    this.#make = makerOf(client);
  }

  /** Sends a command and returns the reply; key is for a cluster. Rejects with Refused, Unsent or Lost. */
  async send(args, key, deadline) {
    const client = await this.#ready(deadline);
    if (deadline.over) throw new Unsent(`it was not sent: ${deadline.why}`);
    try {
      return await deadline.race(client.send(args, key, deadline.signal));
    } catch (error) {
      const failure = error instanceof Lost ? error : client.failureOf(error);
      // The network may have dropped the connection silently, and a replica may be the
      // former master: another connection may do better.
      if (isReplica(failure) || (failure instanceof Lost && deadline.timedOut)) this.#renew();
      throw failure;
    }
  }

  /** Loads a script where a key lives, or everywhere. Whether that works does not matter to a call. */
  load(text, key, deadline) {
    for (const reply of this.#client.load(text, key, deadline.signal)) reply.catch(() => {});
  }

  /** Ends the connections. No call may be in progress. */
  close() {
    for (const client of this.#clients) client.end();
  }

  // It polls: one promise for all calls would retain memory for each until an outage is
  // over.
  async #ready(deadline) {
    for (;;) {
      const client = this.#current();
      if (client.isReady) return client;
      if (/^(WRONGPASS|NOAUTH|NOPERM) /.test(client.why?.message)) throw new Refused(client.why.message, { cause: client.why });
      if (!client.failed && (await deadline.pause(5))) continue;
      const why = client.why?.message ?? 'the server does not answer';
      throw new Unsent(deadline.over && !deadline.timedOut ? `it was not sent: ${deadline.why}` : `no connection in time: ${why}`, { cause: client.why });
    }
  }

  #current() {
    if (this.#next?.isReady) {
      setTimeout((old) => this.#end(old), endsAfter, this.#client).unref();
      [this.#client, this.#next] = [this.#next, undefined];
    }
    if (this.#client?.failed) this.#end(this.#client);
    if (!this.#clients.has(this.#client)) this.#client = this.#open();
    return this.#client;
  }

  // The client stays in use until the new one is ready, and then until its calls have ended.
  #renew() {
    if (performance.now() - this.#madeAt < renewEvery) return;
    this.#end(this.#next);
    this.#next = this.#open();
  }

  #open() {
    this.#madeAt = performance.now();
    const client = this.#make();
    this.#clients.add(client);
    return client;
  }

  #end(client) {
    if (this.#clients.delete(client)) client.end();
  }
}

// Returns a function that creates the store's client.
function makerOf(client) {
  const has = (...names) => names.every((name) => typeof client?.[name] === 'function');
  if (has('callBuffer', 'duplicate')) return () => new Ioredis(client);
  if (has('withTypeMapping', 'duplicate') && (has('nodeClient') || (has('withAbortSignal') && 'isReady' in client))) return () => new NodeRedis(client);
  throw new TypeError(`docpriority: a client or cluster of node-redis or ioredis, 5 or later, is needed, from createClient, createCluster, new Redis or new Cluster (not createClientPool or createSentinel), not ${kindOf(client)}`);
}

// Milliseconds until the next attempt to connect, without a limit on attempts.
const pauseToConnect = (tries) => Math.min(50 * 2 ** Math.min(tries, 6), 2_000) * (0.5 + Math.random() / 2);

// For ioredis: single servers, and the nodes of a cluster.
const ioredisOptions = {
  lazyConnect: false,
  retryStrategy: pauseToConnect,
  sentinelRetryStrategy: pauseToConnect,
  autoResendUnfulfilledCommands: false, // or a document is counted again after reconnecting
  reconnectOnError: null, // it may resend too
  maxRetriesPerRequest: 0, // sent commands fail with the connection
  enableOfflineQueue: false, // so unsent commands are known to be unsent
  enableReadyCheck: false, // it needs the right to run INFO
  enableAutoPipelining: false,
  commandTimeout: undefined, // the store has its own
  keyPrefix: '',
  stringNumbers: false,
  protocol: 2,
  replyMapping: 'legacy',
  readOnly: false,
};
const ioredisClusterOptions = {
  lazyConnect: false,
  clusterRetryStrategy: pauseToConnect,
  retryDelayOnFailover: 0, // or commands lost with a node are sent to the next one
  retryDelayOnClusterDown: 0, // a call retries, within its time
  enableOfflineQueue: true, // the first command opens a node's connection
  enableReadyCheck: false,
  enableAutoPipelining: false,
  scaleReads: 'master',
  keyPrefix: '',
};

class Ioredis {
  why; // it is not ready
  #redis;

  constructor(client) {
    this.#redis = client.isCluster
      ? client.duplicate([], { ...ioredisClusterOptions, redisOptions: { ...client.options.redisOptions, ...ioredisOptions } })
      : client.duplicate(ioredisOptions);
    this.#redis.on('error', (error) => (this.why = error.lastNodeError ?? error));
    this.#redis.on('ready', () => (this.why = undefined));
  }

  get isReady() {
    return this.#redis.status === 'ready';
  }

  send([name, ...args]) {
    // ioredis writes a command of strings at once, but one with a Buffer piece by piece.
    // With a name in capitals, ioredis 5.0 finds no keys.
    return this.#redis.call(name.toLowerCase(), ...args.map((arg) => (Buffer.isBuffer(arg) && isAscii(arg) ? arg.latin1Slice() : arg)));
  }

  load(text) {
    const nodes = this.#redis.nodes?.('master') ?? [this.#redis];
    return nodes.map((node) => node.call('script', 'load', text));
  }

  failureOf(error) {
    // ioredis 5 sends commands before the reply to its login, and a failed login then ends them all,
    // or Redis refuses them without saying why.
    const { message } = error.message.startsWith('NOAUTH ') && this.why?.message.startsWith('WRONGPASS ') ? this.why : error;
    if (error.name === 'ReplyError' && error.command?.name !== 'auth') return new Refused(message, { cause: error });
    if (/^Stream isn't writeable|^Too many Cluster redirections\. Last error: ReplyError/.test(error.message)) return new Unsent(error.message, { cause: error });
    const why = this.why ?? error;
    return new Lost(`no answer came: ${why.message}`, { cause: why });
  }

  end() {
    this.#redis.disconnect();
  }
}

// For node-redis, which resends nothing. An aborted signal removes a command from its queue.
const nodeRedisOptions = {
  RESP: 2,
  commandOptions: {},
  clientSideCache: undefined,
  keyPrefix: undefined,
};
const nodeRedisNodeOptions = {
  url: undefined, // the other options already contain it
  disableOfflineQueue: false,
  commandsQueueMaxLength: undefined,
  emitInvalidate: false,
  maintNotifications: 'disabled',
  readonly: false,
};

class NodeRedis {
  why; // it is not ready
  isReady = false; // from then on, the library's queue takes commands
  failed = false; // for good
  #client;
  #isCluster;
  #over = new AbortController(); // closes sockets that are still connecting

  constructor(client) {
    this.#isCluster = typeof client.nodeClient === 'function';
    const settings = optionsOf(client);
    // Each socket adds a listener, which outlives it.
    const { signal } = this.#over;
    setMaxListeners(0, signal);
    const reconnectStrategy = (tries) => {
      for (const listener of getEventListeners(signal, 'abort')) signal.removeEventListener('abort', listener);
      return !signal.aborted && pauseToConnect(tries);
    };
    const ofNode = (options) => ({ ...options, socket: { ...options?.socket, signal, reconnectStrategy } });
    this.#client = this.#isCluster
      ? client.duplicate({
        ...nodeRedisOptions, useReplicas: false, minimizeConnections: true, // so that a hanging node affects no others
        defaults: { ...ofNode(settings.defaults), ...nodeRedisNodeOptions },
      })
      : client.duplicate({ ...nodeRedisOptions, ...nodeRedisNodeOptions, ...ofNode({ socket: settings.socket }) });
    this.#client.on('error', (error) => (this.why = error));
    this.#client.on('node-error', (error) => (this.why = error));
    for (const ready of ['ready', 'node-ready']) this.#client.on(ready, () => (this.why = undefined));
    this.#client.connect().then(() => (this.isReady = true), (error) => {
      this.failed = true;
      this.why ??= error;
    });
  }

  send(args, key, abortSignal) {
    const options = { abortSignal, typeMapping: {}, timeout: undefined };
    return this.#isCluster ? this.#client.sendCommand(key, false, args, options) : this.#client.sendCommand(args, options);
  }

  load(text, key, abortSignal) {
    return [this.send(['SCRIPT', 'LOAD', text], key, abortSignal)];
  }

  failureOf(error) {
    const { message, code } = error;
    if (code === undefined && /^[A-Z][A-Z0-9]{2,} /.test(message)) return new Refused(message, { cause: error });
    const cause = this.why ?? error;
    if (/^The (command was aborted|client is (closed|offline)|queue is full)|^Cannot find node |^Too many Cluster redirections/.test(message)) {
      return new Unsent(`no connection in time: ${cause.message}`, { cause });
    }
    return new Lost(`no answer came: ${cause.message}`, { cause });
  }

  end() {
    try {
      this.#client.destroy();
    } catch {
      // it was not open
    }
    this.#over.abort();
  }
}

// A cluster hides its options, but passes them to its duplicate.
function optionsOf(client) {
  if (client.options) return client.options;
  function Options(options) {
    Object.assign(this, options);
  }
  return client.duplicate.call(Object.create({ constructor: Options }, { _self: { value: client._self } }));
}

module.exports = { Wire };
