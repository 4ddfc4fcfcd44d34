'use strict';

// The connections of a store: a copy of the caller's client, whose library connects,
// reconnects, queues and follows a cluster. The settings here keep a command from being
// sent twice, and show whether it was sent at all.

const { isAscii } = require('node:buffer');
const { getEventListeners, setMaxListeners } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const { isNoScript, isReplica, Lost, Refused, Unsent } = require('./classify.js');
const { kindOf } = require('./check.js');

// In milliseconds:
const renewEvery = 2_000; // a client is replaced no more often
const replacedLasts = 60_000; // a client that was replaced ends then, because no call waits for it any more

const maxUnanswered = 10_000; // commands of a client; further calls wait

const canTake = (client) => client.isReady && client.unanswered < maxUnanswered;

class Wire {
  #newClient;
  #pace;
  #client;
  #replacement; // the client that is used instead once it is ready
  #openedAt; // when the newest client was opened
  #change; // a promise while calls wait for a client to be ready
  #clients = new Map(); // those that have not ended, with the scripts that each has loaded, by their SHA-1s

  constructor(client, pace) {
    this.#newClient = constructorOf(client);
    this.#pace = pace;
  }

  /** Sends a command and returns the reply; key is for a cluster. Rejects with Refused, Unsent or Lost. */
  async send(args, key, deadline) {
    let client;
    do client = await this.#ready(deadline);
    while (!canTake(client)); // many calls may have been told at once that there is room
    if (deadline.isOver) throw new Unsent(`it was not sent: ${deadline.cause.message}`);
    try {
      const reply = client.send(args, key);
      const settle = () => {
        client.unanswered--;
        this.#pace.noteReply();
      };
      client.unanswered++;
      reply.then(settle, settle);
      return await deadline.race(reply);
    } catch (error) {
      const failure = error instanceof Lost ? error : client.failureOf(error);
      // The network may have dropped the connection silently, and a replica may be the
      // former master: another connection may do better.
      if (isReplica(failure) || (failure instanceof Lost && deadline.isOver)) this.#renew();
      throw failure;
    }
  }

  /** Runs a script, which is loaded first, once for all calls. Its text is sent with the call where SCRIPT is not to be had. */
  async runScript({ text, sha1 }, args, key, deadline) {
    let load;
    for (let tries = 0, isLoaded = true; tries < 2 && isLoaded; tries++) {
      load = await this.#load(text, sha1, load, deadline);
      isLoaded = await load.reply;
      try {
        return await this.send(['EVALSHA', sha1, ...args], key, deadline);
      } catch (error) {
        if (!isNoScript(error)) throw error; // else it was lost with a restart
      }
    }
    return this.send(['EVAL', text, ...args], key, deadline);
  }

  /** Ends the connections. No call may be in progress. */
  close() {
    for (const client of this.#clients.keys()) client.end();
  }

  // Waits until a server has answered to SCRIPT LOAD, of which one did not help the call. No call waits
  // for a node of a cluster that hangs: the others' calls go to nodes that answer, behind their loads.
  async #load(text, sha1, outdated, deadline) {
    const client = await this.#ready(deadline);
    const loads = this.#clients.get(client);
    if (loads.get(sha1) === outdated) loads.set(sha1, { reply: Promise.any(client.load(text)).then(() => true, () => false) });
    const load = loads.get(sha1);
    try {
      await deadline.race(load.reply);
    } catch (error) {
      if (deadline.isOver) this.#renew();
      throw new Unsent(error.message);
    }
    return load;
  }

  async #ready(deadline) {
    let client = this.#current();
    while (!canTake(client)) {
      const cause = client.connectionError;
      if (/^(WRONGPASS|NOAUTH|NOPERM) /.test(cause?.message)) throw new Refused(cause.message, { cause });
      if (!client.failed) await deadline.race((this.#change ??= this.#awaitChange())).catch(() => {});
      if (client.failed || deadline.isOver) {
        throw new Unsent(`no connection in time: ${cause?.message ?? 'the server does not answer'}`, { cause });
      }
      client = this.#current();
    }
    return client;
  }

  // Many calls may wait for a client at once, so one timer looks for all of them. Their promise
  // is settled after a while in any case: it keeps something of each call, even of those that have ended.
  async #awaitChange() {
    const client = this.#client;
    let polls = 0;
    do await sleep(5, undefined, { ref: false });
    while (++polls < 20 && !canTake(client) && !client.failed && !this.#replacement?.isReady);
    this.#change = undefined;
  }

  #current() {
    if (this.#replacement?.isReady) {
      setTimeout((replaced) => this.#end(replaced), replacedLasts, this.#client).unref();
      [this.#client, this.#replacement] = [this.#replacement, undefined];
    }
    if (this.#client?.failed) this.#end(this.#client);
    if (!this.#clients.has(this.#client)) this.#client = this.#open();
    return this.#client;
  }

  // The client stays in use until the new one is ready, and then until its calls have ended.
  #renew() {
    if (performance.now() - this.#openedAt < renewEvery) return;
    this.#end(this.#replacement);
    this.#replacement = this.#open();
  }

  #open() {
    this.#openedAt = performance.now();
    const client = this.#newClient();
    this.#clients.set(client, new Map());
    return client;
  }

  #end(client) {
    if (this.#clients.delete(client)) client.end();
  }
}

// Returns a function that copies a caller's client.
function constructorOf(client) {
  const has = (...names) => names.every((name) => typeof client?.[name] === 'function');
  if (has('callBuffer', 'duplicate')) return () => new Ioredis(client);
  if (has('withTypeMapping', 'duplicate') && (has('nodeClient') || (has('withAbortSignal') && 'isReady' in client))) return () => new NodeRedis(client);
  throw new TypeError(`docpriority: a client or cluster of node-redis or ioredis, 5 or later, is needed, from createClient, createCluster, new Redis or new Cluster (not createClientPool or createSentinel), not ${kindOf(client)}`);
}

// Returns the milliseconds until the next attempt to connect, however many there were.
const pauseToConnect = (tries) => Math.min(50 * 2 ** Math.min(tries, 6), 2_000) * (0.5 + Math.random() / 2);

// For ioredis, which counts tries from 1: single servers, and the nodes of a cluster.
const ioredisPause = (tries) => pauseToConnect(tries - 1);
const ioredisOptions = {
  lazyConnect: false,
  retryStrategy: ioredisPause,
  sentinelRetryStrategy: ioredisPause,
  autoResendUnfulfilledCommands: false, // else a document may be counted again after reconnecting
  reconnectOnError: null, // it may resend, too
  maxRetriesPerRequest: 0, // a command that was sent fails when its connection does
  enableOfflineQueue: false, // a command that cannot be sent fails at once, so it is known to be unsent
  enableReadyCheck: false, // it needs the right to run INFO
  enableAutoPipelining: false,
  commandTimeout: undefined, // the store has timers of its own
  keyPrefix: '',
  stringNumbers: false,
  protocol: 2,
  replyMapping: 'legacy',
  readOnly: false,
};
const ioredisClusterOptions = {
  lazyConnect: false,
  clusterRetryStrategy: ioredisPause,
  retryDelayOnFailover: 0, // else commands that were lost with a node are sent to the next one
  retryDelayOnClusterDown: 0, // the store tries again itself, within the call's time
  enableOfflineQueue: true, // because a node's first command opens its connection
  enableReadyCheck: false,
  enableAutoPipelining: false,
  scaleReads: 'master',
  keyPrefix: '',
};

class Ioredis {
  unanswered = 0; // commands
  connectionError; // why there is no connection, if that is known
  #redis;

  constructor(client) {
    this.#redis = client.isCluster
      ? client.duplicate([], { ...ioredisClusterOptions, redisOptions: { ...client.options.redisOptions, ...ioredisOptions } })
      : client.duplicate(ioredisOptions);
    if (client.isCluster) { // else ioredis asks other nodes again and again, longer than a call lasts
      const handle = this.#redis.handleError.bind(this.#redis);
      this.#redis.handleError = (error, tries, handlers) => (error.message.startsWith('TRYAGAIN ') ? handlers.defaults() : handle(error, tries, handlers));
    }
    this.#redis.on('error', (error) => (this.connectionError = error.lastNodeError ?? error));
    this.#redis.on('ready', () => (this.connectionError = undefined));
  }

  get isReady() {
    return this.#redis.status === 'ready';
  }

  send([name, ...args]) {
    // ioredis writes a command of strings at once, but one with a Buffer piece by piece. In a
    // command whose name is in capitals, ioredis 5.0 does not find the keys.
    return this.#redis.call(name.toLowerCase(), ...args.map((arg) => (Buffer.isBuffer(arg) && isAscii(arg) ? arg.latin1Slice() : arg)));
  }

  load(text) {
    const nodes = this.#redis.nodes?.('master') ?? [this.#redis];
    return nodes.map((node) => node.call('script', 'load', text));
  }

  failureOf(error) {
    // ioredis 5 sends commands before its login is answered. If that fails, it ends them all with
    // the login's error, or Redis refuses them with NOAUTH, which does not say why.
    const { message } = error.message.startsWith('NOAUTH ') && this.connectionError?.message.startsWith('WRONGPASS ') ? this.connectionError : error;
    if (error.name === 'ReplyError' && error.command?.name !== 'auth') return new Refused(message, { cause: error });
    if (/^Stream isn't writeable|^Too many Cluster redirections\. Last error: ReplyError/.test(error.message)) return new Unsent(error.message, { cause: error });
    const why = this.connectionError ?? error;
    const said = why.message.replace(/^Reached the max retries per request limit.*/, 'the connection broke'); // the limit is the store's
    return new Lost(`no answer came: ${said}`, { cause: why });
  }

  end() {
    this.#redis.disconnect();
  }
}

// For node-redis, which resends nothing. Its queue gets only what can be written at once, and nothing is
// taken out of it again, because node-redis 5 may then write nothing that comes later.
const nodeRedisOptions = {
  RESP: 2,
  commandOptions: {},
  clientSideCache: undefined,
  keyPrefix: undefined,
};
const nodeRedisNodeOptions = {
  url: undefined, // what it says is in the other options
  disableOfflineQueue: true, // a queue that outlives its connection also gives commands the replies to others
  commandsQueueMaxLength: undefined,
  emitInvalidate: false,
  maintNotifications: 'disabled',
  readonly: false,
};
const commandOptions = { typeMapping: {}, timeout: undefined };

class NodeRedis {
  unanswered = 0; // commands
  connectionError; // why there is no connection, if that is known
  failed = false; // whether it has given up connecting
  #client;
  #isCluster;
  #isConnected = false; // a cluster connects to its nodes later
  #ending = new AbortController(); // closes the socket that is still connecting, which destroy leaves alone

  constructor(client) {
    this.#isCluster = typeof client.nodeClient === 'function';
    const settings = optionsOf(client);
    // Node.js adds a listener to the signal for each socket, and keeps it when the socket is closed.
    const { signal } = this.#ending;
    setMaxListeners(0, signal);
    const reconnectStrategy = (tries) => {
      for (const listener of getEventListeners(signal, 'abort')) signal.removeEventListener('abort', listener);
      return !signal.aborted && pauseToConnect(tries);
    };
    const withSocket = (options) => ({ ...options, socket: { ...options?.socket, signal, reconnectStrategy } });
    this.#client = this.#isCluster
      ? client.duplicate({
        ...nodeRedisOptions, useReplicas: false, minimizeConnections: true, // so that a hanging node affects no others
        defaults: { ...withSocket(settings.defaults), ...nodeRedisNodeOptions },
      })
      : client.duplicate({ ...nodeRedisOptions, ...nodeRedisNodeOptions, ...withSocket({ socket: settings.socket }) });
    for (const broken of ['error', 'node-error']) this.#client.on(broken, (error) => (this.connectionError = error));
    for (const ready of ['ready', 'node-ready']) this.#client.on(ready, () => (this.connectionError = undefined));
    this.#client.connect().then(() => (this.#isConnected = true), (error) => {
      this.failed = true;
      this.connectionError ??= error;
    });
  }

  get isReady() {
    return this.#isCluster ? this.#isConnected : this.#client.isReady;
  }

  send(args, key) {
    return this.#isCluster ? this.#client.sendCommand(key, false, args, commandOptions) : this.#client.sendCommand(args, commandOptions);
  }

  load(text) {
    const nodes = this.#isCluster ? this.#client.masters.map((master) => this.#client.nodeClient(master)) : [this.#client];
    return nodes.map(async (node) => (await node).sendCommand(['SCRIPT', 'LOAD', text], commandOptions));
  }

  failureOf(error) {
    const { message, code } = error;
    if (code === undefined && /^([A-Z][A-Z0-9]{2,}|@user_script:) /.test(message)) return new Refused(message, { cause: error });
    const cause = this.connectionError ?? error;
    if (/^The client is (closed|offline)|^Cannot find node |^Too many Cluster redirections/.test(message)) {
      return new Unsent(`no connection in time: ${cause.message}`, { cause });
    }
    return new Lost(`no answer came: ${cause.message}`, { cause });
  }

  end() {
    try {
      this.#client.destroy();
    } catch {
      // it has not been open
    }
    this.#ending.abort();
  }
}

// Of a node-redis cluster, only the constructor that its prototype names for duplicate gets to see
// the options: so duplicate is called with a prototype that names a function that returns them.
function optionsOf(client) {
  if (client.options) return client.options;
  const prototype = Object.create(client);
  prototype.constructor = function (options) {
    return options;
  };
  return Object.create(prototype).duplicate();
}

module.exports = { Wire };
