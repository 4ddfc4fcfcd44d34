/**
 * Levels for the jobs of BullMQ, 5.56.9 or later: a job's level is its priority. A program that has a
 * queue and a worker adds a line for the queue and two for the worker.
 *
 * ```js
 * submitJobs(queue, store, { customerOf: (data) => data.customer });
 * const worker = new Worker('documents', doneAfter(store, processor), { connection });
 * worker.on('failed', doneAtEnd(store));
 * ```
 *
 * @packageDocumentation
 */

import type { Store } from './index.js';

// The needed parts of BullMQ's classes, whose types differ between its versions.
interface JobQueue {
  add(name: any, data: any, opts?: any): Promise<any>;
  addBulk(jobs: any): Promise<any>;
  getJob(id: string): Promise<any>;
}
type Data<Queue extends JobQueue> = Parameters<Queue['add']>[1];

export interface SubmitJobsOptions<Data> {
  /**
   * Returns a job's customer, 1 to 512 bytes. A job for which it returns undefined or '' is
   * added and not submitted. Without a priority it is served first, so a process warning
   * names such jobs, once a name.
   */
  customerOf: (data: Data, name: string) => string | undefined;
  /** Returns how much work a job is, in any unit that all jobs share; 0, undefined or null if that is not known, the default. */
  costOf?: (data: Data, name: string) => number | null | undefined;
}

/**
 * From now on the queue's add and addBulk submit each job, and set its priority: their callers need not change.
 * Each job is a document with a random id, which the job carries with its customer among its options, and due
 * after the job's delay. If the store cannot answer, add and addBulk reject, and nothing is added. The README
 * says what becomes of jobs that BullMQ ignores, replaces or delays.
 *
 * Returns the queue. Throws a TypeError if it was called for the queue already.
 */
export function submitJobs<Queue extends JobQueue>(queue: Queue, store: Store, options: SubmitJobsOptions<Data<Queue>>): Queue;

/**
 * Returns a processor that calls done for a job: after it was processed and before BullMQ knows, and after the
 * final failed attempt; not before a further attempt. A done that fails emits a process warning.
 */
export function doneAfter<Processor extends (job: any, ...rest: any[]) => Promise<any>>(store: Store, processor: Processor): Processor;

/**
 * Returns a listener for the worker's event 'failed': it calls done for a job that ends without its processor,
 * such as one whose workers have died too often. If the processor is a file, which doneAfter cannot wrap, also
 * use it for 'completed'.
 */
export function doneAtEnd(store: Store): (job: any) => Promise<void>;
