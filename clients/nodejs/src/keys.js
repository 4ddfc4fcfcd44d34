'use strict';

// The keys of a customer, byte for byte as in every other language.

const defaultPrefix = 'priority';

// Redis Cluster places a key by what stands between its braces, so what would end that
// is escaped.
function keysOf(customer, prefix = defaultPrefix) {
  const bytes = bytesOf(customer, 'a customer');
  checkPrefix(prefix);
  // In Latin-1 each byte is one character, so that no byte is changed.
  const escaped = bytes.latin1Slice().replaceAll('%', '%25').replaceAll('}', '%7D');
  const begin = `${Buffer.from(prefix).latin1Slice()}:{${escaped}}:`;
  const key = (end) => Buffer.from(begin + end, 'latin1');
  return { count: key('count'), pending: key('pending'), usage: key('usage'), override: key('override') };
}

// Returns a copy of the bytes of a customer or of a document's id.
function bytesOf(value, what) {
  if (typeof value === 'string') {
    if (!value.isWellFormed()) throw new RangeError(`docpriority: ${what} has half a character (a lone surrogate)`);
  } else if (!(value instanceof Uint8Array)) {
    throw new TypeError(`docpriority: ${what} is a string or a Uint8Array, not ${value === null ? 'null' : typeof value}`);
  }
  const bytes = Buffer.from(value);
  if (bytes.length < 1 || bytes.length > 512) {
    throw new RangeError(`docpriority: ${what} has 1 to 512 bytes, not ${bytes.length}`);
  }
  return bytes;
}

function checkPrefix(prefix) {
  if (typeof prefix !== 'string') throw new TypeError('docpriority: the prefix is not a string');
  if (!prefix.isWellFormed()) throw new RangeError('docpriority: the prefix has half a character (a lone surrogate)');
  if (prefix === '' || /[{}]/.test(prefix)) {
    throw new RangeError(`docpriority: the prefix ${JSON.stringify(prefix)} is empty or has a brace in it`);
  }
}

module.exports = { defaultPrefix, keysOf, bytesOf, checkPrefix };
