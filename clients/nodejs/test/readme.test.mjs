// Runs each program of README.md, on the Redis server that REDIS names.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createClient } from 'redis';

const here = fileURLToPath(new URL('..', import.meta.url));
const readme = await readFile(`${here}/README.md`, 'utf8');
// A file's name, its text, and what it prints.
const programs = [...readme.matchAll(/`(\w+\.mjs)`[^`]*:\n\n```js\n([^]*?)```\n\nIt prints:\n\n```\n([^]*?)```\n/g)];

test('every program is found', () => {
  assert.equal(programs.length, readme.match(/```js\n/g).length);
});

// A machine that does much else may need more time for a first call than a store gives.
const patient = (text) => text.replace(/ join\((.*)\);/, ' join($1, { timeout: 60_000 });');

describe('README.md', { skip: process.env.REDIS || process.env.CI ? false : 'REDIS names no server: go test ./clients/nodejs starts one' }, () => {
  for (const [, name, text, printed] of programs) {
    test(name, async () => {
      const redis = await createClient({ url: `redis://${process.env.REDIS}` }).connect();
      await redis.flushAll();
      await redis.close();
      await writeFile(`${here}/${name}`, patient(text).replaceAll('localhost:6379', process.env.REDIS));
      const { stdout } = await promisify(execFile)(process.execPath, [name], { cwd: here, timeout: 60_000 });
      assert.equal(stdout, printed);
    });
  }
});
