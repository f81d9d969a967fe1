/* Work shared out among threads; threads.h says what is done.

       caller    opens the job        takes items     closes the job    waits for those who joined
       helper            joins, if it is open    takes items    leaves

   A helper that comes too late finds the job closed, and the caller has done all of it; so nobody ever waits for a helper
   to wake up.  After a job a helper keeps looking for the next one for a while, because the next layer is near, and only
   then goes to sleep.

   All atomic operations are sequentially consistent.  That matters in two places, where each of two threads writes one
   number and then reads the other's, so that at least one of them must see what the other wrote: a helper says that it is
   `helping` before it asks whether the job is `open`, and the caller closes it before it asks who is helping; a helper
   says that it is `sleeping` before it asks for the `number` of the job, and the caller counts that up before it asks who
   is asleep. */

#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#define PATIENCE 300000 /* nanoseconds that a helper looks for the next job */
#define MOST_HELPERS 255

static struct {
    piece *work;
    const void *context;
    long items;
} job; /* written while no job is open and nobody is helping */

static atomic_long number, next, open, helping, sleeping; /* open: how many threads may work on the job; 0: closed */
static pthread_mutex_t calling = PTHREAD_MUTEX_INITIALIZER; /* held from opening to closing: one job at a time */
static pthread_mutex_t bed = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t morning = PTHREAD_COND_INITIALIZER;
static long helpers; /* that exist; guarded by `calling` */

static void take_items(long thread) {
    for (long item; (item = atomic_fetch_add(&next, 1)) < job.items;) job.work(job.context, item, thread);
}

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* Until there is a job after the one `seen`; returns its number. */
static long next_job(long seen) {
    for (long end = now() + PATIENCE; now() < end;)
        for (int i = 0; i < 64; i++, pause_briefly())
            if (number != seen) return number;
    pthread_mutex_lock(&bed);
    sleeping++;
    while (number == seen) pthread_cond_wait(&morning, &bed);
    sleeping--;
    pthread_mutex_unlock(&bed);
    return number;
}

static void *help(void *thread) {
    for (long seen = 0;;) {
        seen = next_job(seen);
        helping++;
        if ((intptr_t)thread < open) take_items((intptr_t)thread);
        helping--;
    }
    return 0;
}

/* In a forked child there is one thread, and what the others were doing will never end. */
static void after_fork(void) {
    helpers = 0;
    open = helping = sleeping = 0;
    pthread_mutex_init(&calling, 0);
    pthread_mutex_init(&bed, 0);
    pthread_cond_init(&morning, 0);
}

static void start_helpers(long count) {
    static int prepared;
    if (!prepared) prepared = pthread_atfork(0, 0, after_fork) == 0;
    sigset_t all, before; /* signals are for the threads of Python */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (pthread_t id; helpers < count && helpers < MOST_HELPERS; helpers++) {
        if (pthread_create(&id, 0, help, (void *)(intptr_t)(helpers + 1))) break; /* then there are fewer */
        pthread_detach(id);
    }
    pthread_sigmask(SIG_SETMASK, &before, 0);
}

void share_out(long threads, long items, piece *work, const void *context) {
    threads = threads < items ? threads : items;
    if (threads <= 1 || pthread_mutex_trylock(&calling)) { /* or somebody else's job has the helpers */
        for (long item = 0; item < items; item++) work(context, item, 0);
        return;
    }
    if (helpers < threads - 1) start_helpers(threads - 1);
    job.work = work;
    job.context = context;
    job.items = items;
    next = 0;
    open = threads;
    number++;
    if (sleeping) {
        pthread_mutex_lock(&bed);
        pthread_cond_broadcast(&morning);
        pthread_mutex_unlock(&bed);
    }
    take_items(0);
    open = 0;
    for (long tries = 0; helping; tries++)
        if (tries % 1024 == 1023)
            sched_yield(); /* there may be more threads than cores */
        else
            pause_briefly();
    pthread_mutex_unlock(&calling);
}
