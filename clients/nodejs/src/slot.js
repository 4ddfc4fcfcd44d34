/**
 * Returns the slot of one of this package's keys in a Redis Cluster: the CRC-16/XMODEM of
 * what stands between its first braces.
 */
export function slotOf(key) {
  const begin = key.indexOf('{') + 1;
  const end = key.indexOf('}', begin);
  let crc = 0;
  for (const byte of key.subarray(begin, end)) {
    let x = (crc >> 8) ^ byte;
    x ^= x >> 4;
    crc = ((crc << 8) ^ (x << 12) ^ (x << 5) ^ x) & 0xffff;
  }
  return crc % 16_384;
}
