// The fallback over a Redis that fails as told. The time of its probes is the test's.

import assert from 'node:assert/strict';
import { beforeEach, describe, mock, test } from 'node:test';
import { CorruptCount, NotCounted, OutcomeUnknown } from 'docpriority';
import { Fallback } from '../src/fallback.js';
import { Memory } from '../src/memory.js';
import { Owed } from '../src/owed.js';
import { Policies } from '../src/policies.js';

const tier = new Policies({ policy: {}, tiers: {} }, 86_400_000).of();

class World {
  redis = new Memory({ clock: () => 0 });
  error; // a function of the call that returns an error, or nothing
  asked = 0;
  paid = []; // the documents of each call in the background
  fallback = new Fallback((call, signal) => this.#ask(call, signal), (name, ids, took) => this.#finish(name, ids, took), 250);

  async #ask(call) {
    this.asked++;
    const held = this.error?.(call);
    const error = held instanceof Promise ? await held : held;
    if (error) throw error;
    return this.redis.run(call.script, call.name.toString('latin1'), call.args, tier);
  }

  async #finish(name, ids, took) {
    const call = { script: 'done', background: true, name };
    const held = this.error?.(call);
    const error = held instanceof Promise ? await held : held;
    if (error) throw error;
    if (ids.length > 1 || ids[0].length < 36) this.paid.push([String(name), ids.map(String), took]);
    return this.redis.run('done', name.toString('latin1'), ['0', ...ids], tier);
  }

  async call(script, customer, args = [], { took = 0, kinds = [], signal } = {}) {
    return this.fallback.answer({ operation: script, script, kinds, tier, took, name: Buffer.from(customer), args }, signal);
  }

  next = (customer, options) => this.call('next', customer, [], options);
  submit = (customer, document, options) => this.call('submit', customer, [Buffer.from(document), '0'], options);
  done = (customer, document, options) => this.call('done', customer, ['0', Buffer.from(document)], options);
  pending = (customer) => this.redis.run('peek', customer, [], tier)[8];

  /** Lets half a second pass, and what happens in the background then. */
  async probe() {
    mock.timers.tick(500);
    for (let i = 0; i < 20; i++) await new Promise(setImmediate);
  }

  async open() {
    this.error = () => new NotCounted('no connection');
    for (let i = 0; i < 10; i++) await this.next('acme');
  }
}

describe('the fallback', () => {
  let world;
  beforeEach(() => {
    mock.timers.reset();
    mock.timers.enable({ apis: ['setTimeout'] });
    world = new World();
  });

  test('answers at once after ten failures in a row, and by probes until Redis works', async () => {
    assert.equal((await world.next('acme')).degraded, undefined);
    world.error = () => new OutcomeUnknown('no answer');
    for (let i = 0; i < 9; i++) assert.equal((await world.next('acme')).degraded, true);
    world.error = undefined;
    assert.equal((await world.next('acme')).degraded, undefined); // and what memory counted is forgotten
    await world.open();
    assert.equal(world.asked, 21);
    const { reply: [level, count], degraded } = await world.next('acme');
    assert.deepEqual([level, count, degraded, world.asked], [5, -10, true, 21]);
    await world.probe();
    for (let i = 0; i < 5; i++) await world.next('other');
    assert.deepEqual([world.asked, world.fallback.degraded], [21, true]);
    world.error = undefined;
    await world.probe();
    assert.equal(world.fallback.degraded, true); // half-open
    assert.deepEqual((await world.next('acme')).reply.slice(0, 2), [1, -2]);
    assert.equal(world.fallback.degraded, false);
    await world.open(); // nothing of the first outage is left
    for (const [customer, decision] of [['acme', [5, -10]], ['other', [1, 0]]]) assert.deepEqual((await world.next(customer)).reply.slice(0, 2), decision);
  });

  test('is half-open while Redis takes probes and no documents', async () => {
    await world.open();
    world.error = ({ script }) => (script === 'done' ? undefined : new NotCounted('OOM'));
    for (let asked = world.asked + 2; asked < 20; asked += 2) {
      await world.probe();
      await world.done('acme', 'none');
      for (let i = 0; i < 5; i++) assert.equal((await world.next('acme')).degraded, true);
      assert.deepEqual([world.asked, world.fallback.degraded], [asked, true]); // one of five
    }
    world.error = undefined;
    for (let i = 0; i < 10; i++) await world.probe();
    assert.equal(world.fallback.degraded, false); // without any call
  });

  test('leaves errors that are no outage, and a reset', async () => {
    world.error = () => new CorruptCount('it holds something else');
    for (let i = 0; i < 20; i++) await assert.rejects(world.next('acme'), CorruptCount);
    assert.equal(world.fallback.degraded, false);
    await world.open();
    await assert.rejects(world.call('reset', 'acme'), NotCounted);
    assert.equal((await world.next('acme')).reply[1], 0); // but memory has forgotten
  });

  test('a caller who cancels gets an error, and whose time is over an answer', async () => {
    world.error = () => new OutcomeUnknown('it was canceled');
    for (let i = 0; i < 20; i++) await assert.rejects(world.next('acme', { signal: AbortSignal.abort() }), OutcomeUnknown);
    assert.equal(world.fallback.degraded, false);
    const signal = AbortSignal.abort(new DOMException('', 'TimeoutError'));
    for (let i = 0; i < 40; i++) assert.equal((await world.next('acme', { signal })).degraded, true);
    assert.deepEqual([world.asked, world.fallback.degraded], [60, true]); // which proves nothing
    await world.probe(); // this does
    await world.next('acme', { signal });
    assert.equal(world.asked, 60);
    await assert.rejects(world.next('acme', { signal: AbortSignal.abort() }), NotCounted);
  });

  test('one customer\'s node that hangs is theirs', async () => {
    world.error = ({ name }) => (String(name) === 'hangs' ? new OutcomeUnknown('no answer') : undefined);
    for (let i = 0; i < 10; i++) await world.next('hangs');
    await world.next('acme'); // the circuit is open
    await world.probe();
    const { asked } = world;
    assert.equal((await world.next('acme')).degraded, undefined);
    assert.equal((await world.next('hangs')).degraded, true);
    assert.deepEqual([world.asked, world.fallback.degraded], [asked + 1, true]);
    world.error = undefined;
    await world.probe();
    assert.equal((await world.next('hangs')).degraded, undefined);
    assert.equal(world.fallback.degraded, false);
  });

  test('Dones are paid when Redis is back, but not of documents that were submitted again', async () => {
    for (const document of ['a', 'b', 'c', 'd']) await world.submit('acme', document);
    await world.open();
    await world.done('acme', 'a', { took: 30 });
    await world.done('acme', 'b', { took: 5 });
    await world.done('acme', 'c');
    await world.done('acme', 'd', { took: 9 });
    await world.submit('acme', 'd');
    world.error = undefined;
    await world.probe();
    assert.deepEqual(world.paid, [['acme', ['a', 'b'], 35], ['acme', ['c'], 0]]);
    assert.equal(world.pending('acme'), 1);
    await world.probe();
    assert.equal(world.paid.length, 2);
  });

  test('Redis is tried again, however many Dones come while others are paid', { timeout: 60_000 }, async () => {
    await world.open();
    let isFull = true;
    let n = 0;
    world.error = async ({ background }) => {
      await new Promise(setImmediate);
      if (background) await world.done('acme', `d${n++}`);
      else if (isFull) return new NotCounted('OOM');
    };
    await world.done('acme', 'first');
    await world.probe(); // half-open, and Dones are paid
    await world.next('acme');
    isFull = false;
    while (world.fallback.degraded) {
      await world.next('acme');
      await world.probe();
    }
  });

  test('a Done that Redis is asked to take is not paid beside it', async () => {
    await world.submit('acme', 'a');
    world.error = () => new NotCounted('no connection');
    await world.next('acme');
    let answer;
    world.error = ({ background }) => (background ? undefined : new Promise((resolve) => (answer = resolve)));
    const done = world.done('acme', 'a');
    await world.probe();
    assert.deepEqual(world.paid, []);
    answer(new OutcomeUnknown('no answer'));
    assert.equal((await done).degraded, true);
    await world.probe();
    assert.deepEqual(world.paid, [['acme', ['a'], 0]]);
  });

  test('a Submit that is canceled does not cancel a Done, nor one whose Done is on its way the level', async () => {
    await world.submit('acme', 'a');
    world.error = () => new NotCounted('no connection');
    await world.done('acme', 'a');
    await assert.rejects(world.submit('acme', 'a', { signal: AbortSignal.abort() }), NotCounted);
    let go;
    world.error = ({ background }) => (background ? new Promise((resolve) => (go = resolve)) : undefined);
    await world.probe(); // the payment is on its way after this
    go();
    for (let i = 0; i < 5; i++) await new Promise(setImmediate);
    const { degraded } = await world.submit('acme', 'a');
    assert.equal(degraded, true);
    go();
    for (let i = 0; i < 5; i++) await new Promise(setImmediate);
    assert.equal(world.pending('acme'), 0);
    world.error = undefined;
    assert.equal((await world.submit('acme', 'a')).degraded, undefined);
  });

  test('overrides that were seen hold', async () => {
    const options = { kinds: ['count', 'override'] };
    world.redis.override('fixed', { earliest: 7, latest: 7 });
    world.redis.override('once', { earliest: 9 });
    await world.next('fixed', options);
    await world.submit('once', 'a', { kinds: ['pending', 'usage', 'override'] });
    world.redis.override('once');
    await world.call('peek', 'once', [], { kinds: ['count', 'pending', 'usage', 'override'] });
    await world.open();
    assert.deepEqual((await world.next('fixed', options)).reply.slice(0, 5), [7, 0, 1_500_000, 1, 7]);
    assert.equal((await world.next('once', options)).reply.length, 3);
  });

  test('close pays, and ends where it cannot', async (t) => {
    const warnings = [];
    t.mock.method(process, 'emitWarning', (warning) => warnings.push(warning));
    for (const document of ['a', 'b']) await world.submit('acme', document);
    await world.open();
    for (const document of ['a', 'b']) await world.done('acme', document);
    await world.fallback.close();
    assert.match(warnings.join(), /2 documents/);
    world.error = undefined;
    await world.fallback.close();
    assert.equal(world.pending('acme'), 0);
  });
});

describe('Dones that are owed', () => {
  const hold = (owed, name, n, isSpare = false) => {
    for (let i = 0; i < n; i++) owed.hold(name, `d${i}`, 1, isSpare);
  };
  const count = (owed, name) => {
    let n = 0;
    for (let debts; ({ debts } = owed.pay(name)).debts.length > 0; n += debts.length) owed.paid(name, debts);
    return n;
  };

  test('are at most 100,000, and one customer does not crowd out the others', () => {
    const owed = new Owed();
    hold(owed, 'spare', 300_000, true);
    assert.equal(owed.size, 100_000);
    hold(owed, 'flood', 150_000);
    hold(owed, 'small', 5_000);
    hold(owed, 'spare', 10, true);
    assert.equal(owed.size, 100_000);
    assert.deepEqual([count(owed, 'spare'), count(owed, 'small'), count(owed, 'flood')], [0, 5_000, 95_000]);
    assert.deepEqual([owed.size, owed.names()], [0, []]);
  });

  test('are released unless they came again', () => {
    const owed = new Owed();
    const first = owed.hold('acme', 'a', 1, false);
    const second = owed.hold('acme', 'a', 2, false);
    owed.release([first, undefined]);
    assert.equal(owed.size, 1);
    owed.giveBack(owed.take('acme', ['a', 'b']));
    assert.equal(owed.size, 1);
    owed.release([second]);
    assert.equal(owed.size, 1);
    owed.forget('acme');
    assert.equal(owed.size, 0);
  });
});

