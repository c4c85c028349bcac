/* Preloaded into a server: after each packet that it reads from a client, burns the same number of loops, which is a
   slowdown of known size, or walks the same kilobytes, which is a footprint of known size: one load for each cache
   line, each waiting for the one before, in an order that no prefetcher follows. A header of four bytes is read by
   itself and is no packet. At the end it writes into the file named by RQPS_BURN_REPORT, with the process id behind,
   how long a loop takes and how long all loops of a packet, or its walk, took where they were done. A server that does
   neither reads the clock as often: reading it, and waiting for what the CPU had begun before it, cost both alike. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include <unistd.h>

enum { LINE = 64, HEADER = 4, TRIES = 15, LOOPS_OF_A_TRY = 200000, INTERRUPTED_NS = 100000 };

static unsigned long loops, walked_kb;
static char *walked;
static atomic_ulong packets, all_ns;
static double ns_of_a_loop;
static ssize_t (*next_recv)(int, void *, size_t, int);

static void burn(unsigned long left) {
  for (; left; left--) __asm__ volatile("" : "+r"(left));
}

/* Each line of the walked memory, a power of two, holds the address of the next one, as in chase.c. */
static void lay_out(void) {
  unsigned long lines = walked_kb * 1024 / LINE, multiplier = 0x9E3779B97F4A7C15ul & ~2ul;
  walked = lines ? aligned_alloc(4096, (walked_kb * 1024 + 4095) / 4096 * 4096) : NULL;
  for (unsigned long line = 0; walked && line < lines; line++)
    *(void **)(walked + line * LINE) = walked + ((multiplier * line + 12345) & (lines - 1)) * LINE;
}

static void walk(unsigned long left) {
  for (void *at = walked; left; left--) at = *(void *volatile *)at;
}

static double now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

/* The shortest of several tries: what disturbs makes a loop longer, never shorter. */
double rqps_ns_of_a_loop(void) {
  double best = 1e9;
  for (int i = 0; i < TRIES; i++) {
    double from = now_ns(CLOCK_THREAD_CPUTIME_ID);
    burn(LOOPS_OF_A_TRY);
    double each = (now_ns(CLOCK_THREAD_CPUTIME_ID) - from) / LOOPS_OF_A_TRY;
    if (each < best) best = each;
  }
  return best;
}

__attribute__((constructor)) static void begin(void) {
  const char *asked = getenv("RQPS_BURN_LOOPS"), *kb = getenv("RQPS_WALK_KB");
  next_recv = (ssize_t (*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
  loops = asked ? strtoul(asked, NULL, 10) : 0;
  walked_kb = kb ? strtoul(kb, NULL, 10) : 0;
  lay_out();
  ns_of_a_loop = rqps_ns_of_a_loop();
}

ssize_t recv(int socket, void *buffer, size_t length, int flags) {
  ssize_t got = next_recv(socket, buffer, length, flags);
  if (got > 0 && length > HEADER) {
    double from = now_ns(CLOCK_MONOTONIC);
    burn(loops);
    if (walked) walk(walked_kb * 1024 / LINE);
    double took = now_ns(CLOCK_MONOTONIC) - from;
    if (took < INTERRUPTED_NS) {
      atomic_fetch_add_explicit(&packets, 1, memory_order_relaxed);
      atomic_fetch_add_explicit(&all_ns, (unsigned long)took, memory_order_relaxed);
    }
  }
  return got;
}

__attribute__((destructor)) static void end(void) {
  const char *place = getenv("RQPS_BURN_REPORT");
  char name[4096];
  if (!place || !packets) return;
  snprintf(name, sizeof name, "%s.%d", place, (int)getpid());
  FILE *report = fopen(name, "w");
  if (!report) return;
  fprintf(report, "{\"loops\": %lu, \"walked_kb\": %lu, \"ns_of_a_loop\": %.5f, ", loops, walked_kb, ns_of_a_loop);
  fprintf(report, "\"packets\": %lu, \"ns_of_a_packet\": %.3f}\n", (unsigned long)packets, (double)all_ns / packets);
  fclose(report);
}
