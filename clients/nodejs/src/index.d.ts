/**
 * Assigns processing priorities to documents. Each document gets a level from 1, processed
 * first, to 9, processed last, from how much its customer has sent lately. The counts live
 * in Redis; every process with the same prefix and policies shares them, in whatever
 * language it is written.
 *
 * @packageDocumentation
 */

/**
 * A client of node-redis 5 or 6 (`createClient`, `createCluster`) or of ioredis 5 or 6
 * (`Redis`, `Cluster`). The store takes the settings that it was made with (address,
 * credentials, TLS, database, sentinels) and makes connections of its own. It never uses,
 * changes or closes the client, which need not be connected. Pools and `createSentinel` of
 * node-redis are refused with a TypeError.
 */
export interface RedisClient {
  // Parameters differ between the libraries: this is only what all of them have.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  duplicate(...overrides: any[]): unknown;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  connect(...args: any[]): Promise<unknown>;
}

/** A customer, or a document's id: 1 to 512 bytes. A string stands for its UTF-8. */
export type Name = string | Uint8Array;

/** What becomes of a document. It is frozen. */
export interface Decision {
  /** 1 is processed first; 9 is last with the default policy. */
  readonly level: number;
  /** The customer's count after this document: 0 after a reset, then -1, -2 … It goes down as load goes up. */
  readonly count: number;
  /** Documents submitted and not done, this one included; 0 from next and nextN. */
  readonly pending: number;
  /** Milliseconds until the count starts afresh if nothing more comes. */
  readonly resetIn: number;
}

/** The rule by which a count becomes a level. A field that is absent has the default policy's value. */
export interface Policy {
  /**
   * Strictly descending whole numbers within ±2^53, at most 254: a count below
   * thresholds[i] has level i+2 or a later one. None: one level.
   * Default: -2, -4, -6, -8, -10, -12, -14, -20.
   */
  thresholds?: readonly number[];
  /** Whole milliseconds after which a count starts afresh, at least 1. Default: 1,500,000. */
  resetInterval?: number;
  /** Whether the interval runs from the customer's last document or from the last reset. Default: 'sinceLastUpdate'. */
  resetMode?: 'sinceLastUpdate' | 'sinceLastReset';
}

export interface StoreOptions {
  /** What every key begins with, without braces. Default: 'priority'. */
  prefix?: string;
  /** The most milliseconds that a call takes, a whole number up to 2,147,483,647. Default: 250. */
  timeout?: number;
  /** Of customers without a tier. Default: {@link defaultPolicy}. */
  policy?: Policy;
  /** Policies for some of the customers, by the tier's name. None may have more levels than policy. */
  tiers?: Readonly<Record<string, Policy>>;
  /**
   * Returns a customer's tier, and not a promise; one that is not in tiers stands for
   * policy. It is given the customer as the call was, once and before anything is sent; what
   * it throws, the call rejects with.
   */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  tierOf?: (customer: any) => string | undefined;
  /**
   * The most milliseconds that a document which nobody finishes counts as pending: 1 to
   * 86,400,000, a day. Default: a day.
   */
  lease?: number;
}

export interface CallOptions {
  /** Ends the call early: with NotCounted if nothing was sent yet, else with OutcomeUnknown. */
  signal?: AbortSignal;
}

/**
 * The counts of a fleet. A store is made once in a process and may be called any number of
 * times at once.
 *
 * Each call ends within the timeout. It rejects with {@link NotCounted},
 * {@link OutcomeUnknown} or {@link CorruptCount}, or with a TypeError or RangeError where the
 * call itself is wrong and nothing was sent. After an outage the store connects again by
 * itself.
 */
export class Store {
  /**
   * Sends nothing: the first call connects. Throws a TypeError or RangeError where an option
   * is wrong.
   */
  constructor(client: RedisClient, options?: StoreOptions);

  /**
   * Counts one document. It is counted at most once; after an OutcomeUnknown do not call
   * again, and go on with level 1.
   */
  next(customer: Name, options?: CallOptions): Promise<Decision>;

  /** Counts n documents, 1 to 1,000,000, as n calls of next at once: all of them or none. */
  nextN(customer: Name, n: number, options?: CallOptions): Promise<Decision[]>;

  /**
   * Counts a document by its id and makes it pending until {@link Store.done}. It may always
   * be called again: a pending document is not counted a second time. It is sent again
   * within the timeout if its answer is lost.
   */
  submit(customer: Name, document: Name, options?: CallOptions): Promise<Decision>;

  /** Submits 1 to 100 documents, in order, all of them or none. */
  submitN(customer: Name, documents: readonly Name[], options?: CallOptions): Promise<Decision[]>;

  /**
   * Says that a document is not pending any more. took is how many milliseconds it was
   * worked on, 0 (the default) where that is not known: it weighs the customer against how
   * long documents take on the whole, once this store knows that of 100. It may always be
   * called again: a second one does nothing.
   */
  done(customer: Name, document: Name, took?: number, options?: CallOptions): Promise<void>;

  /** Says that 1 to 1000 documents are not pending any more, which took so long together. */
  doneN(customer: Name, documents: readonly Name[], took?: number, options?: CallOptions): Promise<void>;

  /** Returns what holds now: the level of the customer's last document, or of the count where none is pending. Changes nothing. */
  peek(customer: Name, options?: CallOptions): Promise<Decision>;

  /** Forgets the customer's count and what is pending. Like next it is sent at most once. */
  reset(customer: Name, options?: CallOptions): Promise<void>;

  /** Returns a customer's keys, as bytes. */
  keys(customer: Name): Keys;

  /** Returns a script as it runs for a customer, with the numbers of the policy; by default for one without a tier. */
  script(name: 'next' | 'submit' | 'done' | 'peek' | 'reset', customer?: Name): { text: string; sha1: string };

  /**
   * Awaits the calls that were made before, each of which ends within the timeout, and ends
   * the store's connections. Further calls reject with NotCounted. The client that the store was made with stays as it is.
   */
  close(): Promise<void>;
}

/** A customer's keys. `%` in a customer is written `%25` and `}` is written `%7D`. */
export interface Keys {
  /** `<prefix>:{<customer>}:count` */
  count: Uint8Array;
  /** `<prefix>:{<customer>}:pending` */
  pending: Uint8Array;
  /** `<prefix>:{<customer>}:usage` */
  usage: Uint8Array;
}

/** Returns a customer's keys, as bytes. The prefix is 'priority' by default. */
export function keysOf(customer: Name, prefix?: string): Keys;

/** Returns the policy of nine levels with every field filled in. */
export function defaultPolicy(): Required<Policy>;

/** What the errors of calls have in common. Its message names the call and the key, and cause is what it came from. */
export class PriorityError extends Error {}

/** Certainly not counted, now or later: the call may be made again. */
export class NotCounted extends PriorityError {
  readonly name: 'NotCounted';
}

/** It may have been counted: go on with level 1, and do not call next again for this document. */
export class OutcomeUnknown extends PriorityError {
  readonly name: 'OutcomeUnknown';
}

/** The key named in the message holds something else, and was left as it is. */
export class CorruptCount extends PriorityError {
  readonly name: 'CorruptCount';
}
