// Answers by this process's memory where Redis cannot.

import { randomUUID } from 'node:crypto';
import { CorruptCount, NotCounted, OutcomeUnknown } from './errors.js';
import { Memory } from './memory.js';
import { Owed } from './owed.js';

const mostFailures = 10; // in a row, until the circuit opens
const probeEvery = 500; // milliseconds, while Redis fails or Dones are owed to it
const enoughProbes = 10; // in a row prove as much as a document that is counted
const mostCandidates = 8; // customers whom a probe asks for
const mostFailedPayments = 3; // end a round of payments: Redis is away again
const paidAtOnce = 16; // customers
const patience = 1_000; // milliseconds for a call in the background
// Milliseconds in which close begins to send Dones, and which each call has: connections come
// about with pauses of up to two seconds.
const closesFor = 2_500;

/**
 * Counts the failures of Redis. Many in a row open the circuit: calls are answered by memory
 * at once. A probe that works closes it again, half-open at first: then one failure opens it,
 * until a document was counted. For a Redis that is full takes the probes.
 */
export class Fallback {
  #ask;
  #finish;
  #patience;
  #memory = new Memory();
  #owed = new Owed();
  #failures = 0;
  #doubts = 0; // failures in a row whose callers had less patience than the store
  #isFailing = false;
  #isOpen = false;
  #isHalfOpen = false;
  #probes = 0; // that worked while half-open
  #candidates = []; // the latest customers of calls that failed
  #suggested = 0; // how many there were
  #hung = new Set(); // candidates for whom Redis fails, while it works for others
  #timer;
  #repairing;
  #isClosed = false;

  /**
   * ask runs a call of the store on Redis, and finish sends Dones: it is given a customer and
   * documents, as bytes, how many milliseconds these took together, and its timeout.
   */
  constructor(ask, finish, timeout) {
    this.#ask = ask;
    this.#finish = finish;
    this.#patience = Math.min(timeout, patience);
  }

  /** Whether Redis did not answer when it was asked last, or is not trusted yet. */
  get degraded() {
    return this.#isFailing || this.#hung.size > 0;
  }

  /** Returns the reply of a call, or a promise of it, and whether it is degraded. */
  answer(call, signal) {
    const name = call.name.toString('latin1');
    if (call.script === 'reset') return this.#reset(call, name, signal);
    if (this.#isOpen || this.#hung.has(name)) return this.#answerAlone(call, name, signal);
    if (call.script === 'submit') return this.#submit(call, name, signal);
    if (call.script === 'done') return this.#done(call, name, signal);
    return this.#any(call, name, signal);
  }

  /** Sends the Dones that are owed, if Redis takes them in time. */
  async close() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#repairing;
    const end = performance.now() + closesFor;
    await this.#payAll(() => performance.now() > end, closesFor);
    const { size } = this.#owed;
    if (size > 0) process.emitWarning(`docpriority: ${size} documents that were done count as pending until their leases end: Redis does not answer`);
    this.#memory.clear();
  }

  #answerAlone(call, name, signal) {
    if (isCanceled(signal)) throw new NotCounted(`docpriority: ${call.operation}: it was canceled`, { cause: signal.reason });
    this.#suggest(name);
    if (call.script === 'submit') return this.#remember(call, name, this.#owed.take(name, idsOf(call)).length === 0);
    if (call.script === 'done') this.#hold(call, name, false);
    return this.#remember(call, name);
  }

  async #any(call, name, signal) {
    const { reply } = await this.#try(call, name, signal);
    return reply ? { reply } : this.#remember(call, name);
  }

  async #submit(call, name, signal) {
    const ids = idsOf(call);
    if (this.#owed.isPaying(name, ids)) return this.#remember(call, name); // a Done that is on its way must not end this
    const debts = this.#owed.take(name, ids);
    try {
      const { reply, unsent } = await this.#try(call, name, signal);
      return reply ? { reply } : this.#remember(call, name, unsent && debts.length === 0);
    } catch (error) {
      this.#owed.giveBack(debts);
      throw error;
    }
  }

  // The Dones are remembered from the begin on: a Submit that comes while Redis is asked
  // cancels them.
  async #done(call, name, signal) {
    const debts = this.#hold(call, name, true);
    try {
      const { reply } = await this.#try(call, name, signal);
      if (!reply) {
        this.#owed.fail(debts);
        return this.#remember(call, name);
      }
      this.#owed.release(debts);
      if (this.#memory.size > 0) this.#remember(call, name);
      return { reply };
    } catch (error) {
      if (error instanceof CorruptCount) {
        this.#owed.release(debts);
      } else {
        this.#owed.fail(debts);
        this.#repairLater();
      }
      throw error;
    }
  }

  #hold(call, name, isTried) {
    const ids = idsOf(call);
    return ids.map((id) => this.#owed.hold(name, id, call.took / ids.length, this.#memory.isUnsent(name, id), isTried));
  }

  async #reset(call, name, signal) {
    try {
      const reply = await this.#ask(call, signal);
      this.#owed.forget(name);
      this.#worked(false);
      return { reply };
    } catch (error) {
      if (isOutage(error) && !isCanceled(signal)) this.#failed(name, signal);
      throw error;
    } finally {
      this.#remember(call, name);
    }
  }

  #remember(call, name, unsent = false) {
    const { script, args, tier } = call;
    return { reply: this.#memory.run(script, name, args, unsent ? { ...tier, unsent } : tier), degraded: true };
  }

  // Asks Redis. Returns its reply; or none, if memory has to answer, and whether the call
  // certainly was not counted.
  async #try(call, name, signal) {
    try {
      const reply = await this.#ask(call, signal);
      const counts = call.script === 'next' || call.script === 'submit';
      this.#worked(counts);
      if (counts && this.#memory.size > 0) this.#memory.run('reset', name);
      this.#learn(call, name, reply);
      return { reply };
    } catch (error) {
      if (error instanceof CorruptCount) this.#worked(false); // one customer's trouble
      if (!isOutage(error) || isCanceled(signal)) throw error;
      this.#failed(name, signal);
      return { unsent: error instanceof NotCounted };
    }
  }

  // Remembers the override that Redis has for a customer.
  #learn({ script, kinds, args }, name, reply) {
    if (!kinds.includes('override')) return;
    const at = { next: 4, submit: 2 * args.length, peek: 14 }[script];
    const [earliest = 0, latest, endsIn] = reply.slice(at, at + 3);
    if (earliest > 0) this.#memory.override(name, { earliest, latest }, endsIn < 0 ? Infinity : endsIn);
    else this.#memory.override(name);
  }

  // Notes a failure. A caller of less patience than the store's proves nothing about Redis,
  // but a probe that fails too does.
  #failed(name, signal) {
    this.#suggest(name);
    this.#isFailing = true;
    if (signal?.aborted) this.#doubts++;
    else this.#failures++;
    if (this.#failures >= mostFailures) this.#open();
    this.#repairLater();
  }

  #open() {
    this.#isOpen = true;
    this.#isHalfOpen = false;
  }

  // Notes that a call was answered, one that counts documents or one that does not. It may
  // have begun before the circuit opened.
  #worked(counts) {
    if (!this.#isFailing || this.#isOpen || (this.#isHalfOpen && !counts)) return;
    this.#end();
  }

  #end() {
    this.#failures = this.#doubts = 0;
    this.#isFailing = false;
    if (!this.#isHalfOpen) return;
    this.#isHalfOpen = false;
    this.#memory.clear(); // Redis is owed no documents: levels are better for it
  }

  // Notes a customer for a probe. There are several, so that one whose own node hangs does
  // not keep the circuit open.
  #suggest(name) {
    if (this.#candidates.includes(name)) return;
    this.#candidates[this.#suggested++ % mostCandidates] = name;
  }

  // Nothing here keeps the process from ending, or fails.
  #repairLater() {
    if (this.#isClosed || this.#timer) return;
    this.#timer = setTimeout(() => {
      this.#repairing = this.#repair();
    }, probeEvery).unref();
  }

  async #repair() {
    if (!this.degraded || (await this.#probe())) {
      // During an outage more may come as fast as Redis takes them: then it is probed again.
      const end = performance.now() + probeEvery;
      await this.#payAll(() => this.#isClosed || (this.degraded && performance.now() > end));
    }
    this.#timer = undefined;
    if (this.degraded || this.#owed.due > 0) this.#repairLater();
  }

  // Finds out for whom Redis answers, and half-opens the circuit if there is anybody. It has
  // to write something, for a replica would answer a peek.
  async #probe() {
    const candidates = [...this.#candidates];
    const hung = new Set();
    await Promise.all(candidates.map((name) => this.#finish(bytesOf(name), [bytesOf(randomUUID())], 0, this.#patience).catch((error) => {
      if (isOutage(error)) hung.add(name);
    })));
    if (hung.size === candidates.length) {
      if (++this.#failures + this.#doubts >= mostFailures) this.#open();
      return false;
    }
    this.#hung = hung;
    if (this.#isOpen) {
      this.#failures = mostFailures - 1;
      this.#probes = 0;
      this.#isHalfOpen = true;
      this.#isOpen = false;
    }
    if (!this.#isHalfOpen) {
      this.#isFailing = false; // but the failures count, if the next call fails too
      this.#doubts = 0;
    } else if (++this.#probes >= enoughProbes) {
      this.#end();
    }
    return true;
  }

  // Sends the Dones that are owed, until Redis fails too often or it is stopped.
  async #payAll(isStopped, timeout = this.#patience) {
    const names = this.#owed.names();
    let failures = 0;
    const pay = async () => {
      for (let name; !isStopped() && failures < mostFailedPayments && (name = names.pop()) !== undefined; ) {
        const { debts, took } = this.#owed.pay(name);
        let taken = debts;
        try {
          if (debts.length > 0) await this.#finish(bytesOf(name), debts.map(({ id }) => bytesOf(id)), took, timeout);
          if (debts.length > 0) names.push(name); // there may be more of them
        } catch (error) {
          if (isOutage(error)) {
            failures++;
            taken = [];
          }
        }
        this.#owed.paid(name, taken);
      }
    };
    await Promise.all(Array.from({ length: paidAtOnce }, pay));
  }
}

// Customers and documents are kept as text in which each byte is a character.
const bytesOf = (text) => Buffer.from(text, 'latin1');

function idsOf({ script, args }) {
  const ids = [];
  const [first, step] = script === 'submit' ? [0, 2] : [1, 1];
  for (let i = first; i < args.length; i += step) ids.push(args[i].toString('latin1'));
  return ids;
}

const isOutage = (error) => error instanceof NotCounted || error instanceof OutcomeUnknown;

// Tells whether a caller does not want an answer any more. Whose time is over does.
const isCanceled = (signal) => signal?.aborted === true && signal.reason?.name !== 'TimeoutError';
