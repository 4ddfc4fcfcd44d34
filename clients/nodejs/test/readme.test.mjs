// Runs each program of README.md, on the Redis server that REDIS names.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createClient } from 'redis';

const here = fileURLToPath(new URL('..', import.meta.url));
const readme = await readFile(join(here, 'README.md'), 'utf8');
// A file's name, its text, and what it prints.
const programs = [...readme.matchAll(/`(\w+\.mjs)`[^`]*:\n\n```js\n([^]*?)```\n\nIt prints:\n\n```\n([^]*?)```\n/g)];

test('every program is found', () => {
  assert.equal(programs.length, readme.match(/```js\n/g).length);
});

// A machine that does much else may need more time for a first call than a store gives.
function patient(text) {
  if (text.includes('localhost:1\'')) return text; // where nothing answers
  return text.replace(/( join\((?:redis|createClient\(\{[^}]*\}\)))\)/, '$1, { timeout: 60_000 })').replace(/timeout: \d+,/, 'timeout: 60_000,');
}

describe('README.md', { skip: process.env.REDIS || process.env.CI ? false : 'REDIS names no server: go test ./clients/nodejs starts one' }, () => {
  let folder, redis;
  before(async () => {
    redis = await createClient({ url: `redis://${process.env.REDIS}` }).connect();
    folder = await mkdtemp(join(tmpdir(), 'docpriority-readme-'));
    await symlink(join(here, 'node_modules'), join(folder, 'node_modules'));
    await symlink(here, join(here, 'node_modules', 'docpriority')).catch(() => {}); // it is there from another time
  });
  after(async () => {
    await redis.close();
    await rm(folder, { recursive: true });
  });

  for (const [, name, text, printed] of programs) {
    test(name, async () => {
      await redis.flushAll();
      await writeFile(join(folder, name), patient(text).replaceAll('localhost:6379', process.env.REDIS));
      const { stdout } = await promisify(execFile)(process.execPath, [name], { cwd: folder, timeout: 60_000 });
      assert.equal(stdout, printed);
    });
  }
});
