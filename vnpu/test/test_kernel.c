/*
 * test_kernel.c - kernels: the ten ways to launch one, the time line of streams, and what a profiler hears of it. The tests bring
 * the profiler: callbacks in libprofapi.so and a reader of the driver's channel.
 */
#define _GNU_SOURCE
#include "child.h"

#include <time.h>

#include "acl/acl.h"
#include "ascend_hal.h"
#include "runtime/rt.h"
#include "toolchain/prof_api.h"

static const char text[] = "MatMul 300\nAdd with blanks 20\n\nNothing 0";

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ------------------------------------------------------------------ a profiler */

enum { SEEN = 70000 };
static struct MsprofRuntimeTrack tracks[SEEN];
static int track_count, api_count, expand_count;
static char names[16][64];
static int name_count;

static uint64_t remember(const char *name, size_t length)
{
    snprintf(names[name_count], sizeof *names, "%.*s", (int)length, name);
    return (uint64_t)++name_count;
}

static int32_t compact(uint32_t aging, const void *data, uint32_t length)
{
    const struct MsprofCompactInfo *info = data;
    EXPECT(aging == 1 && length == 64 && info->magicNumber == 0x5a5a && info->level == 5000);
    if (info->type == 804 && info->data.info[0] == 1)
        expand_count++;
    if (info->type == 802) {
        EXPECT(info->threadId == (uint32_t)gettid() && info->dataLen == 24);
        tracks[track_count++] = info->data.runtimeTrack;
    }
    return 0;
}

static int32_t api(uint32_t aging, const struct MsprofApi *data)
{
    EXPECT(aging == 1 && data->endTime >= data->beginTime);
    api_count++;
    return 0;
}

static void switch_on(uint32_t type, uint32_t card)
{
    struct CommandHandle command = {
        .profSwitch = PROF_RUNTIME_TRACE_MASK, .devNums = 1, .devIdList = {card}, .type = type};
    EXPECT(profSetProfCommand(&command, sizeof command) == 0);
}

static void listen(uint32_t card)
{
    EXPECT(MsprofRegisterProfileCallback(PROFILE_REPORT_COMPACT_CALLBACK, (void *)compact, 8) == 0);
    EXPECT(MsprofRegisterProfileCallback(PROFILE_REPORT_API_C_CALLBACK, (void *)api, 8) == 0);
    EXPECT(MsprofRegisterProfileCallback(PROFILE_REPORT_GET_HASH_ID_C_CALLBACK, (void *)remember, 8) == 0);
    switch_on(PROF_COMMANDHANDLE_TYPE_START, card);
}

static int start_channel(uint32_t card, uint32_t bytes)
{
    uint32_t what[11] = {1, 0, 0, 0, 0, 0, 1};
    struct prof_start_para para = {.sample_period = 20, .real_time = 1, .user_data = what, .user_data_size = bytes};
    return prof_drv_start(card, 50, &para);
}

static void *load(void)
{
    void *binary;
    EXPECT(aclrtBinaryLoadFromData(text, sizeof text - 1, NULL, &binary) == 0);
    return binary;
}

static void *function(void *binary, const char *name)
{
    void *f;
    EXPECT(aclrtBinaryGetFunction(binary, name, &f) == 0);
    return f;
}

/* ------------------------------------------------------------------ tests */

static void ways(void)
{
    static char stub;
    void *stream;
    int32_t id;
    EXPECT(aclrtSetDevice(1) == 0);
    EXPECT(aclrtCreateStream(&stream) == 0 && aclrtStreamGetId(stream, &id) == 0 && id > 0);
    void *binary = load(), *f = function(binary, "Add with blanks");
    EXPECT(rtFunctionRegister(binary, &stub, "stub", "MatMul", 0) == 0);
    EXPECT(aclrtLaunchKernel(f, 1, NULL, 0, stream) == 0);
    EXPECT(track_count == 0);
    listen(1);
    EXPECT(aclrtLaunchKernel(f, 1, NULL, 0, stream) == 0);
    EXPECT(aclrtLaunchKernelV2(f, 1, NULL, 0, NULL, stream) == 0);
    EXPECT(aclrtLaunchKernelWithConfig(f, 1, stream, NULL, NULL, NULL) == 0);
    EXPECT(aclrtLaunchKernelWithHostArgs(f, 1, stream, NULL, NULL, 0, NULL, 0) == 0);
    EXPECT(rtLaunchKernelByFuncHandle(f, 1, NULL, stream) == 0);
    EXPECT(rtLaunchKernelByFuncHandleV2(f, 1, NULL, stream, NULL) == 0);
    EXPECT(rtKernelLaunch(&stub, 1, NULL, 0, NULL, stream) == 0);
    EXPECT(rtKernelLaunchWithFlagV2(&stub, 1, NULL, NULL, stream, 0, NULL) == 0);
    EXPECT(rtKernelLaunchWithHandleV2(binary, 2, 1, NULL, NULL, stream, NULL) == 0);
    EXPECT(rtAicpuKernelLaunchExWithArgs(0, "Cpu", 1, NULL, NULL, stream, 0) == 0);
    EXPECT(track_count == 10 && api_count == 10 && name_count == 4);
    const char *called[] = {"Add with blanks", "MatMul", "Nothing", "Cpu"};
    for (int i = 0; i < 10; i++) {
        EXPECT(tracks[i].deviceId == 1 && tracks[i].streamId == id && tracks[i].taskInfo == (uint32_t)i + 1);
        EXPECT(strcmp(names[tracks[i].kernelName - 1], called[i < 6 ? 0 : i < 8 ? 1 : i - 6]) == 0);
    }
    switch_on(PROF_COMMANDHANDLE_TYPE_STOP, 1);
    EXPECT(aclrtLaunchKernel(f, 1, NULL, 0, stream) == 0 && track_count == 10);
    /* Nobody takes API records any more: a launch fails while they are wanted, as on the 950. */
    switch_on(PROF_COMMANDHANDLE_TYPE_START, 1);
    EXPECT(MsprofRegisterProfileCallback(PROFILE_REPORT_API_C_CALLBACK, NULL, 8) == 0);
    EXPECT(aclrtLaunchKernel(f, 1, NULL, 0, stream) == ACL_ERROR_RT_DRV_INTERNAL_ERROR);

    EXPECT(aclrtLaunchKernel(f, 0, NULL, 0, stream) == ACL_ERROR_RT_PARAM_INVALID);
    EXPECT(aclrtLaunchKernel(&stub, 1, NULL, 0, stream) == ACL_ERROR_RT_PARAM_INVALID);
    EXPECT(aclrtLaunchKernel(f, 1, NULL, 0, &stub) == ACL_ERROR_RT_PARAM_INVALID);
    EXPECT(rtKernelLaunch(text, 1, NULL, 0, NULL, stream) == ACL_ERROR_RT_PARAM_INVALID);
    EXPECT(rtKernelLaunchWithHandleV2(binary, 3, 1, NULL, NULL, stream, NULL) == ACL_ERROR_RT_PARAM_INVALID);
    EXPECT(aclrtBinaryGetFunction(binary, "Add", &f) == ACL_ERROR_RT_PARAM_INVALID);
    EXPECT(aclrtBinaryUnLoad(binary) == 0 && aclrtBinaryUnLoad(binary) == ACL_ERROR_RT_PARAM_INVALID);
    EXPECT(rtKernelLaunch(&stub, 1, NULL, 0, NULL, stream) == ACL_ERROR_RT_PARAM_INVALID);
}

static void bad_binaries(void)
{
    void *binary;
    static const char *const bad[] = {"MatMul", "MatMul x", "MatMul -1", "MatMul 60000001", " 5", "MatMul 5 "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT(aclrtBinaryLoadFromData(bad[i], strlen(bad[i]), NULL, &binary) == ACL_ERROR_RT_PARAM_INVALID);
    EXPECT(aclrtBinaryLoadFromData(NULL, 5, NULL, &binary) == ACL_ERROR_RT_PARAM_INVALID);
}

static void time_line(void)
{
    void *a, *b, *e1, *e2;
    float ms;
    aclrtEventRecordedStatus status;
    EXPECT(aclrtSetDevice(0) == 0 && aclrtCreateStream(&a) == 0 && aclrtCreateStream(&b) == 0);
    EXPECT(aclrtCreateEvent(&e1) == 0 && aclrtCreateEvent(&e2) == 0);
    void *binary = load(), *f = function(binary, "MatMul");
    int64_t before = now();
    for (int i = 0; i < 20; i++)
        EXPECT(aclrtLaunchKernel(f, 1, NULL, 0, a) == 0);
    EXPECT(aclrtRecordEvent(e1, a) == 0);
    EXPECT(aclrtStreamWaitEvent(b, e1) == 0);
    EXPECT(aclrtLaunchKernel(f, 1, NULL, 0, b) == 0);
    EXPECT(aclrtRecordEvent(e2, b) == 0);
    EXPECT(aclrtQueryEventStatus(e2, &status) == 0);
    EXPECT(status == ACL_EVENT_RECORDED_STATUS_NOT_READY || now() - before > 6000000);
    EXPECT(aclrtSynchronizeEvent(e1) == 0);
    EXPECT(now() - before >= 20 * 300000);
    EXPECT(aclrtSynchronizeStream(b) == 0);
    EXPECT(now() - before >= 21 * 300000);
    EXPECT(aclrtEventElapsedTime(&ms, e1, e2) == 0 && ms > 0.299F && ms < 0.301F);
    for (int i = 0; i < 20; i++)
        EXPECT(aclrtLaunchKernel(f, 1, NULL, 0, NULL) == 0);
    before = now();
    EXPECT(aclrtSynchronizeDevice() == 0);
    EXPECT(now() - before >= 1000000); /* some of 6 ms */
    EXPECT(aclrtBinaryUnLoad(binary) == 0);
}

/* Every record of the channel: the ids as the profiler has heard them, times inside of the launches', in order. */
static void read_channel(uint32_t card, int64_t ppm, int tasks, int64_t from, size_t size,
                         void (*ids)(const char *, uint32_t *, uint32_t *))
{
    static char buffer[1 << 16];
    uint64_t last = 0;
    int64_t count, kHz;
    int begun = 0, ended = 0, bytes;
    EXPECT(halGetDeviceInfo(card, 0, 25, &kHz) == 0 && kHz == 50000);
    EXPECT(halGetDeviceInfo(card, 0, 13, &count) == 0);
    int64_t to = now();
    while ((bytes = prof_channel_read(card, 50, buffer, sizeof buffer)) > 0)
        for (const char *r = buffer; r < buffer + bytes; r += size) {
            uint32_t head, stream, task;
            uint64_t time;
            memcpy(&head, r, 4);
            memcpy(&time, r + 8, 8);
            ids(r, &stream, &task);
            int *number = (head & 63) == 1 ? &ended : &begun;
            EXPECT((head & 63) <= 1 && head >> 16 == 0x6bd3 && bytes % size == 0);
            EXPECT(task == (tracks[*number].taskInfo & 0xffff) && (size == 32 || stream == tracks[*number].streamId));
            ++*number;
            EXPECT(time >= last);
            last = time;
            int64_t ago = (count - (int64_t)time) * 20; /* ns of a clock that may be fast */
            EXPECT(ago >= -1000 && ago <= (to - from) * (1000000 + ppm) / 1000000 + 1000);
        }
    EXPECT(begun == tasks && ended == tasks);
}

static void legacy_ids(const char *r, uint32_t *stream, uint32_t *task)
{
    uint16_t s, t;
    memcpy(&s, r + 4, 2);
    memcpy(&t, r + 6, 2);
    *stream = s % 2048, *task = t;
    if (s & 0x1000)
        *task = (t & 0x1fff) | (s & 0xe000);
    else if (s & 0x2000)
        *stream = (t & 0xfff) % 2048, *task = (s & 0xfff) | (t & 0xf000);
}

static void expanded_ids(const char *r, uint32_t *stream, uint32_t *task)
{
    uint16_t s, t;
    memcpy(&s, r + 4, 2);
    memcpy(&t, r + 6, 2);
    *stream = s & 0x7fff, *task = t;
    if (s & 0x8000)
        *stream = t & 0x7fff, *task = (t & 0x8000) | (s & 0x7fff);
}

static void new_ids(const char *r, uint32_t *stream, uint32_t *task)
{
    *stream = 0;
    memcpy(task, r + 4, 4);
}

/* More tasks than there are ids, so that they wrap. */
static void channel(size_t size, uint32_t streams, int64_t ppm, void (*ids)(const char *, uint32_t *, uint32_t *))
{
    const int tasks = 66000;
    void *stream = NULL;
    char byte;
    EXPECT(aclrtSetDevice(1) == 0);
    for (uint32_t i = 0; i < streams; i++)
        EXPECT(aclrtCreateStream(&stream) == 0);
    void *binary = load(), *f = function(binary, "Nothing");
    EXPECT(prof_channel_read(1, 50, &byte, 1) == PROF_STOPPED_ALREADY);
    EXPECT(start_channel(1, size == 32 ? 36 : 44) == PROF_ERROR);
    EXPECT(start_channel(1, size == 32 ? 44 : 36) == PROF_OK);
    EXPECT(start_channel(1, size == 32 ? 44 : 36) == PROF_STARTED_ALREADY);
    EXPECT(prof_channel_read(1, 50, &byte, 1) == 0);
    listen(1);
    int64_t from = now();
    for (int i = 0; i < tasks; i++)
        EXPECT(aclrtLaunchKernel(f, 1, NULL, 0, stream) == 0);
    EXPECT(aclrtSynchronizeStream(stream) == 0);
    EXPECT(track_count == tasks && tracks[65536].taskInfo == 0x10000);
    EXPECT(prof_stop(1, 50) == PROF_OK && prof_stop(1, 50) == PROF_STOPPED_ALREADY);
    read_channel(1, ppm, tasks, from, size, ids);
    EXPECT(prof_channel_read(1, 50, &byte, 1) == PROF_STOPPED_ALREADY);
    EXPECT(aclrtBinaryUnLoad(binary) == 0);
}

static void channel_legacy(void)
{
    channel(64, 2000, 0, legacy_ids);
    EXPECT(expand_count == 0);
}

static void channel_expanded(void)
{
    channel(64, 9000, 0, expanded_ids);
    EXPECT(expand_count == 1);
}

static void channel_new(void)
{
    channel(32, 1, 1000, new_ids);
}

static void depth(void)
{
    void *stream;
    EXPECT(aclrtSetDevice(0) == 0 && aclrtCreateStream(&stream) == 0);
    void *binary = load(), *f = function(binary, "Add with blanks");
    int64_t before = now();
    for (int i = 0; i < 2048; i++)
        EXPECT(aclrtLaunchKernel(f, 1, NULL, 0, stream) == 0);
    EXPECT(now() - before >= 1023 * 20000); /* half of them had to be done */
    EXPECT(aclrtBinaryUnLoad(binary) == 0);
}

static void body(void **state)
{
    static const struct {
        void (*run)(void);
        const char *const environment[7];
    } cases[] = {
        {ways, {NULL}},
        {time_line, {NULL}},
        {depth, {NULL}},
        {channel_legacy, {NULL}},
        {channel_expanded, {"VNPU_STREAM_EXPAND", "1", NULL}},
        {channel_new, {"VNPU_SOC", "Ascend950PR", "VNPU_CLOCK_PPM", "1000", NULL}},
    };
    size_t i = (size_t)*state;
    in_child(cases[i].run, cases[i].environment, NULL, 0);
}

static void bad_binaries_are_named(void **state)
{
    (void)state;
    char errors[2048];
    in_child(bad_binaries, NULL, errors, sizeof errors);
    assert_non_null(strstr(errors, "\"MatMul x\" in a binary is not valid"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"ways", body, NULL, NULL, (void *)0},
        {"time line", body, NULL, NULL, (void *)1},
        {"depth", body, NULL, NULL, (void *)2},
        {"channel, 11 bits of stream", body, NULL, NULL, (void *)3},
        {"channel, 15 bits of stream", body, NULL, NULL, (void *)4},
        {"channel of the 950", body, NULL, NULL, (void *)5},
        cmocka_unit_test(bad_binaries_are_named),
    };
    return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}
