/* test_memory.c - blocks of the driver: flags, rounding, capacity, errors, contents, threads, fork. */
#define _GNU_SOURCE
#include "child.h"

#include <pthread.h>
#include <sys/mman.h>

#include "ascend_hal.h"

#define KIB (1ULL << 10)
#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

static void setup_environment(void)
{
    setenv("VNPU_DEVICES", "8", 1);
    setenv("VNPU_HBM_BYTES", "4G", 1);
}

static unsigned long long free_bytes(uint32_t device)
{
    struct MemInfo info;
    assert_int_equal(halMemGetInfo(device, MEM_INFO_TYPE_HBM_SIZE, &info), 0);
    return info.phy_info.free;
}

static void *get(unsigned long long size, unsigned long long flag)
{
    void *block = NULL;
    assert_int_equal(halMemAlloc(&block, size, flag), 0);
    assert_non_null(block);
    return block;
}

static void takes_whole_pages_of_the_flags_type(void **state)
{
    (void)state;
    const struct {
        unsigned long long flag, size, page, taken;
    } cases[] = {
        {MEM_DEV | 1, 1, 4 * KIB, 4 * KIB},
        {MEM_DEV | 1, 4097, 4 * KIB, 8 * KIB},
        {MEM_DEV | MEM_PAGE_HUGE | 1, 1, 2 * MIB, 2 * MIB},
        {MEM_DEV | MEM_PAGE_HUGE | 1, 2 * MIB + 1, 2 * MIB, 4 * MIB},
        {MEM_DEV | MEM_PAGE_GIANT | MEM_PAGE_HUGE | 1, 5, GIB, GIB},
        {0 | 1, 100, 4 * KIB, 4 * KIB},                    /* SVM */
        {3ULL << MEM_VIRT_BIT | 1, 100, 4 * KIB, 4 * KIB}, /* DVPP */
        {MEM_HOST, 100, 4 * KIB, 0},
        {MEM_HOST | MEM_PAGE_HUGE, 100, 4 * KIB, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned long long before = free_bytes(1);
        char *block = get(cases[i].size, cases[i].flag);
        assert_int_equal((uintptr_t)block % cases[i].page, 0);
        assert_int_equal(before - free_bytes(1), cases[i].taken);
        struct DVattribute attr;
        assert_int_equal(drvMemGetAttribute((uintptr_t)block + cases[i].size - 1, &attr), 0);
        assert_int_equal(attr.pageSize, cases[i].page);
        assert_int_equal(attr.memType, cases[i].taken ? DV_MEM_LOCK_DEV : DV_MEM_LOCK_HOST);
        assert_int_equal(attr.devId, cases[i].taken ? 1 : 0);
        block[0] = 1;
        block[cases[i].size - 1] = 2;
        assert_int_equal(halMemFree(block), 0);
        assert_int_equal(free_bytes(1), before);
    }
}

/* The word that the real runtime was seen to pass: module APP, device side, card 6, HBM, huge, 512-byte alignment. */
static void understands_a_real_flag_word(void **state)
{
    (void)state;
    unsigned long long before = free_bytes(6);
    void *block = get(3 * MIB, 2377900603261207558ULL);
    assert_int_equal(before - free_bytes(6), 4 * MIB);
    assert_int_equal(halMemFree(block), 0);
}

static void addresses_look_real(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* its shadow memory lies where the card's addresses would */
#endif
    void *block = get(20 * MIB, MEM_DEV | MEM_PAGE_HUGE);
    assert_in_range((uintptr_t)block, 0x12c000000000, 0x13bfffffffff);
    assert_int_equal(halMemFree(block), 0);
}

static void refuses_what_makes_no_sense(void **state)
{
    (void)state;
    void *block = NULL;
    assert_int_equal(halMemAlloc(NULL, 1, MEM_DEV), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemAlloc(&block, 0, MEM_DEV), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemAlloc(&block, 1, MEM_DEV | 8), DRV_ERROR_INVALID_DEVICE);
    assert_int_equal(halMemAlloc(&block, 1, MEM_DEV | 1023), DRV_ERROR_INVALID_DEVICE);
    for (unsigned long long side = 4; side < 16; side++)
        if (side != MEM_HOST_UVA_VAL)
            assert_int_equal(halMemAlloc(&block, 1, side << MEM_VIRT_BIT), DRV_ERROR_NOT_SUPPORT);
    assert_int_equal(halMemAlloc(&block, 1, MEM_DEV | 13ULL << MEM_ALIGN_BIT), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemAlloc(&block, 1, MEM_DEV | MEM_PAGE_HUGE | 22ULL << MEM_ALIGN_BIT), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemAlloc(&block, UINT64_MAX, MEM_DEV), DRV_ERROR_OUT_OF_MEMORY);
    assert_int_equal(halMemAlloc(&block, UINT64_MAX - 4096, MEM_DEV), DRV_ERROR_OUT_OF_MEMORY);
    assert_null(block);
}

static void frees_only_what_lives(void **state)
{
    (void)state;
    int local;
    char *block = get(100 * KIB, MEM_DEV);
    assert_int_equal(halMemFree(NULL), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemFree(&local), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemFree((void *)-1), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemFree(block + 4096), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemFree(block + 1), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemFree(block), 0);
    assert_int_equal(halMemFree(block), DRV_ERROR_INVALID_VALUE);
}

static void a_card_has_its_capacity(void **state)
{
    (void)state;
    void *first = get(3 * GIB, MEM_DEV | MEM_PAGE_HUGE | 2), *last, *other;
    void *more = NULL;
    assert_int_equal(halMemAlloc(&more, GIB + 1, MEM_DEV | 2), DRV_ERROR_OUT_OF_MEMORY);
    last = get(GIB, MEM_DEV | 2);
    assert_int_equal(free_bytes(2), 0);
    assert_int_equal(halMemAlloc(&more, 1, MEM_DEV | 2), DRV_ERROR_OUT_OF_MEMORY);
    other = get(4 * GIB, MEM_DEV | 3); /* the next card is another card */
    assert_int_equal(halMemFree(last), 0);
    more = get(GIB, MEM_DEV | 2);
    assert_int_equal(halMemFree(more), 0);
    assert_int_equal(halMemFree(other), 0);
    assert_int_equal(halMemFree(first), 0);
    assert_int_equal(free_bytes(2), 4 * GIB);
}

static bool resident(char *address)
{
    unsigned char page;
    assert_int_equal(mincore(address, 4096, &page), 0);
    return page & 1;
}

static void freed_memory_goes_back_to_the_host(void **state)
{
    (void)state;
    char *block = get(512 * MIB, MEM_DEV | MEM_PAGE_HUGE);
    memset(block + 100 * MIB, 1, 8 * MIB);
    assert_true(resident(block + 104 * MIB));
    assert_false(resident(block + 300 * MIB)); /* never touched, never paid for */
    assert_int_equal(halMemFree(block), 0);
    assert_false(resident(block + 104 * MIB));

    enum { SMALL = 64 }; /* 128 MiB of small blocks: the class keeps at most 64 MiB of what they touched */
    char *blocks[SMALL];
    for (int i = 0; i < SMALL; i++) {
        blocks[i] = get(2 * MIB, MEM_DEV | MEM_PAGE_HUGE);
        blocks[i][0] = 1;
    }
    for (int i = 0; i < SMALL; i++)
        assert_int_equal(halMemFree(blocks[i]), 0);
    int kept = 0;
    for (int i = 0; i < SMALL; i++)
        kept += resident(blocks[i]);
    assert_in_range(kept, 1, 32);
}

static int by_address(const void *a, const void *b)
{
    const uintptr_t *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

static void live_blocks_never_overlap(void **state)
{
    (void)state;
    enum { LIVE = 3000, TURNS = 60000 };
    static uintptr_t blocks[LIVE][2]; /* address, bytes */
    uint64_t random = 42;
    for (int turn = 0; turn < TURNS; turn++) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        uintptr_t *slot = blocks[(random >> 33) % LIVE];
        if (slot[0])
            assert_int_equal(halMemFree((void *)slot[0]), 0);
        slot[1] = 1 + (random >> 20) % (turn % 50 ? 40000 : 3000000);
        slot[0] = (uintptr_t)get(slot[1], MEM_DEV | (random >> 60 & 1 ? MEM_HOST : 0) | 4);
    }
    qsort(blocks, LIVE, sizeof *blocks, by_address);
    for (int i = 0; i + 1 < LIVE; i++)
        if (blocks[i][0])
            assert_true(blocks[i][0] + blocks[i][1] <= blocks[i + 1][0]);
    for (int i = 0; i < LIVE; i++)
        if (blocks[i][0])
            assert_int_equal(halMemFree((void *)blocks[i][0]), 0);
    assert_int_equal(free_bytes(4), 4 * GIB);
}

static void copies_stay_inside_blocks(void **state)
{
    (void)state;
    char host[256], back[256];
    char *a = get(100, MEM_DEV), *b = get(100, MEM_DEV | 1);
    for (size_t i = 0; i < sizeof host; i++)
        host[i] = (char)i;
    assert_int_equal(drvMemcpy((uintptr_t)a, 100, (uintptr_t)host, 100), 0);
    assert_int_equal(drvMemcpy((uintptr_t)b + 10, 90, (uintptr_t)a + 5, 90), 0);
    assert_int_equal(drvMemcpy((uintptr_t)back, sizeof back, (uintptr_t)b + 10, 90), 0);
    assert_memory_equal(back, host + 5, 90);
    assert_int_equal(drvMemsetD8((uintptr_t)b, 100, 0x7f, 50), 0);
    assert_int_equal(b[49], 0x7f);
    assert_int_equal(b[50], host[45]);

    assert_int_equal(drvMemcpy((uintptr_t)a, 99, (uintptr_t)host, 100), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(drvMemcpy((uintptr_t)a, 101, (uintptr_t)host, 101), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(drvMemcpy((uintptr_t)host, 256, (uintptr_t)a + 50, 51), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(drvMemcpy(0, 1, (uintptr_t)a, 1), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(drvMemsetD8((uintptr_t)a + 100, 1, 0, 1), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(drvMemsetD8((uintptr_t)a, 10, 0, 11), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemFree(a), 0);
    assert_int_equal(drvMemcpy((uintptr_t)a, 1, (uintptr_t)host, 1), DRV_ERROR_INVALID_VALUE);
    struct DVattribute attr;
    assert_int_equal(drvMemGetAttribute((uintptr_t)a, &attr), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(drvMemGetAttribute((uintptr_t)host, &attr), 0);
    assert_int_equal(attr.memType, DV_MEM_USER_MALLOC);
    assert_int_equal(drvMemGetAttribute(0, &attr), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halMemFree(b), 0);
}

/* Each thread writes its name into its blocks and finds it there again. */
static void *storm(void *name)
{
    enum { LIVE = 50, TURNS = 20000 };
    uintptr_t *blocks[LIVE] = {0};
    for (int turn = 0; turn < TURNS; turn++) {
        uintptr_t **slot = &blocks[turn % LIVE];
        if (*slot && (**slot != (uintptr_t)name || halMemFree(*slot)))
            return "lost";
        if (halMemAlloc((void **)slot, 64 + (unsigned)turn % 9000, MEM_DEV | 5))
            return "no block";
        **slot = (uintptr_t)name;
    }
    for (int i = 0; i < LIVE; i++)
        if (*blocks[i] != (uintptr_t)name || halMemFree(blocks[i]))
            return "lost at the end";
    return NULL;
}

static void threads_do_not_share_blocks(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, storm, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *complaint;
        assert_int_equal(pthread_join(threads[i], &complaint), 0);
        assert_null(complaint);
    }
    assert_int_equal(free_bytes(5), 4 * GIB);
}

static void *inherited;

static void use_inherited(void)
{
    EXPECT(*(char *)inherited == 'p');
    EXPECT(halMemFree(inherited) == 0);
    EXPECT(halMemFree(inherited) == DRV_ERROR_INVALID_VALUE);
}

static void a_forked_child_has_its_own_copy(void **state)
{
    (void)state;
    inherited = get(1 * MIB, MEM_DEV);
    *(char *)inherited = 'p';
    in_child(use_inherited, NULL, NULL, 0);
    assert_int_equal(*(char *)inherited, 'p');
    assert_int_equal(halMemFree(inherited), 0);
}

static void allocate_once(void)
{
    alarm(20); /* a deadlock is a failure, not a hang */
    void *block = NULL;
    EXPECT(halMemAlloc(&block, 4096, MEM_DEV | 5) == 0);
    EXPECT(halMemFree(block) == 0);
}

static void fork_amid_a_storm_leaves_no_lock_behind(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, storm, (void *)(i + 1)), 0);
    for (int i = 0; i < 10; i++)
        in_child(allocate_once, NULL, NULL, 0);
    for (int i = 0; i < 4; i++) {
        void *complaint;
        assert_int_equal(pthread_join(threads[i], &complaint), 0);
        assert_null(complaint);
    }
}

static void tells_about_itself(void **state)
{
    (void)state;
    int version = 0;
    uint32_t devices = 0;
    int64_t value = -1;
    char soc[32];
    assert_int_equal(halGetAPIVersion(&version), 0);
    assert_int_equal(version, __HAL_API_VERSION);
    assert_int_equal(drvGetDevNum(&devices), 0);
    assert_int_equal(devices, 8);
    assert_int_equal(halGetDeviceInfo(7, MODULE_TYPE_AICORE, INFO_TYPE_CORE_NUM, &value), 0);
    assert_int_equal(value, 20);
    assert_int_equal(halGetDeviceInfo(7, MODULE_TYPE_SYSTEM, INFO_TYPE_PHY_CHIP_ID, &value), 0);
    assert_int_equal(value, 7);
    assert_int_equal(halGetDeviceInfo(7, MODULE_TYPE_SYSTEM, 999, &value), DRV_ERROR_NOT_SUPPORT);
    assert_int_equal(halGetDeviceInfo(8, MODULE_TYPE_SYSTEM, INFO_TYPE_MASTERID, &value), DRV_ERROR_INVALID_DEVICE);
    assert_int_equal(halGetDeviceInfo(0, MODULE_TYPE_SYSTEM, INFO_TYPE_MASTERID, NULL), DRV_ERROR_INVALID_VALUE);
    assert_int_equal(halGetSocVersion(0, soc, sizeof soc), 0);
    assert_string_equal(soc, "Ascend910B3");
    assert_int_equal(halGetSocVersion(0, soc, 11), DRV_ERROR_INVALID_VALUE);
    struct MemInfo info;
    assert_int_equal(halMemGetInfo(8, MEM_INFO_TYPE_HBM_SIZE, &info), DRV_ERROR_INVALID_DEVICE);
    assert_int_equal(halMemGetInfo(0, MEM_INFO_TYPE_DDR_SIZE, &info), DRV_ERROR_NOT_SUPPORT);
}

int main(void)
{
    setup_environment();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_whole_pages_of_the_flags_type),
        cmocka_unit_test(understands_a_real_flag_word),
        cmocka_unit_test(addresses_look_real),
        cmocka_unit_test(refuses_what_makes_no_sense),
        cmocka_unit_test(frees_only_what_lives),
        cmocka_unit_test(a_card_has_its_capacity),
        cmocka_unit_test(freed_memory_goes_back_to_the_host),
        cmocka_unit_test(live_blocks_never_overlap),
        cmocka_unit_test(copies_stay_inside_blocks),
        cmocka_unit_test(threads_do_not_share_blocks),
        cmocka_unit_test(a_forked_child_has_its_own_copy),
        cmocka_unit_test(fork_amid_a_storm_leaves_no_lock_behind),
        cmocka_unit_test(tells_about_itself),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
