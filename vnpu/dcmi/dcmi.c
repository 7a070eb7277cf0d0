/*
 * dcmi.c - libdcmi.so of the virtual NPU: how full the cards are, over all processes, from the files that these keep below
 * VNPU_STATE_DIR (vnpu/hal/share.c). Each card has one device.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../hal/share.h"

#define DCMI_API __attribute__((visibility("default")))

enum { DCMI_OK = 0, DCMI_ERR_CODE_INVALID_PARAMETER = -8001, DCMI_ERR_CODE_NOT_SUPPORT = -8255 };

struct dcmi_hbm_info {
    unsigned long long memory_size; /* MB */
    unsigned int freq;
    unsigned long long memory_usage; /* MB */
    int temp;
    unsigned int bandwith_util_rate;
};

struct dcmi_proc_mem_info {
    int proc_id;
    unsigned long proc_mem_usage; /* bytes */
};

/* Calls visit with what each living process says. */
static int each(void (*visit)(int pid, const struct share *share, void *argument), void *argument)
{
    const char *path = getenv("VNPU_STATE_DIR");
    DIR *dir = path ? opendir(path) : NULL;
    if (!dir)
        return DCMI_ERR_CODE_NOT_SUPPORT;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid < 1 || *end || (kill((pid_t)pid, 0) && errno == ESRCH))
            continue;
        struct share share;
        int file = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
        if (file >= 0 && read(file, &share, sizeof share) == (ssize_t)sizeof share)
            visit((int)pid, &share, argument);
        if (file >= 0)
            close(file);
    }
    closedir(dir);
    return DCMI_OK;
}

struct sum {
    int device;
    struct share share; /* over all processes */
    struct dcmi_proc_mem_info *list;
    int room, count;
};

static void add(int pid, const struct share *share, void *argument)
{
    struct sum *sum = argument;
    if (share->cards > sum->share.cards)
        sum->share.cards = share->cards;
    sum->share.total = share->total;
    uint64_t used = sum->device >= 0 && sum->device < SHARE_CARDS ? share->used[sum->device] : 0;
    if (sum->device >= 0 && sum->device < SHARE_CARDS)
        sum->share.used[sum->device] += used;
    if (used > 0 && sum->count < sum->room) {
        sum->list[sum->count].proc_id = pid;
        sum->list[sum->count++].proc_mem_usage = used;
    }
}

DCMI_API int dcmi_init(void)
{
    return getenv("VNPU_STATE_DIR") ? DCMI_OK : DCMI_ERR_CODE_NOT_SUPPORT;
}

/* The cards of those who run, or of this environment when nobody does. */
static uint32_t cards(const struct share *share)
{
    const char *devices = getenv("VNPU_DEVICES");
    return share->cards ? share->cards : devices ? (uint32_t)strtoul(devices, NULL, 10) : 2;
}

static uint64_t total(const struct share *share)
{
    static const char suffixes[] = "KMGT";
    const char *bytes = getenv("VNPU_HBM_BYTES");
    char *end = "";
    uint64_t number = bytes ? strtoull(bytes, &end, 10) : UINT64_C(64) << 30;
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    return share->total ? share->total : suffix ? number << 10 * (suffix - suffixes + 1) : number;
}

DCMI_API int dcmi_get_card_list(int *card_num, int *card_list, int list_len)
{
    struct sum sum = {.device = -1};
    int error = each(add, &sum);
    if (error)
        return error;
    for (*card_num = 0; *card_num < (int)cards(&sum.share) && *card_num < list_len; ++*card_num)
        card_list[*card_num] = *card_num;
    return DCMI_OK;
}

DCMI_API int dcmi_get_device_num_in_card(int card_id, int *device_num)
{
    *device_num = 1;
    return card_id >= 0 && card_id < SHARE_CARDS ? DCMI_OK : DCMI_ERR_CODE_INVALID_PARAMETER;
}

DCMI_API int dcmi_get_device_logic_id(int *device_logic_id, int card_id, int device_id)
{
    *device_logic_id = card_id;
    return device_id == 0 ? DCMI_OK : DCMI_ERR_CODE_INVALID_PARAMETER;
}

DCMI_API int dcmi_get_device_hbm_info(int card_id, int device_id, struct dcmi_hbm_info *info)
{
    struct sum sum = {.device = card_id};
    if (device_id != 0 || card_id < 0 || card_id >= SHARE_CARDS)
        return DCMI_ERR_CODE_INVALID_PARAMETER;
    int error = each(add, &sum);
    memset(info, 0, sizeof *info);
    info->memory_size = total(&sum.share) >> 20;
    info->memory_usage = (sum.share.used[card_id] + (1 << 20) - 1) >> 20;
    return error;
}

DCMI_API int dcmi_get_npu_proc_mem_info(int card_id, int device_id, struct dcmi_proc_mem_info *proc, int *proc_num)
{
    struct sum sum = {.device = card_id, .list = proc, .room = *proc_num};
    if (device_id != 0 || card_id < 0 || card_id >= SHARE_CARDS)
        return DCMI_ERR_CODE_INVALID_PARAMETER;
    int error = each(add, &sum);
    *proc_num = sum.count;
    return error;
}
