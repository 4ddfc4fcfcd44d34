const patience = 3_000; // milliseconds that a cluster has to tell where its slots are

/** Returns what a promise resolves to, or rejects when that takes too long. */
export async function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('the cluster does not answer')), patience);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
