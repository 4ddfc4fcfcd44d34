'use strict';

// Levels for the jobs of BullMQ. Documented in bullmq.d.ts.
//
// BullMQ is not imported: the used parts of its objects are the same in versions 5 and 6.

const { randomUUID } = require('node:crypto');
const { checkKind, checkMethods, checkNames } = require('./check.js');
const { OutcomeUnknown } = require('./errors.js');

const mostSubmitted = 100; // documents in a call of submitN

// A job carries its document among its options, which neither retries nor updateData
// change.
const carried = 'docpriority';

const queues = new WeakSet(); // that submit their jobs

function submitJobs(queue, store, options) {
  checkMethods('the queue', queue, 'add', 'addBulk');
  checkMethods('the store', store, 'submitN');
  checkNames(options, ['customerOf', 'costOf'], 'the options of submitJobs');
  const { customerOf, costOf = () => 0 } = options;
  checkKind('customerOf', customerOf, 'function');
  checkKind('costOf', costOf, 'function');
  if (queues.has(queue)) throw new TypeError('docpriority: submitJobs was called for this queue already');
  queues.add(queue);
  const add = queue.add.bind(queue);
  const addBulk = queue.addBulk.bind(queue);
  queue.add = async (name, data, opts) => (await submitted([{ name, data, opts }], async ([job]) => [await add(name, data, job.opts)]))[0];
  queue.addBulk = (jobs) => submitted(jobs, addBulk);
  return queue;

  async function submitted(jobs, addAll) {
    const documents = jobs.map(({ name, data }) => documentOf(customerOf(data, name), () => costOf(data, name)));
    const ours = documents.filter(Boolean);
    const tried = []; // the documents that may have been submitted
    let added;
    try {
      const levels = await submit(store, ours, tried);
      added = await addAll(jobs.map((job, i) => (documents[i] ? withLevel(job, documents[i], levels.get(documents[i])) : job)));
    } catch (error) {
      await Promise.all(tried.map((document) => done(store, document)));
      throw error;
    }
    await Promise.all(added.map((job, i) => documents[i] && doneIfIgnored(job, documents[i], jobs[i].opts)));
    return added;
  }

  // BullMQ ignores a second job with the same jobId, deduplication id or, in version 5,
  // repetition; and a job whose repetitions are over.
  async function doneIfIgnored(added, document, { jobId, deduplication, repeat } = {}) {
    if (jobId === undefined && deduplication === undefined && repeat === undefined) return;
    try {
      const job = added && (await queue.getJob(added.id));
      if (carriedBy(job)?.document !== document.document) await done(store, document);
    } catch (error) {
      warn(error); // the job is there
    }
  }
}

function doneAfter(store, processor) {
  checkMethods('the store', store, 'done');
  checkKind('the processor', processor, 'function');
  const wrapped = async function (job, ...rest) {
    const begun = performance.now();
    let result;
    try {
      result = await processor.call(this, job, ...rest);
    } catch (error) {
      if (isLast(job, error)) await done(store, carriedBy(job), performance.now() - begun);
      throw error;
    }
    await done(store, carriedBy(job), performance.now() - begun);
    return result;
  };
  // BullMQ looks at the number of a processor's arguments.
  return Object.defineProperty(wrapped, 'length', { value: processor.length });
}

// A job that fails temporarily has not finished.
function doneAtEnd(store) {
  checkMethods('the store', store, 'done');
  return async (job) => {
    if (job?.finishedOn) await done(store, carriedBy(job));
  };
}

const documentOf = (customer, costOf) => (customer ? { customer, document: randomUUID(), cost: costOf() ?? 0 } : undefined);

const withLevel = ({ opts, ...job }, { customer, document }, level) => ({ ...job, opts: { ...opts, priority: level, [carried]: { customer, document } } });

const carriedBy = (job) => job?.opts?.[carried];

// Returns the levels of documents; each is added to tried before it is submitted.
async function submit(store, documents, tried) {
  const ofCustomers = new Map();
  for (const document of documents) {
    if (!ofCustomers.has(document.customer)) ofCustomers.set(document.customer, []);
    ofCustomers.get(document.customer).push(document);
  }
  const levels = new Map();
  for (const [customer, all] of ofCustomers) {
    for (let begin = 0; begin < all.length; begin += mostSubmitted) {
      const some = all.slice(begin, begin + mostSubmitted);
      tried.push(...some);
      try {
        const decisions = await store.submitN(customer, some.map(({ document }) => document), { costs: some.map(({ cost }) => cost) });
        for (const [i, { level }] of decisions.entries()) levels.set(some[i], level);
      } catch (error) {
        if (!(error instanceof OutcomeUnknown)) tried.splice(-some.length); // certainly not submitted
        throw error;
      }
    }
  }
  return levels;
}

// Does not fail, because that would repeat the job.
async function done(store, document, took) {
  if (!document) return;
  try {
    await store.done(document.customer, document.document, took);
  } catch (error) {
    warn(error);
  }
}

// Whether a failed job will not be retried, as far as its processor can know.
function isLast({ attemptsMade, opts }, error) {
  if (notEnds.has(error?.name) || error?.message === 'bullmq:rateLimitExceeded') return false;
  return error?.name === 'UnrecoverableError' || !(attemptsMade + 1 < opts.attempts);
}

const notEnds = new Set(['DelayedError', 'WaitingError', 'WaitingChildrenError', 'RateLimitError']);

const warn = (error) => process.emitWarning(error instanceof Error ? error : String(error));

module.exports = { submitJobs, doneAfter, doneAtEnd };
