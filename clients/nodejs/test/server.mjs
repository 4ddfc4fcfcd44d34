// A server that answers as a test tells it to.

import { once } from 'node:events';
import { createServer } from 'node:net';

export class Server {
  /** The EVAL and EVALSHA commands that arrived, as arrays of strings. */
  scripts = [];
  /** How many connections there ever were, and those that are open. */
  connections = 0;
  open = new Set();
  #server;
  #changed = new Set();

  /**
   * answer is given a command and the connection's number, and returns RESP, or a promise of
   * it; undefined: nothing. What is no script is answered at once.
   */
  static async start(answer, port = 0) {
    const server = new Server();
    server.answer = answer;
    server.#server = createServer((socket) => server.#serve(socket)).listen(port, '127.0.0.1');
    await once(server.#server, 'listening');
    server.port = server.#server.address().port;
    server.url = `redis://127.0.0.1:${server.port}`;
    return server;
  }

  async close() {
    this.#server.close();
    for (const socket of this.open) socket.destroy();
    await this.until(() => this.open.size === 0);
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
    let rest = '';
    let writing = Promise.resolve();
    socket.setEncoding('latin1');
    socket.on('error', () => {});
    socket.on('close', () => {
      this.open.delete(socket);
      this.#happened();
    });
    socket.on('data', (data) => {
      rest += data;
      for (let read; (read = parse(rest)); ) {
        rest = rest.slice(read.length);
        const answer = this.#answer(read.command, connection);
        writing = writing.then(async () => {
          const text = await answer;
          if (text !== undefined) socket.write(text);
        });
      }
    });
  }

  #answer(command, connection) {
    if (!/^EVAL/i.test(command[0])) return '+OK\r\n';
    this.scripts.push(command);
    const answer = this.answer(command, connection);
    this.#happened();
    return answer;
  }
}

/** Returns the first command in a text, and its length; undefined if it is not whole. */
function parse(text) {
  const [head, n] = /^\*(\d+)\r\n/.exec(text) ?? [];
  if (!head) return undefined;
  const command = [];
  let at = head.length;
  for (let i = 0; i < Number(n); i++) {
    const [line, length] = /^\$(\d+)\r\n/.exec(text.slice(at)) ?? [];
    if (!line || text.length < at + line.length + Number(length) + 2) return undefined;
    at += line.length;
    command.push(text.slice(at, at + Number(length)));
    at += Number(length) + 2;
  }
  return { command, length: at };
}

/** The RESP of a reply of integers. */
export const integers = (...values) => `*${values.length}\r\n${values.map((value) => `:${value}\r\n`).join('')}`;
