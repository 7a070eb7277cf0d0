/*
 * waiter - allocates, says "ready", waits for one of the signals that it handles, and exits with 40 + its number.
 *
 * usage: waiter [default]     with "default" it handles none of them
 */
#define _GNU_SOURCE
#include "target.h"

#include <signal.h>
#include <unistd.h>

static void on_signal(int number)
{
    (void)number;
}

int main(int argc, char **argv)
{
    (void)argv;
    static const int handled[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT};
    sigset_t all;
    sigemptyset(&all);
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) {
        sigaddset(&all, handled[i]);
        if (argc < 2)
            signal(handled[i], on_signal);
    }
    if (argc < 2)
        sigprocmask(SIG_BLOCK, &all, NULL);
    void *block = device_alloc(4096);
    puts("ready");
    fflush(stdout);
    int number = 0;
    if (argc < 2)
        sigwait(&all, &number);
    else
        pause();
    device_free(block);
    printf("%s\n", strsignal(number));
    return 40 + number;
}
