// Links and clusters of ioredis, 5 and 6.

import { isAscii } from 'node:buffer';
import { Lost, Refused, Unsent } from './answers.js';
import { inTime } from './in-time.js';
import { has, Link } from './link.js';

export const isIoredis = (client) => has(client, 'callBuffer', 'duplicate') && client.isCluster !== true;
export const isIoredisCluster = (client) => has(client, 'callBuffer', 'duplicate') && client.isCluster === true;

// What must not be as the caller has it.
const own = {
  lazyConnect: true,
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
  sentinelCommandTimeout: 500, // so that the others are asked too while a link comes about
  reconnectOnError: null,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  enableOfflineQueue: false,
  enableReadyCheck: false, // it needs the right to INFO
  enableAutoPipelining: false,
  commandTimeout: undefined,
  socketTimeout: undefined,
  connectTimeout: 2_000,
  disconnectTimeout: 250,
  keyPrefix: '',
  stringNumbers: false,
  protocol: 2,
  replyMapping: 'legacy',
  readOnly: false,
  monitor: false,
  showFriendlyErrorStack: false,
  scripts: undefined,
};

export class IoredisLink extends Link {
  #redis;

  /** place is the server's host and port where it is not the client's own. */
  constructor(client, place) {
    super();
    this.#redis = client.duplicate({ ...own, ...place });
    this.#redis.on('error', (error) => (this.why ??= error));
    this.#redis.on('end', () => this.end(new Error('the connection was closed')));
    this.begin(this.#redis.connect().catch((error) => Promise.reject(this.why ?? error)));
  }

  // ioredis goes on with database 0 where it may not select another one.
  async greet() {
    const { db } = this.#redis.options;
    if (db) await this.send(['SELECT', String(db)]);
    else await super.greet();
  }

  async send(args) {
    if (this.#redis.status !== 'ready') throw new Unsent('the connection was closed');
    try {
      return await this.#redis.call(...args.map(asText));
    } catch (error) {
      if (error.name === 'ReplyError') throw new Refused(error.message, { cause: error });
      const why = this.why ?? error;
      throw new Lost(`no answer came: ${why.message}`, { cause: why });
    }
  }

  hangUp() {
    this.#redis.disconnect();
  }
}

// ioredis writes a command of strings at once, and one with a Buffer piece by piece.
const asText = (arg) => (Buffer.isBuffer(arg) && isAscii(arg) ? arg.latin1Slice() : arg);

/**
 * Asks a cluster for the address of each slot, and for a client with the settings for each
 * master. known are such clients of before, which are asked where there are any.
 */
export async function askIoredisCluster(cluster, known) {
  const asking = cluster.duplicate([...known.values()].map(({ options: { host, port } }) => ({ host, port })), {
    lazyConnect: true,
    clusterRetryStrategy: () => null,
    enableReadyCheck: false,
    enableAutoPipelining: false,
    slotsRefreshInterval: undefined,
    shardedSubscribers: false,
    scripts: undefined,
    redisOptions: {
      ...cluster.options.redisOptions, // ioredis 5 does not
      commandTimeout: undefined,
      connectTimeout: 1_000,
      enableReadyCheck: false,
      maxRetriesPerRequest: 0,
      replyMapping: 'legacy',
      showFriendlyErrorStack: false,
      stringNumbers: false,
    },
  });
  let trouble;
  asking.on('error', (error) => (trouble = error.lastNodeError ?? error));
  try {
    await inTime(asking.connect());
    const masters = new Map(asking.nodes('master').map((node) => [`${node.options.host}:${node.options.port}`, node]));
    return { addressOf: asking.slots.map(([address]) => address), masters };
  } catch (error) {
    const why = trouble ?? error;
    throw new Error(`no startup node tells where the slots are: ${why.message}`, { cause: why });
  } finally {
    asking.disconnect();
  }
}
