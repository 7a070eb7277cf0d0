/* test_vmm.c - reserved addresses, physical handles, mappings. */
#define _GNU_SOURCE
#include "child.h"

#include "ascend_hal.h"

#define GRANULE (2ULL << 20)

static const struct drv_mem_prop device_prop = {
    .side = MEM_DEV_SIDE, .devid = 1, .module_id = APP_MODULE_ID, .pg_type = MEM_HUGE_PAGE_TYPE};

static unsigned long long used_bytes(void)
{
    struct MemInfo info;
    assert_int_equal(halMemGetInfo(1, MEM_INFO_TYPE_HBM_SIZE, &info), 0);
    return info.phy_info.total - info.phy_info.free;
}

static drv_mem_handle_t *create(size_t size)
{
    drv_mem_handle_t *handle = NULL;
    assert_int_equal(halMemCreate(&handle, size, &device_prop, 0), 0);
    assert_non_null(handle);
    return handle;
}

static char *reserve(size_t size)
{
    void *range = NULL;
    assert_int_equal(halMemAddressReserve(&range, size, 0, NULL, MEM_HUGE_PAGE_TYPE), 0);
    assert_int_equal((uintptr_t)range % GRANULE, 0);
    return range;
}

static void two_mappings_show_the_same_bytes(void **state)
{
    (void)state;
    char *range = reserve(16 * GRANULE);
    drv_mem_handle_t *handle = create(3 * GRANULE);
    assert_int_equal(used_bytes(), 3 * GRANULE);
    assert_int_equal(halMemMap(range, 3 * GRANULE, 0, handle, 0), 0);
    assert_int_equal(halMemMap(range + 5 * GRANULE, 3 * GRANULE, 0, handle, 0), 0);
    volatile char *view = range; /* two addresses of one byte, which no compiler expects */
    view[GRANULE + 7] = 'x';
    assert_int_equal(view[6 * GRANULE + 7], 'x');

    struct DVattribute attr;
    assert_int_equal(drvMemGetAttribute((uintptr_t)range + GRANULE, &attr), 0);
    assert_int_equal(attr.memType, DV_MEM_LOCK_DEV);
    assert_int_equal(attr.devId, 1);
    assert_int_equal(drvMemGetAttribute((uintptr_t)range + 4 * GRANULE, &attr), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(drvMemsetD8((uintptr_t)range + GRANULE, 2 * GRANULE, 1, 2 * GRANULE), 0);
    assert_int_equal(drvMemsetD8((uintptr_t)range + GRANULE, 3 * GRANULE, 1, 2 * GRANULE + 1), DRV_ERROR_INVALID_VALUE);

    assert_int_equal(halMemAddressFree(range), DRV_ERROR_BUSY);
    assert_int_equal(halMemUnmap(range), 0);
    assert_int_equal(halMemUnmap(range), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemUnmap(range + 6 * GRANULE), DRV_ERROR_INVALID_VALUE); /* inside a mapping */
    assert_int_equal(halMemUnmap(range + 5 * GRANULE), 0);
    assert_int_equal(halMemAddressFree(range), 0);
    assert_int_equal(halMemAddressFree(range), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemRelease(handle), 0);
    assert_int_equal(used_bytes(), 0);
}

static void released_memory_lives_until_it_is_unmapped(void **state)
{
    (void)state;
    char *range = reserve(2 * GRANULE);
    drv_mem_handle_t *handle = create(GRANULE);
    assert_int_equal(halMemMap(range, GRANULE, 0, handle, 0), 0);
    assert_int_equal(halMemRelease(handle), 0);
    range[5] = 1; /* still there */
    assert_int_equal(used_bytes(), GRANULE);
    assert_int_equal(halMemRelease(handle), DRV_ERROR_INVALID_HANDLE);
    assert_int_equal(halMemMap(range + GRANULE, GRANULE, 0, handle, 0), DRV_ERROR_INVALID_HANDLE);
    assert_int_equal(halMemUnmap(range), 0);
    assert_int_equal(used_bytes(), 0);
    assert_int_equal(halMemAddressFree(range), 0);
}

static void refuses_what_makes_no_sense(void **state)
{
    (void)state;
    drv_mem_handle_t *handle = NULL, *small = create(GRANULE);
    void *range = NULL;
    struct drv_mem_prop prop = device_prop;
    assert_int_equal(halMemCreate(&handle, GRANULE, NULL, 0), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemCreate(NULL, GRANULE, &prop, 0), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemCreate(&handle, 0, &prop, 0), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemCreate(&handle, GRANULE + 1, &prop, 0), DRV_ERROR_INVALID_VALUE);
    prop.pg_type = MEM_GIANT_PAGE_TYPE;
    assert_int_equal(halMemCreate(&handle, GRANULE, &prop, 0), DRV_ERROR_INVALID_VALUE);
    prop.devid = 2;
    prop.pg_type = MEM_NORMAL_PAGE_TYPE;
    assert_int_equal(halMemCreate(&handle, GRANULE, &prop, 0), DRV_ERROR_INVALID_DEVICE);
    prop.side = 3;
    assert_int_equal(halMemCreate(&handle, GRANULE, &prop, 0), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemCreate(&handle, 65ULL << 30, &device_prop, 0), DRV_ERROR_OUT_OF_MEMORY);
    assert_null(handle);
    assert_int_equal(halMemRelease((drv_mem_handle_t *)&prop), DRV_ERROR_INVALID_HANDLE);
    assert_int_equal(halMemRelease((drv_mem_handle_t *)((char *)small + 1)), DRV_ERROR_INVALID_HANDLE);
    assert_int_equal(halMemRelease(NULL), DRV_ERROR_INVALID_HANDLE);

    assert_int_equal(halMemAddressReserve(&range, GRANULE, 4096, NULL, 0), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemAddressReserve(&range, GRANULE / 2, 0, NULL, 0), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemAddressReserve(&range, GRANULE, 0, NULL, 7), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemAddressReserve(NULL, GRANULE, 0, NULL, 0), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemAddressFree(&prop), DRV_ERROR_INVALID_VALUE);

    range = reserve(2 * GRANULE);
    char *start = range;
    assert_int_equal(halMemMap(start, 2 * GRANULE, 0, small, 0), DRV_ERROR_INVALID_VALUE); /* not the handle's size */
    assert_int_equal(halMemMap(start, GRANULE, GRANULE, small, 0), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemMap(start + 4096, GRANULE, 0, small, 0), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemMap(start + 2 * GRANULE, GRANULE, 0, small, 0), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemMap(start, GRANULE, 0, NULL, 0), DRV_ERROR_INVALID_HANDLE);
    assert_int_equal(halMemMap(start, GRANULE, 0, small, 0), 0);
    assert_int_equal(halMemMap(start, GRANULE, 0, small, 0), DRV_ERROR_INVALID_VALUE); /* taken */
    assert_int_equal(halMemUnmap(start), 0);
    assert_int_equal(halMemAddressFree(start), 0);
    assert_int_equal(halMemRelease(small), 0);
}

static void handles_are_caught_when_stale(void **state)
{
    (void)state;
    drv_mem_handle_t *stale = create(GRANULE);
    assert_int_equal(halMemRelease(stale), 0);
    for (int i = 0; i < 100; i++) {
        drv_mem_handle_t *handle = create(GRANULE);
        assert_ptr_not_equal(handle, stale);
        assert_int_equal(halMemRelease(stale), DRV_ERROR_INVALID_HANDLE);
        assert_int_equal(halMemRelease(handle), 0);
    }
    /* In the long run slots are used again, so that endless create and release costs nothing. */
    for (int i = 0; i < 6000; i++)
        assert_int_equal(halMemRelease(create(GRANULE)), 0);
    assert_int_equal(used_bytes(), 0);
}

static void host_memory_has_no_card(void **state)
{
    (void)state;
    struct drv_mem_prop prop = {.side = MEM_HOST_SIDE, .devid = 99};
    drv_mem_handle_t *handle;
    char *range = reserve(GRANULE);
    assert_int_equal(halMemCreate(&handle, GRANULE, &prop, 0), 0);
    assert_int_equal(used_bytes(), 0);
    assert_int_equal(halMemMap(range, GRANULE, 0, handle, 0), 0);
    struct DVattribute attr;
    assert_int_equal(drvMemGetAttribute((uintptr_t)range, &attr), 0);
    assert_int_equal(attr.memType, DV_MEM_LOCK_HOST);
    assert_int_equal(halMemUnmap(range), 0);
    assert_int_equal(halMemRelease(handle), 0);
    assert_int_equal(halMemAddressFree(range), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_mappings_show_the_same_bytes),
        cmocka_unit_test(released_memory_lives_until_it_is_unmapped),
        cmocka_unit_test(refuses_what_makes_no_sense),
        cmocka_unit_test(handles_are_caught_when_stale),
        cmocka_unit_test(host_memory_has_no_card),
    };
    return cmocka_run_group_tests_name("vmm", tests, NULL, NULL);
}
