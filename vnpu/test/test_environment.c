/* test_environment.c - the variables: what they do, and that a bad one is refused by name. */
#define _GNU_SOURCE
#include "child.h"

#include "acl/acl.h"
#include "ascend_hal.h"
#include "runtime/rt.h"

static void every_call_fails(void)
{
    void *block = NULL;
    uint32_t devices;
    int version;
    EXPECT(halMemAlloc(&block, 1, MEM_DEV) == DRV_ERROR_UNINIT);
    EXPECT(halMemFree(&block) == DRV_ERROR_UNINIT);
    EXPECT(drvGetDevNum(&devices) == DRV_ERROR_UNINIT);
    EXPECT(halGetAPIVersion(&version) == DRV_ERROR_UNINIT);
    EXPECT(aclInit(NULL) == ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    EXPECT(aclrtSetDevice(0) == ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    EXPECT(aclrtGetSocName() == NULL);
}

static void bad_values_are_refused_by_name(void **state)
{
    (void)state;
    const char *const bad[][2] = {
        {"VNPU_DEVICES", "0"},
        {"VNPU_DEVICES", "65"},
        {"VNPU_DEVICES", "2x"},
        {"VNPU_DEVICES", ""},
        {"VNPU_DEVICES", " 2"},
        {"VNPU_HBM_BYTES", "1M"},
        {"VNPU_HBM_BYTES", "64GB"},
        {"VNPU_HBM_BYTES", "-1G"},
        {"VNPU_HBM_BYTES", "99999999999999999999"},
        {"VNPU_HBM_BYTES", "99999999999T"},
        {"VNPU_HBM_BYTES", "2P"},
        {"VNPU_FAIL_ALLOC_NTH", "0"},
        {"VNPU_FAIL_ALLOC_NTH", "1K"},
        {"VNPU_FAIL_ALLOC_CODE", "65536"},
        {"VNPU_FAIL_FREE_NTH", "first"},
        {"VNPU_FAIL_FREE_CODE", "0"},
        {"VNPU_SOC", ""},
        {"VNPU_SOC", "Ascend 910"},
        {"VNPU_SOC", "Ascend910B3Ascend910B3Ascend910B3"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *environment[] = {bad[i][0], bad[i][1], NULL};
        char errors[512], start[128];
        in_child(every_call_fails, environment, errors, sizeof errors);
        snprintf(start, sizeof start, "vnpu: %s=\"%s\" is not valid: it must be ", bad[i][0], bad[i][1]);
        assert_memory_equal(errors, start, strlen(start));
        assert_ptr_equal(strchr(errors, '\n'), errors + strlen(errors) - 1); /* one line */
    }
}

static void four_cards_of_one_gigabyte(void)
{
    struct MemInfo info;
    uint32_t devices;
    char soc[32];
    EXPECT(drvGetDevNum(&devices) == 0 && devices == 4);
    EXPECT(halMemGetInfo(3, MEM_INFO_TYPE_HBM_SIZE, &info) == 0 && info.phy_info.total == 1 << 30);
    EXPECT(halGetSocVersion(0, soc, sizeof soc) == 0 && !strcmp(soc, "Ascend910_9382"));
}

static void cards_are_as_asked(void **state)
{
    (void)state;
    const char *const spellings[] = {"1G", "1g", "1024M", "1048576k", "1073741824"};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        const char *environment[] = {"VNPU_DEVICES",   "4", "VNPU_HBM_BYTES", spellings[i], "VNPU_SOC",
                                     "Ascend910_9382", NULL};
        in_child(four_cards_of_one_gigabyte, environment, NULL, 0);
    }
}

static void two_cards_of_64_gigabytes(void)
{
    struct MemInfo info;
    uint32_t devices;
    EXPECT(drvGetDevNum(&devices) == 0 && devices == 2);
    EXPECT(halMemGetInfo(1, MEM_INFO_TYPE_HBM_SIZE, &info) == 0 && info.phy_info.total == 64ULL << 30);
    void *all = NULL;
    EXPECT(halMemAlloc(&all, 64ULL << 30, MEM_DEV | MEM_PAGE_HUGE) == 0); /* costs nothing until touched */
    ((char *)all)[(64ULL << 30) - 1] = 1;
    EXPECT(halMemFree(all) == 0);
}

static void defaults_are_as_documented(void **state)
{
    (void)state;
    in_child(two_cards_of_64_gigabytes, NULL, NULL, 0);
}

static void third_allocation_fails(void)
{
    void *a, *b, *c = NULL;
    struct drv_mem_prop prop = {.side = MEM_DEV_SIDE};
    drv_mem_handle_t *handle = NULL;
    EXPECT(halMemAlloc(&a, 1, MEM_DEV) == 0);
    EXPECT(halMemCreate(&handle, 2 << 20, &prop, 0) == 0); /* counts as well */
    EXPECT(halMemAlloc(&c, 1, MEM_DEV) == 4711);
    EXPECT(c == NULL);
    EXPECT(halMemAlloc(&b, 1, MEM_DEV) == 0);
    EXPECT(halMemFree(a) == 0 && halMemFree(b) == 0 && halMemRelease(handle) == 0);
}

static void the_nth_allocation_fails_with_the_code(void **state)
{
    (void)state;
    const char *environment[] = {"VNPU_FAIL_ALLOC_NTH", "3", "VNPU_FAIL_ALLOC_CODE", "4711", NULL};
    in_child(third_allocation_fails, environment, NULL, 0);
}

static void first_allocation_is_out_of_memory(void)
{
    void *block;
    EXPECT(aclrtSetDevice(0) == 0);
    EXPECT(aclrtMalloc(&block, 100, ACL_MEM_MALLOC_NORMAL_ONLY) == ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT(aclrtMalloc(&block, 100, ACL_MEM_MALLOC_NORMAL_ONLY) == 0);
    EXPECT(aclrtFree(block) == 0);
}

static void the_code_is_out_of_memory_by_default(void **state)
{
    (void)state;
    const char *environment[] = {"VNPU_FAIL_ALLOC_NTH", "1", NULL};
    in_child(first_allocation_is_out_of_memory, environment, NULL, 0);
}

static void second_free_fails(void)
{
    void *a, *b;
    EXPECT(halMemAlloc(&a, 1, MEM_DEV) == 0 && halMemAlloc(&b, 1, MEM_DEV) == 0);
    EXPECT(halMemFree(a) == 0);
    EXPECT(halMemFree(b) == DRV_ERROR_INNER_ERR);
    EXPECT(halMemFree(b) == 0); /* it was still alive */
}

static void the_nth_free_fails_and_the_block_lives(void **state)
{
    (void)state;
    const char *environment[] = {"VNPU_FAIL_FREE_NTH", "2", NULL};
    in_child(second_free_fails, environment, NULL, 0);
}

static void counts_again_after_fork(void)
{
    void *block;
    EXPECT(halMemAlloc(&block, 1, MEM_DEV) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        EXPECT(halMemAlloc(&block, 1, MEM_DEV) == 0); /* the child's first */
        EXPECT(halMemAlloc(&block, 1, MEM_DEV) == DRV_ERROR_OUT_OF_MEMORY);
        exit(0);
    }
    int status;
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    EXPECT(halMemAlloc(&block, 1, MEM_DEV) == DRV_ERROR_OUT_OF_MEMORY); /* the parent's second */
    exit(0);
}

static void a_child_has_its_own_count(void **state)
{
    (void)state;
    const char *environment[] = {"VNPU_FAIL_ALLOC_NTH", "2", NULL};
    in_child(counts_again_after_fork, environment, NULL, 0);
}

static void sees_cards_3_and_1(void)
{
    uint32_t count;
    void *block;
    struct DVattribute attr;
    EXPECT(aclrtGetDeviceCount(&count) == 0 && count == 2);
    EXPECT(aclrtSetDevice(2) == ACL_ERROR_RT_INVALID_DEVICEID);
    for (int device = 0; device < 2; device++) {
        EXPECT(aclrtSetDevice(device) == 0);
        EXPECT(aclrtMalloc(&block, 100, ACL_MEM_MALLOC_HUGE_FIRST) == 0);
        EXPECT(drvMemGetAttribute((uintptr_t)block, &attr) == 0 && attr.devId == (device ? 1 : 3));
        EXPECT(aclrtFree(block) == 0);
        aclrtDrvMemHandle handle;
        aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                     .location = {(uint32_t)device, ACL_MEM_LOCATION_TYPE_DEVICE}};
        struct MemInfo info;
        EXPECT(aclrtMallocPhysical(&handle, 2 << 20, &prop, 0) == 0);
        EXPECT(halMemGetInfo(device ? 1 : 3, MEM_INFO_TYPE_HBM_SIZE, &info) == 0);
        EXPECT(info.phy_info.total - info.phy_info.free == 2 << 20);
        EXPECT(aclrtFreePhysical(handle) == 0);
    }
}

static void visible_devices_are_mapped(void **state)
{
    (void)state;
    const char *environment[] = {"VNPU_DEVICES", "4", "ASCEND_RT_VISIBLE_DEVICES", " 3 , 1", NULL};
    in_child(sees_cards_3_and_1, environment, NULL, 0);
}

static void no_device_is_there(void)
{
    uint32_t count;
    EXPECT(aclrtGetDeviceCount(&count) == ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT(aclInit(NULL) == ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT(aclrtSetDevice(0) == ACL_ERROR_RT_INVALID_DEVICEID);
}

static void bad_visible_devices_are_refused(void **state)
{
    (void)state;
    const char *const bad[] = {"2", "0,", ",", "0,0", "a", "0;1", "-1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *environment[] = {"ASCEND_RT_VISIBLE_DEVICES", bad[i], NULL};
        char errors[512];
        in_child(no_device_is_there, environment, errors, sizeof errors);
        assert_non_null(strstr(errors, "ASCEND_RT_VISIBLE_DEVICES"));
        assert_non_null(strstr(errors, "from 0 to 1\n"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_values_are_refused_by_name),
        cmocka_unit_test(cards_are_as_asked),
        cmocka_unit_test(defaults_are_as_documented),
        cmocka_unit_test(the_nth_allocation_fails_with_the_code),
        cmocka_unit_test(the_code_is_out_of_memory_by_default),
        cmocka_unit_test(the_nth_free_fails_and_the_block_lives),
        cmocka_unit_test(a_child_has_its_own_count),
        cmocka_unit_test(visible_devices_are_mapped),
        cmocka_unit_test(bad_visible_devices_are_refused),
    };
    return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
