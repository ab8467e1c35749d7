"""Libraries in the place of a vendor's: real shared objects with NVML's, HIP's or OpenCL's entry points, made by the C
compiler.

HIP's properties are written through the whole structure as AMD's header declares it, so that whoever reads them at
another place reads nonsense.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HIP = r"""
#include <stddef.h>
#include <string.h>

typedef struct { char bytes[16]; } hipUUID;
typedef struct {
    char name[256]; hipUUID uuid; char luid[8]; unsigned int luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
    int maxTexture1D, maxTexture1DMipmap, maxTexture1DLinear, maxTexture2D[2], maxTexture2DMipmap[2];
    int maxTexture2DLinear[3], maxTexture2DGather[2], maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap;
    int maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2];
    int maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2], maxSurface2DLayered[3];
    int maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount;
    int unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize;
    char rest[1024];
} Properties;

#ifdef CRASHES
int hipGetDeviceCount(int *count) { *(volatile int *) 0 = 1; return 0; }
#else
int hipGetDeviceCount(int *count) { *count = DEVICES; return 0; }
#endif

int hipDriverGetVersion(int *version) { *version = 60342131; return 0; }

int hipGetDevicePropertiesR0600(Properties *it, int index) {
    if (index < 0 || index >= DEVICES) return 1;
    memset(it, 0x77, sizeof(*it)); /* whatever is not set below is nonsense */
    strcpy(it->name, "AMD Instinct MI300A");
    memcpy(it->uuid.bytes, UUID, 16);
    it->uuid.bytes[0] += index;
    it->totalGlobalMem = 131072UL << 20;
    it->major = 9; it->minor = 4;
    it->clockRate = 2100 * 1000;
    it->multiProcessorCount = 228;
    it->ECCEnabled = 1;
    it->warpSize = 64;
    it->unifiedAddressing = 1;
    it->pciDomainID = index; it->pciBusID = 0x2a; it->pciDeviceID = 0;
    return 0;
}
"""

NVML = r"""
#include <string.h>

/* WHOLE devices, and after them one that is divided into two instances. A handle is an address in `devices`. */
typedef struct { char known; } Device;
static Device devices[WHOLE + 3];
static int whole(Device *it) { return it - devices < WHOLE; }
static int part(Device *it) { return it - devices > WHOLE; }

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct {
    char legacy[16]; unsigned domain, bus, device, pci, subsystem; char id[32];
} Pci;
typedef struct { unsigned long long time; union { unsigned number; unsigned long long large; double real; } value; } Sample;

int nvmlInit_v2(void) { return 0; }
int nvmlInitWithFlags(unsigned flags) { return flags; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strncpy(text, "570.86.15", size); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12080; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = WHOLE + 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **it) {
    if (index > WHOLE) return 2;
    *it = &devices[index];
    return 0;
}
int nvmlDeviceGetMigMode(Device *it, unsigned *now, unsigned *next) {
    if (whole(it)) return 3; /* a card that cannot be divided */
    *now = *next = 1;
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(Device *it, unsigned *count) { *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *it, unsigned index, Device **found) {
    if (whole(it) || index > 1) return 6;
    *found = &devices[WHOLE + 1 + index];
    return 0;
}
int nvmlDeviceGetUUID(Device *it, char *text, unsigned size) {
    strncpy(text, part(it) ? "MIG-00000000-89ab-cdef-0123-456789abcdef" : "GPU-00000000-89ab-cdef-0123-456789abcdef", size);
    text[11] = '0' + (it - devices);
    return 0;
}
int nvmlDeviceGetName(Device *it, char *text, unsigned size) {
    if (part(it)) return 3;
    strncpy(text, whole(it) ? "NVIDIA L4" : "NVIDIA H100 PCIe", size);
    return 0;
}
int nvmlDeviceGetMemoryInfo(Device *it, Memory *found) {
    found->total = (part(it) ? 20096UL : whole(it) ? 23034UL : 81559UL) << 20;
    found->used = found->total / 4;
    found->free = found->total - found->used;
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(Device *it, int *major, int *minor) {
    *major = whole(it) ? 8 : 9;
    *minor = whole(it) ? 9 : 0;
    return 0;
}
int nvmlDeviceGetPciInfo_v3(Device *it, Pci *found) {
    memset(found, 0x77, sizeof *found);
    found->domain = 0; found->bus = 0x17 + (it - devices); found->device = 0;
    return 0;
}
int nvmlDeviceGetEccMode(Device *it, unsigned *now, unsigned *next) { *now = *next = 1; return 0; }
int nvmlDeviceGetMaxClockInfo(Device *it, unsigned what, unsigned *found) {
    if (what != 1) return 2;
    *found = whole(it) ? 2040 : 1755;
    return 0;
}
int nvmlDeviceGetNumGpuCores(Device *it, unsigned *found) { *found = whole(it) ? 7424 : 14592; return 0; }
int nvmlDeviceGetTotalEccErrors(Device *it, unsigned kind, unsigned counter, unsigned long long *found) {
    if (counter != 1) return 2;
    *found = kind == 0 ? 5 : 0;
    return 0;
}
int nvmlDeviceGetTemperature(Device *it, unsigned sensor, unsigned *found) { *found = 41; return sensor; }
int nvmlDeviceGetPowerUsage(Device *it, unsigned *found) { *found = 16720; return 0; } /* of fans it says nothing */
int nvmlDeviceGetSamples(Device *it, int kind, unsigned long long since, int *type, unsigned *count, Sample *found) {
    static unsigned long long now = 1000000;
    if (kind != 1 || !whole(it)) return 3;
    *type = 1;
    if (!found) { *count = 8; return 0; }
    now += 500000;
    found[0].time = now;
    found[0].value.number = 50;
    *count = 1;
    return 0;
}
"""

OPENCL = r"""
#include <stddef.h>
#include <string.h>

/* Two platforms: a processor, which is no GPU, and one with DEVICES of them. */
static int platforms[2], devices[16];

int clGetPlatformIDs(unsigned room, void **found, unsigned *count) {
    if (count) *count = 2;
    for (unsigned i = 0; found && i < room && i < 2; i++) found[i] = &platforms[i];
    return 0;
}

int clGetDeviceIDs(void *platform, unsigned long long type, unsigned room, void **found, unsigned *count) {
    if (type != 4 || platform != &platforms[1]) return -1;
    if (count) *count = DEVICES;
    for (unsigned i = 0; found && i < room && i < DEVICES; i++) found[i] = &devices[i];
    return 0;
}

static int answer(void *room, size_t size, const void *value, size_t length) {
    if (size < length) return -30;
    memcpy(room, value, length);
    return 0;
}

int clGetDeviceInfo(void *device, unsigned what, size_t size, void *room, size_t *length) {
    unsigned units = 32, clock = 1455, no = 0;
    unsigned long long memory = 8UL << 30;
    if ((int *) device < devices || (int *) device >= devices + DEVICES) return -33;
    switch (what) {
        case 0x1002: return answer(room, size, &units, sizeof units);
        case 0x100C: return answer(room, size, &clock, sizeof clock);
        case 0x101F: return answer(room, size, &memory, sizeof memory);
        case 0x1024: return answer(room, size, &no, sizeof no);
        case 0x102B: return answer(room, size, "Intel(R) Arc(TM) \"A750\"", 24);
        case 0x102F: return answer(room, size, "OpenCL 3.0 NEO ", 16);
    }
    return -30;
}
"""


def build(directory: Path, name: str, source: str, **defines: object) -> None:
    """Compile `source` as the library `name` in `directory`; skips the test where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here, to make a stand-in for a vendor's library")
    options = [f"-D{key}={value}" for key, value in defines.items()]
    command = [compiler, "-shared", "-fPIC", "-Werror", *options, "-x", "c", "-", "-o", str(directory / name)]
    subprocess.run(command, input=source, text=True, check=True)
