/* Preloaded into a program: from now on its wall clock is set back by an hour each second. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

enum { HOUR_S = 3600 };

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*next)(clockid_t, struct timespec *);
    struct timespec now;
    if (!next)
        next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int done = next(clock, time);
    const char *from_s = getenv("SET_BACK_FROM_S");
    if (clock == CLOCK_REALTIME && from_s && !next(CLOCK_MONOTONIC, &now))
        time->tv_sec -= HOUR_S * (now.tv_sec - atol(from_s));
    return done;
}
