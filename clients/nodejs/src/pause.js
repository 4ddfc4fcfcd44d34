/**
 * Returns the milliseconds until the next try to connect: 50, doubled each time, at most
 * 2000. Half of them are left to chance, so that a fleet does not come back in one moment.
 */
export function pauseOf(tries) {
  return Math.min(50 * 2 ** Math.min(tries, 10), 2_000) * (0.5 + Math.random() / 2);
}
