/* test_operator.c - what operators are made of: objects, workspaces, launches under their names, those that are missing; and settings. */
#include "child.h"

#include "../nnop/objects.h"
#include "../nnop/operator.h"
#include "acl/acl_op_compiler.h"
#include "runtime/rt.h"

static void tensors_are_views(void **state)
{
    (void)state;
    float data[12] = {0};
    const int64_t sizes[] = {2, 3}, strides[] = {1, 4};
    aclTensor *plain = aclCreateTensor(sizes, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, sizes, 2, data);
    aclTensor *view = aclCreateTensor(sizes, 2, ACL_FLOAT, strides, 5, ACL_FORMAT_ND, sizes, 2, data);
    assert_int_equal(plain->strides[0], 3);
    assert_int_equal(plain->strides[1], 1);
    assert_int_equal(view->strides[0], 1);
    assert_ptr_equal(view->data, &data[5]);
    const aclTensor *both[] = {plain, view};
    int64_t *shape;
    uint64_t dims;
    assert_int_equal(aclGetViewShape(view, &shape, &dims), ACL_SUCCESS);
    assert_int_equal(dims, 2);
    assert_memory_equal(shape, sizes, sizeof sizes);
    free(shape);
    assert_int_equal(aclGetViewShape(NULL, &shape, &dims), ACLNN_ERR_PARAM_NULLPTR);
    aclTensorList *list = aclCreateTensorList(both, 2);
    assert_int_equal(list->size, 2);
    assert_ptr_equal(list->values[1], view);
    assert_int_equal(aclDestroyTensorList(list), ACL_SUCCESS); /* the tensors, too: the sanitizer would say */
    const int64_t many[17] = {0};
    assert_null(aclCreateTensor(many, 17, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, NULL, 0, data));
    double number = 0.5;
    aclScalar *scalar = aclCreateScalar(&number, ACL_DOUBLE);
    assert_memory_equal(scalar->value, &number, sizeof number);
    aclDestroyScalar(scalar);
    assert_int_equal(vnpu_element_size(ACL_BF16), 2);
    assert_int_equal(vnpu_element_size(ACL_DT_UNDEFINED), 0);
}

static void launches_and_misses(void)
{
    EXPECT(vnpu_operator_launch("aclnnAdd", NULL) == ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT(aclrtSetDevice(0) == ACL_SUCCESS);
    int64_t before;
    aclrtStreamStatus status;
    EXPECT(aclrtStreamQuery(NULL, &status) == ACL_SUCCESS && status == ACL_STREAM_STATUS_COMPLETE);
    EXPECT(vnpu_operator_launch("aclnnAdd", NULL) == ACL_SUCCESS); /* VNPU_OPERATOR_US: 50 ms */
    EXPECT(aclrtStreamQuery(NULL, &status) == ACL_SUCCESS && status == ACL_STREAM_STATUS_NOT_READY);
    EXPECT(aclrtSynchronizeStreamWithTimeout(NULL, 1) == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    EXPECT(aclrtSynchronizeStreamWithTimeout(NULL, -1) == ACL_SUCCESS);
    for (int i = 0; i < 2; i++)
        EXPECT(vnpu_missing_operator("aclnnWonder", NULL) == ACL_SUCCESS);
    EXPECT(aclopCompileAndExecute("Wonder", 0, NULL, NULL, 0, NULL, NULL, NULL, ACL_ENGINE_SYS, ACL_COMPILE_SYS, NULL,
                                  NULL) == ACL_SUCCESS);
    EXPECT(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1) == ACL_SUCCESS);
    EXPECT(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &before) == ACL_SUCCESS && before == 1);
    _exit(0); /* kernels stay loaded to the end, where the leak sanitizer does not find who has them */
}

static void a_launch_takes_its_time_and_a_miss_is_said_once(void **state)
{
    (void)state;
    const char *environment[] = {"VNPU_OPERATOR_US", "50000", NULL};
    char errors[1024];
    in_child(launches_and_misses, environment, errors, sizeof errors);
    assert_string_equal(
        errors, "vnpu: there is no aclnnWonder: it computes nothing\nvnpu: there is no Wonder: it computes nothing\n");
}

static void strict(void)
{
    EXPECT(aclrtSetDevice(0) == ACL_SUCCESS);
    EXPECT(vnpu_missing_operator("aclnnWonder", NULL) == ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

static void strictly_a_miss_fails(void **state)
{
    (void)state;
    const char *environment[] = {"VNPU_STRICT", "1", NULL};
    char errors[256];
    in_child(strict, environment, errors, sizeof errors);
    assert_string_equal(errors, "vnpu: there is no aclnnWonder: it fails\n");
}

static void workspaces(void)
{
    uint64_t bytes;
    EXPECT(vnpu_operator_workspace("aclnnAdd", &bytes) == ACL_SUCCESS && bytes == 4096);
    EXPECT(vnpu_operator_workspace("aclnnMm", &bytes) == ACL_SUCCESS && bytes == 5 << 20);
    EXPECT(vnpu_operator_workspace("aclnnM", &bytes) == ACL_SUCCESS && bytes == 4096);
}

static void bad_workspaces(void)
{
    uint64_t bytes;
    for (int i = 0; i < 2; i++)
        EXPECT(vnpu_operator_workspace("aclnnAdd", &bytes) == ACL_ERROR_RT_DRV_INTERNAL_ERROR);
}

static void workspaces_are_set_by_name(void **state)
{
    (void)state;
    const char *environment[] = {"VNPU_WORKSPACE", "4K,aclnnMm=5M", NULL};
    in_child(workspaces, environment, NULL, 0);
    static const char *const bad[] = {"x", "4Q", "4K,aclnnMm=", "-1", "1KK", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        environment[1] = bad[i];
        char errors[512], expected[512];
        in_child(bad_workspaces, environment, errors, sizeof errors);
        snprintf(expected, sizeof expected,
                 "vnpu: VNPU_WORKSPACE=\"%s\" is not valid: it must be a comma list of bytes and of NAME=BYTES, with "
                 "K, M, G, T for powers of "
                 "1024\n",
                 bad[i]);
        assert_string_equal(errors, expected);
    }
}

static void devices_can_be_asked(void **state)
{
    (void)state;
    int32_t yes = 0, value = 0;
    int64_t cores = 0;
    aclrtContext context, again;
    assert_int_equal(aclrtDeviceCanAccessPeer(&yes, 0, 1), ACL_SUCCESS);
    assert_int_equal(yes, 1);
    assert_int_equal(aclrtDeviceCanAccessPeer(&yes, 0, 2), ACL_ERROR_RT_INVALID_DEVICEID);
    assert_int_equal(aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &cores), ACL_SUCCESS);
    assert_true(cores > 0);
    assert_int_equal(aclGetCannAttribute(ACL_CANN_ATTR_BF16, &value), ACL_SUCCESS);
    assert_int_equal(aclrtGetPrimaryCtxState(1, NULL, &yes), ACL_SUCCESS);
    assert_int_equal(yes, 0);
    assert_int_equal(aclrtSetDevice(1), ACL_SUCCESS);
    assert_int_equal(aclrtGetPrimaryCtxState(1, NULL, &yes), ACL_SUCCESS);
    assert_int_equal(yes, 1);
    assert_int_equal(aclrtGetCurrentContext(&context), ACL_SUCCESS);
    assert_int_equal(aclrtSetDevice(0), ACL_SUCCESS);
    assert_int_equal(aclrtSetCurrentContext(context), ACL_SUCCESS);
    assert_int_equal(aclrtGetCurrentContext(&again), ACL_SUCCESS);
    assert_ptr_equal(context, again);
    assert_int_equal(aclrtSetCurrentContext(&yes), ACL_ERROR_INVALID_PARAM);
}

static void descriptions_keep_their_shape(void **state)
{
    (void)state;
    const int64_t sizes[] = {4, 5};
    int64_t size;
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT16, 2, sizes, ACL_FORMAT_ND);
    assert_int_equal(aclGetTensorDescNumDims(desc), 2);
    assert_int_equal(aclGetTensorDescType(desc), ACL_FLOAT16);
    assert_int_equal(aclGetTensorDescDimV2(desc, 1, &size), ACL_SUCCESS);
    assert_int_equal(size, 5);
    assert_int_equal(aclGetTensorDescDimV2(desc, 2, &size), ACL_ERROR_INVALID_PARAM);
    aclDestroyTensorDesc(desc);
    assert_null(aclCreateTensorDesc(ACL_FLOAT16, -1, sizes, ACL_FORMAT_ND));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_takes_its_time_and_a_miss_is_said_once),
        cmocka_unit_test(strictly_a_miss_fails),
        cmocka_unit_test(workspaces_are_set_by_name),
        cmocka_unit_test(tensors_are_views),
        cmocka_unit_test(devices_can_be_asked),
        cmocka_unit_test(descriptions_keep_their_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
