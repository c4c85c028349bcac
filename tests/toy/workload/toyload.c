/* The load on the toy: one client that asks again and again for so many seconds.

   toyload SOCKET SECONDS; it writes `rqps ready`, waits for a line, and ends when its input does. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static double now_us(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double) at.tv_sec * 1e6 + (double) at.tv_nsec / 1e3;
}

int main(int argc, char **argv) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int line = socket(AF_UNIX, SOCK_STREAM, 0), second = 0;
    char byte;
    if (argc != 3) return 2;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", argv[1]);
    if (connect(line, (struct sockaddr *) &address, sizeof address)) return perror("FATAL: connect"), 1;
    if (write(line, "x", 1) != 1 || read(line, &byte, 1) != 1) return 1; /* its process is there */
    puts("rqps ready");
    fflush(stdout);
    getchar();
    for (double began = now_us(); second < atoi(argv[2]); second++) {
        double sum = 0, most = 0;
        long done = 0;
        while (now_us() < began + 1e6 * (second + 1)) {
            double before = now_us(), took;
            if (write(line, "x", 1) != 1 || read(line, &byte, 1) != 1) return puts("FATAL: lost the server"), 1;
            took = now_us() - before;
            sum += took;
            most = took > most ? took : most;
            done++;
        }
        printf("{\"client\": 0, \"kind\": \"count\", \"second\": %d, \"operations\": %ld, \"transactions\": %ld, "
               "\"retries\": 0, \"sum_us\": %.1f, \"max_us\": %.1f, \"buckets\": [[64, %ld]]}\n",
               second, done, done, sum, most, done);
    }
    puts("rqps ended");
    fflush(stdout);
    while (getchar() != EOF) continue;
    return 0;
}
