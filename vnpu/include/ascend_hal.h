/*
 * ascend_hal.h - the part of the driver's interface that the virtual NPU serves.
 *
 * Names, values and layouts are those of the real driver (abi.md 1.1, 2.1, 2.3), so that a program built against this
 * header meets the real libascend_hal.so. Sizes are bytes. Every function returns a drvError_t, 0 for success.
 */
#ifndef VNPU_ASCEND_HAL_H
#define VNPU_ASCEND_HAL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    DRV_ERROR_NONE = 0,
    DRV_ERROR_NO_DEVICE = 1,
    DRV_ERROR_INVALID_DEVICE = 2,
    DRV_ERROR_INVALID_VALUE = 3,
    DRV_ERROR_INVALID_HANDLE = 4,
    DRV_ERROR_OUT_OF_MEMORY = 6,
    DRV_ERROR_INNER_ERR = 7,
    DRV_ERROR_PARA_ERROR = 8,
    DRV_ERROR_UNINIT = 9,
    DRV_ERROR_NOT_EXIST = 11,
    DRV_ERROR_BUSY = 13,
    DRV_ERROR_NOT_SUPPORT = 0xfffe,
    DRV_ERROR_RESERVED = 0xffff,
} drvError_t;

typedef uint32_t DVdevice;
typedef unsigned long long DVdeviceptr;

/* ------------------------------------------------------------------ flag word of halMemAlloc */

#define MEM_DEVID_MASK 0x3FFULL
#define MEM_VIRT_BIT 10
#define MEM_VIRT_MASK (0xFULL << MEM_VIRT_BIT)
#define MEM_SVM_VAL 0
#define MEM_DEV_VAL 1
#define MEM_HOST_VAL 2
#define MEM_DVPP_VAL 3
#define MEM_HOST_AGENT_VAL 4
#define MEM_RESERVE_VAL 5
#define MEM_HOST_UVA_VAL 6
#define MEM_DEV (1ULL << MEM_VIRT_BIT)
#define MEM_HOST (2ULL << MEM_VIRT_BIT)
#define MEM_TYPE_HBM 0x4000ULL
#define MEM_PAGE_HUGE 0x20000ULL
#define MEM_ALIGN_BIT 20
#define MEM_PAGE_GIANT 0x80000000ULL
#define MEM_MODULE_ID_BIT 56

/* Module ids that the stack itself uses; abi.md 2.4 has them all. */
#define HCCL_MODULE_ID 3
#define RUNTIME_MODULE_ID 7
#define APP_MODULE_ID 33

/* ------------------------------------------------------------------ memory */

drvError_t halMemAlloc(void **pp, unsigned long long size, unsigned long long flag);
drvError_t halMemFree(void *pp);
drvError_t halMemAllocInner(void **pp, unsigned long long size, unsigned long long flag);
drvError_t halMemFreeInner(void *pp);

enum drv_mem_side { MEM_HOST_SIDE = 0, MEM_DEV_SIDE = 1, MEM_HOST_NUMA_SIDE = 2 };
enum drv_mem_pg_type { MEM_NORMAL_PAGE_TYPE = 0, MEM_HUGE_PAGE_TYPE = 1, MEM_GIANT_PAGE_TYPE = 2 };
enum drv_mem_type { MEM_HBM_TYPE = 0, MEM_DDR_TYPE = 1 };

struct drv_mem_prop {
    uint32_t side; /* enum drv_mem_side */
    uint32_t devid;
    uint32_t module_id;
    uint32_t pg_type;  /* enum drv_mem_pg_type */
    uint32_t mem_type; /* enum drv_mem_type */
    uint64_t reserve;
};

typedef struct drv_mem_handle drv_mem_handle_t;

drvError_t halMemCreate(drv_mem_handle_t **handle, size_t size, const struct drv_mem_prop *prop, uint64_t flag);
drvError_t halMemRelease(drv_mem_handle_t *handle);
drvError_t halMemCreateInner(drv_mem_handle_t **handle, size_t size, const struct drv_mem_prop *prop, uint64_t flag);
drvError_t halMemReleaseInner(drv_mem_handle_t *handle);
drvError_t halMemAddressReserve(void **ptr, size_t size, size_t alignment, void *addr, uint64_t flag);
drvError_t halMemAddressFree(void *ptr);
drvError_t halMemMap(void *ptr, size_t size, size_t offset, drv_mem_handle_t *handle, uint64_t flag);
drvError_t halMemUnmap(void *ptr);

drvError_t drvMemcpy(DVdeviceptr dst, size_t destMax, DVdeviceptr src, size_t byteCount);
drvError_t drvMemsetD8(DVdeviceptr dst, size_t destMax, uint8_t value, size_t num);

#define DV_MEM_LOCK_HOST 0x0008
#define DV_MEM_LOCK_DEV 0x0010
#define DV_MEM_USER_MALLOC 0x0080
struct DVattribute {
    uint32_t memType; /* DV_MEM_* */
    uint32_t resv1;
    uint32_t resv2;
    uint32_t devId;
    uint32_t pageSize;
    uint32_t resv[8];
};
drvError_t drvMemGetAttribute(DVdeviceptr vptr, struct DVattribute *attr);

struct MemPhyInfo {
    unsigned long long total; /* normal pages */
    unsigned long long free;
    unsigned long long huge_total;
    unsigned long long huge_free;
    unsigned long long giant_total;
    unsigned long long giant_free;
};
struct MemInfo {
    union {
        struct MemPhyInfo phy_info;
        unsigned long long reserve[32];
    };
};
#define MEM_INFO_TYPE_DDR_SIZE 1
#define MEM_INFO_TYPE_HBM_SIZE 2
drvError_t halMemGetInfo(DVdevice device, unsigned int type, struct MemInfo *info);

/* ------------------------------------------------------------------ devices */

#define __HAL_API_VERSION 0x072318

enum { MODULE_TYPE_SYSTEM = 0, MODULE_TYPE_AICPU = 1, MODULE_TYPE_AICORE = 4, MODULE_TYPE_VECTOR_CORE = 7 };
enum {
    INFO_TYPE_MASTERID = 2,
    INFO_TYPE_CORE_NUM = 3,
    INFO_TYPE_SYS_COUNT = 13, /* what the device's counter shows now */
    INFO_TYPE_PHY_CHIP_ID = 18,
    INFO_TYPE_PHY_DIE_ID = 19,
    INFO_TYPE_DEV_OSC_FREQUE = 25, /* how fast it counts, kHz */
};

drvError_t halGetAPIVersion(int *halAPIVersion);
drvError_t drvGetDevNum(uint32_t *num_dev);
drvError_t halGetDeviceInfo(uint32_t devId, int32_t moduleType, int32_t infoType, int64_t *value);
drvError_t halGetSocVersion(uint32_t devId, char *soc_version, uint32_t len);

/* ------------------------------------------------------------------ profiling channels */

#define PROF_OK 0
#define PROF_ERROR (-1)
#define PROF_STARTED_ALREADY (-3)
#define PROF_STOPPED_ALREADY (-4)
#define CHANNEL_STARS_SOC_LOG_BUFFER 50
#define PROF_TS_TYPE 0

struct prof_start_para {
    unsigned int channel_type; /* PROF_TS_TYPE */
    unsigned int sample_period;
    unsigned int real_time;
    void *user_data; /* nine words of 4 bytes, eleven from the 950 on: what to log */
    unsigned int user_data_size;
};
int prof_drv_start(unsigned int device_id, unsigned int channel_id, struct prof_start_para *start_para);
int prof_stop(unsigned int device_id, unsigned int channel_id);
/* Bytes read; never waits. Once the channel is stopped and everything is read, PROF_STOPPED_ALREADY. */
int prof_channel_read(unsigned int device_id, unsigned int channel_id, char *out_buf, unsigned int buf_size);

#ifdef __cplusplus
}
#endif
#endif
