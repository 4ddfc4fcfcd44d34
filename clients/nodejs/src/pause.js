// Milliseconds until something is tried again, doubled each time. Half of them are left to
// chance, so that a fleet does not come back in one moment.

/** 50 at first, at most 2000: to connect, or to ask a cluster where its slots are. */
export const pauseToConnect = (tries) => pauseOf(50, tries, 2_000);

/** 4 at first, at most 64: to make a call again. */
export const pauseToRepeat = (tries) => pauseOf(4, tries, 64);

const pauseOf = (first, tries, most) => Math.min(first * 2 ** Math.min(tries, 10), most) * (0.5 + Math.random() / 2);
