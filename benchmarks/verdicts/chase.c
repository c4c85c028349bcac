/* How far away memory is at the moment: nanoseconds of one load that waits for the one before, by the size walked.

   chase MS KB... walks that many kilobytes (powers of two) for that many milliseconds each and prints a line for
   each: "KB ns". Each cache line holds the address of the next one; the order is a full cycle of a linear congruence,
   which no prefetcher follows and which costs one sequential pass to lay out. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINE = 64, LOADS_BETWEEN_CLOCKS = 4096 };
static const uint64_t MULTIPLIER = 0x9E3779B97F4A7C15u & ~(uint64_t)2; /* 1 modulo 4, so that the cycle is full */

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
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

int main(int count, char **words) {
    if (count < 3)
        return fprintf(stderr, "usage: chase MS KB...\n"), 2;
    double span_ns = atof(words[1]) * 1e6;
    for (int word = 2; word < count; word++) {
        uint64_t kb = strtoull(words[word], NULL, 10), lines = kb * 1024 / LINE;
        char *memory = kb && !(kb & (kb - 1)) ? aligned_alloc(4096, kb * 1024 < 4096 ? 4096 : kb * 1024) : NULL;
        if (!memory)
            return fprintf(stderr, "chase: no memory of %s KB, or not a power of two\n", words[word]), 1;
        lay_out(memory, lines);
        void *at = walk(memory, lines < 1u << 16 ? lines : 1u << 16);
        uint64_t loads = 0;
        double from_ns = now_ns(), used_ns;
        do {
            at = walk(at, LOADS_BETWEEN_CLOCKS);
            loads += LOADS_BETWEEN_CLOCKS;
        } while ((used_ns = now_ns() - from_ns) < span_ns);
        printf("%llu %.3f\n", (unsigned long long)kb, used_ns / loads);
        if (!at)
            return 1;
        free(memory);
    }
    return 0;
}
