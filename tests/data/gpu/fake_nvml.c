/* A driver library that tells of four GPUs that are not there: the calls that NVML has in one era (-DERA=418, 470 or
   550), in its own structs. GPU 1 is sliced, 2 shares the host's memory, 3 is lost. FAKE_INIT is what nvmlInit answers,
   and with FAKE_HANG set the memory call never returns. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIB (1ull << 30)
#define NOT_AVAILABLE (~0ull)
enum { OK = 0, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };

typedef unsigned long long u64;
typedef struct { int id; } device;
typedef struct { u64 total, free, used; } memory_v1;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2;
typedef struct { unsigned pid; u64 used; } process_v1;
typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process_v2;

static device devices[] = {{0}, {1}, {2}, {3}, {10}, {12}}; /* 10 and 12 are the slices of GPU 1 */

static int text(char *to, unsigned size, const char *from) {
    strncpy(to, from, size);
    return OK;
}

int nvmlInitWithFlags(unsigned flags) { return getenv("FAKE_INIT") ? atoi(getenv("FAKE_INIT")) : OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int status) { return "a fault of its own"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = getenv("FAKE_NONE") ? 0 : 4; return OK; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { return text(to, size, "550.90.07"); }
int nvmlDeviceGetUUID(device *of, char *to, unsigned size) { return text(to, size, of->id < 10 ? "GPU-0a1b" : "MIG-0a1b"); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **found) {
    *found = &devices[index];
    return index == 3 ? LOST : OK;
}

int nvmlDeviceGetName(device *of, char *to, unsigned size) {
    return text(to, size, of->id == 12 ? "NVIDIA A100-SXM4-40GB MIG 1g.5gb" : of->id == 10
        ? "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb" : of->id == 2 ? "NVIDIA GB10" : "NVIDIA A100-SXM4-40GB");
}

int nvmlSystemGetProcessName(unsigned pid, char *to, unsigned size) {
    return pid == 300 ? NOT_FOUND : text(to, size, pid == 100 ? "/usr/bin/python3" : "serve --api-key hunter2-hunter2");
}

int nvmlDeviceGetMemoryInfo(device *of, memory_v1 *info) {
    if (getenv("FAKE_HANG")) pause();
    *info = (memory_v1){40 * GIB, 9 * GIB, 31 * GIB};
    return of->id == 2 ? NOT_SUPPORTED : OK;
}

#if ERA >= 510
int nvmlDeviceGetMemoryInfo_v2(device *of, memory_v2 *info) {
    if (getenv("FAKE_HANG")) pause();
    if (info->version != (sizeof *info | 2u << 24)) return 25;
    *info = (memory_v2){info->version, 40 * GIB, GIB, 9 * GIB, 30 * GIB};
    return of->id == 2 ? NOT_SUPPORTED : OK;
}
#endif

#define LIST(name, process, ...)                                                              \
    int name(device *of, unsigned *count, process *to) {                                      \
        process found[] = {__VA_ARGS__};                                                      \
        unsigned there = of->id == 0 ? sizeof found / sizeof *found : of->id == 10 ? 1 : 0;   \
        if (of->id == 2) return NO_PERMISSION;                                                \
        unsigned room = to ? *count : 0;                                                      \
        *count = there;                                                                       \
        if (room < there) return TOO_SMALL;                                                   \
        if (there) memcpy(to, found, there * sizeof *found);                                  \
        return OK;                                                                            \
    }
#define OLD(kind, name, used)                                                                                  \
    LIST(nvmlDeviceGet##kind##RunningProcesses, process_v1, {100, 8 * GIB}, {name, used})
#define NEW(kind, version, name, used)                                                                         \
    LIST(nvmlDeviceGet##kind##RunningProcesses_v##version, process_v2, {100, 8 * GIB, 5, 6}, {name, used, 7, 8})
OLD(Compute, 200, NOT_AVAILABLE)
OLD(Graphics, 300, 5 << 20)
#if ERA >= 450
NEW(Compute, 2, 200, NOT_AVAILABLE)
NEW(Graphics, 2, 300, 5 << 20)

int nvmlDeviceGetMigMode(device *of, unsigned *now, unsigned *next) {
    *now = *next = of->id == 1;
    return of->id == 2 ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetMaxMigDeviceCount(device *of, unsigned *count) { *count = 3; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(device *of, unsigned index, device **found) {
    *found = &devices[index == 0 ? 4 : 5];
    return index == 1 ? NOT_FOUND : OK;
}
int nvmlDeviceGetGpuInstanceId(device *of, unsigned *id) { *id = of->id == 10 ? 2 : 7; return OK; }
int nvmlDeviceGetComputeInstanceId(device *of, unsigned *id) { *id = of->id == 10; return OK; }
#endif
#if ERA >= 510
NEW(Compute, 3, 200, NOT_AVAILABLE)
NEW(Graphics, 3, 300, 5 << 20)
#endif
