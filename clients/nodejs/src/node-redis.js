// Links and clusters of node-redis, 5 and 6.

import { Lost, Refused, Unsent } from './answers.js';
import { inTime } from './in-time.js';
import { has, Link } from './link.js';

export const isNodeRedis = (client) => has(client, 'withAbortSignal', 'duplicate') && 'isReady' in client;
export const isNodeRedisCluster = (client) => has(client, 'nodeClient', 'duplicate', 'withTypeMapping');

// Node-redis writes so many bytes at once: by default 16 KB, far less than all calls that may
// be under way.
const highWaterMark = 2 ** 20;

// What must not be as the caller has it.
const own = {
  url: undefined, // what it says is in the other options already
  RESP: 2,
  commandOptions: {},
  clientSideCache: undefined,
  emitInvalidate: false,
  commandsQueueMaxLength: undefined,
  maintNotifications: 'disabled',
  pingInterval: undefined,
  readonly: false,
};

export class NodeRedisLink extends Link {
  #client;
  #connected = false;
  #over = false;

  /** place is the server's host and port where it is not the client's own. */
  constructor(client, place) {
    super();
    const socket = { ...client.options?.socket, ...place, reconnectStrategy: false, connectTimeout: 2_000, socketTimeout: undefined, highWaterMark };
    this.#client = client.duplicate({ ...own, socket });
    this.#client.on('connect', () => {
      this.#connected = true;
      if (this.#over) this.hangUp();
    });
    this.#client.on('error', (error) => this.end(error));
    this.#client.on('end', () => this.end(new Error('the connection was closed')));
    this.begin(this.#client.connect().finally(() => (this.#connected = true))); // or no socket is under way any more
  }

  async send(args) {
    if (this.#over || !this.#client.isReady) throw new Unsent('the connection was closed');
    try {
      return await this.#client.sendCommand(args, { typeMapping: {}, timeout: undefined });
    } catch (error) {
      if (error.code === undefined && /^[A-Z][A-Z0-9]{2,} /.test(error.message)) throw new Refused(error.message, { cause: error });
      const why = this.why ?? error;
      throw new Lost(`no answer came: ${why.message}`, { cause: why });
    }
  }

  hangUp() {
    this.#over = true;
    if (!this.#connected) return; // destroy would forget the socket, and leave it open
    try {
      this.#client.destroy();
    } catch {
      // it has ended by itself
    }
  }
}

/**
 * Asks a cluster for the address of each slot, and for a client with the settings for each
 * master. known are such clients of before, which are asked where there are any.
 */
export async function askNodeRedisCluster(cluster, known) {
  const over = new AbortController(); // destroy does not know of the socket on which a node is asked
  const nodes = known.size > 0 ? [...known.values()].map(({ options: { socket } }) => ({ socket })) : rootNodesOf(cluster);
  const asking = cluster.duplicate({
    commandOptions: {},
    clientSideCache: undefined,
    minimizeConnections: true,
    useReplicas: false,
    ...(nodes && { rootNodes: nodes.map((node) => ({ ...node, socket: { ...node.socket, signal: over.signal } })) }),
  });
  const trouble = [];
  asking.on('error', (error) => trouble.push(error));
  const end = () => {
    over.abort();
    for (const { client } of asking.masters) {
      try {
        client?.destroy(); // node-redis 5 would stop at the first one that has ended by itself
      } catch {
        // it has
      }
    }
    try {
      asking.destroy();
    } catch {
      // it never began, or has ended
    }
  };
  try {
    await inTime(asking.connect());
  } catch (error) {
    end();
    throw trouble[0] ?? error;
  }
  const masters = new Map();
  const connecting = [];
  for (const master of asking.masters) {
    let client = known.get(master.address);
    if (!client) {
      connecting.push(asking.nodeClient(master)); // it makes a client with the caller's settings, and connects it
      client = master.client;
    }
    masters.set(master.address, client);
  }
  inTime(Promise.allSettled(connecting)).catch(() => {}).then(end);
  return { addressOf: asking.slots.map(({ master }) => master.address), masters };
}

// A cluster does not show its options, but gives them to whatever duplicate makes. Where
// it does not, its own are taken as they are.
function rootNodesOf(cluster) {
  function Options({ rootNodes }) {
    this.rootNodes = rootNodes;
  }
  try {
    return cluster.duplicate.call(Object.create({ constructor: Options }, { _self: { value: cluster._self } })).rootNodes;
  } catch {
    return undefined;
  }
}
