/*
 * child.c - see child.h.
 */
#include "child.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void in_child(void (*body)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static const int crashes[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS};
        for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
            signal(crashes[i], SIG_DFL); /* cmocka's handler would go on in the child */
        alarm(20);
        body();
        exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static int captured = -1, original = -1;

void capture_stderr(void)
{
    captured = memfd_create("stderr", MFD_CLOEXEC);
    original = dup(STDERR_FILENO);
    CHECK(captured >= 0 && dup2(captured, STDERR_FILENO) == STDERR_FILENO);
}

const char *captured_stderr(void)
{
    static char text[4096];
    dup2(original, STDERR_FILENO);
    ssize_t length = pread(captured, text, sizeof text - 1, 0);
    CHECK(length >= 0);
    text[length] = 0;
    return text;
}
