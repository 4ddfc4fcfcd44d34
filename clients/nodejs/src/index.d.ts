/**
 * docpriority gives each document of each customer a level from 1 (processed first) to 9 (processed
 * last) when it arrives, based on how much that customer has sent recently. One customer's flood no
 * longer makes the others wait.
 *
 * ```js
 * const store = join(redisClient); // once, in each process
 * const decision = await store.submit('acme', 'invoice-4711', { cost: 12 }); // a document has arrived: 12 pages
 * await store.done('acme', 'invoice-4711', took); // when it is processed, in so many milliseconds
 * ```
 *
 * The numbers live in Redis, and all processes share them, also those that use the Go module or
 * the Python package of this project.
 *
 * @packageDocumentation
 */

/**
 * A client of node-redis (`createClient`, `createCluster`) or ioredis (`Redis`, `Cluster`), 5 or 6, which
 * need not be connected. The store copies it with its settings, except those that could count a document
 * twice, and never uses, changes or closes it.
 */
export interface RedisClient {
  // Parameters differ between the libraries: this is only what all of them have.
  duplicate(...overrides: any[]): unknown;
  connect(...args: any[]): Promise<unknown>;
}

declare global {
  interface SymbolConstructor {
    // for TypeScript's own libraries before ESNext.Disposable
    readonly asyncDispose: unique symbol;
  }
}

/** A customer, or a document's id: 1 to 512 bytes. A string is encoded as UTF-8. */
export type Name = string | Uint8Array;

/** The level of one document, and the numbers behind it. It is frozen. */
export interface Decision {
  /** 1 is processed first; 9 is last with the default policy. */
  readonly level: number;
  /** The level by the rule alone: an operator's override may have changed it. */
  readonly ruleLevel: number;
  /** By count: the customer's count after this document, 0 after a reset, then -1, -2 … */
  readonly count: number;
  /** By count: milliseconds until the count is reset if no document arrives. */
  readonly resetIn: number;
  /** By load: submitted recently × pending × cost, this document included, at most a billion. */
  readonly load: number;
  /** By load: the customer's documents that are pending when this one is due, itself included. */
  readonly pending: number;
  /** Whether the fallback decided because Redis did not answer, from what this process has counted since. */
  readonly degraded: boolean;
}

/** The bounds that an operator's override sets for a customer's levels. It is frozen. */
export interface Bounds {
  /** The first level that a document gets. */
  readonly earliest: number;
  /** The last level that a document gets. If both are equal, the level is fixed. */
  readonly latest: number;
}

/** A document that was pending until done or doneN. It is frozen. */
export interface Ended {
  /** Its id, as passed to the call. */
  readonly document: Name;
  /** Milliseconds from when it was due to done; 0 if it was done before. */
  readonly latency: number;
  /** The level that submit gave it. */
  readonly level: number;
}

/** Everything known about a customer: why a document has its level, and which level comes next. It is frozen. */
export interface State {
  /** 'byLoad' if any submission is still remembered, else 'byCount' if there is a count. */
  readonly rule: 'byCount' | 'byLoad' | 'unknown';
  /** The level of the customer's latest document; by load, of the latest pending one, 0 if none is. */
  readonly level: number;
  /** The level of a document that arrives now, of the customer's usual cost, with any override applied. */
  readonly nextLevel: number;
  /** nextLevel by the rule alone. */
  readonly ruleLevel: number;
  /** The count after the latest document of next; 0 if there is no count. */
  readonly count: number;
  /** Milliseconds until the count is reset if no document arrives; 0 if there is no count. */
  readonly resetIn: number;
  /** The load of a document that arrives now. This field and those up to lease are 0 unless the rule is 'byLoad'. */
  readonly load: number;
  /** How many documents were submitted recently, at most 512: each counts 1, then half as much after each day. */
  readonly recent: number;
  /** The cost of the customer's documents, by the times passed to done; 1 is the usual cost. */
  readonly cost: number;
  /** How many documents are pending. */
  readonly pending: number;
  /** How many of them are a flood's, which do not count in load. */
  readonly pendingFlood: number;
  /** How many further documents are due later. */
  readonly scheduled: number;
  /** The load that the document would be of its account, and the account's pendingFlood; 0 unless the customer is a user of one. */
  readonly accountLoad: number;
  readonly accountFlood: number;
  /** Milliseconds for which the oldest pending document has been due. */
  readonly oldest: number;
  /** Milliseconds from when a document is due to done, on average; 0 if that is not known. */
  readonly latency: number;
  /** Milliseconds that a document without a done counts as pending; one of a flood does for the option lease. */
  readonly lease: number;
  /** Whether the fallback answered because Redis did not. */
  readonly degraded: boolean;
  /** The bounds of the customer's override; undefined if there is none, or if the store does not read overrides. */
  readonly bounds: Bounds | undefined;
  /** Milliseconds until the override ends; undefined if there is none, or if it has no end. */
  readonly overrideEndsIn: number | undefined;
}

/** The numbers of both rules. An absent field has the default policy's value. */
export interface Policy {
  /**
   * The table of next: descending whole numbers within ±2^53, at most 254. A count below thresholds[i] has
   * level i+2 or a later one. Default: -2, -4, -6, -8, -10, -12, -14, -20.
   */
  thresholds?: readonly number[];
  /** Whole milliseconds after which next resets a count, at least 1. Default: 1,500,000. */
  resetInterval?: number;
  /** Whether the interval runs from the customer's latest document or from the latest reset. Default: 'sinceLastUpdate'. */
  resetMode?: 'sinceLastUpdate' | 'sinceLastReset';
  /**
   * The table of submit: ascending loads from a millionth to a billion. A load above loads[i] has level i+2
   * or a later one; above all of them, a document is a flood's. Default: 8, 64, 512, 8192, 32768, or fewer
   * of them if thresholds give fewer than six levels.
   */
  loads?: readonly number[];
  /**
   * The number of extra levels in which floods take turns: a customer's ⌈4096^(k/turns)⌉-th pending document
   * of a flood and later ones go k levels further. Loads and turns give at most 255 levels. Default, also for
   * 0: with loads none, without them the levels that thresholds give beyond those of the loads.
   */
  turns?: number;
  /** Whether no document of submit gets an earlier level than its customer's newest pending ones. Default: false. */
  inOrder?: boolean;
}

export interface StoreOptions {
  /** Begins every key; no braces. Default: 'priority'. */
  prefix?: string;
  /** Milliseconds until a call is given up. The time that other code blocks the event loop, or that a burst of calls keeps it busy while replies arrive, is no part of it. Default: 250. */
  timeout?: number;
  /** Applies to customers without a tier. Default: {@link defaultPolicy}. */
  policy?: Policy;
  /** Policies for some of the customers, by the tier's name. None may have more levels than policy. */
  tiers?: Readonly<Record<string, Policy>>;
  /** Returns a customer's tier, not a promise. If it throws, the call rejects with the same error. */
  tierOf?: (customer: any) => string | undefined;
  /** Whether decisions apply the overrides that operators set for customers. Default: false; true for {@link join}. */
  overrides?: boolean;
  /**
   * Whether a customer 'acme/mary' is the user mary of the account acme: submit counts both, and overrides
   * are read: one of acme holds for its users who have none. Set it alike in all processes. Default: false.
   */
  accounts?: boolean;
  /** The maximum milliseconds that a document without a done counts as pending: 1000 to a day, the default. */
  lease?: number;
  /**
   * Whether this process's memory answers calls that Redis does not, with degraded set and no error. A reset,
   * and a key that holds something else, stay errors. Default: false; true for {@link join}.
   */
  fallback?: boolean;
}

export interface SubmitOptions {
  /**
   * How much work the document is, in any unit that all documents share: pages, tokens, bytes. It is compared
   * with what is usual among the customers of this store. Default: 0, unknown: then the times passed to done
   * for the customer's documents count.
   */
  cost?: number;
  /**
   * How many milliseconds later the document is due, up to a year. Pass the delay that its queue gets: the
   * document counts from then on. Default: 0, now.
   */
  delay?: number;
}

/** One of the documents of {@link Store.submitN}. */
export interface Document extends SubmitOptions {
  id: Name;
}

/**
 * The numbers of a fleet. Create one store per process; any number of calls may run concurrently.
 *
 * Each call ends within the timeout. Without a fallback it rejects with {@link NotCounted},
 * {@link OutcomeUnknown} or {@link Corrupt}, or with a TypeError or RangeError if the call itself is wrong
 * and nothing was sent.
 */
export class Store {
  /** Sends nothing: the first call connects. Throws a TypeError or RangeError if an option is wrong. */
  constructor(client: RedisClient, options?: StoreOptions);

  /** Counts one document, at most once: after an OutcomeUnknown do not call again, and go on with level 1. */
  next(customer: Name): Promise<Decision>;

  /** Counts n documents, 1 to 1,000,000, like n calls of next: all of them or none. */
  nextN(customer: Name, n: number): Promise<Decision[]>;

  /**
   * Decides about a document by its load, and makes it pending until {@link Store.done}. It may always be
   * repeated: a pending document keeps its level, is not counted a second time, and is due after the new delay.
   */
  submit(customer: Name, document: Name, options?: SubmitOptions): Promise<Decision>;

  /** Submits 1 to 100 documents, in order, all of them or none. A plain id is a document of unknown cost that is due now. */
  submitN(customer: Name, documents: readonly (Document | Name)[]): Promise<Decision[]>;

  /**
   * Ends a document's pending state, and returns how long it was due and at which level; undefined if it was
   * not pending, or if Redis does not answer and is told later. took is the processing time in milliseconds,
   * 0 (the default) if unknown. It may always be repeated: a second done does nothing.
   */
  done(customer: Name, document: Name, took?: number): Promise<Ended | undefined>;

  /** Ends 1 to 1000 documents; took is the time for all of them together. Returns those that were pending. */
  doneN(customer: Name, documents: readonly Name[], took?: number): Promise<Ended[]>;

  /** Returns what is known about a customer, and changes nothing. */
  peek(customer: Name): Promise<State>;

  /** Forgets everything known about the customer, though an account still counts its user's documents. */
  reset(customer: Name): Promise<void>;

  /** Returns a customer's keys, as bytes. */
  keys(customer: Name): Keys;

  /** Returns a script as it runs for a customer, with the numbers of the policy; by default for one without a tier. */
  script(name: 'next' | 'submit' | 'done' | 'peek' | 'reset', customer?: Name): { text: string; sha1: string };

  /** The last level that any document gets: the queue needs that many levels. */
  readonly last: number;

  /** Whether the fallback answered the latest call because Redis did not. False without a fallback. */
  readonly degraded: boolean;

  /**
   * Waits for earlier calls, tells Redis of each done that it has not answered, and ends the store's connections.
   * It stops telling after twice the timeout, half a second at least and three at most; a call in progress ends. A store of join may take two seconds more while Redis is away.
   */
  close(): Promise<void>;

  /** Closes the store: `await using store = join(client)`. */
  [Symbol.asyncDispose](): Promise<void>;
}

export interface JoinOptions extends StoreOptions {
  /** What operators call this process, at most 100 bytes. Default: the host's name and the process's id. */
  name?: string;
}

/**
 * Joins a process to the fleet; workers start here. The store follows what operators set, and reports to them
 * what it did. Joining sends nothing, and does not fail if Redis cannot be reached. Close the store: until
 * then it keeps its connections and its report.
 */
export function join(client: RedisClient, options?: JoinOptions): Store;

/** A customer's keys: `<prefix>:{<customer>}:count` and so on. `%` in a customer is written `%25` and `}` is written `%7D`. A user's: `<prefix>:{<account>}/<user>:count`. */
export type Keys = Record<'count' | 'pending' | 'override', Uint8Array>;

/** Returns the policy of nine levels, with every field filled in. */
export function defaultPolicy(): Required<Policy>;

/** The base of all errors of calls. The message names the call and the key; cause is the original error. */
export class PriorityError extends Error {}

/** Definitely not counted, now or later: the call may be repeated. */
export class NotCounted extends PriorityError {
  readonly name: 'NotCounted';
}

/** It may have been counted: go on with level 1, and do not call next again for this document. */
export class OutcomeUnknown extends PriorityError {
  readonly name: 'OutcomeUnknown';
}

/** The key named in the message holds something else, and was left as it is. */
export class Corrupt extends PriorityError {
  readonly name: 'Corrupt';
}
