import { createHash } from 'node:crypto';

/** Returns a script with its digest, by which Redis knows it. */
export const scriptOf = (text) => ({ text, digest: createHash('sha1').update(text).digest('hex') });
