/* The driver is the load generator for a RocksDB library: it runs one step of db_bench through the library's C API.
 *
 * The driver loads the library at run time. So the same driver measures all releases, and results differ only by the
 * library. `driver LIBRARY facts` prints the versions of the compression libraries in the library. The other form is
 * `driver LIBRARY NAME=VALUE...`: the driver opens the database, writes `rqps ready`, waits for a line of input, runs
 * the step and the chores after the step, writes `rqps ended`, and waits for the end of its input. Then it reports:
 * one line of JSON per client and second, RocksDB's statistics as `stats| ...`, and the database's status as
 * `status MOMENT NAME VALUE`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS_PER_DOUBLING 32
#define BUCKETS 1024
#define MOST_THREADS 256
#define MOST_BATCH 1024
#define WRITER "writer"

/* The C API. FUNCTIONS have the same signatures in all releases since 5.18. Functions in LATER may be missing. */
typedef void *Any;
#define FUNCTIONS(F)                                                                                                  \
    F(Any, options_create, (void))                                                                                    \
    F(void, get_options_from_string, (Any, const char *, Any, char **))                                               \
    F(void, options_set_create_if_missing, (Any, unsigned char))                                                      \
    F(void, options_set_memtable_vector_rep, (Any))                                                                   \
    F(void, options_set_block_based_table_factory, (Any, Any))                                                        \
    F(Any, block_based_options_create, (void))                                                                        \
    F(void, block_based_options_set_block_cache, (Any, Any))                                                          \
    F(Any, open, (Any, const char *, char **))                                                                        \
    F(void, close, (Any))                                                                                             \
    F(Any, writeoptions_create, (void))                                                                               \
    F(void, writeoptions_disable_WAL, (Any, int))                                                                     \
    F(Any, readoptions_create, (void))                                                                                \
    F(void, readoptions_set_verify_checksums, (Any, unsigned char))                                                   \
    F(void, put, (Any, Any, const char *, size_t, const char *, size_t, char **))                                     \
    F(Any, get_pinned, (Any, Any, const char *, size_t, char **))                                                     \
    F(const char *, pinnableslice_value, (Any, size_t *))                                                             \
    F(void, pinnableslice_destroy, (Any))                                                                             \
    F(void, multi_get, (Any, Any, size_t, const char *const *, const size_t *, char **, size_t *, char **))           \
    F(Any, create_iterator, (Any, Any))                                                                               \
    F(void, iter_destroy, (Any))                                                                                      \
    F(unsigned char, iter_valid, (Any))                                                                               \
    F(void, iter_seek, (Any, const char *, size_t))                                                                   \
    F(void, iter_next, (Any))                                                                                         \
    F(void, iter_prev, (Any))                                                                                         \
    F(const char *, iter_value, (Any, size_t *))                                                                      \
    F(void, iter_get_error, (Any, char **))                                                                           \
    F(Any, flushoptions_create, (void))                                                                               \
    F(void, flush, (Any, Any, char **))                                                                               \
    F(void, compact_range, (Any, const char *, size_t, const char *, size_t))                                         \
    F(void, set_options, (Any, int, const char *const *, const char *const *, char **))                               \
    F(char *, property_value, (Any, const char *))                                                                    \
    F(int, property_int, (Any, const char *, uint64_t *))                                                             \
    F(Any, livefiles, (Any))                                                                                          \
    F(int, livefiles_count, (Any))                                                                                    \
    F(int, livefiles_level, (Any, int))                                                                               \
    F(size_t, livefiles_size, (Any, int))                                                                             \
    F(void, livefiles_destroy, (Any))                                                                                 \
    F(void, free, (void *))
#define LATER(F) F(Any, cache_create_hyper_clock, (size_t, size_t)) /* since 8.1; entry size 0 = auto, since 8.6 */

#define DECLARE(type, name, arguments) type(*name) arguments;
static struct {
    FUNCTIONS(DECLARE) LATER(DECLARE)
} rocks;

/* Arguments. */
static char **given;

static const char *text(const char *name, const char *otherwise) {
    size_t length = strlen(name);
    for (char **each = given; *each; each++)
        if (!strncmp(*each, name, length) && (*each)[length] == '=') return *each + length + 1;
    return otherwise;
}

static double number(const char *name, double otherwise) {
    const char *value = text(name, NULL);
    return value ? strtod(value, NULL) : otherwise;
}

static void say(const char *format, ...) {
    va_list values;
    va_start(values, format);
    vprintf(format, values);
    va_end(values);
    fflush(stdout);
}

static _Noreturn void fail(const char *what, const char *why) {
    say("error: %s: %s\n", what, why);
    fflush(NULL); /* also the database's LOG, which has details of the error */
    _exit(1);
}

static void check(const char *what, char *error) {
    if (error) fail(what, error);
}

/* Time, randomness, keys and values. */
static uint64_t now_ns(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* In a duet, rqps stops this process (SIGSTOP) while another dbms has the load, and the driver's clock excludes these
 * stops. rqps shares this struct: it writes the total time of the stops, and reads the number of operations done. */
static struct {
    _Atomic int64_t stopped_ns;
    _Atomic uint64_t operations;
} alone, *turns = &alone;

static uint64_t our_ns(void) {
    int64_t stopped, now;
    do {
        stopped = turns->stopped_ns;
        now = (int64_t)now_ns(CLOCK_MONOTONIC);
    } while (stopped != turns->stopped_ns); /* again if the process was stopped between the two reads */
    return (uint64_t)(now - stopped);
}

/* Replaces the C library's function, also for RocksDB, which limits the rate of writes by this clock. If the clock
 * ran during a stop, RocksDB would allow a burst of writes after the stop. */
int gettimeofday(struct timeval *at, void *zone) {
    uint64_t us = (now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC) + our_ns()) / 1000;
    (void)zone;
    at->tv_sec = (time_t)(us / 1000000);
    at->tv_usec = (suseconds_t)(us % 1000000);
    return 0;
}

/* Also replaces the C library's function: RocksDB computes the deadline by the clock above, which is behind the real
 * clock after a stop, so a wait until this deadline would end immediately. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
    uint64_t ns = (uint64_t)until->tv_sec * 1000000000u + (uint64_t)until->tv_nsec;
    ns += now_ns(CLOCK_MONOTONIC) - our_ns();
    struct timespec at = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    return pthread_cond_clockwait(cond, mutex, CLOCK_REALTIME, &at);
}

static uint64_t random_of(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t key_size, value_size;
static uint64_t keys;

static void make_key(char *key, uint64_t value) { /* as in db_bench: eight bytes, big-endian, then the digit 0 */
    for (int i = 7; i >= 0; i--, value >>= 8) key[i] = (char)(value & 0xff);
    memset(key + 8, '0', key_size - 8);
}

#define VALUES_BYTES (1 << 20)
#define PIECE 100
static char *values;

static void make_values(double compression_ratio) { /* as in db_bench: pieces that begin with random text, repeated */
    size_t raw = (size_t)(PIECE * compression_ratio);
    uint64_t state = 301;
    values = malloc(VALUES_BYTES + PIECE + value_size);
    for (size_t at = 0; at < VALUES_BYTES + value_size; at += PIECE)
        for (size_t i = 0; i < PIECE; i++)
            values[at + i] = i < raw || raw == 0 ? (char)(' ' + random_of(&state) % 95) : values[at + i % raw];
}

/* Clients. */
enum kind { FILL, OVERWRITE, READ, MULTIREAD, SEEK, NOTHING };

struct second {
    uint64_t operations, transactions, found;
    double sum_us, max_us;
    uint32_t buckets[BUCKETS];
};

struct client {
    pthread_t thread;
    int id;
    const char *name;
    enum kind kind;
    uint64_t seed, next, last, done; /* next and last: the keys to fill, in order; done: operations so far */
    uint64_t most;                   /* maximum number of operations; 0 means no maximum */
    uint64_t warmup;
    double bytes_per_s;
    size_t value_at;
    struct second *seconds;
    size_t second_count;
    uint64_t cpu_ns, begin_ns, end_ns;
    char key[64];
    char (*batch_keys)[64];
};

static Any db, read_options, write_options;
static int batch, nexts, reverse;
static uint64_t origin_ns, end_ns_due;
static atomic_int clients_left;
static pthread_barrier_t all_of_us;
static volatile unsigned touched;

static void put_one(struct client *me, uint64_t key) {
    char *error = NULL;
    if (me->value_at + value_size > VALUES_BYTES) me->value_at = 0;
    make_key(me->key, key);
    rocks.put(db, write_options, me->key, key_size, values + me->value_at, value_size, &error);
    check("put", error);
    me->value_at += value_size;
}

static uint64_t read_many(struct client *me) {
    static _Thread_local const char *list[MOST_BATCH];
    static _Thread_local size_t sizes[MOST_BATCH], lengths[MOST_BATCH];
    static _Thread_local char *found[MOST_BATCH], *errors[MOST_BATCH];
    uint64_t hits = 0;
    for (int i = 0; i < batch; i++) {
        make_key(me->batch_keys[i], random_of(&me->seed) % keys);
        list[i] = me->batch_keys[i];
        sizes[i] = key_size;
    }
    rocks.multi_get(db, read_options, (size_t)batch, list, sizes, found, lengths, errors);
    for (int i = 0; i < batch; i++) {
        check("multi_get", errors[i]);
        hits += found[i] != NULL;
        if (found[i]) rocks.free(found[i]);
    }
    return hits;
}

static uint64_t seek_one(struct client *me) {
    char copy[4096], *error = NULL;
    size_t length;
    Any iterator = rocks.create_iterator(db, read_options);
    make_key(me->key, random_of(&me->seed) % keys);
    rocks.iter_seek(iterator, me->key, key_size);
    uint64_t hit = rocks.iter_valid(iterator);
    for (int i = 0; i < nexts && rocks.iter_valid(iterator); i++) {
        const char *value = rocks.iter_value(iterator, &length);
        memcpy(copy, value, length < sizeof copy ? length : sizeof copy);
        touched += (unsigned char)copy[0];
        (reverse ? rocks.iter_prev : rocks.iter_next)(iterator);
    }
    rocks.iter_get_error(iterator, &error);
    check("iterator", error);
    rocks.iter_destroy(iterator);
    return hit;
}

/* Executes one operation of a client; returns the number of keys found. Profiles begin with this function, and
 * callgrind counts its instructions. */
__attribute__((noinline, noclone)) uint64_t one_operation(struct client *me) {
    char *error = NULL;
    size_t length;
    switch (me->kind) {
    case FILL:
        put_one(me, me->next++);
        return 1;
    case OVERWRITE:
        put_one(me, random_of(&me->seed) % keys);
        return 1;
    case READ: {
        make_key(me->key, random_of(&me->seed) % keys);
        Any slice = rocks.get_pinned(db, read_options, me->key, key_size, &error);
        check("get", error);
        if (!slice) return 0;
        touched += (unsigned char)*rocks.pinnableslice_value(slice, &length);
        rocks.pinnableslice_destroy(slice);
        return 1;
    }
    case MULTIREAD:
        return read_many(me);
    case SEEK:
        return seek_one(me);
    case NOTHING:
        break;
    }
    return 0;
}

/* An operation of the background writer, whose number of operations depends on the time: callgrind does not count it. */
static __attribute__((noinline, noclone)) uint64_t write_beside(struct client *me) {
    put_one(me, random_of(&me->seed) % keys);
    return 1;
}

static uint64_t operations_of(const struct client *me) { /* each key of a batch counts as one operation */
    return me->kind == MULTIREAD ? (uint64_t)batch : 1;
}

static void record(struct client *me, uint64_t at_ns, double us, uint64_t found) {
    size_t second = (at_ns - origin_ns) / 1000000000u;
    if (second >= me->second_count) {
        size_t had = me->second_count * sizeof *me->seconds, needed = (second + 1) * sizeof *me->seconds;
        /* Not in the heap: growing there would move RocksDB's next blocks, and memcmp's cost depends on addresses. */
        me->seconds = had ? mremap(me->seconds, had, needed, MREMAP_MAYMOVE)
                          : mmap(NULL, needed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (me->seconds == MAP_FAILED) fail("no room for another second", strerror(errno));
        me->second_count = second + 1;
    }
    struct second *row = me->seconds + second;
    int bucket = us > 1 ? (int)(log2(us) * BUCKETS_PER_DOUBLING) : 0;
    row->operations += operations_of(me);
    row->transactions++;
    row->found += found;
    row->sum_us += us;
    if (us > row->max_us) row->max_us = us;
    row->buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

static int filled(const struct client *me) { return me->kind == FILL && me->next == me->last; }

static void load(struct client *me) {
    uint64_t last_ns = our_ns();
    double bytes = (double)(key_size + value_size);
    while (clients_left && (!me->most || me->done < me->most) && !filled(me)) {
        if (me->bytes_per_s > 0) { /* sleeps for 10 ms at a time, roughly as db_bench's rate limiter does */
            double due_s = (double)me->done * bytes / me->bytes_per_s, late_s = (double)(last_ns - origin_ns) / 1e9 - due_s;
            if (late_s < 0) {
                usleep(10000);
                last_ns = our_ns();
                continue;
            }
        }
        uint64_t found = me->bytes_per_s > 0 ? write_beside(me) : one_operation(me), at_ns = our_ns();
        record(me, last_ns, (double)(at_ns - last_ns) / 1e3, found);
        me->done += operations_of(me);
        if (turns != &alone && !me->bytes_per_s)
            atomic_store_explicit(&turns->operations, me->done, memory_order_relaxed);
        last_ns = at_ns;
        if (end_ns_due && at_ns >= end_ns_due) break;
    }
}

static void *client_thread(void *argument) {
    struct client *me = argument;
    pthread_setname_np(pthread_self(), me->name);
    /* The client's thread does its own warm-up, so that the blocks that it reads into the block cache are in the same
     * places of the thread's heap in each run. */
    for (uint64_t done = 0; done < me->warmup; done += operations_of(me)) one_operation(me);
    pthread_barrier_wait(&all_of_us); /* all threads have ended their warm-up: the step can begin */
    pthread_barrier_wait(&all_of_us); /* the step has begun */
    uint64_t cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
    me->begin_ns = our_ns();
    load(me);
    me->end_ns = our_ns();
    if (strcmp(me->name, WRITER)) clients_left--; /* at 0, the writer ends */
    me->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
    pthread_barrier_wait(&all_of_us); /* the step has ended */
    pthread_barrier_wait(&all_of_us); /* the threads' counters have been read */
    return NULL;
}

/* The database. */
static uint64_t property(const char *name) {
    uint64_t value = 0;
    return rocks.property_int(db, name, &value) ? 0 : value;
}

static void wait_for_background(double patience_s) {
    uint64_t begin_ns = our_ns();
    for (int quiet = 0; quiet < 3;) { /* three times, since a job that ends may schedule another job */
        uint64_t left = property("rocksdb.num-running-compactions") + property("rocksdb.compaction-pending") +
                        property("rocksdb.num-running-flushes") + property("rocksdb.mem-table-flush-pending");
        if (property("rocksdb.background-errors")) return;
        quiet = left ? 0 : quiet + 1;
        if ((double)(our_ns() - begin_ns) / 1e9 > patience_s)
            fail("waiting for compaction", "it did not come to its end in time");
        usleep(10000);
    }
}

static void flush(void) {
    char *error = NULL;
    rocks.flush(db, rocks.flushoptions_create(), &error);
    check("flush", error);
}

static void set_trigger(const char *files) {
    const char *name = "level0_file_num_compaction_trigger";
    char *error = NULL;
    rocks.set_options(db, 1, &name, &files, &error);
    check("set_options", error);
}

/* Chores before or after the load, such as `flush,wait`. */
static void chores(const char *list, double patience_s) {
    char *copy = strdup(list), *rest = copy, *chore;
    while ((chore = strsep(&rest, ","))) {
        if (!*chore) continue;
        if (!strcmp(chore, "flush")) flush();
        else if (!strcmp(chore, "wait")) wait_for_background(patience_s);
        else if (!strcmp(chore, "compact")) rocks.compact_range(db, NULL, 0, NULL, 0);
        else if (!strcmp(chore, "compact0")) { /* only level 0: for now, one file in it triggers a compaction */
            set_trigger("1");
            wait_for_background(patience_s);
            set_trigger(text("level0_trigger", "4"));
        } else fail("unknown chore", chore);
    }
    free(copy);
}

static double filter_kb(void) { /* -1 if the properties of the tables do not have the size */
    char *tables = rocks.property_value(db, "rocksdb.aggregated-table-properties");
    const char *filter = tables ? strstr(tables, "filter block size=") : NULL;
    double found = filter ? strtod(filter + strlen("filter block size="), NULL) / 1024 : -1;
    if (tables) rocks.free(tables);
    return found;
}

static void report_status(const char *moment) {
    Any files = rocks.livefiles(db);
    uint64_t count[16] = {0}, bytes[16] = {0};
    for (int i = 0; i < rocks.livefiles_count(files); i++) {
        int level = rocks.livefiles_level(files, i);
        if (level < 0 || level > 15) continue;
        count[level]++;
        bytes[level] += rocks.livefiles_size(files, i);
    }
    rocks.livefiles_destroy(files);
    for (int level = 0; level < 16; level++)
        if (count[level])
            say("status %s level_files %d %lu\nstatus %s level_kb %d %.1f\n", moment, level, count[level], moment, level,
                (double)bytes[level] / 1024);
    say("status %s estimated_keys %lu\n", moment, property("rocksdb.estimate-num-keys"));
    say("status %s pending_compaction_kb %.1f\n", moment, (double)property("rocksdb.estimate-pending-compaction-bytes") / 1024);
    say("status %s memtables_kb %.1f\n", moment, (double)property("rocksdb.cur-size-all-mem-tables") / 1024);
    say("status %s block_cache_kb %.1f\n", moment, (double)property("rocksdb.block-cache-usage") / 1024);
    say("status %s background_errors %lu\n", moment, property("rocksdb.background-errors"));
    if (filter_kb() >= 0) say("status %s filter_kb %.1f\n", moment, filter_kb());
}

static void report_seconds(const struct client *me) {
    for (size_t second = 0; second < me->second_count; second++) {
        const struct second *row = me->seconds + second;
        const char *comma = "";
        printf("{\"client\": %d, \"kind\": \"%s\", \"second\": %zu, \"operations\": %lu, \"transactions\": %lu, "
               "\"retries\": 0, \"rows_found\": %lu, \"sum_us\": %.3f, \"max_us\": %.3f, \"buckets\": [",
               me->id, me->name, second, row->operations, row->transactions, row->found, row->sum_us, row->max_us);
        for (int bucket = 0; bucket < BUCKETS; bucket++)
            if (row->buckets[bucket]) {
                printf("%s[%d, %u]", comma, bucket, row->buckets[bucket]);
                comma = ", ";
            }
        printf("]}\n");
    }
}

static void report_stats(void) {
    char *stats = rocks.property_value(db, "rocksdb.stats"), *rest = stats, *line;
    while (rest && (line = strsep(&rest, "\n"))) printf("stats| %s\n", line);
    if (stats) rocks.free(stats);
}

static void open_library(const char *path) {
    Any library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail("the library can't be loaded", dlerror());
#define FIND(type, name, arguments)                                                                                   \
    *(void **)&rocks.name = dlsym(library, "rocksdb_" #name);                                                         \
    if (!rocks.name) fail("the library lacks a function of the C API", "rocksdb_" #name);
#define TRY(type, name, arguments) *(void **)&rocks.name = dlsym(library, "rocksdb_" #name);
    FUNCTIONS(FIND) LATER(TRY)
    const char *(*asked)(void);
    const char *names[][2] = {{"zstd", "ZSTD_versionString"}, {"lz4", "LZ4_versionString"},
                              {"zlib", "zlibVersion"}, {"bzip2", "BZ2_bzlibVersion"}};
    if (!strcmp(given[0] ? given[0] : "", "facts")) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if ((*(void **)&asked = dlsym(library, names[i][1]))) {
                const char *version = asked();
                say("fact %s %.*s\n", names[i][0], (int)strcspn(version, ","), version);
            }
        exit(0);
    }
}

static void open_database(void) {
    char *error = NULL;
    Any base = rocks.options_create(), tables = rocks.block_based_options_create(), options = rocks.options_create();
    const char *cache = text("cache_type", "lru_cache");
    if (strcmp(cache, "lru_cache")) { /* the text of the options describes an LRU cache, but no other */
        if (!rocks.cache_create_hyper_clock) fail("cache_type", "this library's C API has no hyper clock cache");
        size_t entry = strcmp(cache, "auto_hyper_clock_cache") ? (size_t)number("block_size", 8192) : 0;
        rocks.block_based_options_set_block_cache(tables, rocks.cache_create_hyper_clock((size_t)number("cache_size", 32 << 20), entry));
    }
    rocks.options_set_block_based_table_factory(base, tables);
    rocks.options_set_create_if_missing(base, number("create", 0) != 0);
    rocks.get_options_from_string(base, text("options", ""), options, &error);
    check("options", error);
    if (!strcmp(text("memtable", ""), "vector")) rocks.options_set_memtable_vector_rep(options);
    db = rocks.open(options, text("db", "."), &error);
    check("open", error);
    write_options = rocks.writeoptions_create();
    rocks.writeoptions_disable_WAL(write_options, number("disable_wal", 0) != 0);
    read_options = rocks.readoptions_create();
    rocks.readoptions_set_verify_checksums(read_options, number("verify_checksum", 1) != 0);
}

static enum kind kind_of(const char *name) {
    const char *names[] = {"fill", "overwrite", "read", "multiread", "seek", "nothing"};
    for (int i = 0; i < 6; i++)
        if (!strcmp(name, names[i])) return (enum kind)i;
    fail("unknown load", name);
}

static struct client clients[MOST_THREADS];

int main(int count, char **arguments) {
    if (count < 3) fail("usage", "driver LIBRARY facts, or driver LIBRARY NAME=VALUE...");
    given = arguments + 2;
    open_library(arguments[1]);
    key_size = (size_t)number("key_size", 20);
    value_size = (size_t)number("value_size", 400);
    keys = (uint64_t)number("num", 1);
    batch = (int)number("batch_size", 1);
    nexts = (int)number("seek_nexts", 0);
    reverse = number("reverse_iterator", 0) != 0;
    int threads = (int)number("threads", 1), writer = number("benchmark_write_rate_limit", 0) > 0;
    double seconds = number("duration", 0), patience_s = number("patience", 600);
    uint64_t most = (uint64_t)number("writes", 0), warmup = (uint64_t)number("warmup", 0);
    if (key_size < 8 || key_size > 64 || batch > MOST_BATCH || threads + writer > MOST_THREADS)
        fail("out of range", "key_size is 8 to 64, batch_size up to 1024, threads up to 255");
    make_values(number("compression_ratio", 0.5));
    open_database();
    chores(text("before", ""), patience_s);
    report_status("before");
    if (number("bloom_bits", 0) > 0 && strcmp(text("load", "fill"), "fill") && filter_kb() == 0)
        fail("bloom_bits", "the tables have no filter blocks, though a filter was asked for");

    enum kind kind = kind_of(text("load", "nothing"));
    int workers = kind == NOTHING ? 0 : threads + writer;
    for (int i = 0; i < workers; i++) {
        struct client *me = clients + i;
        int writes_beside = i == threads;
        me->id = i + 1;
        me->name = writes_beside ? WRITER : "client";
        me->kind = writes_beside ? OVERWRITE : kind;
        me->seed = (uint64_t)number("seed", 1) * 1000003u + (uint64_t)i;
        me->warmup = writes_beside ? 0 : warmup;
        me->most = writes_beside ? 0 : (most + (uint64_t)threads - 1) / (uint64_t)threads;
        me->bytes_per_s = writes_beside ? number("benchmark_write_rate_limit", 0) : 0;
        me->next = keys * (uint64_t)i / (uint64_t)threads;
        me->last = keys * (uint64_t)(i + 1) / (uint64_t)threads;
        me->value_at = (size_t)i * 4096;
        me->batch_keys = calloc((size_t)batch, sizeof *me->batch_keys);
    }
    if (text("turns", NULL)) {
        int file = open(text("turns", NULL), O_RDWR);
        if (file < 0) fail("turns", strerror(errno));
        turns = mmap(NULL, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (turns == MAP_FAILED) fail("turns", strerror(errno));
    }

    clients_left = workers < threads ? workers : threads;
    pthread_barrier_init(&all_of_us, NULL, (unsigned)workers + 1);
    for (int i = 0; i < workers; i++) pthread_create(&clients[i].thread, NULL, client_thread, clients + i);
    pthread_barrier_wait(&all_of_us);
    say("rqps ready\n");
    if (getchar() == EOF) _exit(0); /* rqps has ended */
    uint64_t cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    origin_ns = our_ns();
    end_ns_due = seconds > 0 ? origin_ns + (uint64_t)(seconds * 1e9) : 0;
    pthread_barrier_wait(&all_of_us);
    pthread_barrier_wait(&all_of_us);
    uint64_t ended_ns = our_ns(), ended_cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID), ours_ns = 0;
    for (int i = 0; i < workers; i++) ours_ns += clients[i].cpu_ns;
    say("status after elapsed_s %.6f\n", (double)(ended_ns - origin_ns) / 1e9);
    say("status after foreground_cpu_s %.6f\n", (double)ours_ns / 1e9);
    say("status after background_cpu_s %.6f\n", (double)(ended_cpu_ns - cpu_ns - ours_ns) / 1e9);
    chores(text("after", ""), patience_s);
    say("status after settled_s %.6f\n", (double)(our_ns() - ended_ns) / 1e9);
    say("status after settled_cpu_s %.6f\n", (double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - ended_cpu_ns) / 1e9);
    say("rqps ended\n");
    while (getchar() != EOF) {}
    pthread_barrier_wait(&all_of_us);

    for (int i = 0; i < workers; i++) report_seconds(clients + i);
    report_stats();
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    say("status after rss_peak_kb %ld\n", used.ru_maxrss);
    report_status("after");
    if (property("rocksdb.background-errors")) fail("compaction", "a flush or compaction failed in the background");
    rocks.close(db);
    say("closed\n");
    fflush(stdout);
    _exit(0); /* without running the library's destructors */
}
