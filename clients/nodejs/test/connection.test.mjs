// What connections and clusters do with links that a test makes.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Lost, Refused, Unsent } from '../src/answers.js';
import { Cluster } from '../src/cluster.js';
import { Connection } from '../src/connection.js';
import { Deadline } from '../src/deadline.js';
import { Link } from '../src/link.js';

/** A link that answers, or throws, as a test says. */
class TestLink extends Link {
  constructor(answer, connected = Promise.resolve()) {
    super();
    this.answer = answer;
    this.begin(connected);
  }

  async send(args) {
    return args[0] === 'PING' ? 'PONG' : this.answer(args);
  }

  hangUp() {}
}

/** Runs a body with a deadline, which it ends. */
async function within(milliseconds, body) {
  const deadline = new Deadline(milliseconds);
  try {
    return await body(deadline);
  } finally {
    deadline.end();
  }
}

describe('a connection', () => {
  test('a link that was given up does not come back into service', async () => {
    const links = [];
    const connection = new Connection(() => {
      const link = new TestLink(() => (links[0] === link ? Promise.reject(new Unsent('it has ended')) : 'answered'));
      if (links.push(link) === 1) link.end(); // and then its greeting is answered
      return link;
    });
    assert.equal(await within(60_000, (deadline) => connection.send(['GET'], deadline)), 'answered');
    assert.equal(links.length, 2);
    await connection.close();
  });

  test('a caller who gives up leaves the link to the others', async () => {
    let links = 0;
    const connection = new Connection(() => {
      links++;
      return new TestLink(([what]) => (what === 'SLOW' ? new Promise(() => {}) : 'answered'));
    });
    const deadline = new Deadline(60_000, AbortSignal.timeout(50));
    await assert.rejects(connection.send(['SLOW'], deadline), Lost);
    deadline.end();
    assert.equal(await within(60_000, (others) => connection.send(['GET'], others)), 'answered');
    assert.equal(links, 1);
    await connection.close();
  });

  for (const [busy, want] of [[false, 2], [true, 1]]) {
    test(`a link on which no answer came in time is ${busy ? 'kept if the process was busy' : 'replaced'}`, async () => {
      let links = 0;
      const connection = new Connection(() => {
        links++;
        return new TestLink(([what]) => (what === 'SLOW' ? new Promise(() => {}) : 'answered'));
      });
      await within(60_000, (deadline) => connection.send(['GET'], deadline)); // so there is a link
      const lost = within(10, (deadline) => connection.send(['SLOW'], deadline));
      for (const begun = performance.now(); busy && performance.now() - begun < 100; );
      await assert.rejects(lost, Lost);
      assert.equal(await within(60_000, (deadline) => connection.send(['GET'], deadline)), 'answered');
      if (busy || links !== 1) assert.equal(links, want); // a busy machine may have made the process busy
      await connection.close();
    });
  }

  test('the time for which the process is busy is not the calls\'', async () => {
    let answer;
    const connection = new Connection(() => new TestLink(() => new Promise((resolve) => (answer = resolve))));
    const first = within(60_000, (deadline) => connection.send(['GET'], deadline));
    while (!answer) await new Promise(setImmediate);
    answer('answered');
    assert.equal(await first, 'answered');
    const second = within(1_000, (deadline) => connection.send(['GET'], deadline));
    for (const begun = performance.now(); performance.now() - begun < 2_000; );
    setImmediate(() => setImmediate(() => answer('answered'))); // node-redis writes a turn of the event loop later
    assert.equal(await second, 'answered');
    await connection.close();
  });

  test('who waits for a link hears why the last one was given up', async () => {
    const connection = new Connection(() => new TestLink(() => Promise.reject(new Refused('READONLY it is a replica'))));
    await assert.rejects(within(60_000, (deadline) => connection.send(['GET'], deadline)), Refused);
    await assert.rejects(within(1, (deadline) => connection.send(['GET'], deadline)), (error) => error instanceof Unsent && /READONLY/.test(error.message));
    await connection.close();
  });

  test('a setting that no link can have is told, and nothing was sent', async () => {
    const connection = new Connection(() => {
      throw new Error('no such setting');
    });
    await assert.rejects(within(200, (deadline) => connection.send(['GET'], deadline)), (error) => error instanceof Unsent && error.message.includes('no such setting'));
    await connection.close();
  });
});

describe('a cluster', () => {
  const all = (address) => Array(16_384).fill(address);
  const key = Buffer.from('priority:{acme}:count');

  /** Makes a cluster whose servers answer as answer says, which is given an address and a command. */
  function clusterOf(ask, answer) {
    class ToAddress extends TestLink {
      constructor({ address }, place) {
        super((args) => answer(place ? `${place.host}:${place.port}` : address, args));
      }
    }
    return new Cluster(ask, ToAddress);
  }

  test('asks the masters that it knows, and the ones that the caller has named only if they do not tell', async () => {
    const asked = [];
    const ask = async (known) => {
      asked.push([...known.keys()]);
      if (asked.length === 2) throw new Error('they are down');
      const address = asked.length === 1 ? 'a:1' : 'b:1';
      return { addressOf: all(address), masters: new Map([[address, { address }]]) };
    };
    const cluster = clusterOf(ask, (address) => (address === 'a:1' ? Promise.reject(new Refused('MOVED 1 b:1')) : 'answered'));
    assert.equal(await within(60_000, (deadline) => cluster.send(['GET'], deadline, key)), 'answered');
    assert.deepEqual(asked, [[], ['a:1'], []]);
    await cluster.close();
  });

  test('is not asked all the time while one of its servers is down', async () => {
    let asked = 0;
    const ask = async () => {
      asked++;
      return { addressOf: all('a:1'), masters: new Map([['a:1', { address: 'a:1' }]]) };
    };
    const cluster = clusterOf(ask, () => Promise.reject(new Lost('it is down')));
    const begun = performance.now();
    while (asked < 7) {
      await assert.rejects(within(60_000, (deadline) => cluster.send(['GET'], deadline, key)), Lost);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    const least = 25 + 50 + 100 + 200 + 400 + 800; // half of each pause
    assert.ok(performance.now() - begun >= least, `asked ${asked} times in ${performance.now() - begun} ms`);
    await cluster.close();
  });

  test('a slot that moves to a server without slots is followed at once, and asked about no more', async () => {
    let asked = 0;
    const ask = async () => {
      asked++;
      return { addressOf: all('a:1'), masters: new Map([['a:1', { address: 'a:1' }]]) };
    };
    const cluster = clusterOf(ask, (address) => (address === 'a:1' ? Promise.reject(new Refused('ASK 1 b:1')) : 'answered'));
    for (let i = 0; i < 20; i++) {
      assert.equal(await within(60_000, (deadline) => cluster.send(['GET'], deadline, key)), 'answered');
    }
    assert.equal(asked, 1);
    await cluster.close();
  });

  test('is told of servers without names', async () => {
    const places = [];
    const moves = { '::1:7000': 'MOVED 1 ::1:7001', '::1:7001': 'MOVED 1 :7002' };
    const ask = async () => ({ addressOf: all('::1:7000'), masters: new Map([['::1:7000', { address: '::1:7000' }]]) });
    const cluster = clusterOf(ask, (address) => {
      places.push(address);
      return moves[address] ? Promise.reject(new Refused(moves[address])) : 'answered';
    });
    assert.equal(await within(60_000, (deadline) => cluster.send(['GET'], deadline, key)), 'answered');
    assert.deepEqual(places, ['::1:7000', '::1:7001', '::1:7002']);
    await cluster.close();
  });
});
