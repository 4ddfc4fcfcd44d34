"""The same in Python."""

import sys

import redis

import docpriority

host, port = sys.argv[1].split(":")
store = docpriority.Store(redis.Redis(host=host, port=int(port)), join=True, name=sys.argv[2])
for line in sys.stdin:
    what, customer, document = line.split()
    if what == "done":
        store.done(customer, document)
        print("ok", flush=True)
    else:
        print(store.submit(customer, document).level, flush=True)
store.close()
