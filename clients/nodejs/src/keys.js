'use strict';

// The keys of a customer, byte for byte as in every other language.

const { bytesOf, checkPrefix } = require('./check.js');

const defaultPrefix = 'priority';

// A Redis Cluster places a key by the text between its braces, so a closing brace in it is escaped.
function keysOf(customer, prefix = defaultPrefix) {
  const bytes = bytesOf(customer, 'a customer');
  checkPrefix(prefix);
  // In Latin-1 each byte is one character, so that no byte is changed.
  const escaped = bytes.latin1Slice().replaceAll('%', '%25').replaceAll('}', '%7D');
  const begin = `${Buffer.from(prefix).latin1Slice()}:{${escaped}}:`;
  const key = (end) => Buffer.from(begin + end, 'latin1');
  return { count: key('count'), pending: key('pending'), override: key('override') };
}

module.exports = { defaultPrefix, keysOf };
