#!/usr/bin/env python3
"""train.py - train.c in Python: the same work on the same libraries, through ctypes, with the same output.

A small "training" on every card: weights live from beginning to end, activations and gradients come and go in every
step and differ in size between steps, and in every step from the second on one tensor is forgotten. All of it goes
through a caching pool that reports through mstx as torch_npu's does, and each step of each card is an mstx range "step
start".
After the training one validation step on each card leaks nothing, so that what is planted is exactly what can be found.
The program knows nothing of any tool and runs the same without one. Standard library only, Python 3.7 or later.
"""

import argparse
import ctypes
import os
import sys

MIB = 1 << 20
LAYERS = 6
WEIGHT_BYTES = 3 * MIB  # of the first layer; layer i has (i + 1) times this
ACTIVATION_BYTES = 2 * MIB  # of one layer for one unit of batch
SAMPLE = 1024  # floats that are really computed with

HUGE_FIRST = 0
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


def library_directory():
    """Where the stack is: the installed one, else the virtual NPU beside this file or in the build tree."""
    here = os.path.dirname(os.path.abspath(__file__))
    candidates = [os.path.join(here, *rest) for rest in (("..", "vnpu", "lib64"), ("..", "build", "vnpu", "lib64"))]
    home = os.environ.get("ASCEND_HOME_PATH")
    if home:
        candidates.insert(0, os.path.join(home, "lib64"))
    for directory in candidates:
        if os.path.exists(os.path.join(directory, "libascendcl.so")):
            return directory
    sys.exit("train: no libascendcl.so in " + ", ".join(candidates))


class RangeDesc(ctypes.Structure):
    """mstxMemVirtualRangeDesc_t"""

    _fields_ = [("deviceId", ctypes.c_uint32), ("ptr", ctypes.c_void_p), ("size", ctypes.c_int64)]


class HeapDesc(ctypes.Structure):
    """mstxMemHeapDesc_t"""

    _fields_ = [("usage", ctypes.c_int32), ("type", ctypes.c_int32), ("typeSpecificDesc", ctypes.c_void_p)]


class RegisterBatch(ctypes.Structure):
    """mstxMemRegionsRegisterBatch_t"""

    _fields_ = [
        ("heap", ctypes.c_void_p),
        ("regionType", ctypes.c_int32),
        ("regionCount", ctypes.c_size_t),
        ("regionDescArray", ctypes.c_void_p),
        ("regionHandleArrayOut", ctypes.c_void_p),
    ]


class RegionRef(ctypes.Structure):
    """mstxMemRegionRef_t, the union as its pointer"""

    _fields_ = [("refType", ctypes.c_int32), ("pointer", ctypes.c_void_p)]


class UnregisterBatch(ctypes.Structure):
    """mstxMemRegionsUnregisterBatch_t"""

    _fields_ = [("refCount", ctypes.c_size_t), ("refArray", ctypes.c_void_p)]


def rubbish(structure):
    """A structure as torch_npu passes it: what is not set is not initialised. A tool that reads that is caught."""
    instance = structure()
    ctypes.memset(ctypes.byref(instance), 0xA5, ctypes.sizeof(instance))
    return instance


class Mstx:
    """Ranges, and what a caching pool has to tell."""

    def __init__(self, directory):
        self.lib = lib = ctypes.CDLL(os.path.join(directory, "libms_tools_ext.so"))
        lib.mstxRangeStartA.restype = ctypes.c_uint64
        lib.mstxRangeStartA.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        lib.mstxRangeEnd.argtypes = [ctypes.c_uint64]
        lib.mstxDomainCreateA.restype = ctypes.c_void_p
        lib.mstxDomainCreateA.argtypes = [ctypes.c_char_p]
        lib.mstxMemHeapRegister.restype = ctypes.c_void_p
        for name in ("mstxMemHeapRegister", "mstxMemRegionsRegister", "mstxMemRegionsUnregister"):
            getattr(lib, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        # A profiler that answers to any domain is no memory tool: it must not get our messages.
        self.pool_reports = self.tool_is_preloaded() and not lib.mstxDomainCreateA(b"test")

    @staticmethod
    def tool_is_preloaded():
        hook = "libascend_kernel_hook.so"
        elements = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()
        paths = [os.path.realpath(element) for element in elements if os.path.exists(element)]
        return any(path.endswith(hook) and len(path) > len(hook) for path in paths)

    def report_reserved(self, device, block, reserved):
        domain = self.lib.mstxDomainCreateA(b"ptaCaching")
        desc = RangeDesc(device, block, reserved)
        heap = rubbish(HeapDesc)
        heap.typeSpecificDesc = ctypes.addressof(desc)
        self.lib.mstxMemHeapRegister(domain, ctypes.byref(heap))
        return domain

    def report_alloc(self, device, block, size, reserved):
        if not self.pool_reports:
            return
        domain = self.report_reserved(device, block, reserved)
        desc = RangeDesc(device, block, size)
        batch = rubbish(RegisterBatch)
        batch.regionCount = 1
        batch.regionDescArray = ctypes.addressof(desc)
        self.lib.mstxMemRegionsRegister(domain, ctypes.byref(batch))

    def report_free(self, device, block, reserved):
        if not self.pool_reports:
            return
        domain = self.report_reserved(device, block, reserved)
        ref = RegionRef(0, block)  # 0: by pointer
        batch = UnregisterBatch(1, ctypes.addressof(ref))
        self.lib.mstxMemRegionsUnregister(domain, ctypes.byref(batch))


class Acl:
    """AscendCL: every function checks its result and ends the program with one line when it failed."""

    def __init__(self, directory):
        self.lib = lib = ctypes.CDLL(os.path.join(directory, "libascendcl.so"))
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        lib.aclrtMallocAlign32.argtypes = [pointer, size, ctypes.c_int]
        lib.aclrtMallocHost.argtypes = [pointer, size]
        lib.aclrtMemcpy.argtypes = [pointer, size, pointer, size, ctypes.c_int]
        lib.aclrtMemcpyAsync.argtypes = [pointer, size, pointer, size, ctypes.c_int, pointer]
        lib.aclrtMemsetAsync.argtypes = [pointer, size, ctypes.c_int32, size, pointer]
        for name in ("aclrtFree", "aclrtFreeHost", "aclrtDestroyStream", "aclrtSynchronizeStream", "aclrtCreateStream"):
            getattr(lib, name).argtypes = [pointer]
        lib.aclrtGetSocName.restype = ctypes.c_char_p

    def __getattr__(self, name):
        function = getattr(self.lib, name)

        def checked(*arguments):
            error = function(*arguments)
            if error:
                sys.exit(f"train: {name} failed: error {error}")

        self.__dict__[name] = checked
        return checked

    def soc_name(self):
        return self.lib.aclrtGetSocName().decode()

    def new_pointer(self, name, *arguments):
        """The pointer or handle that a function stores through its first parameter."""
        out = ctypes.c_void_p()
        getattr(self, name)(ctypes.byref(out), *arguments)
        return out.value


class Block:
    """Part of a segment; the blocks of one are a list in address order that covers it without gaps."""

    def __init__(self, address, size, small):
        self.address, self.size, self.small = address, size, small
        self.used = False


class Pool:
    """The caching allocator of caching_pool.c."""

    UNIT, SMALL_MAX, LARGE_MIN = 512, MIB, 10 * MIB
    SMALL_SEGMENT, LARGE_SEGMENT, LARGE_UNIT = 2 * MIB, 20 * MIB, 2 * MIB

    def __init__(self, acl, mstx, device):
        self.acl, self.mstx, self.device = acl, mstx, device
        self.segments = []
        self.allocated = self.peak = self.reserved = 0

    def segment_size(self, size):
        if size <= self.SMALL_MAX:
            return self.SMALL_SEGMENT
        if size < self.LARGE_MIN:
            return self.LARGE_SEGMENT
        return -(-size // self.LARGE_UNIT) * self.LARGE_UNIT

    def best_fit(self, size):
        small = size <= self.SMALL_MAX
        fitting = [
            (b.size, b.address, s, i)
            for s, blocks in enumerate(self.segments)
            for i, b in enumerate(blocks)
            if not b.used and b.small == small and b.size >= size
        ]
        return min(fitting)[2:] if fitting else None

    def alloc(self, size):
        size = max(self.UNIT, -(-size // self.UNIT) * self.UNIT)
        place = self.best_fit(size)
        if place is None:
            place = self.new_segment(size)
        blocks, index = self.segments[place[0]], place[1]
        block = blocks[index]
        left = block.size - size
        if left >= (self.UNIT if block.small else self.SMALL_MAX + 1):
            blocks.insert(index + 1, Block(block.address + size, left, block.small))
            block.size = size
        block.used = True
        self.allocated += block.size
        self.peak = max(self.peak, self.allocated)
        self.mstx.report_alloc(self.device, block.address, block.size, self.reserved)
        return block.address

    def new_segment(self, size):
        whole = self.segment_size(size)
        out = ctypes.c_void_p()
        error = self.acl.lib.aclrtMallocAlign32(ctypes.byref(out), whole, HUGE_FIRST)
        if error:
            self.empty_cache()
            error = self.acl.lib.aclrtMallocAlign32(ctypes.byref(out), whole, HUGE_FIRST)
        if error:
            sys.exit(f"train: card {self.device} has no room for {size} bytes: error {error}")
        self.segments.append([Block(out.value, whole, size <= self.SMALL_MAX)])
        self.reserved += whole
        return len(self.segments) - 1, 0

    def free(self, address):
        blocks, index = next(
            (blocks, i) for blocks in self.segments for i, b in enumerate(blocks) if b.used and b.address == address
        )
        block = blocks[index]
        self.mstx.report_free(self.device, address, self.reserved)
        block.used = False
        self.allocated -= block.size
        if index + 1 < len(blocks) and not blocks[index + 1].used:
            block.size += blocks.pop(index + 1).size
        if index > 0 and not blocks[index - 1].used:
            blocks[index - 1].size += blocks.pop(index).size

    def empty_cache(self):
        """Gives back every segment from which nothing is handed out."""
        for blocks in self.segments[::-1]:
            if len(blocks) == 1 and not blocks[0].used:
                self.acl.aclrtFree(blocks[0].address)
                self.reserved -= blocks[0].size
                self.segments.remove(blocks)


class Card:
    """One card: its stream, pool and weights."""

    ranges = 0  # "step start" ranges of the process so far, over all cards

    def __init__(self, acl, mstx, device):
        self.acl, self.mstx, self.device = acl, mstx, device
        self.leaked_bytes = self.leaked_count = 0
        acl.aclrtSetDevice(device)
        self.stream = acl.new_pointer("aclrtCreateStream")
        self.host_address = acl.new_pointer("aclrtMallocHost", SAMPLE * 4)
        self.host = (ctypes.c_float * SAMPLE).from_address(self.host_address)
        self.pool = Pool(acl, mstx, device)
        for i in range(SAMPLE):
            self.host[i] = i % 7 + 1
        self.weights = []
        for i in range(LAYERS):
            size = (i + 1) * WEIGHT_BYTES
            self.weights.append(self.pool.alloc(size))
            acl.aclrtMemcpy(self.weights[i], size, self.host_address, SAMPLE * 4, HOST_TO_DEVICE)

    def update(self, layer, size, scale):
        """The sample of a layer's weights comes to the host, is scaled, and goes back. Returns its mean."""
        sample, weights = SAMPLE * 4, self.weights[layer]
        self.acl.aclrtMemcpyAsync(self.host_address, sample, weights, sample, DEVICE_TO_HOST, self.stream)
        self.acl.aclrtSynchronizeStream(self.stream)
        total = 0.0
        for i in range(SAMPLE):
            self.host[i] *= scale  # rounded to a C float as it is stored
            total += self.host[i]
        self.acl.aclrtMemcpyAsync(weights, size, self.host_address, sample, HOST_TO_DEVICE, self.stream)
        return total / SAMPLE

    def step(self, number, training, leak):
        """One step; `leak` bytes are forgotten, unless 0. Returns the loss."""
        self.acl.aclrtSetDevice(self.device)
        self.pool.peak = self.pool.allocated
        step_range = self.mstx.lib.mstxRangeStartA(b"step start", self.stream)
        Card.ranges += 1
        batch = 1 + number * 5 % 4  # differs from step to step
        activations = []
        for i in range(LAYERS):
            size = batch * ACTIVATION_BYTES + i * 4096
            activations.append(self.pool.alloc(size))
            self.acl.aclrtMemsetAsync(activations[i], size, 0, 4096, self.stream)
        if leak:
            before = self.pool.allocated
            forgotten = self.pool.alloc(leak)
            self.acl.aclrtMemsetAsync(forgotten, leak, 0x5A, min(leak, 4096), self.stream)
            self.leaked_bytes += self.pool.allocated - before
            self.leaked_count += 1
        loss = 0.0
        scale = ctypes.c_float(0.9 if training else 1.0).value
        for i in reversed(range(LAYERS)):
            size = (i + 1) * WEIGHT_BYTES
            gradient = self.pool.alloc(size) if training else None
            loss += self.update(i, size, scale)
            if gradient:
                self.pool.free(gradient)
            self.pool.free(activations[i])
        self.acl.aclrtSynchronizeStream(self.stream)
        self.mstx.lib.mstxRangeEnd(step_range)
        return loss

    def print_step(self, name, loss):
        # The ordinal of the step's range is printed too: it is what a tool calls the step.
        print(
            f"{name}, card {self.device} (range {Card.ranges}): loss {loss:.6f}, "
            f"{self.pool.allocated / MIB:.1f} MiB in use, {self.pool.peak / MIB:.1f} MiB at the peak",
            flush=True,
        )

    def close(self):
        self.acl.aclrtSetDevice(self.device)
        for block in self.weights:
            self.pool.free(block)
        self.pool.empty_cache()
        self.acl.aclrtFreeHost(self.host_address)
        self.acl.aclrtDestroyStream(self.stream)
        self.acl.aclrtResetDevice(self.device)


def number(minimum):
    def parse(text):
        if not text.isdigit() or not minimum <= int(text) <= 1 << 40:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {minimum}")
        return int(text)

    return parse


def main():
    parser = argparse.ArgumentParser(prog="train", description="A small training with a leak.", allow_abbrev=False)
    parser.add_argument("--steps", type=number(1), default=10, help="training steps, default 10")
    parser.add_argument("--devices", type=number(1), default=0, help="cards to train on, default all")
    parser.add_argument(
        "--leak-bytes",
        type=number(0),
        default=MIB,
        help="bytes that each step from the second on forgets on each card, default 1048576; 0: none",
    )
    options = parser.parse_args()

    directory = library_directory()
    acl, mstx = Acl(directory), Mstx(directory)
    acl.aclInit(None)
    present = ctypes.c_uint32()
    acl.aclrtGetDeviceCount(ctypes.byref(present))
    devices = options.devices or present.value
    if devices > present.value:
        sys.exit(f"train: --devices {devices}, but there are {present.value}")

    print(f"training: {options.steps} steps on {devices} cards ({acl.soc_name()})")
    cards = [Card(acl, mstx, device) for device in range(devices)]
    for step in range(1, options.steps + 1):
        for card in cards:
            card.print_step(f"step {step}", card.step(step, True, options.leak_bytes if step > 1 else 0))
    for card in cards:
        card.print_step("validation", card.step(options.steps + 1, False, 0))
    for card in cards:
        card.close()
    acl.aclFinalize()
    for card in cards:
        print(f"card {card.device}: leaked {card.leaked_bytes} bytes in {card.leaked_count} allocations")


if __name__ == "__main__":
    main()
