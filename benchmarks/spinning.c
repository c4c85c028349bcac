// Times what InnoDB does between two looks at a lock that is taken: the random numbers by release, and the pause.
// Prints one line each: "ns NAME TIME", "us N TIME" and "range NAME N COUNT", COUNT of 60000 draws with a delay of 6.

#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

enum { CALLS = 1000, TRIES = 20, DELAY = 6, LONGEST = 24, DRAWS = 60000, PAUSES_PER_DELAY = 50 };

static __thread uint64_t counter = 65654363, seed = 1;
static uint64_t table[256][8];

// 5.5 to 8.0.28: as compiled into rw_lock_s_lock_spin of 8.0.12.
__attribute__((noinline)) static uint64_t multiplied(void) {
  counter = 151117737 * counter + 119785373;
  uint64_t next = (119785373 * counter + 126792457) ^ 187678878;
  next = (85689495 * ((next << 20) | (next >> 44)) + 63498502) ^ 143537923;
  return 151117737 * ((next << 20) | (next >> 44)) + 98781234;
}

// 8.0.30 to 8.0.33: eight look-ups, one for each byte of a number that counts up, as compiled into 8.0.33.
__attribute__((noinline)) static uint64_t looked_up(void) {
  uint64_t value = 0, number = seed++;
  for (int byte = 0; byte < 8; byte++) value ^= table[(number >> (8 * byte)) & 255][byte];
  return value;
}

// Later releases, where the CPU has crc32: still called where a thread waits for room in the log.
__attribute__((noinline, target("sse4.2"))) static uint64_t crc32(void) {
  uint64_t value = seed * 0xb5eb6fbadd39bf9b;
  uint64_t high = _mm_crc32_u64(0, value) ^ value, low = _mm_crc32_u64(0, (value >> 32) | (value << 32));
  return seed = (high << 32) | low;
}

// 8.0.34 and later: the time stamp counter.
__attribute__((noinline)) static uint64_t time_stamp(void) { return __rdtsc() >> 5; }

static uint64_t ut_delay(uint64_t delay) {
  uint64_t sum = 0;
  for (uint64_t pause = 0; pause < delay * PAUSES_PER_DELAY; pause++) {
    sum += pause;
    _mm_pause();
  }
  return sum;
}

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

static const struct {
  const char *name;
  uint64_t (*next)(void);
  uint64_t values; // of a delay of 6
} GENERATORS[] = {
    {"multiplied", multiplied, DELAY},
    {"looked_up", looked_up, DELAY + 1},
    {"crc32", crc32, DELAY + 1},
    {"time_stamp_of_8.0.34", time_stamp, DELAY + 1},
    {"time_stamp_of_8.0.44", time_stamp, DELAY},
};

int main(void) {
  volatile uint64_t sink = 0;
  for (int at = 0; at < 256 * 8; at++) table[at / 8][at % 8] = multiplied();
  for (size_t at = 0; at < sizeof GENERATORS / sizeof *GENERATORS; at++) {
    double least = 1e18;
    for (int try = 0; try < TRIES; try++) {
      double began = now_ns();
      for (int call = 0; call < CALLS; call++) sink += GENERATORS[at].next() % GENERATORS[at].values;
      double took = now_ns() - began;
      if (took < least) least = took;
    }
    printf("ns %s %.2f\n", GENERATORS[at].name, least / CALLS);
    unsigned counts[DELAY + 1] = {0};
    for (int draw = 0; draw < DRAWS; draw++) {
      counts[GENERATORS[at].next() % GENERATORS[at].values]++;
      if (draw % 7 == 0) sink += multiplied(); // so that readings of the counter are not evenly apart
    }
    for (int value = 0; value <= DELAY; value++) printf("range %s %d %u\n", GENERATORS[at].name, value, counts[value]);
  }
  for (int delay = 0; delay <= LONGEST; delay += delay < DELAY ? 1 : DELAY) {
    double least = 1e18;
    for (int try = 0; try < TRIES; try++) {
      double began = now_ns();
      for (int call = 0; call < CALLS / 10; call++) sink += ut_delay(delay);
      double took = now_ns() - began;
      if (took < least) least = took;
    }
    printf("us %d %.3f\n", delay, least / (CALLS / 10) / 1000);
  }
  return 0;
}
