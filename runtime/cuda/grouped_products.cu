// One block a multiprocessor takes tile after tile of all experts' products; one of its warp groups
// has the operands' tiles brought to shared memory, two multiply them. Rows that the last tile of
// an expert shares with the next expert are multiplied and not written, or cleared where they would
// be summed over.
#include <cudaTypedefs.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "core/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/grouped_products.h"
#include "runtime/cuda/hopper.cuh"
#include "runtime/cuda/hopper_rows.cuh"

namespace trireme::runtime::cuda {
namespace {

using hopper::arrive;
using hopper::bring;
using hopper::expect_bytes;
using hopper::kBox;
using hopper::kBoxBytes;
using hopper::put_row;
using hopper::wait;

constexpr int kTileM = 128, kTileN = 256, kTileK = 64;
constexpr int kStages = 4;
constexpr int kBytesA = kTileM * kTileK * 2, kBytesB = kTileN * kTileK * 2;
constexpr int kStageBytes = kBytesA + kBytesB;
constexpr int kGroupThreads = 128;
constexpr int kThreads = 3 * kGroupThreads;
constexpr int kConsumerWarps = 8;
constexpr int kRaster = 16;  // tiles down before the next ones across: what lies in L2 is shared

struct Extents {
  int m, n, k;           // the routed one is not read
  int experts, sources;  // counts[sources][experts]
  bool accumulate;
};

struct Shared {
  std::uint64_t full[kStages], empty[kStages];
  int tile[kStages];  // which of all experts' tiles a stage is of; kNoTile: there are no more
  int first_row[kMostGroupedExperts + 1], first_tile[kMostGroupedExperts + 1];
};
constexpr int kNoTile = -1;
constexpr std::size_t kSharedBytes = 1024 + kStages * kStageBytes + sizeof(Shared);

__host__ __device__ constexpr int tiles_of(int extent, int tile) {
  return (extent + tile - 1) / tile;
}

// Where each expert's rows and tiles begin, by the first warp.
template <bool kRowsSummed>
__device__ void find_experts(const Extents& e, const std::int32_t* counts, Shared& shared) {
  const int lane = static_cast<int>(threadIdx.x);
  int rows_before = 0;
  int tiles_before = 0;
  for (int first = 0; first < e.experts; first += 32) {
    const int expert = first + lane;
    int rows = 0;
    for (int source = 0; expert < e.experts && source < e.sources; ++source) {
      rows += counts[source * e.experts + expert];
    }
    int tiles = tiles_of(kRowsSummed ? e.m : rows, kTileM) * tiles_of(e.n, kTileN);
    if (expert >= e.experts || (kRowsSummed && rows == 0 && e.accumulate)) {
      tiles = 0;
    }
    for (int step = 1; step < 32; step *= 2) {
      const int other_rows = __shfl_up_sync(~0U, rows, step);
      const int other_tiles = __shfl_up_sync(~0U, tiles, step);
      rows += lane >= step ? other_rows : 0;
      tiles += lane >= step ? other_tiles : 0;
    }
    if (expert < e.experts) {
      shared.first_row[expert + 1] = rows_before + rows;
      shared.first_tile[expert + 1] = tiles_before + tiles;
    }
    rows_before += __shfl_sync(~0U, rows, 31);
    tiles_before += __shfl_sync(~0U, tiles, 31);
  }
  if (lane == 0) {
    shared.first_row[0] = 0;
    shared.first_tile[0] = 0;
  }
}

struct Tile {
  int expert, first_row, rows;  // the expert's
  int m, n;                     // where it begins
};

// `tile` counts on over experts; `expert` is that of an earlier one.
template <bool kRowsSummed>
__device__ Tile locate(const Extents& e, const Shared& shared, int tile, int expert) {
  while (tile >= shared.first_tile[expert + 1]) {
    ++expert;
  }
  const int first_row = shared.first_row[expert];
  const int rows = shared.first_row[expert + 1] - first_row;
  const int down = tiles_of(kRowsSummed ? e.m : rows, kTileM);
  const int across = tiles_of(e.n, kTileN);
  const int at = tile - shared.first_tile[expert];
  const int band = at / (kRaster * across) * kRaster;
  const int height = min(kRaster, down - band);
  const int in_band = at - band * across;
  return {expert, first_row, rows, (band + in_band % height) * kTileM, in_band / height * kTileN};
}

// At least one, which an expert without rows sums nothing in.
template <bool kRowsSummed>
__device__ int steps_of(const Extents& e, const Tile& tile) {
  return max(1, tiles_of(kRowsSummed ? tile.rows : e.k, kTileK));
}

struct Place {
  int stage = 0;
  std::uint32_t phase = 0;
  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// The tiles of one stage: of k from `k` on.
template <bool kRowsSummed, bool kTransposeB>
__device__ void bring_stage(const CUtensorMap& map_a, const CUtensorMap& map_b, const Tile& tile,
                            int k, std::byte* a, std::uint64_t* full) {
  std::byte* b = a + kBytesA;
  if constexpr (kRowsSummed) {
    for (int box = 0; box < kTileM / kBox; ++box) {
      bring(map_a, a + box * kBoxBytes, full, tile.m + box * kBox, tile.first_row + k, 0);
    }
  } else {
    bring(map_a, a, full, k, tile.first_row + tile.m, 0);
  }
  if constexpr (kTransposeB) {
    bring(map_b, b, full, k, tile.n, tile.expert);
  } else {
    for (int box = 0; box < kTileN / kBox; ++box) {
      bring(map_b, b + box * kBoxBytes, full, tile.n + box * kBox,
            kRowsSummed ? tile.first_row + k : k, kRowsSummed ? 0 : tile.expert);
    }
  }
}

// By one thread. Blocks take tiles as they come to them: where communication has a multiprocessor,
// the others take its share.
template <bool kRowsSummed, bool kTransposeB>
__device__ void bring_tiles(const CUtensorMap& map_a, const CUtensorMap& map_b, const Extents& e,
                            int* taken, std::byte* stages, Shared& shared) {
  Place place;
  Tile tile{};
  int at = atomicAdd(taken, 1);
  while (at < shared.first_tile[e.experts]) {
    const int next = atomicAdd(taken, 1);
    tile = locate<kRowsSummed>(e, shared, at, tile.expert);
    const int steps = steps_of<kRowsSummed>(e, tile);
    for (int step = 0; step < steps; ++step, place.next()) {
      wait(&shared.empty[place.stage], place.phase ^ 1);
      shared.tile[place.stage] = at;
      std::uint64_t* full = &shared.full[place.stage];
      expect_bytes(full, kStageBytes);
      bring_stage<kRowsSummed, kTransposeB>(map_a, map_b, tile, step * kTileK,
                                            stages + place.stage * kStageBytes, full);
    }
    at = next;
  }
  wait(&shared.empty[place.stage], place.phase ^ 1);
  shared.tile[place.stage] = kNoTile;
  arrive(&shared.full[place.stage]);
}

// The last rows of an expert share a tile with the next one's, or with what nobody wrote.
__device__ void clear_rows(std::byte* stage, int group, int rows) {
  const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  std::byte* boxes[] = {stage + group * kBoxBytes, stage + kBytesA + 2 * group * kBoxBytes,
                        stage + kBytesA + (2 * group + 1) * kBoxBytes};
  for (std::byte* box : boxes) {
    for (int at = rows * 128 + thread * 16; at < kBoxBytes; at += kGroupThreads * 16) {
      *reinterpret_cast<uint4*>(box + at) = uint4{};
    }
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("bar.sync 1, %0;" ::"n"(2 * kGroupThreads) : "memory");
}

template <int kHalf, bool kRowsSummed, typename Out>
__device__ void put_half(const float (&d)[128], const Extents& e, const Tile& tile, int group,
                         Out* c) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) % kGroupThreads / 32;
  const int row = tile.m + group * 64 + warp * 16 + kHalf * 8 + lane / 4;
  const bool there = row < (kRowsSummed ? e.m : tile.rows);
  const std::int64_t before =
      kRowsSummed ? static_cast<std::int64_t>(tile.expert) * e.m : tile.first_row;
  put_row<kHalf>(d, c + (before + row) * e.n + tile.n, there ? e.n - tile.n : 0, e.accumulate,
                 lane);
}

// d of the tile whose stages come next, of which `place` is the first.
template <bool kRowsSummed, bool kTransposeB>
__device__ void multiply_tile(float (&d)[128], int steps, int rows, std::byte* stages,
                              Shared& shared, int group, Place& place) {
  const bool signals = threadIdx.x % 32 == 0;
  int previous = 0;
  for (int step = 0; step < steps; ++step, place.next()) {
    wait(&shared.full[place.stage], place.phase);
    std::byte* stage = stages + place.stage * kStageBytes;
    if (kRowsSummed && rows - step * kTileK < kTileK) {
      clear_rows(stage, group, rows - step * kTileK);
    }
    const std::uint64_t a = hopper::descriptor(stage + group * kBoxBytes);
    const std::uint64_t b = hopper::descriptor(stage + kBytesA);
    constexpr int kAcross = 16 * 2 >> 4, kDown = 16 * 128 >> 4;  // 16 of k further
    hopper::begin_products();
#pragma unroll
    for (int i = 0; i < kTileK / 16; ++i) {
      hopper::multiply<kRowsSummed ? 1 : 0, kTransposeB ? 0 : 1>(
          d, a + i * (kRowsSummed ? kDown : kAcross), b + i * (kTransposeB ? kAcross : kDown));
    }
    hopper::end_products();
    hopper::wait_products<1>();
    if (step > 0 && signals) {
      arrive(&shared.empty[previous]);
    }
    previous = place.stage;
  }
  hopper::wait_products<0>();
  if (signals) {
    arrive(&shared.empty[previous]);
  }
}

template <bool kRowsSummed, bool kTransposeB, typename Out>
__device__ void multiply_tiles(const Extents& e, std::byte* stages, Shared& shared, int group,
                               Out* c) {
  Place place;
  Tile tile{};
  while (true) {
    wait(&shared.full[place.stage], place.phase);
    const int at = shared.tile[place.stage];
    if (at == kNoTile) {
      return;
    }
    tile = locate<kRowsSummed>(e, shared, at, tile.expert);
    float d[128];
#pragma unroll
    for (float& value : d) {
      value = 0.0F;
    }
    multiply_tile<kRowsSummed, kTransposeB>(d, steps_of<kRowsSummed>(e, tile), tile.rows, stages,
                                            shared, group, place);
    put_half<0, kRowsSummed>(d, e, tile, group, c);
    put_half<1, kRowsSummed>(d, e, tile, group, c);
  }
}

template <bool kRowsSummed, bool kTransposeB, typename Out>
__global__ void __launch_bounds__(kThreads, 1)
    grouped_kernel(const __grid_constant__ CUtensorMap map_a,
                   const __grid_constant__ CUtensorMap map_b, Extents e, const std::int32_t* counts,
                   int* taken, Out* c) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::byte memory[];
  std::byte* stages = memory + (1024 - hopper::shared_address(memory) % 1024) % 1024;
  Shared& shared = *reinterpret_cast<Shared*>(stages + kStages * kStageBytes);
  if (threadIdx.x < 32) {
    find_experts<kRowsSummed>(e, counts, shared);
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        hopper::init_barrier(&shared.full[stage], 1);
        hopper::init_barrier(&shared.empty[stage], kConsumerWarps);
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
  if (group == 2) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x % kGroupThreads == 0) {
      bring_tiles<kRowsSummed, kTransposeB>(map_a, map_b, e, taken, stages, shared);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    multiply_tiles<kRowsSummed, kTransposeB>(e, stages, shared, group, c);
  }
#endif
}

PFN_cuTensorMapEncodeTiled_v12000 find_encoder() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  constexpr unsigned int kFirstVersion = 12000;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kFirstVersion,
                                         cudaEnableDefault, &result),
        "grouped products");
  if (found == nullptr) {  // which is no error of the call
    throw Error("grouped products", "the driver has no cuTensorMapEncodeTiled (12.0 brought it)",
                ErrorKind::kMissingMachine);
  }
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
}

struct Matrix {
  const void* data;
  std::int64_t width, rows, count;  // of bf16, `count` matrices after each other
};

// Of boxes of `box` rows of 128 bytes.
CUtensorMap map_of(const Matrix& matrix, int box) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = find_encoder();
  const auto number = [](std::int64_t value) { return static_cast<cuuint64_t>(value); };
  const cuuint64_t extents[] = {number(matrix.width), number(matrix.rows), number(matrix.count)};
  const cuuint64_t strides[] = {number(matrix.width * 2), number(matrix.width * matrix.rows * 2)};
  const cuuint32_t boxes[] = {kBox, static_cast<cuuint32_t>(box), 1};
  const cuuint32_t steps[] = {1, 1, 1};
  CUtensorMap map{};
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<void*>(matrix.data), extents,
             strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error("grouped products",
                "CUDA does not describe a matrix of " + std::to_string(matrix.rows) + " rows of " +
                    std::to_string(matrix.width) + " (" + std::to_string(result) + ")",
                ErrorKind::kMissingMachine);
  }
  return map;
}

template <bool kRowsSummed, bool kTransposeB, typename Out>
void launch(const GroupedProducts& p, int* taken, cudaStream_t stream) {
  const Matrix a{p.a, kRowsSummed ? p.m : p.k, p.rows, 1};
  const Matrix b = kRowsSummed   ? Matrix{p.b, p.n, p.rows, 1}
                   : kTransposeB ? Matrix{p.b, p.k, p.n, p.experts}
                                 : Matrix{p.b, p.n, p.k, p.experts};
  const auto kernel = grouped_kernel<kRowsSummed, kTransposeB, Out>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
        "grouped products");
  int device = 0;
  int multiprocessors = 0;
  check(cudaGetDevice(&device), "GPU");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "GPU");
  check(cudaMemsetAsync(taken, 0, sizeof(int), stream), "grouped products");
  const Extents extents{static_cast<int>(p.m),       static_cast<int>(p.n),
                        static_cast<int>(p.k),       static_cast<int>(p.experts),
                        static_cast<int>(p.sources), p.accumulate};
  kernel<<<static_cast<unsigned int>(multiprocessors), kThreads, kSharedBytes, stream>>>(
      map_of(a, kRowsSummed ? kTileK : kTileM), map_of(b, kTransposeB ? kTileN : kTileK), extents,
      p.counts, taken, static_cast<Out*>(p.c));
  check(cudaGetLastError(), "grouped products");
}

}  // namespace

bool can_group(const GroupedProducts& p) {
  int device = 0;
  int major = 0;
  int minor = 0;
  check(cudaGetDevice(&device), "GPU");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "GPU");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "GPU");
  constexpr std::int64_t kVector = 8;  // elements in 16 bytes
  const auto begins = [](const void* data) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  };
  const bool aligned = p.n % kVector == 0 && (p.rows_summed ? p.m : p.k) % kVector == 0 &&
                       begins(p.a) && begins(p.b) && begins(p.c);
  const bool has_form = p.rows_summed ? !p.transpose_b : !p.output_fp32 && !p.accumulate;
  return major == 9 && minor == 0 && aligned && has_form && p.experts <= kMostGroupedExperts;
}

void grouped_products(const GroupedProducts& p, void* workspace, cudaStream_t stream) {
  auto* taken = static_cast<int*>(workspace);
  if (p.rows_summed) {
    p.output_fp32 ? launch<true, false, float>(p, taken, stream)
                  : launch<true, false, __nv_bfloat16>(p, taken, stream);
  } else {
    p.transpose_b ? launch<false, true, __nv_bfloat16>(p, taken, stream)
                  : launch<false, false, __nv_bfloat16>(p, taken, stream);
  }
}

}  // namespace trireme::runtime::cuda
