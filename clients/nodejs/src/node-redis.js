// Links and clusters of node-redis, 5 and 6.

import { Lost, Refused, Unsent } from './answers.js';
import { Link } from './link.js';

export const isNodeRedis = (client) => isFunction(client.withAbortSignal) && isFunction(client.duplicate) && 'isReady' in client;
export const isNodeRedisCluster = (client) => isFunction(client.nodeClient) && isFunction(client.duplicate) && isFunction(client.withTypeMapping);

const isFunction = (value) => typeof value === 'function';

// What must not be as the caller has it.
const own = {
  url: undefined, // what it says is in the other options already
  RESP: 2,
  commandOptions: {},
  clientSideCache: undefined,
  commandsQueueMaxLength: undefined,
  maintNotifications: 'disabled',
  pingInterval: undefined,
  readonly: false,
};

export class NodeRedisLink extends Link {
  #client;
  #connected = false;
  #over = false;
  #Aborted;

  /** place is the server's host and port where it is not the client's own. */
  constructor(client, place) {
    super();
    const socket = { ...client.options?.socket, ...place, reconnectStrategy: false, connectTimeout: 2_000, socketTimeout: undefined };
    this.#client = client.duplicate({ ...own, socket });
    this.#client.on('connect', () => {
      this.#connected = true;
      if (this.#over) this.hangUp();
    });
    this.#client.on('error', (error) => this.end(error));
    this.#client.on('end', () => this.end(new Error('the connection was closed')));
    this.begin(this.#client.connect());
  }

  async greet() {
    // What the client rejects an aborted command with is told apart by its class.
    await this.#client.sendCommand(['PING'], { abortSignal: AbortSignal.abort() }).catch((error) => (this.#Aborted = error.constructor));
    await super.greet();
  }

  async send(args, signal) {
    if (this.#over || !this.#client.isReady) throw new Unsent('the connection was closed');
    try {
      return await this.#client.sendCommand(args, { abortSignal: signal, typeMapping: {}, timeout: undefined });
    } catch (error) {
      if (error instanceof this.#Aborted) throw new Unsent('it was not sent in time', { cause: error });
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

/** Asks a cluster for the address of each slot, and for what opens a link to each address. */
export async function askNodeRedisCluster(cluster, patience) {
  const asking = cluster.duplicate({ RESP: 2, commandOptions: {}, clientSideCache: undefined, minimizeConnections: true, useReplicas: false });
  const trouble = [];
  asking.on('error', (error) => trouble.push(error));
  const end = () => {
    try {
      asking.destroy();
    } catch {
      // it never began
    }
  };
  try {
    await patience(asking.connect());
  } catch (error) {
    end();
    throw trouble[0] ?? error;
  }
  const open = new Map();
  const connecting = [];
  for (const master of asking.masters) {
    connecting.push(asking.nodeClient(master)); // its client has the caller's settings for this node
    const { client } = master;
    open.set(master.address, (place) => new NodeRedisLink(client, place));
  }
  patience(Promise.allSettled(connecting)).catch(() => {}).then(end);
  return { addressOf: asking.slots.map(({ master }) => master.address), open };
}
