'use strict';

// Refuses wrong arguments.

const longestDelay = 31_536_000_000; // milliseconds, of a document

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Map);

// Refuses anything but an object with known names.
function checkNames(object, names, what, example = 'an object') {
  if (!isObject(object)) throw new TypeError(`docpriority: ${what}: ${example} is needed, not ${kindOf(object)}`);
  for (const name of Object.keys(object)) {
    if (!names.includes(name)) throw new TypeError(`docpriority: ${what}: there is no ${JSON.stringify(name)}, only ${names.join(', ')}`);
  }
}

function checkKind(name, value, kind) {
  if (typeof value !== kind) throw new TypeError(`docpriority: ${name} must be a ${kind}, not ${kindOf(value)}`);
}

function checkMethods(what, object, ...names) {
  for (const name of names) if (typeof object?.[name] !== 'function') throw new TypeError(`docpriority: ${what} has no ${name}`);
}

function checkInteger(name, value, min, max) {
  checkKind(name, value, 'number');
  if (!Number.isInteger(value) || value < min || value > max) throw new RangeError(`docpriority: ${name} = ${value} must be a whole number from ${min} to ${max}`);
}

function checkAmount(name, value, zero = '0') {
  const needed = `docpriority: ${name} must be ${zero} or a positive finite number`;
  if (typeof value !== 'number') throw new TypeError(`${needed}, not ${kindOf(value)}`);
  if (!(value >= 0 && value < Infinity)) throw new RangeError(`${needed}, not ${value}`);
}

function checkDelay(delay) {
  checkKind('a delay', delay, 'number');
  if (!(delay >= 0 && delay <= longestDelay)) throw new RangeError(`docpriority: a delay must be 0 to ${longestDelay} milliseconds, a year, not ${delay}`);
}

// Returns a copy of the bytes of a customer or of a document's id.
function bytesOf(value, what) {
  if (!(value instanceof Uint8Array)) {
    if (typeof value !== 'string') throw new TypeError(`docpriority: ${what} must be a string or a Uint8Array, not ${kindOf(value)}`);
    checkWellFormed(what, value);
  }
  const bytes = Buffer.from(value);
  if (bytes.length < 1 || bytes.length > 512) throw new RangeError(`docpriority: ${what} must have 1 to 512 bytes, not ${bytes.length}`);
  return bytes;
}

function checkPrefix(prefix) {
  checkKind('prefix', prefix, 'string');
  checkWellFormed('prefix', prefix);
  if (prefix === '' || /[{}]/.test(prefix)) throw new RangeError(`docpriority: prefix ${JSON.stringify(prefix)} is empty or has a brace in it`);
}

function checkWellFormed(what, text) {
  if (!text.isWellFormed()) throw new RangeError(`docpriority: ${what} has a lone surrogate: ${JSON.stringify(text.slice(0, 80))}`);
}

const kindOf = (value) => value?.constructor?.name ?? String(value);

module.exports = { isObject, checkNames, checkKind, checkMethods, checkInteger, checkAmount, checkDelay, longestDelay, bytesOf, checkPrefix, kindOf };
