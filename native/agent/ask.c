/*
 * ask.c - what a process asks of its collector beside joining: new options, complete files, the end. wire.h, "session socket".
 */
#include "state.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "msmemscope.h"

enum { ANSWER_MAX = 8192 }; /* one message of the collector, bytes */

/* Text for the user: kept for the caller as far as there is room, or written at once. */
struct reply {
    char *text;
    size_t room, length;
};

/* Writes to a standard stream what its reader takes, and raises nothing. */
static void write_all(int fd, const char *text, size_t length)
{
    uint64_t pipe_signal = 1ULL << (SIGPIPE - 1), before;
    struct timespec at_once = {0, 0};
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &pipe_signal, &before, sizeof before);
    while (length > 0) {
        long n = syscall(SYS_write, fd, text, length);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd out = {.fd = fd, .events = POLLOUT};
            syscall(SYS_ppoll, &out, 1, NULL, NULL, 0);
        } else if (n < 0 && errno != EINTR) {
            break;
        } else if (n > 0) {
            text += n;
            length -= (size_t)n;
        }
    }
    if (length > 0 && errno == EPIPE && !(before & pipe_signal))
        syscall(SYS_rt_sigtimedwait, &pipe_signal, NULL, &at_once, sizeof pipe_signal);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

static void take(struct reply *reply, char how, const char *text, size_t length)
{
    if (!reply->text) {
        write_all(how == MS_SAY_OUT ? STDOUT_FILENO : STDERR_FILENO, text, length);
        return;
    }
    if (reply->length + length > reply->room)
        length = reply->room - reply->length;
    memcpy(reply->text + reply->length, text, length);
    reply->length += length;
}

/* Asks, and takes the answer. Returns what the collector says, or -1 when it says nothing. */
static int ask(enum ms_ask what, const char *text, size_t length, struct ms_welcome *welcome, struct reply *reply)
{
    int fd = ask_collector(what, text, length);
    if (fd < 0)
        return -1;
    int answer = -1;
    char *message = malloc(ANSWER_MAX); /* not on a stack that may be small */
    for (bool first = true; message; first = false) {
        long n;
        do
            n = syscall(SYS_recvfrom, fd, message, ANSWER_MAX, 0, NULL, NULL);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
            break;
        if (first) {
            if (n != sizeof *welcome)
                break;
            memcpy(welcome, message, sizeof *welcome);
            answer = (int)welcome->answer;
        } else if (message[0] != MS_SAY_WAIT) {
            take(reply, message[0], message + 1, (size_t)n - 1);
        }
    }
    free(message);
    syscall(SYS_close, fd);
    return answer;
}

static int ask_connected(enum ms_ask what, const char *text, size_t length, struct ms_welcome *welcome,
                         struct reply *reply)
{
    if (!enter())
        return -1;
    int saved = errno;
    int answer = ask(what, text, length, welcome, reply);
    errno = saved;
    ms_leave();
    return answer;
}

MS_EXPORT int ms_config(const char *options, size_t length, char *reply, size_t room)
{
    struct ms_welcome welcome;
    struct reply r = {.text = reply, .room = room ? room - 1 : 0};
    if (room)
        reply[0] = 0;
    if (length > MS_ASK_MAX)
        return -1;
    int answer = ask_connected(MS_CONFIGURE, options, length, &welcome, &r);
    if (answer == MS_ACCEPTED)
        take_options(&welcome.config, options, length);
    if (room)
        reply[r.length] = 0;
    return answer == MS_ACCEPTED ? 0 : answer == MS_REFUSED_OPTIONS ? 1 : -1;
}

MS_EXPORT int ms_flush(char *reply, size_t room)
{
    struct ms_welcome welcome;
    struct reply r = {.text = reply, .room = room ? room - 1 : 0};
    if (room)
        reply[0] = 0;
    int answer = ask_connected(MS_FLUSH, NULL, 0, &welcome, &r);
    if (room)
        reply[r.length] = 0;
    return answer == MS_ACCEPTED ? 0 : -1;
}

/*
 * The normal exit of a program without a launcher: it waits for its files and says what there is to say. What is freed after
 * this, by destructors that run later still, is not recorded.
 */
__attribute__((destructor)) static void finish(void)
{
    uint32_t ready = LIFE_READY;
    if (life_state() != LIFE_READY || agent.config.launched ||
        !__atomic_compare_exchange_n(&agent.life->state, &ready, LIFE_OFF, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    int saved = errno;
    struct ms_welcome welcome;
    struct reply at_once = {0};
    self.depth++;
    ask(MS_FINISH, NULL, 0, &welcome, &at_once);
    self.depth--;
    errno = saved;
}
