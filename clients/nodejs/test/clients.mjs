// The client libraries, oldest and newest, as callers make them.

import { Cluster, Redis } from 'ioredis';
import Redis5 from 'ioredis5';
import { createClient, createCluster } from 'redis';
import { createClient as createClient5, createCluster as createCluster5 } from 'redis5';

export const clients = {
  'node-redis 6': (url, options) => createClient({ url, ...options }),
  'node-redis 5': (url, options) => createClient5({ url, ...options }),
  'ioredis 6': (url, options) => new Redis(url, { lazyConnect: true, ...options }),
  'ioredis 5': (url, options) => new Redis5(url, { lazyConnect: true, ...options }),
};

// Tests of what does not depend on the version take the newest.
export const newest = (all) => Object.entries(all).filter(([kind]) => kind.endsWith(' 6'));

export const clusters = {
  'node-redis 6': (urls, settings) => createCluster({ rootNodes: urls.map((url) => ({ url })), defaults: settings }),
  'node-redis 5': (urls, settings) => createCluster5({ rootNodes: urls.map((url) => ({ url })), defaults: settings }),
  'ioredis 6': (urls, settings) => new Cluster(urls, { lazyConnect: true, redisOptions: settings }),
  'ioredis 5': (urls, settings) => new Redis5.Cluster(urls, { lazyConnect: true, redisOptions: settings }),
};

const ioredisSettings = {
  keyPrefix: 'mine:', stringNumbers: true, enableAutoPipelining: true, maxRetriesPerRequest: null,
  autoResendUnfulfilledCommands: true, retryStrategy: () => 1, reconnectOnError: () => 2, commandTimeout: 1,
};

// Settings of a caller that would change what a count is, or how often it is counted.
export const oddSettings = {
  'node-redis 6': { RESP: 3, commandOptions: { typeMapping: { 58: String } }, pingInterval: 10_000, emitInvalidate: true },
  'node-redis 5': { RESP: 3, commandOptions: { typeMapping: { 58: String } }, disableOfflineQueue: true },
  'ioredis 6': { ...ioredisSettings, protocol: 3, replyMapping: 'resp3' },
  'ioredis 5': { ...ioredisSettings, readOnly: true },
};
