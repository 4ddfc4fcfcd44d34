// The same in Node.js, in the folder of its client.
const { createInterface } = require('node:readline');
const { Redis } = require('ioredis');
const { join } = require(process.cwd());

const [host, port] = process.argv[2].split(':');
const client = new Redis({ host, port: Number(port), maxRetriesPerRequest: null, retryStrategy: () => 200 });
client.on('error', () => {});
const store = join(client, { name: process.argv[3] });

(async () => {
  for await (const line of createInterface({ input: process.stdin })) {
    const [what, customer, document] = line.split(' ');
    if (what === 'done') {
      await store.done(customer, document);
      console.log('ok');
    } else {
      console.log((await store.submit(customer, document)).level);
    }
  }
  await store.close();
  client.disconnect();
})();
