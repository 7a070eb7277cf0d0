/*
 * wire.h - the one contract between the C side (agent, hooks) and the Go side (collector).
 *
 * Everything here crosses a process boundary through shared memory or the session socket. The Go twin,
 * internal/wire/wire_gen.go, is generated from this file (`make generate`) and a test compares the size and
 * the offset of every field, so a change here is a change everywhere or a red build.
 *
 * Rules of the file: fixed-width integers only, no bit-fields, no implicit padding, little-endian hosts,
 * no `_Atomic` qualifiers (accesses go through the __atomic builtins, and Go through sync/atomic).
 * Units: bytes for sizes, CLOCK_MONOTONIC nanoseconds for stamps.
 *
 * docs/design.md, "The ring", explains the protocol; native/agent/model/ring.pml is its checked model.
 */
#ifndef MSMEMSCOPE_WIRE_H
#define MSMEMSCOPE_WIRE_H

#include <stdint.h>

enum {
    MS_WIRE_VERSION = 1,
    MS_WIRE_MAGIC = 0x6d736d31,   /* "msm1": first word of every socket message and of the ring header */
    MS_RING_HEADER_BYTES = 65536, /* the header owns one page of the largest page size in use (aarch64, 64 KiB) */
    MS_RING_MIN_BYTES = 1 << 20,  /* smallest ring, data bytes; a power of two like every ring size */
    MS_RECORD_ALIGN = 8,          /* records start and end on this boundary */
    MS_TEXT_MAX = 1024,           /* longest text in a record, bytes, without terminator; longer is cut */
};

/* ------------------------------------------------------------------ ring header (shared, read-write on both sides)
 *
 * The memfd is MS_RING_HEADER_BYTES + size long; both sides map the data area twice in a row, so that a record is
 * always contiguous. Positions are absolute byte counts since the ring began; offset = position & (size - 1).
 * Free data bytes are always zero: the consumer clears what it has read before it advances `head`.
 */
struct ms_ring {
    uint32_t magic;   /* MS_WIRE_MAGIC */
    uint32_t version; /* MS_WIRE_VERSION */
    uint64_t size;    /* data bytes */
    uint8_t pad0[48];

    uint64_t tail; /* producers: next free position; advanced by compare-and-swap to reserve */
    uint8_t pad1[56];

    uint64_t head;    /* consumer: everything below has been read and cleared */
    uint32_t space;   /* futex word (shared): bumped by the consumer whenever it wakes waiters */
    uint32_t waiters; /* producers asleep on `space` */
    uint8_t pad2[48];

    uint64_t heartbeat; /* bumped by the collector at every turn of its loop, at least every 10 ms */
    uint32_t closed;    /* set by the collector: take no more records, pass through */
    uint32_t tracing;   /* 1 between start and stop; the hooks read it at every event */
    uint8_t pad3[48];

    uint64_t wait_count; /* producers: times that a producer had to wait for space */
    uint64_t wait_ns;    /* ... and for how long, summed over threads */
    uint64_t skipped;    /* events that were not recorded because the collector was gone */
    int64_t
        settled; /* between MS_KERNEL_CLOCK and MS_KERNEL_CLOSED: what cards had to say of the time before is published */
    uint32_t unwatched; /* set by the collector: no tensor is to be dumped any more */
    uint8_t pad4[28];
};

/* ------------------------------------------------------------------ records */

enum ms_type {
    MS_ALLOC = 1,       /* struct ms_alloc: after the real call succeeded */
    MS_FREE = 2,        /* struct ms_free: before the real call */
    MS_UNDO = 3,        /* struct ms_free: the real call of this thread's last MS_FREE of `addr` failed */
    MS_MARK = 4,        /* struct ms_text: mstx mark */
    MS_RANGE_START = 5, /* struct ms_text, value = range id */
    MS_RANGE_END = 6,   /* struct ms_text, value = range id, no text */
    MS_ACL_INIT = 7,    /* struct ms_text, empty */
    MS_ACL_FINI = 8,
    MS_START_TRACE = 9,
    MS_STOP_TRACE = 10,
    MS_STEP = 11, /* struct ms_text, value = step number */
    MS_LOG = 12,  /* struct ms_text, value = enum ms_log_level */

    MS_KERNEL_NAME = 20,   /* struct ms_text, value = id: the name that later MS_KERNEL_LAUNCH mean by this id */
    MS_KERNEL_LAUNCH = 21, /* struct ms_kernel_launch: this thread hands a kernel to the card */
    MS_KERNEL_CLOCK = 22,  /* struct ms_kernel_clock: the card's channel is open; how to read the counts that follow */
    MS_KERNEL_RUN = 23,    /* struct ms_kernel_run: a task begins or ends on the card; its own time is `count` */
    MS_KERNEL_NOTICE = 24, /* struct ms_text: what is not recorded and why; for the user */
    MS_KERNEL_CLOSED = 25, /* struct ms_text, empty: no MS_KERNEL_RUN follows before another MS_KERNEL_CLOCK */

    /* Text of these: a name, a line feed, and what the Attr column has, "key:value,...". */
    MS_ATB_START = 30,        /* struct ms_text: an operator of ATB begins on this thread */
    MS_ATB_END = 31,          /* the same: ... ends */
    MS_ATB_ACCESS = 32,       /* struct ms_access */
    MS_ATB_KERNEL_START = 33, /* struct ms_text: a kernel of ATB is about to be launched */
    MS_ATB_KERNEL_END = 34,   /* the same: ... has been */

    MS_STACK = 40,  /* struct ms_stack: what an id in ms_head.stack means; before the first record that has it */
    MS_CODE = 41,   /* struct ms_code: a Python function that stacks name; before the first of them */
    MS_MODULE = 42, /* struct ms_loaded: a library that stacks name; before the first of them */

    MS_SNAPSHOT = 50, /* struct ms_snapshot */
    MS_OOM = 51,      /* struct ms_oom: the driver had no memory left */

    /* A watched tensor's bytes; records of one dump have nothing of another between them. */
    MS_WATCH_BEGIN = 60, /* struct ms_text, value = bytes of the tensor, text = what the dump is of (contract 4) */
    MS_WATCH_DATA = 61,  /* struct ms_watch_data: the next bytes */
    MS_WATCH_END = 62,   /* struct ms_text, value = 0, or what aclrtMemcpy returned */
    /* Around a kernel of the runtime, whose name is known only when it has been handed over. */
    MS_WATCH_AHEAD =
        63, /* as MS_WATCH_BEGIN, but the text lacks the beginning, which the thread's next MS_WATCH_KERNEL has */
    MS_WATCH_KERNEL = 64, /* struct ms_watch_kernel: what this thread has dumped ahead is of this kernel */

    MS_LABEL_PUSH = 70,    /* struct ms_text, value = level: what this thread allocates from here on is labelled so */
    MS_LABEL_POP = 71,     /* the same text and value: takes the newest equal one back */
    MS_LABEL_ADDRESS = 72, /* struct ms_text, value = address in a live block, text = "level:label" */

    MS_PY_NAME = 100,     /* struct ms_text, value = id: the text that later MS_PY records mean by this id */
    MS_PY_CALL = 101,     /* struct ms_head, stack = id of a name: a function of this thread begins */
    MS_PY_RETURN = 102,   /* the same: ... ends */
    MS_PY_OPEN = 103,     /* the same: was running when the trace began; outermost first */
    MS_PY_STOP = 104,     /* struct ms_text, empty: the trace of functions has ended in all threads */
    MS_ATEN_START = 105,  /* struct ms_text: an operator of PyTorch begins on this thread */
    MS_ATEN_END = 106,    /* struct ms_text: ... ends */
    MS_ATEN_ACCESS = 107, /* struct ms_access */
    MS_PY_BEGIN = 108,    /* struct ms_text: a range of this thread that the program names begins */
    MS_PY_END = 109,      /* struct ms_text: ... ends */

    MS_ACL_ALLOC = 110, /* struct ms_acl_alloc: AscendCL has given the program memory */
    MS_MAP = 111,       /* struct ms_map: physical memory is mapped at an address, and stays as long as that is so */
    MS_UNMAP = 112,     /* struct ms_map: ... no more */
};

/* Levels of a label (abi.md 3.9); USER_1 to USER_3 are filled in the order of the pushes, which all say MS_LEVEL_USER. */
enum {
    MS_LEVEL_FRAMEWORK = 0,
    MS_LEVEL_COMPONENT = 1,
    MS_LEVEL_PROCESS = 2,
    MS_LEVEL_DETAIL_1 = 3,
    MS_LEVEL_DETAIL_2 = 4,
    MS_LEVEL_USER = 5,
};

enum { MS_LABEL_MAX = 128 }; /* bytes */

/* `mark` of a record: state:2 | words:14 | type:16 | tid:32, from the top. 0 means reserved but not yet marked. */
enum {
    MS_STATE_BUSY = 1,
    MS_STATE_READY = 2,
    MS_MARK_STATE_SHIFT = 62,
    MS_MARK_WORDS_SHIFT = 48, /* record length in units of MS_RECORD_ALIGN */
    MS_MARK_TYPE_SHIFT = 32,
};

enum ms_pool {
    MS_HOST = 0,
    MS_HAL = 1,
    MS_PTA = 2,
    MS_PTA_WORKSPACE = 3,
    MS_MINDSPORE = 4,
    MS_ATB = 5,
    MS_NAMED = 6, /* the first of the user's own pools, in the order of --pools */
    MS_POOLS = 16,
};

enum {
    MS_DEVICE_NONE = 9999, /* unknown; printed N/A */
    MS_DEVICE_CPU = 10000, /* host memory; printed cpu */
};

enum {
    MS_F_SHADOW = 1, /* seen while not tracing: keeps the ledger right, is not shown */
    MS_F_CREATE = 2, /* MS_ALLOC by halMemCreate: detail = page type | module << 8 | side << 40 */
};

struct ms_head {
    uint64_t mark;   /* see above; stored last, with release order */
    uint64_t pos;    /* the record's own position: tells a whole record from debris after a death */
    int64_t stamp;   /* CLOCK_MONOTONIC, read after BUSY was stored */
    uint32_t stack;  /* id of the interned stack, 0 = none */
    uint16_t device; /* physical card id, or MS_DEVICE_* */
    uint8_t pool;    /* enum ms_pool */
    uint8_t flags;   /* MS_F_* */
};

struct ms_alloc {
    struct ms_head h;
    uint64_t addr;
    uint64_t size;
    uint64_t detail; /* HAL: the driver's flag word as passed; with MS_F_CREATE see there; pools: 0 */
    uint64_t total;  /* pools: bytes the pool had reserved at this moment; else 0 */
};

struct ms_free {
    struct ms_head h;
    uint64_t addr;
    uint64_t total; /* pools: bytes reserved at this moment; else 0 */
};

struct ms_text {
    struct ms_head h;
    uint64_t value;
    uint32_t length; /* bytes of text that follow this struct, no terminator */
    uint32_t reserved;
};

struct ms_kernel_launch {
    struct ms_head h;
    uint64_t name; /* id of an MS_KERNEL_NAME before it */
    uint32_t stream;
    uint32_t task; /* times that the task id has wrapped << 16 | task id */
};

/* The card's counter at one moment. */
struct ms_kernel_clock {
    struct ms_head h;
    uint64_t count;
    int64_t when;       /* the moment, CLOCK_MONOTONIC ns */
    uint64_t frequency; /* counts per second, in kHz; not 0 */
};

enum { MS_STREAM_NONE = 0xffffffff }; /* this kind of card does not say */

struct ms_kernel_run {
    struct ms_head h;
    uint64_t count;  /* of the card's counter, when it happened */
    uint32_t stream; /* or MS_STREAM_NONE */
    uint32_t task;   /* task id */
    uint32_t end;    /* 1: the end, 0: the beginning */
    uint32_t pad;
};

/* What a framework's caching pool and the card say at one moment, bytes; the snapshot's name follows. */
struct ms_snapshot {
    struct ms_head h;
    uint64_t total; /* of the card */
    uint64_t free;
    uint64_t reserved;
    uint64_t peak_reserved;
    uint64_t allocated;
    uint64_t peak_allocated;
    uint32_t length; /* bytes of the name that follow this struct, no terminator */
    uint32_t pad;
};

/* A call into the driver that ended with "out of memory". */
struct ms_oom {
    struct ms_head h;
    uint64_t size;   /* bytes asked for */
    uint64_t flag;   /* as passed */
    uint32_t create; /* 0 halMemAlloc, 1 halMemCreate */
    int32_t result;  /* what the driver returned */
};

enum ms_access_kind { MS_ACCESS_UNKNOWN = 0, MS_ACCESS_READ = 1, MS_ACCESS_WRITE = 2 };

/* An operator touches a tensor; text: the operator's name, a line feed, and "dtype:...,shape:..." follow. */
struct ms_access {
    struct ms_head h;
    uint64_t addr;
    uint64_t size;
    uint32_t kind;   /* enum ms_access_kind */
    uint32_t length; /* bytes of text that follow this struct, no terminator */
};

enum { MS_WATCH_CHUNK = 32768 }; /* most bytes of one ms_watch_data */

struct ms_watch_data {
    struct ms_head h;
    uint32_t length; /* bytes that follow this struct */
    uint32_t reserved;
};

struct ms_watch_kernel {
    struct ms_head h;
    uint64_t name;  /* id, as MS_KERNEL_NAME told it; 0: there was no kernel after all, the dumps are of nothing */
    uint32_t count; /* how often it has been launched, or of the dump that opens a window, how often that was */
    uint32_t reserved;
};

/*
 * A stack. Frames follow, innermost first, without those of our own: `c_frames` words of 64 bits, a return address | number of
 * an ms_loaded << 48 (0: generated code); then `py_frames` pairs of 32 bits, the number of an ms_code and a line. The same
 * definition may come twice.
 */
struct ms_stack {
    struct ms_head h; /* `stack`: the id that is defined */
    uint16_t c_frames;
    uint16_t py_frames; /* or MS_NO_PYTHON, MS_NOT_PYTHON */
    uint32_t reserved;
};

enum {
    MS_NO_PYTHON = 0xffff,  /* the thread runs no Python */
    MS_NOT_PYTHON = 0xfffe, /* frames of Python were not wanted */
};

struct ms_code {
    struct ms_head h;
    uint32_t number;
    uint16_t file_length;     /* bytes of UTF-8 that follow this struct, no terminator */
    uint16_t function_length; /* ... and follow that */
};

struct ms_loaded {
    struct ms_head h;
    uint64_t start; /* of its memory, and behind it */
    uint64_t end;
    uint64_t bias;            /* address in memory minus address in the file's program headers */
    uint32_t number;          /* never used for another library */
    uint16_t path_length;     /* bytes that follow this struct, no terminator */
    uint16_t build_id_length; /* ... and follow that; 0: it has none */
};

/*
 * A block of AscendCL's. Its frees are MS_FREE and MS_UNDO of the pool MS_HAL: of a process only one of the two layers is
 * recorded. MS_F_CREATE: physical memory, `addr` is its handle.
 */
struct ms_acl_alloc {
    struct ms_head h;
    uint64_t addr;
    uint64_t size;
    uint32_t line;   /* of the call in the program's source; 0: unknown */
    uint32_t length; /* bytes of the file's name that follow this struct, no terminator */
};

struct ms_map {
    struct ms_head h;
    uint64_t addr;
    uint64_t handle; /* of physical memory; MS_UNMAP: 0 */
};

enum ms_log_level { MS_LOG_DEBUG = 0, MS_LOG_INFO = 1, MS_LOG_WARN = 2, MS_LOG_ERROR = 3 };

/* ------------------------------------------------------------------ session socket
 *
 * An abstract SOCK_SEQPACKET Unix socket whose name is in MSMEMSCOPE_SESSION. One exchange per connection: connect, send
 * ms_hello, receive ms_welcome (with the ring's memfd as SCM_RIGHTS), close. Nothing stays open in the target.
 *
 * A process that is a client already asks for something in the same way: the kind says what. Its answer is an ms_welcome without a
 * ring, then messages of text for the user, the first byte of each an enum ms_say, then the end of the stream.
 */
enum ms_ask {
    MS_JOIN = 0,      /* become a client; text: options of the process that forked this one, or nothing */
    MS_CONFIGURE = 1, /* text: options, lines "name=value"; MS_REFUSED_OPTIONS with the reason as MS_SAY_ERROR */
    MS_FLUSH = 2,     /* answered when everything recorded so far is in the files */
    MS_FINISH = 3,    /* the process is about to end and records nothing more; answered when its files are complete */

    /* Of the host heap, hostheap.h. */
    MS_HEAP_JOIN = 4,  /* send the tables: ring_size of the welcome is their size, the descriptor is theirs */
    MS_HEAP_START = 5, /* open a window; text: options, lines "name=value", or nothing; answered when it is open */
    MS_HEAP_STOP = 6,  /* close it; answered when the report is written */
    MS_HEAP_CHECK = 8, /* text: options; refused or accepted as MS_HEAP_START would, and nothing else happens */

    /*
     * Of `msmemscope --pid`, which is no client. text: the process ids of the client that is meant, in its namespaces from the
     * outermost on, separated by blanks; a line feed; a command, with its words separated by NUL bytes.
     */
    MS_CONTROL = 7,
};

enum ms_say {
    MS_SAY_OUT = 'o',   /* for standard output, with its line feed */
    MS_SAY_ERROR = 'e', /* for standard error, with its line feed */
    MS_SAY_WAIT = 'w',  /* nothing yet, but the collector is at it; several per second */
};

struct ms_hello {
    uint32_t magic;
    uint32_t version;
    int32_t pid;       /* getpid() as the target sees it; the collector takes the real one from SO_PEERCRED */
    uint8_t ask;       /* enum ms_ask */
    uint8_t tracing;   /* MS_JOIN: enum ms_inherited */
    uint16_t reserved; /* 0 */
    /* text follows, at most MS_ASK_MAX bytes, no terminator */
};

enum { MS_ASK_MAX = 16384 };

/* Whether the process that forked this one was tracing when it last steered that itself. */
enum ms_inherited { MS_TRACING_DEFAULT = 0, MS_TRACING_ON = 1, MS_TRACING_OFF = 2 };

enum ms_answer {
    MS_ACCEPTED = 0,
    MS_REFUSED_VERSION = 1,
    MS_REFUSED_CLOSING = 2,
    MS_REFUSED_MEMORY = 3,
    MS_REFUSED_OPTIONS = 4,
};

/* What mssanitizer checks; bits beside those of the analyses. */
enum ms_check { MS_CHECK_DEVICE_HEAP = 32, MS_CHECK_CANN_HEAP = 64 };

enum { MS_WATCH_NAME = 256 }; /* with its end */

/* What the target has to know of the user's options; bit values of contract.md 1.6. */
struct ms_config {
    uint32_t events;    /* collected: alloc 1, free 2, launch 4, access 8 */
    uint32_t level;     /* op 1, kernel 2 */
    uint32_t npu_slots; /* bit per card, 0-31; meaningful without all_npu */
    uint8_t all_npu;
    uint8_t cpu; /* host (pinned) memory wanted */
    uint8_t log_level;
    uint8_t launched; /* a launcher watches over the run and speaks to the user for us */
    uint32_t c_stack_depth;
    uint32_t py_stack_depth;
    uint32_t analysis;     /* leaks 1, decompose 2, inefficient 4, oom 8, host-leaks 16; enum ms_check */
    uint32_t watch_output; /* which output of `watch_start`; the largest number: all of them */
    /* Watching (contract 1.7), when watch_end is not empty; both end with a NUL byte. */
    uint8_t watch_start[MS_WATCH_NAME];
    uint8_t watch_end[MS_WATCH_NAME];
};

struct ms_welcome {
    uint32_t magic;
    uint32_t version;
    uint32_t answer; /* enum ms_answer; anything but MS_ACCEPTED: no ring, pass through */
    uint32_t reserved;
    uint64_t ring_size; /* data bytes */
    struct ms_config config;
};

#endif
