"""persist-queue: a put a record, in the queue of files with its default."""
import sys

import persistqueue

queue = persistqueue.Queue(sys.argv[2] + "/queue")
if sys.argv[1] == "write":
    for i in range(30):
        queue.put(i)
        print(i, flush=True)
else:
    there = [queue.get(block=False) for _ in range(queue.qsize())]
    for line in open(sys.argv[3]):
        if int(line) not in there:
            sys.exit(f"record {line.strip()} is gone")
