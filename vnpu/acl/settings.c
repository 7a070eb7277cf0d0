/* settings.c - what a program may set and the virtual NPU has no use for. The values are checked, and kept where they can be asked for. */
#include "impl.h"

#include <unistd.h>

aclError aclrtSetDeviceSatModeImpl(aclrtFloatOverflowMode mode)
{
    return mode <= ACL_RT_OVERFLOW_MODE_INFNAN ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

/* Seconds; no kernel of ours takes so long. */
aclError aclrtSetOpExecuteTimeOutImpl(uint32_t timeout)
{
    (void)timeout;
    return ACL_SUCCESS;
}

aclError aclrtSetOpWaitTimeoutImpl(uint32_t timeout)
{
    (void)timeout;
    return ACL_SUCCESS;
}

static aclError check(aclrtStream stream)
{
    int32_t id;
    return rtGetStreamId(stream, &id);
}

aclError aclrtSetStreamFailureModeImpl(aclrtStream stream, uint64_t mode)
{
    return mode <= 1 ? check(stream) : ACL_ERROR_INVALID_PARAM;
}

aclError aclrtSetStreamOverflowSwitchImpl(aclrtStream stream, uint32_t flag)
{
    return flag <= 1 ? check(stream) : ACL_ERROR_INVALID_PARAM;
}

/* Always off: there is nothing that would notice an overflow. */
aclError aclrtGetStreamOverflowSwitchImpl(aclrtStream stream, uint32_t *flag)
{
    if (!flag)
        return ACL_ERROR_INVALID_PARAM;
    *flag = 0;
    return check(stream);
}

static int64_t parameters[ACL_OPT_STRONG_CONSISTENCY + 1];

aclError aclrtSetSysParamOptImpl(aclSysParamOpt opt, int64_t value)
{
    if (opt > ACL_OPT_STRONG_CONSISTENCY)
        return ACL_ERROR_INVALID_PARAM;
    __atomic_store_n(&parameters[opt], value, __ATOMIC_RELAXED);
    return ACL_SUCCESS;
}

aclError aclrtGetSysParamOptImpl(aclSysParamOpt opt, int64_t *value)
{
    if (opt > ACL_OPT_STRONG_CONSISTENCY || !value)
        return ACL_ERROR_INVALID_PARAM;
    *value = __atomic_load_n(&parameters[opt], __ATOMIC_RELAXED);
    return ACL_SUCCESS;
}

aclError aclrtCtxSetSysParamOptImpl(aclSysParamOpt opt, int64_t value)
{
    return aclrtSetSysParamOptImpl(opt, value);
}

/* Dumps of tensors are not made. */
aclError aclmdlInitDumpImpl(void)
{
    return ACL_SUCCESS;
}

aclError aclmdlSetDumpImpl(const char *dumpCfgPath)
{
    return dumpCfgPath && access(dumpCfgPath, R_OK) == 0 ? ACL_SUCCESS : ACL_ERROR_INVALID_FILE;
}

aclError aclmdlFinalizeDumpImpl(void)
{
    return ACL_SUCCESS;
}
