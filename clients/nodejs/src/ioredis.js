// Links and clusters of ioredis, 5 and 6.

import { Lost, Refused, Unsent } from './answers.js';
import { Link } from './link.js';

export const isIoredis = (client) => isFunction(client.callBuffer) && isFunction(client.duplicate) && client.isCluster !== true;
export const isIoredisCluster = (client) => client.isCluster === true && isFunction(client.callBuffer) && isFunction(client.duplicate);

const isFunction = (value) => typeof value === 'function';

// What must not be as the caller has it.
const own = {
  lazyConnect: true,
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
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
    try {
      return await this.#redis.call(...args);
    } catch (error) {
      if (error.name === 'ReplyError') throw new Refused(error.message, { cause: error });
      if (error.message.startsWith("Stream isn't writeable")) throw new Unsent('the connection was closed', { cause: error });
      const why = this.why ?? error;
      throw new Lost(`no answer came: ${why.message}`, { cause: why });
    }
  }

  hangUp() {
    this.#redis.disconnect();
  }
}

/** Asks a cluster for the address of each slot, and for what opens a link to each address. */
export async function askIoredisCluster(cluster, patience) {
  const asking = cluster.duplicate([], {
    lazyConnect: true,
    clusterRetryStrategy: () => null,
    enableReadyCheck: false,
    enableAutoPipelining: false,
    slotsRefreshInterval: undefined,
    shardedSubscribers: false,
    scripts: undefined,
    redisOptions: { connectTimeout: 1_000, enableReadyCheck: false, maxRetriesPerRequest: 0, showFriendlyErrorStack: false },
  });
  let trouble;
  asking.on('error', (error) => (trouble = error.lastNodeError ?? error));
  try {
    await patience(asking.connect());
    const open = new Map();
    for (const node of asking.nodes('master')) {
      open.set(`${node.options.host}:${node.options.port}`, (place) => new IoredisLink(node, place));
    }
    return { addressOf: asking.slots.map(([address]) => address), open };
  } catch (error) {
    const why = trouble ?? error;
    throw new Error(`no startup node tells where the slots are: ${why.message}`, { cause: why });
  } finally {
    asking.disconnect();
  }
}
