// The package as users get it: from a clone, in an empty folder, without a build.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import * as exported from 'docpriority';

const here = fileURLToPath(new URL('..', import.meta.url));

async function run(cwd, command, ...args) {
  try {
    return (await promisify(execFile)(command, args, { cwd })).stdout;
  } catch (error) {
    throw new Error(`${command} ${args.join(' ')}: ${error.stdout}${error.stderr}`, { cause: error });
  }
}
const npm = (folder, ...args) => run(folder, 'npm', 'install', '--ignore-scripts', '--no-audit', '--no-fund', '--fetch-retries=5', ...args);

// What a program of a user's does with it, for each way to load it.
const use = `new MemoryStore().nextN('acme', 4).then((all) => console.log(keysOf('acme').count.toString(), all.map(({ level }) => level).join(), typeof join, typeof doneAfter));`;
const printed = 'priority:{acme}:count 1,1,1,2 function function\n';
const imports = `import { join, keysOf } from 'docpriority';\nimport { MemoryStore } from 'docpriority/testing';\nimport { doneAfter } from 'docpriority/bullmq';\n${use}`;
const requires = `const { join, keysOf } = require('docpriority');\nconst { MemoryStore } = require('docpriority/testing');\nconst { doneAfter } = require('docpriority/bullmq');\n${use}`;
const tested = `const { MemoryStore } = require('docpriority/testing');\ntest('a level', async () => expect((await new MemoryStore().next('acme')).level).toBe(1));\n`;

describe('in an empty folder', () => {
  const folders = [];
  const folder = async () => folders[folders.push(await mkdtemp(join(tmpdir(), 'docpriority-user-'))) - 1];
  after(() => Promise.all(folders.map((one) => rm(one, { recursive: true }))));

  async function loads(user) {
    await writeFile(join(user, 'one.mjs'), imports);
    await writeFile(join(user, 'other.cjs'), requires);
    for (const program of ['one.mjs', 'other.cjs']) assert.equal(await run(user, process.execPath, program), printed, program);
  }

  test('npm install of the clone: import and require load it, and nothing else is needed', async () => {
    const user = await folder();
    await npm(user, here);
    await loads(user);
  });

  describe('npm install of what npm pack makes', () => {
    let user;
    before(async () => {
      user = await folder();
      const [{ filename }] = JSON.parse(await run(here, 'npm', 'pack', '--json', '--silent', '--pack-destination', user));
      await npm(user, `./${filename}`, 'jest@30.2.0', 'esbuild@0.25.11', 'typescript@5.9.3', '@types/node@20', 'redis@6', 'ioredis@6');
    });

    test('it has the sources and the types, and no tests', async () => {
      const files = await readdir(join(user, 'node_modules/docpriority'), { recursive: true });
      const sources = (await readdir(join(here, 'src'))).map((file) => `src/${file}`);
      assert.deepEqual(files.sort(), ['LICENSE', 'README.md', 'package.json', 'src', ...sources].sort());
    });

    test('import and require load it', () => loads(user));

    test('Jest loads it', async () => {
      await writeFile(join(user, 'level.test.js'), tested);
      await run(user, process.execPath, 'node_modules/jest/bin/jest.js', '--testMatch', '**/level.test.js');
    });

    test('esbuild bundles it', async () => {
      await run(user, join(user, 'node_modules/.bin/esbuild'), 'one.mjs', '--bundle', '--platform=node', '--outfile=bundle/one.cjs');
      const alone = await folder();
      await cp(join(user, 'bundle'), alone, { recursive: true });
      assert.equal(await run(alone, process.execPath, 'one.cjs'), printed);
    });

    for (const [module, moduleResolution, type] of [['commonjs', 'node10', 'commonjs'], ['nodenext', 'nodenext', 'module']]) {
      test(`TypeScript compiles a program, ${module}`, async () => {
        const compilerOptions = { strict: true, noEmit: true, target: 'es2022', module, moduleResolution, types: ['node'], exactOptionalPropertyTypes: true, skipLibCheck: true };
        const project = join(user, module);
        await cp(join(here, 'test/types.ts'), join(project, 'types.ts'));
        await writeFile(join(project, 'package.json'), JSON.stringify({ type }));
        await writeFile(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['types.ts'] }));
        await run(project, process.execPath, join(user, 'node_modules/typescript/bin/tsc'), '-p', '.');
      });
    }
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
