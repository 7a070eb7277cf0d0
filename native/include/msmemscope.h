/*
 * msmemscope.h - the public C API of libascend_leaks.so: what a program may call to steer its own recording.
 *
 * The library is in the process when the program was started under msmemscope or after
 * `source msmemscope --load-api-env`; look the functions up with dlsym(RTLD_DEFAULT, ...) to run without it too.
 * All functions may be called from any thread and keep errno.
 */
#ifndef MSMEMSCOPE_H
#define MSMEMSCOPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Begins recording, or goes on after ms_stop. Does nothing when already recording.
 * Returns 0, or -1 when nobody collects for this process (then nothing is recorded and nothing is lost to the program).
 */
int ms_start(void);

/*
 * Pauses recording. Blocks that come and go meanwhile are followed but not shown, so that the books are right at the
 * next ms_start. Does nothing when already paused. Returns 0, or -1 as ms_start.
 */
int ms_stop(void);

/*
 * Marks the end of a training step; steps count from 1 in each process. Does nothing while paused.
 * Returns 0, or -1 as ms_start. Use either this or mstx ranges named "step start", not both.
 */
int ms_step(void);

/*
 * A pool of your own. An allocator reports its blocks through mstx, the annotation interface of CANN, in a domain that carries the pool's
 * name; with `msmemscope --pools=NAME` they become MALLOC and FREE rows of event type NAME and take part in the leak analysis.
 *
 *     mstxDomainHandle_t pool = mstxDomainCreateA("arena");                    NULL: nobody records it
 *     heap = mstxMemHeapRegister(pool, &heap_desc);                            for each chunk that the pool reserves
 *     mstxMemRegionsRegister(pool, &batch);                                    for the blocks that it hands out
 *     mstxMemRegionsUnregister(pool, &refs);                                   by pointer or by handle
 *     mstxMemHeapUnregister(pool, heap);
 *
 * Heaps add up to `total` of the rows, regions to `used`. regionHandleArrayOut of a batch is NULL or has room for its regions.
 */

/*
 * Labels say what memory is for. With --analysis=decompose the MALLOC row of a block has `owner`: the names of its levels
 * in this order, joined by @, empty ones left out. FRAMEWORK follows from whose memory it is (PTA, CANN@HCCL, ...).
 */
enum ms_label_level {
    MS_LABEL_FRAMEWORK = 0,
    MS_LABEL_COMPONENT = 1,
    MS_LABEL_PROCESS = 2,
    MS_LABEL_DETAIL_1 = 3,
    MS_LABEL_DETAIL_2 = 4,
    MS_LABEL_USER_1 = 5,
    MS_LABEL_USER_2 = 6,
    MS_LABEL_USER_3 = 7,
};

enum { MS_LABEL_BYTES = 128 }; /* longest label, without the terminator */

/*
 * Labels what the calling thread allocates from here on, until the pop of the same level and label. Each level holds up to 3
 * different labels, of which the newest counts; equal ones nest. MS_LABEL_USER_1, for all user levels: up to 3, which fill USER_1 to
 * USER_3 in the order of their pushes. Further labels are ignored, as is the pop of a label that is not there. Works while
 * paused, too.
 *
 * All three return 0, -1 as ms_start, or -2 when the label is NULL, empty or longer than MS_LABEL_BYTES or the level is none.
 */
int ms_label_push(int level, const char *label);
int ms_label_pop(int level, const char *label);

/*
 * Puts a label, of any level, on the live block of PyTorch's caching pool that holds `address`, in place of the one it has there. Ignored when
 * there is none. A block whose row is written already, by ms_stop, stays as it is.
 */
int ms_label_address(uint64_t address, int level, const char *label);

/*
 * Sets the options of this process. `options` is `length` bytes, at most 16384: the working directory, for a relative output
 * path, and then name=value with the names and values of the command line, each part with a NUL byte behind it. What is not given
 * has its default, except format, output-path and watch, of which the first setting stays.
 * `reply` gets lines for the user, or after a refusal the reason without a line feed, cut to `room` bytes with a NUL at the end.
 * Returns 0, 1 when the options are refused and nothing has changed, or -1 as ms_start.
 */
int ms_config(const char *options, size_t length, char *reply, size_t room);

/* Returns when everything recorded so far is in the files. `reply` and the result are as those of ms_config. */
int ms_flush(char *reply, size_t room);

/* The options in force, bit values as in config.json, and whether the process records. Returns 0, or -1 as ms_start with all 0. */
struct ms_options {
    uint32_t events;   /* collected: alloc 1, free 2, launch 4, access 8 */
    uint32_t level;    /* op 1, kernel 2 */
    uint32_t analysis; /* leaks 1, decompose 2, inefficient 4, oom 8, host-leaks 16 */
    uint8_t cpu;       /* host memory wanted */
    uint8_t tracing;
    uint8_t watching; /* tensors are dumped around operators: --watch */
    uint8_t reserved;
};
int ms_options(struct ms_options *options);

/* A SNAPSHOT row, also while paused. `device` as the program counts them, all else bytes. Returns 0, or -1 as ms_start. */
struct ms_memory {
    uint64_t total; /* of the card */
    uint64_t free;
    uint64_t reserved; /* by the framework's pool */
    uint64_t peak_reserved;
    uint64_t allocated; /* handed out by it */
    uint64_t peak_allocated;
};
int ms_snapshot(int device, const struct ms_memory *memory, const char *name);

/* A named range of the calling thread, for the Python trace. Both return 0, or -1 as ms_start. */
int ms_py_begin(const char *name);
int ms_py_end(const char *name);

/*
 * Operators of PyTorch on the calling thread, and the tensors that they touch: `text` is the operator's name, a line feed, and
 * "dtype:...,shape:..."; `kind` 1 reads, 2 writes, 0 is not known; an access to address 0 is ignored. They return 0, or -1 as ms_start.
 */
int ms_aten_begin(const char *name);
int ms_aten_end(const char *name);
int ms_aten_access(const char *text, uint64_t address, uint64_t size, int kind);

/*
 * Under --watch: `bytes` of device memory at `address` are dumped around each operator, `times` times, -1 without end, until ms_unwatch. `name`
 * has up to 64 bytes and is cut. Both return 0, or -1: nothing is watched in this process, or there is no room for one more (256), or, of
 * ms_unwatch, it is not watched.
 */
int ms_watch(uint64_t address, uint64_t bytes, const char *name, int times);
int ms_unwatch(uint64_t address, uint64_t bytes);

/* Host memory of the program's own: a block that lives, and its end. For --device=cpu. Both return 0, or -1 as ms_start. */
int ms_host_alloc(uint64_t address, uint64_t bytes);
int ms_host_free(uint64_t address);

/*
 * The trace of Python functions; all need the GIL. With `monitored` the caller registers the built-in functions on_start, on_return,
 * on_call and on_c_return with sys.monitoring; otherwise the trace is on in every thread that exists at ms_py_trace and in those
 * that call ms_py_trace_thread. Functions of files below `ignored_directory` are left out. Returns 0, -1 as ms_start, -2 when this is no
 * CPython that it knows.
 */
struct ms_py_trace {
    const void *module_code;     /* the code object of torch.nn.Module.__call__, or NULL */
    const void *function_type;   /* type(len) */
    const void *descriptor_type; /* type(str.join) */
    const void *none;            /* None */
    const void *frame;           /* a frame object, and ... */
    const void *code;            /* ... its code object */
    const char *ignored_directory;
    int monitored;
    int layout; /* N of CPython 3.N: `frame` and `code` tell whether it is laid out as expected */
};
int ms_py_trace(const struct ms_py_trace *how);
void ms_py_trace_thread(void);
void ms_py_trace_stop(int by_monitoring);

/*
 * A new built-in function of Python over the functions above: begin_range(name), end_range(name), begin_operator(name),
 * end_operator(name), access(name, attributes, address, bytes, kind), and those of ms_py_trace. `none` is None, which is also the result for
 * another name. Needs the GIL.
 */
void *ms_py_function(const char *name, void *none);

/*
 * A new method, __enter__ or __exit__, for a class of ranges: its objects have their name, a string, behind the two words that every
 * object begins with. `none` as above. Needs the GIL.
 */
void *ms_py_range_method(const char *name, void *class, void *none);

/*
 * A line for the log of the recording, by `level`: 0 debug, 1 info, 2 warning, 3 error; at most 1024 bytes. Nothing happens, and the
 * result is -1, when the process is not recorded or has recorded nothing yet; else it is 0.
 */
int ms_note(int level, const char *text);

/*
 * `handler` gets the messages "sanitizer-op: ..." that are marked, on the marking thread; NULL ends that. What it returns, unless
 * NULL, is a class of Python exceptions, which the thread raises as soon as it is back in Python.
 */
typedef void *ms_sanitizer_fn(const char *message, void *stream);
void ms_sanitizer(ms_sanitizer_fn *handler);

#ifdef __cplusplus
}
#endif

#endif
