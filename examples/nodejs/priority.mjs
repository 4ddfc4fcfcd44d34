// The counts of package priority, for Node.js: the same script on the same keys.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { ClientClosedError, ErrorReply } from 'redis';

/** The script of the default policy: its file says what it takes and replies. */
export const nextScript = readFileSync(new URL('../../lua/next.lua', import.meta.url), 'utf8');

/** The answer was lost: the document may have been counted. The call must not be repeated. */
export class OutcomeUnknown extends Error {
  name = 'OutcomeUnknown';
}

/**
 * Returns the key of a customer's count, as bytes. A customer is 1 to 512 bytes; a
 * string stands for its UTF-8. It is the hash tag by which a Redis Cluster places the
 * key, so what would end the tag is escaped.
 */
export function keyOf(customer, prefix = 'priority') {
  const bytes = Buffer.from(customer);
  if (bytes.length < 1 || bytes.length > 512) {
    throw new RangeError(`a customer has 1 to 512 bytes, not ${bytes.length}`);
  }
  if (/[{}]/.test(prefix)) {
    throw new RangeError(`the prefix ${JSON.stringify(prefix)} has a brace in it`);
  }
  // In Latin-1 each byte is one character, so that no byte is changed.
  const escaped = bytes.toString('latin1').replaceAll('%', '%25').replaceAll('}', '%7D');
  return Buffer.concat([Buffer.from(`${prefix}:{`), Buffer.from(escaped, 'latin1'), Buffer.from('}:count')]);
}

/** Counts documents on a connected client of node-redis, which the caller owns. */
export class Store {
  #client;
  #prefix;
  #script;
  #digest;

  /** Another policy than the default has another script: RedisStore.NextScript in Go returns it. */
  constructor(client, { prefix = 'priority', script = nextScript } = {}) {
    this.#client = client;
    this.#prefix = prefix;
    this.#script = script;
    this.#digest = createHash('sha1').update(script).digest('hex');
  }

  /**
   * Counts n documents of a customer at once and returns the decision of the last of
   * them: {level, count}, and resetIn in milliseconds where that is not the whole
   * reset interval. Throws an ErrorReply if Redis refused the call, a ClientClosedError
   * if the client is closed, and an OutcomeUnknown if no answer came.
   */
  async next(customer, n = 1) {
    const call = { keys: [keyOf(customer, this.#prefix)], arguments: n === 1 ? [] : [String(n)] };
    try {
      const [level, count, resetIn] = await this.#run(call);
      return { level, count, ...(resetIn !== undefined && { resetIn }) };
    } catch (error) {
      if (error instanceof ErrorReply || error instanceof ClientClosedError) throw error;
      throw new OutcomeUnknown(`no answer came: ${error.message}`, { cause: error });
    }
  }

  // NOSCRIPT says that nothing was run, so this is the one error after which the call
  // is made again; EVAL makes the script known for the next calls.
  async #run(call) {
    try {
      return await this.#client.evalSha(this.#digest, call);
    } catch (error) {
      if (!error.message.startsWith('NOSCRIPT')) throw error;
      return await this.#client.eval(this.#script, call);
    }
  }
}
