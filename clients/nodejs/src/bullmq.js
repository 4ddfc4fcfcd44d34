'use strict';

// Levels for the jobs of BullMQ. Documented in bullmq.d.ts.
//
// BullMQ is not imported: the used parts of its objects are the same in versions 5 and 6.

const { randomUUID } = require('node:crypto');
const { checkKind, checkMethods, checkNames } = require('./check.js');
const { OutcomeUnknown } = require('./errors.js');

const maxDocuments = 100; // documents in a call of submitN

// A job carries its document in this option, because neither retries nor updateData change options.
const option = 'docpriority';

const queues = new WeakSet(); // those that submit their jobs already

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
  queue.add = async (name, data, opts) => {
    const [job] = await submitAndAdd([{ name, data, opts }], async ([job]) => [await add(name, data, job.opts)]);
    return job;
  };
  queue.addBulk = (jobs) => submitAndAdd(jobs, addBulk);
  return queue;

  async function submitAndAdd(jobs, addAll) {
    const documents = jobs.map(({ name, data }) => {
      const customer = customerOf(data, name);
      return customer ? { customer, document: randomUUID(), cost: costOf(data, name) ?? 0 } : undefined;
    });
    let added;
    try {
      await submit(store, documents.filter(Boolean));
      added = await addAll(jobs.map((job, i) => (documents[i] ? withDocument(job, documents[i]) : job)));
    } catch (error) {
      await Promise.all(documents.map((document) => document?.mayBePending && done(store, document)));
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
      if (documentOf(job)?.document !== document.document) await done(store, document);
    } catch (error) {
      warn(error); // add must not fail: BullMQ has added the job
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
      if (isFinal(job, error)) await done(store, documentOf(job), performance.now() - begun);
      throw error;
    }
    await done(store, documentOf(job), performance.now() - begun);
    return result;
  };
  // BullMQ looks at the number of a processor's arguments.
  return Object.defineProperty(wrapped, 'length', { value: processor.length });
}

function doneAtEnd(store) {
  checkMethods('the store', store, 'done');
  return async (job) => {
    if (job?.finishedOn) await done(store, documentOf(job));
  };
}

const withDocument = ({ opts, ...job }, { customer, document, level }) => ({ ...job, opts: { ...opts, priority: level, [option]: { customer, document } } });

const documentOf = (job) => job?.opts?.[option];

// Sets the level of each document, and whether it may be pending.
async function submit(store, documents) {
  const byCustomer = new Map();
  for (const document of documents) {
    if (!byCustomer.has(document.customer)) byCustomer.set(document.customer, []);
    byCustomer.get(document.customer).push(document);
  }
  for (const [customer, all] of byCustomer) {
    for (let begin = 0; begin < all.length; begin += maxDocuments) {
      const batch = all.slice(begin, begin + maxDocuments);
      try {
        const decisions = await store.submitN(customer, batch.map(({ document, cost }) => ({ id: document, cost })));
        for (const [i, { level }] of decisions.entries()) Object.assign(batch[i], { level, mayBePending: true });
      } catch (error) {
        for (const document of batch) document.mayBePending = error instanceof OutcomeUnknown;
        throw error;
      }
    }
  }
}

// Does not fail, because BullMQ would then repeat the job.
async function done(store, document, took) {
  if (!document) return;
  try {
    await store.done(document.customer, document.document, took);
  } catch (error) {
    warn(error);
  }
}

// Tells whether a failed job will not be retried, as far as its processor can know.
function isFinal({ attemptsMade, opts }, error) {
  if (pauses.has(error?.name) || error?.message === rateLimited) return false;
  return error?.name === 'UnrecoverableError' || !(attemptsMade + 1 < opts.attempts);
}

// As BullMQ knows them:
const pauses = new Set(['DelayedError', 'WaitingError', 'WaitingChildrenError']); // by name
const rateLimited = 'bullmq:rateLimitExceeded'; // by message

const warn = (error) => process.emitWarning(error instanceof Error ? error : String(error));

module.exports = { submitJobs, doneAfter, doneAtEnd };
