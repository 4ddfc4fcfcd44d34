/** The version of this package, which release/prepare writes. */
export const version = '0.1.0';
