// Hopper's own instructions (compute capability 9.0, built as sm_90a): barriers that count arrivals
// and bytes, the copy engine, products of warp groups. PTX ISA 8.8, sections 9.7.13 and 9.7.15.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace trireme::runtime::cuda::hopper {

inline constexpr int kBox = 64;  // bf16 in 128 bytes, the widest that a swizzle spreads over banks
inline constexpr int kBoxBytes = kBox * kBox * 2;

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void init_barrier(std::uint64_t* barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals));
}

__device__ inline void expect_bytes(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

__device__ inline void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

__device__ inline void wait(std::uint64_t* barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}

__device__ inline void bring(const CUtensorMap& map, void* target, std::uint64_t* barrier, int x,
                             int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(target)),
      "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
      : "memory");
}

// Of a tile whose rows of 128 bytes are swizzled: eight rows lie 1024 bytes after the last eight.
// Where the rows are of k, the next 64 of the other extent lie a box further.
__device__ inline std::uint64_t descriptor(const std::byte* tile) {
  return (static_cast<std::uint64_t>(shared_address(tile)) >> 4 & 0x3FFF) |
         std::uint64_t{kBoxBytes >> 4} << 16 | std::uint64_t{1024 >> 4} << 32 |
         std::uint64_t{1} << 62;
}

__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kOpen>
__device__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kOpen) : "memory");
}

// clang-format off
#define TRIREME_SUMS_8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
                          "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define TRIREME_SUMS_32(i) TRIREME_SUMS_8(i), TRIREME_SUMS_8(i + 8), TRIREME_SUMS_8(i + 16), \
                           TRIREME_SUMS_8(i + 24)
// d[64, 256] += a b over 16 of k; an operand is transposed whose rows are of k.
template <int kTransposeA, int kTransposeB>
__device__ void multiply(float (&d)[128], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.eq.u32 adds, 1, 1;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
      "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, "
      "%125, %126, %127"
      "}, %128, %129, adds, 1, 1, %130, %131;\n}"
      : TRIREME_SUMS_32(0), TRIREME_SUMS_32(32), TRIREME_SUMS_32(64), TRIREME_SUMS_32(96)
      : "l"(a), "l"(b), "n"(kTransposeA), "n"(kTransposeB));
}
#undef TRIREME_SUMS_32
#undef TRIREME_SUMS_8
// clang-format on

}  // namespace trireme::runtime::cuda::hopper
