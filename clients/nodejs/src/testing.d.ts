import { type Name, Store, type StoreOptions } from './index.js';

export interface MemoryStoreOptions extends StoreOptions {
  /** Returns milliseconds since any moment. If it goes back, time stands still meanwhile. Default: Date.now. */
  clock?: () => number;
}

/**
 * A store whose numbers live in this object, for tests: it needs no Redis, and decides like
 * a store on Redis, overrides included. It remembers a million customers and pending
 * documents together; beyond that, it evicts the customers counted least recently.
 */
export class MemoryStore extends Store {
  constructor(options?: MemoryStoreOptions);

  /** Lets time pass. */
  advance(milliseconds: number): void;

  /**
   * Sets a customer's override, as operators could: the bounds of the levels, and in how many
   * milliseconds it ends, if at all. undefined removes it.
   * With accounts, an account's holds for users who have none.
   */
  setOverride(customer: Name, override: { earliest?: number; latest?: number; endsIn?: number } | undefined): void;

  /** Forgets all customers, but not the overrides. */
  clear(): void;
}
