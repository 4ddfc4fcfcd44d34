// The package as its users load it, and as TypeScript sees it.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import * as exported from 'docpriority';

const here = fileURLToPath(new URL('..', import.meta.url));

async function run(command, ...args) {
  try {
    return (await promisify(execFile)(command, args, { cwd: here })).stdout;
  } catch (error) {
    throw new Error(`${command} ${args.join(' ')}: ${error.stdout}${error.stderr}`, { cause: error });
  }
}

test('it has the sources and the types, and no tests', async () => {
  const [{ files }] = JSON.parse(await run('npm', 'pack', '--dry-run', '--json'));
  const sources = (await readdir(`${here}/src`)).map((file) => `src/${file}`);
  assert.deepEqual(files.map(({ path }) => path).sort(), ['LICENSE', 'README.md', 'package.json', ...sources].sort());
});

test('require loads what import does', () => {
  const required = createRequire(import.meta.url)('docpriority');
  // Since Node.js 23 import adds the last name, the whole module, to a module of require.
  assert.deepEqual(Object.keys(exported).filter((name) => !['default', 'module.exports'].includes(name)).sort(), Object.keys(required).sort());
});

test('TypeScript compiles a program', async () => {
  const compilerOptions = { strict: true, noEmit: true, target: 'es2022', module: 'nodenext', types: ['node'], exactOptionalPropertyTypes: true, skipLibCheck: true };
  await writeFile(`${here}/tsconfig.json`, JSON.stringify({ compilerOptions, files: ['test/types.mts'] }));
  await run(process.execPath, 'node_modules/typescript/bin/tsc', '-p', '.');
});

test('what is exported is declared, and the other way round', async () => {
  const text = await readFile(`${here}/src/index.d.ts`, 'utf8');
  const declared = text.matchAll(/^export (?:class|function) (\w+)/gm);
  assert.deepEqual([...declared].map(([, name]) => name).sort(), Object.keys(exported.default).sort());
  const [, body] = /^export class Store \{$([^]*?)^\}$/m.exec(text);
  const methods = [...body.matchAll(/^ {2}(?:readonly )?(\w+)[(:]/gm)].map(([, name]) => name);
  assert.deepEqual(methods.sort(), Object.getOwnPropertyNames(exported.Store.prototype).sort());
});
