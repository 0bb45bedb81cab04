"""A CUDA job that needs only the driver, no toolkit: squares numbers on the
first GPU that is visible to it.

Reads {"numbers": n, "seconds": s} from stdin, repeats the computation until s
seconds have passed, at least once, and prints its results as one line of JSON."""

import array
import ctypes
import json
import sys
import time

PTX = b"""
.version 6.0
.target sm_60
.address_size 64
.visible .entry square(.param .u64 numbers, .param .u32 count)
{
  .reg .pred %p1;
  .reg .b32 %r<5>;
  .reg .b64 %rd<4>;
  .reg .f32 %f<2>;
  ld.param.u64 %rd1, [numbers];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r2, 4;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.f32 %f1, [%rd3];
  mul.f32 %f1, %f1, %f1;
  st.global.f32 [%rd3], %f1;
DONE:
  ret;
}
"""

try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit("there is no CUDA driver here (libcuda.so.1 was not found)")


def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code != 0:
        error_name = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(error_name))
        sys.exit(f"{name}: {(error_name.value or str(code).encode()).decode()}")


class UUID(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 16)]


def main():
    job = json.load(sys.stdin)
    n = int(job.get("numbers", 1 << 20))
    began = time.time()
    call("cuInit", 0)
    visible, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGetCount", ctypes.byref(visible))
    if visible.value == 0:
        sys.exit("no GPU is visible to this job")
    call("cuDeviceGet", ctypes.byref(device), 0)
    name, uuid = ctypes.create_string_buffer(96), UUID()
    call("cuDeviceGetName", name, 96, device)
    # Only the second version returns the UUID of a MIG instance, and not its GPU's.
    identify = "cuDeviceGetUuid_v2" if hasattr(cuda, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid"
    call(identify, ctypes.byref(uuid), device)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, device)

    module, square, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(square), module, b"square")
    numbers = array.array("f", (i % 1000 for i in range(n)))
    size = n * numbers.itemsize
    address, _ = numbers.buffer_info()
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
    count = ctypes.c_uint32(n)
    params = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(count))
    rounds = 0
    while True:
        call("cuMemcpyHtoD_v2", memory, ctypes.c_void_p(address), ctypes.c_size_t(size))
        call("cuLaunchKernel", square, (n + 255) // 256, 1, 1, 256, 1, 1, 0, None, params, None)
        call("cuCtxSynchronize")
        rounds += 1
        if time.time() - began >= job.get("seconds", 0):
            break
    call("cuMemcpyDtoH_v2", ctypes.c_void_p(address), memory, ctypes.c_size_t(size))
    wrong = sum(1 for i in range(n) if numbers[i] != float((i % 1000) ** 2))
    call("cuMemFree_v2", memory)
    call("cuCtxDestroy_v2", context)
    h = bytes(uuid.bytes).hex()
    print(json.dumps({
        "gpu": "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:])), "name": name.value.decode(), "visible": visible.value,
        "rounds": rounds, "wrong": wrong, "began": began, "ended": time.time(),
    }))


main()
