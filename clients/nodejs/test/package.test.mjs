// The package as users get it.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import * as exported from 'docpriority';

const here = fileURLToPath(new URL('..', import.meta.url));
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');

async function run(cwd, command, ...args) {
  try {
    return (await promisify(execFile)(command, args, { cwd })).stdout;
  } catch (error) {
    throw new Error(`${command} ${args.join(' ')}: ${error.stdout}${error.stderr}`, { cause: error });
  }
}

describe('the tarball', () => {
  let user; // a folder with the package and nothing else of ours
  before(async () => {
    user = await mkdtemp(join(tmpdir(), 'docpriority-user-'));
    const [{ filename }] = JSON.parse(await run(here, 'npm', 'pack', '--json', '--silent', '--pack-destination', user));
    await run(user, 'tar', 'xf', filename);
    await mkdir(join(user, 'node_modules'));
    for (const name of await readdir(join(here, 'node_modules'))) {
      if (!name.startsWith('.') && name !== 'docpriority') await symlink(join(here, 'node_modules', name), join(user, 'node_modules', name));
    }
    await cp(join(user, 'package'), join(user, 'node_modules', 'docpriority'), { recursive: true });
  });
  after(() => rm(user, { recursive: true }));

  test('has the sources and the types, for CommonJS too, and no tests', async () => {
    const files = (await readdir(join(user, 'package'), { recursive: true })).sort();
    const sources = await readdir(join(here, 'src'));
    const built = ['src', 'dist'].flatMap((folder) => [folder, ...sources.map((file) => `${folder}/${file}`)]);
    assert.deepEqual(files, ['LICENSE', 'README.md', 'package.json', 'dist/package.json', ...built].sort());
  });

  test('works without a client library beside it', async () => {
    const program = "import('docpriority').then(({ keysOf }) => console.log(String(keysOf('acme').count), Object.keys(require('docpriority')).sort().join()))";
    const alone = join(user, 'alone');
    await mkdir(join(alone, 'node_modules'), { recursive: true });
    await cp(join(user, 'package'), join(alone, 'node_modules', 'docpriority'), { recursive: true });
    assert.equal(await run(alone, process.execPath, '-e', program), `priority:{acme}:count ${Object.keys(exported).join()}\n`);
  });

  for (const [module, moduleResolution] of [['commonjs', 'node10'], ['nodenext', 'nodenext'], ['esnext', 'bundler']]) {
    test(`a user's TypeScript compiles, ${module}`, async () => {
      const compilerOptions = { strict: true, noEmit: true, target: 'es2022', module, moduleResolution, types: ['node'], exactOptionalPropertyTypes: true, skipLibCheck: true };
      await writeFile(join(user, 'package.json'), JSON.stringify({ type: 'module' }));
      await writeFile(join(user, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['types.ts'] }));
      await cp(join(here, 'test', 'types.ts'), join(user, 'types.ts'));
      await run(user, process.execPath, tsc, '-p', '.');
    });
  }
});

test('what is exported is declared, and the other way round', async () => {
  const declared = (await readFile(join(here, 'src/index.d.ts'), 'utf8')).matchAll(/^export (?:class|function) (\w+)/gm);
  assert.deepEqual([...declared].map(([, name]) => name).sort(), Object.keys(exported).sort());
});

test('the methods of a Store are declared, and the other way round', async () => {
  const [, body] = /^export class Store \{$([^]*?)^\}$/m.exec(await readFile(join(here, 'src/index.d.ts'), 'utf8'));
  const declared = [...body.matchAll(/^ {2}(?:readonly )?(\w+)[(:]/gm)].map(([, name]) => name);
  assert.deepEqual(declared.sort(), Object.getOwnPropertyNames(exported.Store.prototype).sort());
});

test('its version is the package\'s', async () => {
  const { version } = JSON.parse(await readFile(join(here, 'package.json'), 'utf8'));
  assert.equal((await import('../src/version.js')).version, version);
});
