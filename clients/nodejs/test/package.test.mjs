// The package as users get it: FOLDER is a folder in which npm has installed it.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import * as exported from 'docpriority';

const here = fileURLToPath(new URL('..', import.meta.url));
const user = process.env.FOLDER;

async function run(cwd, command, ...args) {
  try {
    return (await promisify(execFile)(command, args, { cwd })).stdout;
  } catch (error) {
    throw new Error(`${command} ${args.join(' ')}: ${error.stdout}${error.stderr}`, { cause: error });
  }
}

// The programs of README.md load it by import.
const program = `const { join, keysOf } = require('docpriority');
const { MemoryStore } = require('docpriority/testing');
const { doneAfter } = require('docpriority/bullmq');
new MemoryStore().nextN('acme', 4).then((all) => console.log(String(keysOf('acme').count), all.map(({ level }) => level).join(), typeof join, typeof doneAfter));`;

describe('the package', { skip: user || process.env.CI ? false : 'FOLDER names no folder: go test ./clients/nodejs makes one' }, () => {
  test('it has the sources and the types, and no tests', async () => {
    const files = await readdir(join(user, 'node_modules/docpriority'), { recursive: true });
    const sources = (await readdir(join(here, 'src'))).map((file) => `src/${file}`);
    assert.deepEqual(files.sort(), ['LICENSE', 'README.md', 'package.json', 'src', ...sources].sort());
  });

  test('require loads it', async () => {
    await writeFile(join(user, 'program.cjs'), program);
    assert.equal(await run(user, process.execPath, 'program.cjs'), 'priority:{acme}:count 1,1,1,2 function function\n');
  });

  test('TypeScript compiles a program', async () => {
    const compilerOptions = { strict: true, noEmit: true, target: 'es2022', module: 'nodenext', types: ['node'], exactOptionalPropertyTypes: true, skipLibCheck: true };
    await cp(join(here, 'test/types.ts'), join(user, 'types.mts'));
    await writeFile(join(user, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['types.mts'] }));
    await run(user, process.execPath, join(user, 'node_modules/typescript/bin/tsc'), '-p', '.');
  });

});

test('what is exported is declared, and the other way round', async () => {
  const text = await readFile(join(here, 'src/index.d.ts'), 'utf8');
  const declared = text.matchAll(/^export (?:class|function) (\w+)/gm);
  assert.deepEqual([...declared, [, 'default']].map(([, name]) => name).sort(), Object.keys(exported).sort());
  const [, body] = /^export class Store \{$([^]*?)^\}$/m.exec(text);
  const methods = [...body.matchAll(/^ {2}(?:readonly )?(\w+)[(:]/gm)].map(([, name]) => name);
  assert.deepEqual(methods.sort(), Object.getOwnPropertyNames(exported.Store.prototype).sort());
});
