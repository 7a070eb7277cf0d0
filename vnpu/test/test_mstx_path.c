/* test_mstx_path.c - mstx in a process whose global scope has no tool. */
#include "child.h"

#include "mstx/ms_tools_ext.h"

static void nothing_happens(void)
{
    uint64_t id = 7;
    mstxMemHeapDesc_t heap = {0};
    mstxMemRegionsRegisterBatch_t batch = {0};
    mstxMemRegionsUnregisterBatch_t unregister = {0};
    mstxMarkA("mark", NULL);
    mstxMarkA(NULL, NULL);
    EXPECT(mstxRangeStartA("range", NULL) == 0);
    mstxRangeEnd(0);
    mstxGetToolId(&id);
    EXPECT(id == MSTX_TOOL_INVALID_ID);
    mstxGetToolId(NULL);
    EXPECT(mstxDomainCreateA("test") == NULL);
    mstxDomainDestroy(NULL);
    mstxDomainMarkA(NULL, "mark", NULL);
    EXPECT(mstxDomainRangeStartA(NULL, "range", NULL) == 0);
    mstxDomainRangeEnd(NULL, 0);
    EXPECT(mstxMemHeapRegister(NULL, &heap) == NULL);
    mstxMemHeapUnregister(NULL, NULL);
    mstxMemRegionsRegister(NULL, &batch);
    mstxMemRegionsUnregister(NULL, &unregister);
}

static void without_a_tool_nothing_happens(void **state)
{
    (void)state;
    char errors[256];
    in_child(nothing_happens, NULL, errors, sizeof errors);
    assert_string_equal(errors, "");
    const char *missing[] = {"MSTX_INJECTION_PATH", "/does/not/exist.so", NULL};
    in_child(nothing_happens, missing, errors, sizeof errors);
    assert_string_equal(errors, "");
}

static void mark_twice(void)
{
    mstxMarkA("first", NULL);
    mstxMarkA("second", NULL);
    EXPECT(mstxDomainCreateA("test") == NULL); /* not filled by this tool */
}

static void the_path_names_the_tool(void **state)
{
    (void)state;
    const char *environment[] = {"MSTX_INJECTION_PATH", getenv("VNPU_TEST_INJECTION"), NULL};
    char errors[256];
    in_child(mark_twice, environment, errors, sizeof errors);
    assert_string_equal(errors, "marked first\nmarked second\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_tool_nothing_happens),
        cmocka_unit_test(the_path_names_the_tool),
    };
    return cmocka_run_group_tests_name("mstx by path", tests, NULL, NULL);
}
