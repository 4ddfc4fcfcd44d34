'use strict';

// Levels for the jobs of BullMQ. Documented in bullmq.d.ts.
//
// BullMQ is not imported: the used parts of its objects are the same in versions 5 and 6.

const { createHash, randomUUID } = require('node:crypto');
const { checkKind, checkMethods, checkNames, longestDelay } = require('./check.js');
const { OutcomeUnknown } = require('./errors.js');

const maxDocuments = 100; // documents in a call of submitN
const atOnce = 50; // calls of submitN, each for another customer
const maxNames = 1_000; // of jobs without a level; no process is warned of more

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
    const options = jobs.map(({ opts }) => ({ ...queue.defaultJobOptions, ...opts }));
    const documents = jobs.map(({ name, data }, i) => {
      const customer = customerOf(data, name);
      const delay = Math.min(Math.max(options[i].delay || 0, 0), longestDelay);
      if (customer) return { customer, document: idOf(queue, options[i]), cost: costOf(data, name) ?? 0, delay };
      if (!options[i].priority) warnOfNoLevel(name);
      return undefined;
    });
    let added;
    try {
      await submit(store, documents.filter(Boolean));
      added = await addAll(jobs.map((job, i) => withDocument(job, documents[i])));
    } catch (error) {
      await Promise.all(documents.map((document) => document?.mayBePending && done(store, document)));
      throw error;
    }
    const places = new Map(documents.map((document, i) => [document?.document, i])); // of several jobs with one document, the latest
    await Promise.all(Array.from(places.values(), (i) => documents[i] && doneIfIgnored(added[i], documents[i], options[i])));
    return added;
  }

  // BullMQ ignores a second job with the same jobId, deduplication id or, in version 5, debounce id
  // or repetition; and a job whose repetitions are over.
  async function doneIfIgnored(added, document, { jobId, deduplication, debounce, repeat }) {
    if (!(jobId ?? deduplication ?? debounce ?? repeat)) return;
    try {
      const job = added && (await queue.getJob(added.id));
      if (documentOf(job)?.document !== document.document || job.finishedOn) await done(store, document);
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

// A job to add may have the options of another one, whose document is not its own.
function withDocument({ opts, ...job }, { customer, document, level } = {}) {
  const { [option]: another, ...own } = opts ?? {};
  return { ...job, opts: customer ? { ...own, priority: level, [option]: { customer, document } } : own };
}

// BullMQ does not tell which job it replaces by another one: so these are one document, which is
// pending until one of them has been processed.
function idOf(queue, { deduplication }) {
  if (!deduplication?.replace && !deduplication?.keepLastIfActive) return randomUUID();
  return createHash('sha256').update(JSON.stringify([queue.qualifiedName, deduplication.id])).digest('hex');
}

const documentOf = (job) => job?.opts?.[option];

// Sets the level of each document, and whether it may be pending.
async function submit(store, documents) {
  const byCustomer = new Map();
  for (const document of documents) {
    if (!byCustomer.has(document.customer)) byCustomer.set(document.customer, []);
    byCustomer.get(document.customer).push(document);
  }
  const customers = [...byCustomer];
  for (let begin = 0; begin < customers.length; begin += atOnce) {
    const submitted = await Promise.allSettled(customers.slice(begin, begin + atOnce).map(([customer, all]) => submitOf(store, customer, all)));
    const failed = submitted.find(({ status }) => status === 'rejected');
    if (failed) throw failed.reason;
  }
}

async function submitOf(store, customer, documents) {
  for (let begin = 0; begin < documents.length; begin += maxDocuments) {
    const batch = documents.slice(begin, begin + maxDocuments);
    try {
      const decisions = await store.submitN(customer, batch.map(({ document, cost, delay }) => ({ id: document, cost, delay })));
      for (const [i, { level }] of decisions.entries()) Object.assign(batch[i], { level, mayBePending: true });
    } catch (error) {
      for (const document of batch) document.mayBePending = error instanceof OutcomeUnknown;
      throw error;
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

const namesWithoutLevel = new Set();

// BullMQ serves such jobs before all others.
function warnOfNoLevel(name) {
  if (namesWithoutLevel.has(name) || namesWithoutLevel.size >= maxNames) return;
  namesWithoutLevel.add(name);
  warn(`docpriority: jobs named ${JSON.stringify(name)} have no level and no priority, because customerOf returns nothing`);
}

const warn = (error) => process.emitWarning(error instanceof Error ? error : String(error));

module.exports = { submitJobs, doneAfter, doneAtEnd };
