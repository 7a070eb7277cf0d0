/* device.c - what the driver tells about itself and its devices. */
#include <string.h>

#include "../common/export.h"
#include "ascend_hal.h"
#include "clock.h"
#include "config.h"

VNPU_API drvError_t halGetAPIVersion(int *halAPIVersion)
{
    if (!config())
        return DRV_ERROR_UNINIT;
    if (!halAPIVersion)
        return DRV_ERROR_INVALID_VALUE;
    *halAPIVersion = __HAL_API_VERSION;
    return DRV_ERROR_NONE;
}

VNPU_API drvError_t drvGetDevNum(uint32_t *num_dev)
{
    const struct config *cfg = config();
    if (!cfg)
        return DRV_ERROR_UNINIT;
    if (!num_dev)
        return DRV_ERROR_INVALID_VALUE;
    *num_dev = cfg->devices;
    return DRV_ERROR_NONE;
}

/* The facts that are the same for every device; those of an Ascend 910B3. */
static const struct {
    int32_t module, info;
    int64_t value;
} facts[] = {
    {MODULE_TYPE_SYSTEM, INFO_TYPE_MASTERID, 0},       {MODULE_TYPE_SYSTEM, INFO_TYPE_PHY_DIE_ID, 0},
    {MODULE_TYPE_AICPU, INFO_TYPE_CORE_NUM, 6},        {MODULE_TYPE_AICORE, INFO_TYPE_CORE_NUM, 20},
    {MODULE_TYPE_VECTOR_CORE, INFO_TYPE_CORE_NUM, 40}, {MODULE_TYPE_SYSTEM, INFO_TYPE_DEV_OSC_FREQUE, CARD_CLOCK_KHZ},
};

VNPU_API drvError_t halGetDeviceInfo(uint32_t devId, int32_t moduleType, int32_t infoType, int64_t *value)
{
    const struct config *cfg = config();
    if (!cfg)
        return DRV_ERROR_UNINIT;
    if (!value)
        return DRV_ERROR_INVALID_VALUE;
    if (devId >= cfg->devices)
        return DRV_ERROR_INVALID_DEVICE;
    if (moduleType == MODULE_TYPE_SYSTEM && infoType == INFO_TYPE_PHY_CHIP_ID) {
        *value = devId;
        return DRV_ERROR_NONE;
    }
    if (moduleType == MODULE_TYPE_SYSTEM && infoType == INFO_TYPE_SYS_COUNT) {
        *value = (int64_t)card_count(cfg, devId, host_ns());
        return DRV_ERROR_NONE;
    }
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (facts[i].module == moduleType && facts[i].info == infoType) {
            *value = facts[i].value;
            return DRV_ERROR_NONE;
        }
    return DRV_ERROR_NOT_SUPPORT;
}

VNPU_API drvError_t halGetSocVersion(uint32_t devId, char *soc_version, uint32_t len)
{
    const struct config *cfg = config();
    if (!cfg)
        return DRV_ERROR_UNINIT;
    if (devId >= cfg->devices)
        return DRV_ERROR_INVALID_DEVICE;
    if (!soc_version || len <= strlen(cfg->soc))
        return DRV_ERROR_INVALID_VALUE;
    memcpy(soc_version, cfg->soc, strlen(cfg->soc) + 1);
    return DRV_ERROR_NONE;
}
