'use strict';

// Ascending arrays of numbers.

/** Returns how many of the numbers are less than n. */
function placeOf(numbers, n) {
  let low = 0;
  for (let high = numbers.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < n) low = middle + 1;
    else high = middle;
  }
  return low;
}

const insert = (numbers, n) => numbers.splice(placeOf(numbers, n), 0, n);

const remove = (numbers, n) => numbers.splice(placeOf(numbers, n), 1);

module.exports = { placeOf, insert, remove };
