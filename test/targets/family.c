/*
 * family - pauses, forks and execs in one run, and a list of what a recording must show.
 *
 * usage: family [LEVEL]
 *
 * Every block has a size of its own. For each one that matters a line "PID SIZE FATE" is printed, where FATE is
 *   freed      both rows, neither synthetic
 *   leaked     the FREE row is synthetic (shadow:true)
 *   paused     allocated while recording, freed in a pause: a FREE row all the same
 *   promoted   allocated in a pause, alive when recording went on: the MALLOC row is synthetic
 *   hidden     allocated and freed in a pause, or alive in a pause at the end: no row
 * Level 0 records, pauses twice, forks a child (level 1) that allocates, forks a grandchild and executes this program
 * again as level 2 in the same pid. Without a recording the program does the same.
 */
#define _GNU_SOURCE
#include "target.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t next_size = 1000;

static void steer(const char *name)
{
    int (*function)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, name);
    if (function && function() != 0)
        die(name, -1);
}

static void note(uint64_t bytes, const char *fate)
{
    printf("%d %llu %s\n", (int)getpid(), (unsigned long long)bytes, fate);
    fflush(stdout);
}

struct block {
    void *at;
    uint64_t bytes;
};

static struct block make(void)
{
    struct block b = {.bytes = next_size++};
    b.at = device_alloc(b.bytes);
    return b;
}

static void end(struct block b, const char *fate)
{
    device_free(b.at);
    note(b.bytes, fate);
}

static void pair(const char *fate)
{
    end(make(), fate);
}

static void await(pid_t child, const char *who)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        die(who, status);
}

static void level_2(void)
{
    next_size = 3000;
    pair("freed");
    note(make().bytes, "leaked");
}

static void level_1(const char *self)
{
    next_size = 2000;
    pair("freed");
    struct block inherited = make();
    pid_t grandchild = fork();
    if (grandchild == 0) {
        next_size = 2500;
        pair("freed");
        pair("freed");
        device_free(inherited.at); /* a block of the parent: its row belongs to the parent */
        _exit(0);
    }
    await(grandchild, "grandchild");
    end(inherited, "freed");
    note(make().bytes, "leaked");
    execl(self, self, "2", NULL);
    die("execl", 0);
}

static void level_0(const char *self)
{
    pair("freed");
    struct block across = make(), promoted;
    note(make().bytes, "leaked");

    steer("ms_stop");
    pair("hidden");
    end(across, "paused");
    promoted = make();
    steer("ms_start");
    pair("freed");
    end(promoted, "promoted");

    pid_t child = fork();
    if (child == 0)
        level_1(self);
    await(child, "child");
    for (int i = 0; i < 3; i++) { /* helpers that have nothing to do with the device */
        pid_t helper = fork();
        if (helper == 0) {
            execlp("true", "true", NULL);
            _exit(1);
        }
        await(helper, "helper");
    }

    steer("ms_stop");
    pair("hidden");
    note(make().bytes, "hidden");
}

int main(int argc, char **argv)
{
    if (argument(argc, argv, 1, 0) == 2)
        level_2();
    else
        level_0(argv[0]);
    return 0;
}
