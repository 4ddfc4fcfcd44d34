import { type Name, Store, type StoreOptions } from './index.js';

export interface MemoryStoreOptions extends StoreOptions {
  /** Returns milliseconds from any begin. While it shows less than it did, time stands still. Default: Date.now. */
  clock?: () => number;
}

/**
 * A store whose numbers live in this object, for tests: it needs no Redis, and decides as a
 * store on Redis does, by overrides too. It remembers a million customers and pending
 * documents together; beyond them, the customers leave who were counted longest ago.
 */
export class MemoryStore extends Store {
  constructor(options?: MemoryStoreOptions);

  /** Lets time pass. */
  advance(milliseconds: number): void;

  /**
   * Sets for a customer what operators could: the first level and the last one, and in how
   * many milliseconds that ends, if it does. undefined removes it.
   */
  setOverride(customer: Name, override: { earliest?: number; latest?: number; endsIn?: number } | undefined): void;

  /** Forgets all customers, but not the overrides. */
  clear(): void;
}
