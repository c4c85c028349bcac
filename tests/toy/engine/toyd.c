/* A server for tests: it counts up to a number for each request, in a process of its own for each connection.

   toyd --socket=PATH --work=N   serves until it gets a SIGTERM
   toyd --version                prints its version

   A request is one byte: `v` asks for version and work, anything else for the work, answered with one byte. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef VERSION
#define VERSION "1.0"
#endif
#ifndef TIMES
#define TIMES 1
#endif

static volatile unsigned long counted;

static void toy_count(long work) {
    for (long i = 0; i < work * TIMES; i++) counted += (unsigned long) i;
}

static void toy_serve(int client, long work) {
    char request, text[64];
    while (read(client, &request, 1) == 1) {
        int length = 1;
        if (request == 'v') length = snprintf(text, sizeof text, "%s %ld\n", VERSION, work);
        else toy_count(work), text[0] = '.';
        if (write(client, text, (size_t) length) != length) return;
    }
}

static void leave(int number) { (void) number; _exit(0); }

int main(int argc, char **argv) {
    const char *path = NULL;
    long work = 1000;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--version")) return printf("toyd %s\n", VERSION) < 0;
        else if (!strncmp(argv[i], "--socket=", 9)) path = argv[i] + 9;
        else if (!strncmp(argv[i], "--work=", 7)) work = atol(argv[i] + 7);
        else return fprintf(stderr, "toyd: unknown option %s\n", argv[i]), 2;
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path ? path : "");
    if (!path || bind(listening, (struct sockaddr *) &address, sizeof address) || listen(listening, 8))
        return perror("toyd"), 1;
    signal(SIGTERM, leave);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int client = accept(listening, NULL, NULL);
        if (client < 0) continue;
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            prctl(PR_SET_NAME, "toy_serve");
            toy_serve(client, work);
            _exit(0);
        }
        close(client);
    }
}
