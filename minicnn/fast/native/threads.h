/* Work shared out among threads of C, for layers that take less time than Python needs to wake up a thread of its own. */

#ifndef THREADS_H
#define THREADS_H

/* One item of the work, done by thread 0 (the caller), 1, 2, ... */
typedef void piece(const void *context, long item, long thread);

/* work(context, item, thread) for the items 0 .. items - 1, in any order, by at most so many threads. */
void share_out(long threads, long items, piece *work, const void *context);

#endif
