// A server that answers as a test tells it to.

import { once } from 'node:events';
import { createServer } from 'node:net';

export class Server {
  /** The EVAL and EVALSHA commands that arrived, as arrays of strings. */
  scripts = [];
  /** The names of the other commands. */
  others = [];
  /** How many connections there ever were, and how many are open. */
  connections = 0;
  open = new Set();
  #server;
  #changed = new Set();

  /**
   * answer is given a command and returns RESP, or a promise of it; undefined: nothing;
   * 'cut': the connection is closed. Commands of the handshake and PING are answered unless
   * greets is false, or a function of a command that returns false; or it returns RESP.
   */
  static async start(answer, { port = 0, greets = true } = {}) {
    const server = new Server();
    server.answer = answer;
    server.greets = greets;
    server.#server = createServer((socket) => server.#serve(socket)).listen(port, '127.0.0.1');
    await once(server.#server, 'listening');
    server.port = server.#server.address().port;
    server.url = `redis://127.0.0.1:${server.port}`;
    return server;
  }

  async close() {
    this.#server.close();
    for (const socket of this.open) socket.destroy();
    if (this.#server.listening) await once(this.#server, 'close');
  }

  /** Waits until something holds; it is looked at whenever anything happens here. */
  async until(holds) {
    while (!holds()) await new Promise((resolve) => this.#changed.add(resolve));
  }

  #happened() {
    for (const resolve of this.#changed) resolve();
    this.#changed.clear();
  }

  #serve(socket) {
    const connection = ++this.connections;
    this.open.add(socket);
    this.#happened();
    let rest = Buffer.alloc(0);
    let writing = Promise.resolve();
    socket.on('error', () => {});
    socket.on('close', () => {
      this.open.delete(socket);
      this.#happened();
    });
    socket.on('data', (data) => {
      rest = Buffer.concat([rest, data]);
      for (let read; (read = parse(rest)); ) {
        rest = rest.subarray(read.length);
        const answer = this.#answer(read.command, connection);
        writing = writing.then(async () => {
          const text = await answer;
          if (text === 'cut') socket.destroy();
          else if (text !== undefined) socket.write(text);
        });
      }
    });
  }

  #answer(command, connection) {
    const name = command[0].toUpperCase();
    if (name === 'EVAL' || name === 'EVALSHA') {
      this.scripts.push(command);
      const answer = this.answer(command, connection);
      this.#happened();
      return answer;
    }
    this.others.push(name);
    this.#happened();
    const greets = typeof this.greets === 'function' ? this.greets(name, connection) : this.greets;
    if (!greets) return undefined;
    if (typeof greets === 'string') return greets;
    return name === 'PING' ? '+PONG\r\n' : '+OK\r\n';
  }
}

/** Returns the first command in a buffer, and its length; undefined if it is not whole. */
function parse(buffer) {
  let at = 0;
  const line = () => {
    const end = buffer.indexOf('\r\n', at);
    if (end < 0) return undefined;
    const text = buffer.toString('latin1', at + 1, end);
    at = end + 2;
    return Number(text);
  };
  const n = line();
  if (n === undefined) return undefined;
  const command = [];
  for (let i = 0; i < n; i++) {
    const length = line();
    if (length === undefined || buffer.length < at + length + 2) return undefined;
    command.push(buffer.toString('latin1', at, at + length));
    at += length + 2;
  }
  return { command, length: at };
}

/** The RESP of a reply of integers. */
export const integers = (...values) => `*${values.length}\r\n${values.map((value) => `:${value}\r\n`).join('')}`;
