/*
 * gauge.c - msmemscope-gauge: asks the driver's management interface (DCMI, abi 1.3 and 2.7) how full the cards are, for the collector, which is
 * written in Go without cgo and cannot call C libraries. A process of its own also keeps what the interface may do (it can
 * hang, and it opens the cards) away from the collector.
 *
 * Each byte on standard input is a question. The answer is a line for each card and a line with a dot:
 *
 *     DEVICE TOTAL USED [PID:BYTES]...        all numbers decimal, TOTAL and USED bytes of the card's memory
 *
 * Where DCMI is too old to tell processes, a line "lacks FUNCTION" comes first in each.
 *
 * Ends at the end of its input. Without a usable DCMI it says why on standard error and ends with status 1.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CARDS = 32, PROCESSES = 64 };

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

_Static_assert(sizeof(struct dcmi_hbm_info) == 32, "dcmi_hbm_info");
_Static_assert(sizeof(struct dcmi_proc_mem_info) == 16, "dcmi_proc_mem_info");

static struct {
    int (*init)(void);
    int (*card_list)(int *count, int *list, int length);
    int (*devices)(int card, int *count);
    int (*logic_id)(int *id, int card, int device);
    int (*hbm)(int card, int device, struct dcmi_hbm_info *info);
    int (*processes)(int card, int device, struct dcmi_proc_mem_info *list, int *count); /* newer drivers */
} dcmi;

static void unusable(const char *what, const char *why)
{
    fprintf(stderr, "%s%s%s\n", what, *why ? ": " : "", why);
    exit(1);
}

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        unusable("libdcmi.so lacks", name);
    return found;
}

static void open_dcmi(void)
{
    void *library = dlopen("libdcmi.so", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        library = dlopen("/usr/local/dcmi/libdcmi.so", RTLD_NOW | RTLD_GLOBAL); /* where the driver puts it */
    if (!library)
        unusable("libdcmi.so cannot be loaded", "");
    dcmi.init = (int (*)(void))symbol(library, "dcmi_init");
    dcmi.card_list = (int (*)(int *, int *, int))symbol(library, "dcmi_get_card_list");
    dcmi.devices = (int (*)(int, int *))symbol(library, "dcmi_get_device_num_in_card");
    dcmi.logic_id = (int (*)(int *, int, int))symbol(library, "dcmi_get_device_logic_id");
    dcmi.hbm = (int (*)(int, int, struct dcmi_hbm_info *))symbol(library, "dcmi_get_device_hbm_info");
    dcmi.processes =
        (int (*)(int, int, struct dcmi_proc_mem_info *, int *))dlsym(library, "dcmi_get_npu_proc_mem_info");
}

static struct {
    int card, device, id;
} known[CARDS];
static int count;

static void enumerate(void)
{
    int cards = 0, list[CARDS];
    if (dcmi.init() != 0)
        unusable("dcmi_init fails", "");
    if (dcmi.card_list(&cards, list, CARDS) != 0 || cards < 1)
        unusable("dcmi_get_card_list names no card", "");
    for (int i = 0; i < cards && i < CARDS; i++) {
        int devices = 0;
        if (dcmi.devices(list[i], &devices) != 0)
            continue;
        for (int d = 0; d < devices && count < CARDS; d++) {
            int id;
            if (dcmi.logic_id(&id, list[i], d) != 0)
                continue;
            known[count].card = list[i];
            known[count].device = d;
            known[count++].id = id;
        }
    }
    if (count == 0)
        unusable("DCMI knows no device", "");
}

static void answer(void)
{
    if (!dcmi.processes)
        puts("lacks dcmi_get_npu_proc_mem_info");
    for (int i = 0; i < count; i++) {
        struct dcmi_hbm_info hbm;
        if (dcmi.hbm(known[i].card, known[i].device, &hbm) != 0)
            continue;
        printf("%d %llu %llu", known[i].id, hbm.memory_size << 20, hbm.memory_usage << 20);
        struct dcmi_proc_mem_info list[PROCESSES];
        int n = PROCESSES;
        if (dcmi.processes && dcmi.processes(known[i].card, known[i].device, list, &n) == 0)
            for (int p = 0; p < n && p < PROCESSES; p++)
                printf(" %d:%lu", list[p].proc_id, list[p].proc_mem_usage);
        putchar('\n');
    }
    puts(".");
    fflush(stdout);
}

int main(void)
{
    open_dcmi();
    enumerate();
    char question;
    while (read(STDIN_FILENO, &question, 1) == 1)
        answer();
    return 0;
}
