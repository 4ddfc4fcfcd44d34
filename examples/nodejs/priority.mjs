// The counts of package priority, for Node.js: the same scripts on the same keys.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const file = (name) => readFileSync(new URL(`../../lua/${name}.lua`, import.meta.url), 'utf8');

/** The scripts of the default policy and lease: each file says what it takes and replies. */
export const scripts = { next: file('next'), submit: file('submit'), done: file('done'), peek: file('peek'), reset: file('reset') };

/**
 * Returns a key of a customer, as bytes: that of the count, of the pending documents or
 * of the usage. A customer is 1 to 512 bytes; a string stands for its UTF-8. It is the
 * hash tag by which a Redis Cluster places the key, so what would end the tag is escaped.
 */
export function keyOf(customer, prefix = 'priority', end = 'count') {
  const bytes = Buffer.from(customer);
  if (bytes.length < 1 || bytes.length > 512) {
    throw new RangeError(`a customer has 1 to 512 bytes, not ${bytes.length}`);
  }
  if (/[{}]/.test(prefix)) {
    throw new RangeError(`the prefix ${JSON.stringify(prefix)} has a brace in it`);
  }
  // In Latin-1 each byte is one character, so that no byte is changed.
  const escaped = bytes.toString('latin1').replaceAll('%', '%25').replaceAll('}', '%7D');
  return Buffer.concat([Buffer.from(`${prefix}:{`), Buffer.from(escaped, 'latin1'), Buffer.from(`}:${end}`)]);
}

/** How long documents of all customers take, the latest thousand that this process knows of. */
export class Mean {
  #seen = 0;
  #mean = 0;

  /** Adds a document and returns its cost in thousandths of the mean; 0: it is not known yet. */
  cost(milliseconds) {
    if (!(milliseconds > 0)) return 0;
    this.#seen = Math.min(this.#seen + 1, 1000);
    this.#mean += (milliseconds - this.#mean) / this.#seen;
    if (this.#seen < 100) return 0;
    return Math.min(Math.max(Math.round((1000 * milliseconds) / this.#mean), 1), 999_999);
  }
}

/**
 * Counts documents on a Connection, which the caller closes. Each call ends within the
 * timeout. It rejects with NotCounted where nothing was changed, and with OutcomeUnknown
 * where that is not known.
 */
export class Store {
  #connection;
  #prefix;
  #timeout;
  #scripts;
  #digests = {};

  /**
   * The timeout is in milliseconds. Another policy or lease than the default has other
   * scripts: NextScript, SubmitScript and PeekScript of a RedisStore in Go return them.
   */
  constructor(connection, { prefix = 'priority', timeout = 250, scripts: own = {} } = {}) {
    this.#connection = connection;
    this.#prefix = prefix;
    this.#timeout = timeout;
    this.#scripts = { ...scripts, ...own };
    for (const [name, text] of Object.entries(this.#scripts)) {
      this.#digests[name] = createHash('sha1').update(text).digest('hex');
    }
  }

  /**
   * Counts n documents of a customer at once and returns the decision of the last of
   * them: {level, count}, and resetIn in milliseconds where that is not the whole
   * reset interval. After an OutcomeUnknown it must not be called again.
   */
  async next(customer, n = 1) {
    const [level, count, resetIn] = await this.#run('next', customer, ['count'], n === 1 ? [] : [String(n)]);
    return { level, count, ...(resetIn !== undefined && { resetIn }) };
  }

  /**
   * Counts 1 to 100 documents by their ids, makes them pending, and returns a decision
   * for each. It may be called again if it failed: a document is counted once.
   */
  async submit(customer, ...documents) {
    const reply = await this.#run('submit', customer, ['count', 'pending', 'usage'], documents);
    const resetIn = reply.at(-1);
    return documents.map((_, i) => ({ level: reply[3 * i], count: reply[3 * i + 1], pending: reply[3 * i + 2], resetIn }));
  }

  /**
   * Ends the pending state of 1 to 1000 documents, each of which was worked on for
   * cost thousandths of what documents of all customers take: what Mean returns, or 0
   * for what is not known. It may be called again if it failed.
   */
  async done(customer, cost, ...documents) {
    await this.#run('done', customer, ['pending', 'usage'], [String(cost), ...documents]);
  }

  /** Returns what holds now, and what makes the level. Changes nothing. */
  async peek(customer) {
    const reply = await this.#run('peek', customer, ['count', 'pending', 'usage'], []);
    const [level, count, pending, resetIn, usage, ordinary, cost, lease] = reply;
    return { level, count, pending, resetIn, usage, ordinary, cost, lease };
  }

  /** Forgets the customer. */
  async reset(customer) {
    await this.#run('reset', customer, ['count', 'pending', 'usage'], []);
  }

  // NOSCRIPT says that nothing was run, so this is the one error after which a call is
  // made again; EVAL makes the script known for the next calls.
  async #run(name, customer, ends, args) {
    const call = { keys: ends.map((end) => keyOf(customer, this.#prefix, end)), arguments: args };
    return this.#connection.call(this.#timeout, async (client) => {
      try {
        return await client.evalSha(this.#digests[name], call);
      } catch (error) {
        if (!error.message.startsWith('NOSCRIPT')) throw error;
        return await client.eval(this.#scripts[name], call);
      }
    });
  }
}
