// The jobs of BullMQ, on the Redis server that REDIS names.

import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { after, before, beforeEach, afterEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { DelayedError, Queue, RateLimitError, UnrecoverableError, Worker } from 'bullmq';
import { join, OutcomeUnknown } from 'docpriority';
import { doneAfter, doneAtEnd, submitJobs } from 'docpriority/bullmq';
import { Redis } from 'ioredis';

const long = 60_000;
const customerOf = ({ customer }) => customer;

describe('BullMQ', { skip: process.env.REDIS || process.env.CI ? false : 'REDIS names no server: go test ./clients/nodejs starts one' }, () => {
  let redis, store;
  before(() => {
    redis = new Redis(`redis://${process.env.REDIS}`, { maxRetriesPerRequest: null });
    store = join(redis, { timeout: long });
  });
  after(async () => {
    await store.close();
    redis.disconnect();
  });

  let number = 0;
  let queue, customer, workers;
  beforeEach(() => {
    customer = `customer ${++number}`;
    queue = submitJobs(new Queue(`documents-${number}`, { connection: redis }), store, { customerOf });
    workers = [];
  });
  afterEach(async () => {
    await Promise.all(workers.map((worker) => worker.close(true)));
    await queue.close();
  });

  async function pending() {
    const state = await store.peek(customer);
    return state.pending + state.scheduled;
  }

  function work(processor, options) {
    const worker = new Worker(queue.name, processor && doneAfter(store, processor), { connection: redis, ...options });
    worker.on('failed', doneAtEnd(store));
    workers.push(worker);
    return worker;
  }

  /** Waits until so many jobs have ended, and nothing is pending any more. */
  async function ended(jobs) {
    for (;;) {
      const { completed, failed } = await queue.getJobCounts('completed', 'failed');
      if (completed + failed === jobs && (await pending()) === 0) return { completed, failed };
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  test('a job has the level as its priority, and is served by it', async () => {
    const added = await queue.addBulk(Array.from({ length: 130 }, (_, i) => ({ name: 'document', data: { customer, i } })));
    const levels = added.map(({ opts: { priority } }) => priority);
    assert.deepEqual([levels[0], levels[2], levels.at(-1)], [1, 2, 5]);
    assert.deepEqual(levels, levels.toSorted((a, b) => a - b));
    const other = await queue.add('document', { customer: `other than ${customer}` });
    assert.equal(other.opts.priority, 1);
    assert.equal((await queue.getJob(other.id)).priority, 1);
    assert.equal(await pending(), 130);
    const served = [];
    work(async ({ data, priority }) => served.push(data.i === undefined ? 'other' : priority));
    await ended(131);
    assert.ok(served.indexOf('other') < 5, String(served));
  });

  test('jobs for tomorrow see each other, and change no level of today', async () => {
    const jobs = (n, customer, opts) => queue.addBulk(Array(n).fill({ name: 'document', data: { customer }, opts }));
    const levels = async (...args) => (await jobs(...args)).map(({ opts: { priority } }) => priority);
    const tomorrow = await levels(500, customer, { delay: 86_400_000 });
    assert.equal(tomorrow.at(-1), 8); // as of a flood
    assert.deepEqual(await levels(40, customer), await levels(40, `other than ${customer}`));
    const { pending, scheduled } = await store.peek(customer);
    assert.deepEqual([pending, scheduled], [40, 500]);
    await jobs(1, customer, { delay: 1e12 }); // in BullMQ, a delay may be longer than a document's
  });

  test('a job that replaces another one is due after its own delay', async () => {
    const replace = (delay) => queue.add('document', { customer }, { delay, deduplication: { id: customer, replace: true } });
    for (const delay of [86_400_000, 3_600_000]) await replace(delay);
    const { pending, scheduled } = await store.peek(customer);
    assert.deepEqual([pending, scheduled], [0, 1]);
    await replace(1);
    while ((await store.peek(customer)).pending === 0) await new Promise(setImmediate);
    work(async () => {});
    await ended(1);
  });

  test('what a job costs is told', async (t) => {
    const submitN = t.mock.fn(async (_, documents) => documents.map(() => ({ level: 3 })));
    const jobs = submitJobs({ add: async (name, data, opts) => ({ id: '1', opts }), addBulk: async (all) => all }, { submitN }, { customerOf, costOf: ({ pages }, name) => pages && pages * name.length });
    assert.equal((await jobs.add('four', { customer, pages: 5 })).opts.priority, 3);
    await jobs.add('unknown', { customer });
    await jobs.add('unknown', { customer, pages: null });
    assert.deepEqual(submitN.mock.calls.map(({ arguments: [, [{ cost }]] }) => cost), [20, 0, 0]);
  });

  for (const [when, attempts, errors, tries] of [
    ['after the attempt that succeeds, and not before', 3, [new Error('busy'), new Error('busy')], 3],
    ['after an UnrecoverableError', 5, [new UnrecoverableError('no document')], 1],
    ['after the attempt behind a DelayedError', 1, [new DelayedError()], 2],
    ['after the attempt behind a RateLimitError', 1, [new RateLimitError()], 2],
  ]) {
    test(`a document is done ${when}`, async () => {
      const pendingAtTries = [];
      const processor = async (job, token) => {
        pendingAtTries.push(await pending());
        const error = errors[pendingAtTries.length - 1];
        if (error instanceof DelayedError) await job.moveToDelayed(Date.now() + 50, token);
        if (error instanceof RateLimitError) await queue.rateLimit(50);
        if (error) throw error;
      };
      await queue.add('document', { customer }, { attempts });
      work(processor);
      await ended(1);
      assert.deepEqual(pendingAtTries, Array(tries).fill(1));
    });
  }

  test('a done that fails is a warning, and does not fail the job', async (t) => {
    const warned = t.mock.method(process, 'emitWarning', () => {});
    const process_ = doneAfter({ done: async () => { throw new Error('Redis is away'); } }, async () => 'result');
    assert.equal(await process_({ opts: { docpriority: { customer: 'acme', document: 'd' } } }), 'result');
    assert.equal(warned.mock.callCount(), 1);
  });

  test('what was never submitted is not done', async () => {
    const done = [];
    const refuses = { submitN: (...args) => store.submitN(...args), done: async (...args) => done.push(args) };
    const jobs = submitJobs({ add: async () => {}, addBulk: async () => {} }, refuses, { customerOf });
    await assert.rejects(jobs.add('document', { customer: 5 }), /^TypeError: docpriority: a customer must be a string/);
    assert.deepEqual(done, []);
    refuses.submitN = async () => { throw new OutcomeUnknown('the answer was lost'); };
    await assert.rejects(jobs.add('document', { customer }), OutcomeUnknown);
    assert.equal(done.length, 1); // it may have been submitted
  });

  test('a queue submits its jobs once', () => {
    assert.throws(() => submitJobs(queue, store, { customerOf }), /^TypeError: docpriority: submitJobs was called for this queue already$/);
  });

  test('if a job cannot be added, its document is done', async () => {
    const failing = { add: async () => { throw new Error('Redis is full'); }, addBulk: async () => { throw new Error('Redis is full'); } };
    submitJobs(failing, store, { customerOf });
    await assert.rejects(failing.add('document', { customer }), /Redis is full/);
    await assert.rejects(failing.addBulk([{ name: 'document', data: { customer } }, { name: 'document', data: { customer } }]), /Redis is full/);
    assert.equal(await pending(), 0);
  });

  test('a job that BullMQ ignores, replaces or keeps for later leaves nothing pending', async (t) => {
    const one = new Queue(queue.name, { connection: redis, defaultJobOptions: { deduplication: { id: 'one' } } });
    t.after(() => one.close());
    submitJobs(one, store, { customerOf });
    const replaced = { deduplication: { id: 'three', replace: true }, delay: 100 };
    const kept = { deduplication: { id: 'four', keepLastIfActive: true } };
    for (let i = 0; i < 3; i++) {
      await one.add('document', { customer }, null);
      await queue.add('document', { customer }, { jobId: 'two' });
      await queue.add('document', { customer }, replaced);
      await queue.addBulk(Array(2).fill({ name: 'document', data: { customer }, opts: replaced }));
      await queue.add('document', { customer }, kept);
    }
    assert.equal(await pending(), 4);
    let more = 3;
    work(async ({ opts: { deduplication } }) => {
      for (; deduplication?.id === 'four' && more > 0; more--) await queue.add('document', { customer }, kept);
    });
    await ended(5);
  });

  test('a job without a customer has no document, and is warned of once if it has no priority', async (t) => {
    const { mock } = t.mock.method(process, 'emitWarning', () => {});
    const parent = await queue.add('document', { customer });
    const children = [];
    for (const priority of [0, 0, 5]) children.push(await queue.add(`child of ${customer}`, {}, { ...parent.opts, priority }));
    assert.deepEqual(children.map(({ opts }) => [opts.docpriority, opts.priority]), [[undefined, 0], [undefined, 0], [undefined, 5]]);
    assert.deepEqual(mock.calls.map(({ arguments: [text] }) => text), [`docpriority: jobs named "child of ${customer}" have no level and no priority, because customerOf returns nothing`]);
  });

  const worker = () => fork(fileURLToPath(new URL('bullmq-worker.mjs', import.meta.url)), [process.env.REDIS, queue.name], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  const exited = (child) => new Promise((resolve) => child.once('exit', resolve));
  async function kill(child) {
    const exit = exited(child);
    child.kill('SIGKILL');
    await exit;
  }

  test('the books are exact when workers are killed and restarted', { timeout: long }, async () => {
    await queue.addBulk(Array.from({ length: 120 }, (_, i) => ({ name: 'document', data: { customer, fails: i % 4 }, opts: { attempts: 3 } })));
    assert.equal(await pending(), 120);
    for (let deaths = 0; deaths < 2; deaths++) {
      const dies = worker();
      let begun = 0;
      await new Promise((resolve) => dies.stdout.on('data', (text) => (begun += String(text).split('\n').length - 1) > 30 && resolve()));
      await kill(dies);
    }
    const last = worker();
    const { completed, failed } = await ended(120);
    assert.equal(completed + failed, 120);
    assert.ok(failed >= 30, `${failed} failed`); // those that fail three times
    await kill(last);
  });
});
