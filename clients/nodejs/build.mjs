// Writes dist: the modules of src for CommonJS, with types of their own. npm runs it when it packs.

import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import ts from 'typescript';

const from = new URL('src/', import.meta.url);
const to = new URL('dist/', import.meta.url);
const compilerOptions = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022 };

await rm(to, { recursive: true, force: true });
await mkdir(to);
await writeFile(new URL('package.json', to), '{ "type": "commonjs" }\n');
for (const file of await readdir(from)) {
  if (file.endsWith('.d.ts')) {
    await cp(new URL(file, from), new URL(file, to));
  } else {
    const { outputText } = ts.transpileModule(await readFile(new URL(file, from), 'utf8'), { compilerOptions });
    await writeFile(new URL(file, to), outputText);
  }
}
