'use strict';

// The keys of a customer, byte for byte as in every other language.

const { bytesOf, checkPrefix } = require('./check.js');

const defaultPrefix = 'priority';

/** Returns the keys of a customer. With accounts, those of a user live where the account's do. */
function keysOf(customer, prefix = defaultPrefix, accounts = false) {
  const name = bytesOf(customer, 'a customer').latin1Slice();
  checkPrefix(prefix);
  const account = accounts ? accountOf(name) : undefined;
  const whose = account === undefined ? `{${escaped(name)}}` : `{${escaped(account)}}/${escaped(name.slice(account.length + 1))}`;
  const begin = `${Buffer.from(prefix).latin1Slice()}:${whose}:`;
  const key = (end) => Buffer.from(begin + end, 'latin1');
  return { count: key('count'), pending: key('pending'), override: key('override') };
}

/**
 * Returns the account of a user, undefined for another customer. An account has a name: without
 * one, all its users' keys would be in different places. Names here are bytes in Latin-1, where each
 * byte is one character.
 */
function accountOf(name) {
  const slash = name.indexOf('/');
  return slash > 0 ? name.slice(0, slash) : undefined;
}

// A Redis Cluster places a key by the text between its braces, so a closing brace in it is escaped.
const escaped = (name) => name.replaceAll('%', '%25').replaceAll('}', '%7D');

module.exports = { accountOf, defaultPrefix, keysOf };
