/*
 * connect.c - the handshake with the collector: hello, welcome, the ring's memory. design.md, sections 2 and 3.
 */
#include "stack.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

/* Kept from the first event on: the target may change its environment, and its children come back here. */
static struct sockaddr_un session;
static socklen_t session_length;
static bool own; /* the session is of our own making, or our parent's */

static void name_session(const char *name, size_t length)
{
    session.sun_family = AF_UNIX;
    session.sun_path[0] = 0; /* abstract */
    memcpy(session.sun_path + 1, name, length);
    session_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static bool find_session(void)
{
    const char *name = getenv("MSMEMSCOPE_SESSION");
    size_t length = name ? strlen(name) : 0;
    if (length == 0 || length > sizeof session.sun_path - 1)
        return false;
    name_session(name, length);
    return true;
}

/* Makes a session and starts its collector: `source msmemscope --load-api-env` has told where the tool is. */
static bool make_session(void)
{
    const char *libraries = getenv("MSMEMSCOPE_LIB_PATH");
    char path[PATH_MAX], name[64];
    unsigned char random[12];
    if (!libraries || (size_t)snprintf(path, sizeof path, "%s/../bin/msmemscope.bin", libraries) >= sizeof path)
        return false;
    if (syscall(SYS_getrandom, random, sizeof random, 0) != sizeof random) { /* Linux before 3.17 */
        int64_t now = now_ns();
        memcpy(random, &now, sizeof now);
    }
    int length = snprintf(name, sizeof name, "msmemscope-%d-", (int)getpid());
    for (size_t i = 0; i < sizeof random; i++)
        length += snprintf(name + length, sizeof name - (size_t)length, "%02x", random[i]);
    name_session(name, (size_t)length);
    int listener = (int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0)
        return false;
    own = syscall(SYS_bind, listener, &session, session_length) == 0 && syscall(SYS_listen, listener, 4096) == 0 &&
          start_collector(path, listener);
    syscall(SYS_close, listener);
    return own;
}

/* A connected socket, or -1 with errno. */
static int dial(int extra_flags, int64_t deadline)
{
    int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | extra_flags, 0);
    if (fd < 0)
        return -1;
    struct timeval limit = {HANDSHAKE_MS / 1000, HANDSHAKE_MS % 1000 * 1000};
    syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    while (syscall(SYS_connect, fd, &session, session_length) < 0) {
        int error = errno;
        if (error == EINTR && now_ns() < deadline)
            continue;
        syscall(SYS_close, fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* The name of an abstract socket is anybody's to take: believe only our own user and root. */
static bool trusted(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

/* Sends the hello. */
static bool greet(int fd, int64_t deadline, enum ms_ask what, const char *text, size_t length)
{
    struct ms_hello hello = {
        .magic = MS_WIRE_MAGIC, .version = MS_WIRE_VERSION, .pid = getpid(), .ask = what, .tracing = agent.inherited};
    struct iovec parts[] = {{&hello, sizeof hello}, {(void *)text, length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = length ? 2 : 1};
    while (syscall(SYS_sendmsg, fd, &message, MSG_NOSIGNAL) < 0)
        if (errno != EINTR || now_ns() > deadline)
            return false;
    return true;
}

/* Sends hello, receives welcome. Returns the ring's descriptor, or -1. */
static int exchange(int fd, int64_t deadline, struct ms_welcome *welcome)
{
    if (!greet(fd, deadline, MS_JOIN, agent.options, agent.options_length))
        return -1;

    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {welcome, sizeof *welcome};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    long received;
    while ((received = syscall(SYS_recvmsg, fd, &message, MSG_CMSG_CLOEXEC)) < 0) {
        if (errno == EINTR && now_ns() < deadline)
            continue;
        /* Somebody has accepted us and never came back; refusals are told to the user by those who refuse. */
        if (errno == EAGAIN || errno == EINTR)
            say("the collector does not answer; the program goes on without recording");
        return -1;
    }

    int memory = -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&memory, CMSG_DATA(c), sizeof memory);
    if (memory >= 0 && (received != sizeof *welcome || welcome->magic != MS_WIRE_MAGIC ||
                        welcome->version != MS_WIRE_VERSION || welcome->answer != MS_ACCEPTED)) {
        syscall(SYS_close, memory);
        memory = -1;
    }
    return memory;
}

/* Maps header, data and the data once more. The size is checked, so that no access can ever fault. */
static bool map_ring(int memory, uint64_t size)
{
    if (size < MS_RING_MIN_BYTES || size > (1ULL << 40) || (size & (size - 1)) != 0 ||
        lseek(memory, 0, SEEK_END) < (off_t)(MS_RING_HEADER_BYTES + size))
        return false;
    size_t total = MS_RING_HEADER_BYTES + 2 * size;
    unsigned char *base = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    unsigned char *data = base + MS_RING_HEADER_BYTES;
    struct ms_ring *ring = (struct ms_ring *)base;
    const int access = PROT_READ | PROT_WRITE, how = MAP_SHARED | MAP_FIXED;
    if (mmap(base, MS_RING_HEADER_BYTES + size, access, how, memory, 0) == MAP_FAILED ||
        mmap(data + size, size, access, how, memory, MS_RING_HEADER_BYTES) == MAP_FAILED ||
        madvise(base, total, MADV_DONTFORK) != 0 || ring->magic != MS_WIRE_MAGIC || ring->version != MS_WIRE_VERSION ||
        ring->size != size) {
        munmap(base, total);
        return false;
    }
    madvise(base, total, MADV_DONTDUMP); /* the target's core files stay its own */
    agent.ring = ring;
    agent.data = data;
    agent.size = size;
    return true;
}

/* abi.md 1.2: memory needs both bits of `events` to be shown and either to be followed while paused. */
static void set_modes(uint32_t events, uint32_t level, uint32_t analysis, bool watch)
{
    const uint32_t both = 1 | 2, launch = 4, access = 8, op = 1, kernel = 2;
    const bool check = analysis & (MS_CHECK_DEVICE_HEAP | MS_CHECK_CANN_HEAP);
    agent.mode[MS_MEMORY][1] = (events & both) == both ? MS_NORMAL : MS_SKIP;
    agent.mode[MS_MEMORY][0] = (events & both) != 0 ? MS_SHADOW : MS_SKIP;
    agent.mode[MS_TRACE][1] = check ? MS_SKIP : MS_NORMAL;
    agent.mode[MS_TRACE][0] = MS_SKIP;
    agent.mode[MS_OP][1] = (events & launch) && (level & op) && !check ? MS_NORMAL : MS_SKIP;
    agent.mode[MS_OP][0] = MS_SKIP;
    agent.mode[MS_ACCESSES][1] = (events & access) && !check ? MS_NORMAL : MS_SKIP;
    agent.mode[MS_ACCESSES][0] = MS_SKIP;
    agent.mode[MS_WATCH][1] = watch && !check ? MS_NORMAL : MS_SKIP;
    agent.mode[MS_WATCH][0] = MS_SKIP;
    bool kernels = (events & launch) && (level & kernel);
    agent.mode[MS_KERNEL][1] = kernels ? MS_NORMAL : MS_SKIP;
    agent.mode[MS_KERNEL][0] = kernels ? MS_SHADOW : MS_SKIP;
    for (int tracing = 0; tracing < 2; tracing++) {
        agent.mode[MS_CANN_HEAP][tracing] = analysis & MS_CHECK_CANN_HEAP ? MS_NORMAL : MS_SKIP;
        agent.mode[MS_DEVICE_HEAP][tracing] = analysis & MS_CHECK_DEVICE_HEAP ? MS_NORMAL : MS_SKIP;
    }
}

/* A connection to the session that there is, or to one that is made for it; -1 when nobody collects for us. */
static int reach(int64_t deadline)
{
    if (find_session())
        return dial(0, deadline);
    int fd = own ? dial(0, deadline) : -1; /* our parent's, while that has not ended */
    return fd >= 0 || !make_session() ? fd : dial(0, deadline);
}

bool connect_collector(void)
{
    int64_t deadline = now_ns() + (int64_t)HANDSHAKE_MS * NS_PER_MS;
    struct ms_welcome welcome;
    int memory = -1;
    bool ok = false;
    int fd = reach(deadline);
    if (fd < 0)
        return false;
    if (trusted(fd))
        memory = exchange(fd, deadline, &welcome);
    syscall(SYS_close, fd);
    if (memory >= 0) {
        ok = map_ring(memory, welcome.ring_size);
        syscall(SYS_close, memory);
    }
    if (ok) {
        agent.generation++;
        know_thread();
        forget_stacks();
        take_options(&welcome.config, agent.options, agent.options_length);
        read_visible_devices();
    }
    return ok;
}

void take_options(const struct ms_config *config, const char *options, size_t length)
{
    agent.config = *config;
    set_modes(config->events, config->level, config->analysis, config->watch_end[0] != 0);
    if (options != agent.options) {
        agent.options_length = (uint32_t)length;
        memcpy(agent.options, options, length);
    }
}

int ask_collector(enum ms_ask what, const char *text, size_t length)
{
    int64_t deadline = now_ns() + (int64_t)PATIENCE_MS * NS_PER_MS;
    int fd = dial(0, deadline);
    if (fd < 0)
        return -1;
    struct timeval limit = {PATIENCE_MS / 1000, PATIENCE_MS % 1000 * 1000};
    syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (trusted(fd) && greet(fd, deadline, what, text, length))
        return fd;
    syscall(SYS_close, fd);
    return -1;
}

/* Only a refusal is proof of death: a stopped collector's backlog still accepts, and a full one says EAGAIN. */
bool collector_lives(void)
{
    int fd = dial(SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno != ECONNREFUSED;
    syscall(SYS_close, fd);
    return true;
}
