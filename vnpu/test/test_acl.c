/*
 * test_acl.c - AscendCL down to the driver. This program exports halMemAlloc and halMemFree of its own, as a preloaded
 * library would: that they are reached, with the right flags, is what the layering is for.
 */
#define _GNU_SOURCE
#include "child.h"

#include <pthread.h>

#include "acl/acl.h"
#include "ascend_hal.h"
#include "runtime/rt.h"

static struct {
    int allocs, frees;
    unsigned long long size, flag;
} seen;

__attribute__((visibility("default"))) drvError_t halMemAlloc(void **pp, unsigned long long size,
                                                              unsigned long long flag)
{
    seen.allocs++;
    seen.size = size;
    seen.flag = flag;
    return halMemAllocInner(pp, size, flag);
}

__attribute__((visibility("default"))) drvError_t halMemFree(void *pp)
{
    seen.frees++;
    return halMemFreeInner(pp);
}

static int on_card_1(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    return aclrtSetDevice(1);
}

static int off_card_1(void **state)
{
    (void)state;
    return aclrtResetDevice(1);
}

static void life(void)
{
    EXPECT(aclFinalize() == ACL_ERROR_UNINITIALIZE);
    EXPECT(aclInit("/does/not/exist.json") == ACL_ERROR_INVALID_FILE);
    EXPECT(aclInit(NULL) == 0);
    EXPECT(aclInit(NULL) == ACL_ERROR_REPEAT_INITIALIZE);
    EXPECT(aclFinalize() == 0);
    EXPECT(aclFinalize() == ACL_ERROR_REPEAT_FINALIZE);
}

static void init_and_finalize_once(void **state)
{
    (void)state;
    in_child(life, NULL, NULL, 0);
}

static void needs_a_device(void **state)
{
    (void)state;
    void *p = NULL;
    int32_t device;
    size_t a, b;
    assert_int_equal(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(aclrtMalloc(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(aclrtMallocHost(&p, 1), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(aclrtCreateStream(&p), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(aclrtCreateEvent(&p), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(aclrtSynchronizeStream(NULL), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(aclrtGetMemInfo(ACL_HBM_MEM, &a, &b), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(aclrtHostRegisterV2(&p, 8, ACL_HOST_REG_PINNED), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID);
    assert_int_equal(aclrtSetDevice(2), ACL_ERROR_RT_INVALID_DEVICEID);
    uint32_t count;
    assert_int_equal(aclrtGetDeviceCount(&count), 0);
    assert_int_equal(count, 2);
    assert_string_equal(aclrtGetSocName(), "Ascend910B3");
}

static void *device_of_thread(void *error)
{
    int32_t device;
    *(aclError *)error = aclrtGetDevice(&device);
    return NULL;
}

static void device_belongs_to_the_thread(void **state)
{
    (void)state;
    int32_t device;
    aclError error = 0;
    pthread_t thread;
    assert_int_equal(aclrtGetDevice(&device), 0);
    assert_int_equal(device, 1);
    assert_int_equal(pthread_create(&thread, NULL, device_of_thread, &error), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(error, ACL_ERROR_RT_CONTEXT_NULL);
}

/* Flag of every allocation: card 1, device side, HBM, 512-byte alignment, module APP. */
#define FLAG 0x2100000000904401ULL

static void allocations_pass_through_the_public_driver(void **state)
{
    (void)state;
    const struct {
        size_t size;
        aclrtMemMallocPolicy policy;
        unsigned long long driver_size, pages;
        bool align32;
    } cases[] = {
        {100, ACL_MEM_MALLOC_HUGE_FIRST, 160, 0, false},
        {100, ACL_MEM_MALLOC_HUGE_FIRST, 128, 0, true},
        {1 << 20, ACL_MEM_MALLOC_HUGE_FIRST, 1 << 20, 0, true},
        {(1 << 20) + 1, ACL_MEM_MALLOC_HUGE_FIRST, (1 << 20) + 32, MEM_PAGE_HUGE, true},
        {20 << 20, ACL_MEM_MALLOC_HUGE_FIRST_P2P, 20 << 20, MEM_PAGE_HUGE, true},
        {100, ACL_MEM_MALLOC_HUGE_ONLY, 160, MEM_PAGE_HUGE, false},
        {20 << 20, ACL_MEM_MALLOC_NORMAL_ONLY, (20 << 20) + 32, 0, false},
        {100, ACL_MEM_MALLOC_HUGE1G_ONLY, 160, MEM_PAGE_GIANT, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *block;
        aclError error = (cases[i].align32 ? aclrtMallocAlign32 : aclrtMalloc)(&block, cases[i].size, cases[i].policy);
        assert_int_equal(error, 0);
        assert_int_equal(seen.allocs, i + 1);
        assert_int_equal(seen.size, cases[i].driver_size);
        assert_int_equal(seen.flag, FLAG | cases[i].pages);
        assert_int_equal(aclrtFree(block), 0);
        assert_int_equal(seen.frees, i + 1);
    }
    void *host;
    assert_int_equal(aclrtMallocHost(&host, 1000), 0);
    assert_int_equal(seen.flag, MEM_HOST | 33ULL << MEM_MODULE_ID_BIT | 1);
    assert_int_equal(aclrtFreeHost(host), 0);
    assert_int_equal(aclrtFreeHost(host), ACL_ERROR_RT_PARAM_INVALID);
}

static void bad_allocations_fail(void **state)
{
    (void)state;
    void *block = NULL;
    int local;
    assert_int_equal(aclrtMalloc(NULL, 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclrtMalloc(&block, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclrtMalloc(&block, 1, 8), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclrtMalloc(&block, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_int_equal(aclrtMalloc(&block, 65ULL << 30, ACL_MEM_MALLOC_HUGE_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_int_equal(aclrtFree(NULL), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclrtFree(&local), ACL_ERROR_RT_PARAM_INVALID);
    assert_null(block);
}

static void huge_first_falls_back_to_normal_pages(void **state)
{
    (void)state;
    void *most, *rest;
    size_t free_bytes, total;
    assert_int_equal(aclrtMallocAlign32(&most, (64ULL << 30) - (3 << 20), ACL_MEM_MALLOC_NORMAL_ONLY), 0);
    assert_int_equal(aclrtMallocAlign32(&rest, 3 << 20, ACL_MEM_MALLOC_HUGE_FIRST), 0); /* 4 MiB would not fit */
    assert_int_equal(seen.allocs, 3);
    assert_int_equal(seen.flag, FLAG);
    assert_int_equal(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total), 0);
    assert_int_equal(free_bytes, 0);
    assert_int_equal(total, 64ULL << 30);
    assert_int_equal(aclrtFree(most), 0);
    assert_int_equal(aclrtFree(rest), 0);
    assert_int_equal(aclrtGetMemInfo(ACL_DDR_MEM, &free_bytes, &total), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

static void copies_know_their_direction(void **state)
{
    (void)state;
    char host[64], back[64];
    char *a, *b;
    aclrtStream stream;
    memset(host, 'h', sizeof host);
    assert_int_equal(aclrtMalloc((void **)&a, 64, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    assert_int_equal(aclrtMalloc((void **)&b, 64, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    assert_int_equal(aclrtCreateStream(&stream), 0);
    assert_int_equal(aclrtMemcpy(a, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    assert_int_equal(aclrtMemcpyAsync(b, 64, a, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream), 0);
    assert_int_equal(aclrtMemsetAsync(b, 64, 'z', 1, stream), 0);
    assert_int_equal(aclrtMemset(b + 1, 63, 'y', 1), 0);
    assert_int_equal(aclrtMemcpy(back, 64, b, 64, ACL_MEMCPY_DEVICE_TO_HOST), 0);
    assert_int_equal(back[0], 'z');
    assert_int_equal(back[1], 'y');
    assert_memory_equal(back + 2, host, 62);
    assert_int_equal(aclrtMemcpy(back, 64, host, 64, ACL_MEMCPY_HOST_TO_HOST), 0);
    assert_int_equal(aclrtMemcpy(back, 64, a, 64, ACL_MEMCPY_DEFAULT), 0);

    assert_int_equal(aclrtMemcpy(a, 64, host, 64, ACL_MEMCPY_DEVICE_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtMemcpy(back, 64, host, 64, ACL_MEMCPY_DEVICE_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtMemcpy(a, 64, host, 64, 5), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtMemcpy(a, 63, host, 64, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtMemcpy(a, 64, NULL, 64, ACL_MEMCPY_HOST_TO_DEVICE), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtMemset(a, 10, 0, 11), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtMemset(NULL, 10, 0, 1), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtMemcpyAsync(b, 64, a, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, host), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtMemsetAsync(b, 64, 0, 64, host), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtDestroyStream(stream), 0);
    assert_int_equal(aclrtFree(a), 0);
    assert_int_equal(aclrtFree(b), 0);
}

static void streams_and_events_are_checked(void **state)
{
    (void)state;
    aclrtStream stream, other;
    aclrtEvent start, end;
    int32_t id, other_id;
    aclrtEventRecordedStatus status;
    float ms = -1;
    assert_int_equal(aclrtCreateStream(&stream), 0);
    assert_int_equal(aclrtCreateStreamWithConfig(&other, 0, 1), 0);
    assert_int_equal(aclrtStreamGetId(stream, &id), 0);
    assert_int_equal(aclrtStreamGetId(other, &other_id), 0);
    assert_int_not_equal(id, other_id);
    assert_int_equal(aclrtStreamGetId(NULL, &id), 0);
    assert_int_equal(id, 0);

    assert_int_equal(aclrtCreateEvent(&start), 0);
    assert_int_equal(aclrtCreateEventWithFlag(&end, 8), 0);
    assert_int_equal(aclrtQueryEventStatus(start, &status), 0);
    assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    assert_int_equal(aclrtEventElapsedTime(&ms, start, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    assert_int_equal(aclrtRecordEvent(start, stream), 0);
    usleep(2000);
    assert_int_equal(aclrtRecordEvent(end, stream), 0);
    assert_int_equal(aclrtStreamWaitEvent(other, end), 0);
    assert_int_equal(aclrtSynchronizeEvent(end), 0);
    assert_int_equal(aclrtQueryEventStatus(end, &status), 0);
    assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    assert_int_equal(aclrtEventElapsedTime(&ms, start, end), 0);
    assert_true(ms >= 2);
    assert_int_equal(aclrtResetEvent(end, stream), 0);
    assert_int_equal(aclrtEventElapsedTime(&ms, start, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    assert_int_equal(aclrtSynchronizeStream(stream), 0);
    assert_int_equal(aclrtSynchronizeStream(NULL), 0);
    assert_int_equal(aclrtSynchronizeDevice(), 0);

    assert_int_equal(aclrtRecordEvent(stream, stream), ACL_ERROR_RT_PARAM_INVALID); /* not an event */
    assert_int_equal(aclrtRecordEvent(start, start), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtDestroyEvent(end), 0);
    assert_int_equal(aclrtDestroyEvent(end), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtSynchronizeEvent(end), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtDestroyStream(other), 0);
    assert_int_equal(aclrtDestroyStreamForce(other), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtSynchronizeStream(other), ACL_ERROR_RT_PARAM_INVALID);

    /* The last reset of the device ends what is left. */
    assert_int_equal(aclrtResetDevice(1), 0);
    assert_int_equal(aclrtSetDevice(1), 0);
    assert_int_equal(aclrtSynchronizeStream(stream), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtDestroyEvent(start), ACL_ERROR_RT_PARAM_INVALID);
}

static void host_ranges_are_registered_once(void **state)
{
    (void)state;
    static char area[4096];
    assert_int_equal(aclrtHostRegisterV2(area, 100, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED), 0);
    assert_int_equal(aclrtHostRegisterV2(area + 99, 10, ACL_HOST_REG_PINNED), ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    assert_int_equal(aclrtHostRegisterV2(area + 100, 10, ACL_HOST_REG_PINNED), 0);
    assert_int_equal(aclrtHostUnregister(area + 1), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
    assert_int_equal(aclrtHostUnregister(area), 0);
    assert_int_equal(aclrtHostUnregister(area), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
    assert_int_equal(aclrtHostUnregister(area + 100), 0);
    assert_int_equal(aclrtHostRegisterV2(area, 0, ACL_HOST_REG_PINNED), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtHostRegisterV2(area, 1, 0), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(aclrtHostRegisterV2(area, 1, ACL_HOST_REG_PINNED | 8), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    assert_int_equal(aclrtHostUnregister(NULL), ACL_ERROR_RT_PARAM_INVALID);
}

static void expandable_segments_work(void **state)
{
    (void)state;
    enum { PART = 2 << 20 };
    void *range;
    aclrtDrvMemHandle handle, none = NULL;
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE, .location = {1, ACL_MEM_LOCATION_TYPE_DEVICE}};
    assert_int_equal(aclrtReserveMemAddress(&range, 64ULL << 30, 0, NULL, 1), 0);
    assert_int_equal(aclrtMallocPhysical(&handle, PART, &prop, 0), 0);
    assert_int_equal(aclrtMapMem((char *)range + PART, PART, 0, handle, 0), 0);
    assert_int_equal(aclrtMemset((char *)range + PART, PART, 1, PART), 0);
    assert_int_equal(aclrtMemset(range, PART, 1, PART), ACL_ERROR_RT_PARAM_INVALID);  /* nothing is mapped there */
    assert_int_equal(aclrtReleaseMemAddress(range), ACL_ERROR_RT_DRV_INTERNAL_ERROR); /* busy */
    assert_int_equal(aclrtUnmapMem((char *)range + PART), 0);
    assert_int_equal(aclrtFreePhysical(handle), 0);
    assert_int_equal(aclrtFreePhysical(handle), ACL_ERROR_RT_INVALID_HANDLE);
    assert_int_equal(aclrtReleaseMemAddress(range), 0);

    prop.location.id = 2;
    assert_int_equal(aclrtMallocPhysical(&none, PART, &prop, 0), ACL_ERROR_RT_INVALID_DEVICEID);
    prop.location.id = 1;
    assert_int_equal(aclrtMallocPhysical(&none, 66ULL << 30, &prop, 0), ACL_ERROR_RT_MEMORY_ALLOCATION);
    prop.memAttr = ACL_HBM_MEM;
    assert_int_equal(aclrtMallocPhysical(&none, PART, &prop, 0), ACL_ERROR_INVALID_PARAM);
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_and_finalize_once),
        cmocka_unit_test(needs_a_device),
        cmocka_unit_test_setup_teardown(device_belongs_to_the_thread, on_card_1, off_card_1),
        cmocka_unit_test_setup_teardown(allocations_pass_through_the_public_driver, on_card_1, off_card_1),
        cmocka_unit_test_setup_teardown(bad_allocations_fail, on_card_1, off_card_1),
        cmocka_unit_test_setup_teardown(huge_first_falls_back_to_normal_pages, on_card_1, off_card_1),
        cmocka_unit_test_setup_teardown(copies_know_their_direction, on_card_1, off_card_1),
        cmocka_unit_test_setup_teardown(streams_and_events_are_checked, on_card_1, off_card_1),
        cmocka_unit_test_setup_teardown(host_ranges_are_registered_once, on_card_1, off_card_1),
        cmocka_unit_test_setup_teardown(expandable_segments_work, on_card_1, off_card_1),
    };
    return cmocka_run_group_tests_name("acl", tests, NULL, NULL);
}
