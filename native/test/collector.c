/*
 * collector.c - see collector.h.
 */
#include "collector.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

void collector_defaults(struct collector *c)
{
    memset(c, 0, sizeof *c);
    c->ring_size = MS_RING_MIN_BYTES;
    c->config =
        (struct ms_config){.events = 7, .level = 1, .all_npu = 1, .cpu = 1, .log_level = MS_LOG_INFO, .launched = 1};
    c->tracing = 1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
}

void collector_open(struct collector *c)
{
    static int number;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(c->name, sizeof c->name, "msmemscope-test-%d-%d", (int)getpid(), ++number);
    memcpy(address.sun_path + 1, c->name, (size_t)length);
    c->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    must(bind(c->listener, (struct sockaddr *)&address,
              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0,
         "bind");
    must(listen(c->listener, 64) == 0, "listen");
    must(setenv("MSMEMSCOPE_SESSION", c->name, 1) == 0, "setenv");
}

/* Not close(): ThreadSanitizer follows descriptors by number, and does not see that the agent closes its own. */
static void shut(int fd)
{
    syscall(SYS_close, fd);
}

static int make_ring(const struct collector *c, struct client *client)
{
    uint64_t size = c->ring_size;
    int fd = memfd_create("ring", MFD_CLOEXEC);
    must(fd >= 0 && ftruncate(fd, (off_t)(MS_RING_HEADER_BYTES + size)) == 0, "memfd");
    unsigned char *base = mmap(NULL, MS_RING_HEADER_BYTES + 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(base != MAP_FAILED, "mmap");
    must(mmap(base, MS_RING_HEADER_BYTES + size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED &&
             mmap(base + MS_RING_HEADER_BYTES + size, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                  MS_RING_HEADER_BYTES) != MAP_FAILED,
         "mmap");
    client->ring = (struct ms_ring *)base;
    client->data = base + MS_RING_HEADER_BYTES;
    client->ring->magic = c->fault == FAULT_RING_MAGIC ? 0 : MS_WIRE_MAGIC;
    client->ring->version = MS_WIRE_VERSION;
    client->ring->size = size;
    client->ring->tracing = c->tracing;
    if (c->fault == FAULT_SMALL_MEMORY)
        must(ftruncate(fd, MS_RING_HEADER_BYTES) == 0, "ftruncate");
    return fd;
}

static void answer(struct collector *c, int fd)
{
    struct client *client = &c->client[c->count];
    struct ucred peer;
    socklen_t length = sizeof peer;
    must(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0, "SO_PEERCRED");
    client->pid = peer.pid;
    if (recv(fd, &client->hello, sizeof client->hello, 0) != sizeof client->hello)
        return; /* somebody who only asked whether we live */
    if (c->delay_ms)
        poll(NULL, 0, c->delay_ms);
    struct ms_welcome welcome = {.magic = c->fault == FAULT_MAGIC ? 1 : MS_WIRE_MAGIC,
                                 .version = c->fault == FAULT_VERSION ? 99 : MS_WIRE_VERSION,
                                 .answer = c->answer,
                                 .ring_size = c->ring_size + (c->fault == FAULT_ODD_SIZE ? 8 : 0),
                                 .config = c->config};
    struct iovec part = {&welcome, c->fault == FAULT_SHORT ? sizeof welcome / 2 : sizeof welcome};
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(sizeof(size_t)))) = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int memory = make_ring(c, client);
    if (c->fault != FAULT_NO_MEMORY) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *h = CMSG_FIRSTHDR(&message);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(h), &memory, sizeof memory);
    }
    pthread_mutex_lock(&c->lock);
    c->count++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    sendmsg(fd, &message, MSG_NOSIGNAL);
    shut(memory);
}

static void *serve(void *arg)
{
    struct collector *c = arg;
    int fd;
    while ((fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (c->fault == FAULT_SILENT)
            continue; /* held open by this process until it ends */
        if (c->fault != FAULT_HANG_UP)
            answer(c, fd);
        shut(fd);
    }
    return NULL;
}

void collector_serve(struct collector *c)
{
    must(pthread_create(&c->thread, NULL, serve, c) == 0, "pthread_create");
}

void collector_close(struct collector *c)
{
    shutdown(c->listener, SHUT_RDWR); /* ends accept() */
    pthread_join(c->thread, NULL);
    shut(c->listener);
}

struct client *collector_client(struct collector *c, int index)
{
    pthread_mutex_lock(&c->lock);
    while (c->count <= index)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    return &c->client[index];
}

int collector_count(struct collector *c)
{
    pthread_mutex_lock(&c->lock);
    int count = c->count;
    pthread_mutex_unlock(&c->lock);
    return count;
}

static struct ms_head *at(struct client *c, uint64_t position)
{
    return (struct ms_head *)(c->data + (position & (c->ring->size - 1)));
}

struct ms_head *client_peek(struct client *c)
{
    if (c->head == __atomic_load_n(&c->ring->tail, __ATOMIC_ACQUIRE))
        return NULL;
    struct ms_head *h = at(c, c->head);
    uint64_t mark = __atomic_load_n(&h->mark, __ATOMIC_ACQUIRE);
    return mark >> MS_MARK_STATE_SHIFT == MS_STATE_READY ? h : NULL;
}

static void give_back(struct client *c, uint64_t bytes)
{
    memset(at(c, c->head), 0, bytes);
    c->head += bytes;
    __atomic_store_n(&c->ring->head, c->head, __ATOMIC_SEQ_CST);
}

void client_done(struct client *c)
{
    give_back(c, record_bytes(at(c, c->head)));
}

bool client_skip_debris(struct client *c)
{
    uint64_t tail = c->ring->tail;
    struct ms_head *h = at(c, c->head);
    if (c->head == tail)
        return false;
    c->lost++;
    if (h->mark) { /* BUSY: it says how long it is */
        give_back(c, record_bytes(h));
        return true;
    }
    do
        give_back(c, MS_RECORD_ALIGN);
    while (c->head != tail && !(at(c, c->head)->mark && at(c, c->head)->pos == c->head));
    return true;
}

void client_turn(struct client *c)
{
    __atomic_fetch_add(&c->ring->heartbeat, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&c->ring->waiters, __ATOMIC_SEQ_CST)) {
        __atomic_fetch_add(&c->ring->space, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &c->ring->space, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}
