// The scripts' texts, which are copies of the module's.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

const names = ['next', 'submit', 'done', 'peek', 'reset', 'follow', 'report'];

export const texts = Object.fromEntries(names.map((name) => [name, readFileSync(new URL(`../lua/${name}.lua`, import.meta.url), 'utf8')]));

/** Returns a script with its digest, by which Redis knows it. */
export const scriptOf = (text) => ({ text, digest: createHash('sha1').update(text).digest('hex') });
