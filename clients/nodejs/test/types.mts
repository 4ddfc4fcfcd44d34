// A user's program: it need only compile, and what is marked as an error must be one.

import { Cluster, Redis } from 'ioredis';
import { createClient, createCluster } from 'redis';
import { type Bounds, Corrupt, type Decision, defaultPolicy, type Document, type Ended, join, type JoinOptions, NotCounted, OutcomeUnknown, type Policy, PriorityError, type State, Store, type StoreOptions } from 'docpriority';
import { doneAfter, doneAtEnd, submitJobs } from 'docpriority/bullmq';
import { MemoryStore, type MemoryStoreOptions } from 'docpriority/testing';

const gold: Policy = { thresholds: [-50, -100], resetMode: 'sinceLastReset', loads: [8, 512], turns: 2, inOrder: true };
const options: StoreOptions = {
  prefix: 'priority', timeout: 100, overrides: true, accounts: true, fallback: true, policy: defaultPolicy(), lease: 3_600_000,
  tiers: { gold }, tierOf: (customer: string) => (customer.startsWith('gold') ? 'gold' : undefined),
};
const joining: JoinOptions = { ...options, name: 'worker 4' };
const inMemory: MemoryStoreOptions = { ...options, clock: () => 0 };
const memory = new MemoryStore(inMemory);
memory.setOverride('acme', { latest: memory.last, endsIn: 5_000 });

export const stores: Store[] = [
  new Store(createClient({ url: 'redis://localhost' }), options), new Store(createClient({ RESP: 3, clientSideCache: { maxEntries: 5 } })),
  new Store(createCluster({ rootNodes: [] })), new Store(new Redis({ sentinels: [], name: 'counts' })), new Store(new Cluster([])),
  join(new Redis(), joining), memory, new MemoryStore(),
];

export async function use(store: Store): Promise<number | Bounds | undefined> {
  try {
    const decision: Decision = await store.next('acme');
    const documents: Document[] = [{ id: 'a', cost: 3, delay: 5 }, { id: Buffer.from('b') }];
    const all: Decision[] = [...(await store.nextN('acme', 3)), ...(await store.submitN(new Uint8Array([1]), [...documents, 'c']))];
    await store.submit('acme', 'a', { cost: 12.5, delay: 3_600_000 });
    const ended: Ended | undefined = await store.done('acme', 'a', 12.5);
    const others: Ended[] = await store.doneN('acme', ['a'] as const, 5);
    const state: State = await store.peek('acme');
    const key: Uint8Array = store.keys('acme/mary').count;
    await store[Symbol.asyncDispose]();
    return state.bounds ?? (decision.degraded ? store.last : all.length + others.length + key.length + (ended?.latency ?? 0));
  } catch (error) {
    if (error instanceof NotCounted || error instanceof OutcomeUnknown) return 1;
    if (error instanceof Corrupt) throw new Error(error.message, { cause: error.cause });
    if (error instanceof PriorityError) return 9;
    throw error;
  }
}

export function mistakes(store: Store, decision: Decision): void {
  // @ts-expect-error a decision is not changed
  decision.level = 1;
  // @ts-expect-error each document has a cost of its own
  void store.submitN('acme', ['a'], { cost: 5 });
  // @ts-expect-error there is no such option
  new Store(new Redis(), { timeoutMs: 5 });
  // @ts-expect-error a member's options are no store's
  new Store(new Redis(), { name: 'worker 4' });
  // @ts-expect-error there is no such script
  store.script('count');
}

declare const queue: {
  add(name: string, data: { customer: string; pages: number }, opts?: object): Promise<{ id?: string }>;
  addBulk(jobs: { name: string; data: { customer: string; pages: number } }[]): Promise<{ id?: string }[]>;
  getJob(id: string): Promise<{ opts: object } | undefined>;
};

export async function jobs(store: Store): Promise<number> {
  const same: typeof queue = submitJobs(queue, store, { customerOf: ({ customer }, name) => (name ? customer : undefined), costOf: ({ pages }) => pages });
  const processor = doneAfter(store, async (job: { data: { pages: number } }) => job.data.pages);
  await doneAtEnd(store)({});
  // @ts-expect-error customers are needed
  submitJobs(same, store, {});
  return processor({ data: { pages: 5 } });
}
