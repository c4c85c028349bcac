/* Measures the current speed of the CPU and of the memory.

   chase MS KB... measures for MS milliseconds with each number KB, and prints a line "KB ns" for it. If KB is 0, ns
   is the time of an addition that depends on the result of the previous addition: one clock cycle. If KB is a power
   of two, ns is the latency of a load in KB kilobytes of memory: each cache line holds the address of the next line
   to load. The order of the lines is a full cycle of a linear congruential generator: no prefetcher predicts it, and
   one sequential pass writes it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINE = 64, STEPS_BETWEEN_CLOCKS = 4096, WARM_LOADS = 1 << 14 };
static const uint64_t MULTIPLIER = 0x9E3779B97F4A7C15u & ~(uint64_t)2; /* 1 modulo 4: the cycle visits all lines */

#if defined(__x86_64__)
#define ADD "add %1, %0\n"
#elif defined(__aarch64__)
#define ADD "add %0, %0, %1\n"
#else
#error "one addition of this CPU is not known"
#endif
#define ADD_16 ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD ADD

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); /* excludes the time of other processes on this CPU */
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static void lay_out(char *memory, uint64_t lines) {
    for (uint64_t line = 0; line < lines; line++) {
        uint64_t next = (MULTIPLIER * line + 12345) & (lines - 1);
        *(void **)(memory + line * LINE) = memory + next * LINE;
    }
}

static void *walk(void *at, uint64_t loads) {
    while (loads--)
        at = *(void *volatile *)at;
    return at;
}

/* Adds a register, not a constant: newer CPUs of Intel execute several additions of constants in one cycle. */
static uint64_t add(uint64_t sum, uint64_t additions) {
    for (uint64_t one = 1; additions; additions -= 16)
        __asm__ volatile(ADD_16 : "+r"(sum) : "r"(one));
    return sum;
}

int main(int count, char **words) {
    if (count < 3)
        return fprintf(stderr, "usage: chase MS KB...\n"), 2;
    double span_ns = atof(words[1]) * 1e6;
    for (int word = 2; word < count; word++) {
        uint64_t kb = strtoull(words[word], NULL, 10), lines = kb * 1024 / LINE, sum = 0, steps = 0;
        char *memory = kb & (kb - 1) ? NULL : aligned_alloc(4096, kb * 1024 < 4096 ? 4096 : kb * 1024);
        if (!memory)
            return fprintf(stderr, "chase: no memory of %s KB, or not a power of two\n", words[word]), 1;
        lay_out(memory, lines);
        void *at = kb ? walk(memory, lines < WARM_LOADS ? lines : WARM_LOADS) : memory;
        double from_ns = now_ns(), used_ns;
        do {
            at = kb ? walk(at, STEPS_BETWEEN_CLOCKS) : at;
            sum = kb ? sum : add(sum, STEPS_BETWEEN_CLOCKS);
            steps += STEPS_BETWEEN_CLOCKS;
        } while ((used_ns = now_ns() - from_ns) < span_ns);
        printf("%llu %.4f\n", (unsigned long long)kb, used_ns / steps);
        if (!at)
            return 1;
        free(memory);
    }
    return 0;
}
