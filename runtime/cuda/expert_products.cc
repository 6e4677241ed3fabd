#include "runtime/cuda/expert_products.h"

#include <algorithm>

#include "runtime/cuda/grouped_products.h"

namespace trireme::runtime::cuda {
namespace {

// Numbers of rows whose algorithm serves all from the one before on: four an octave.
std::int64_t bucket_of(std::int64_t rows) {
  std::int64_t bucket = 16;
  while (bucket * 2 < rows) {
    bucket *= 2;
  }
  for (std::int64_t quarters = 4; quarters < 8; ++quarters) {
    if (bucket / 4 * quarters >= rows) {
      return bucket / 4 * quarters;
    }
  }
  return 2 * bucket;
}

struct ExpertCall {
  MatmulCall product;
  bool weight;  // the rows are summed over

  ExpertCall(const Work& work, const View& output)
      : product{.m = work.dims[0],
                .n = work.dims[1],
                .k = work.dims[2],
                .transpose_a = work.dims[3] != 0,
                .transpose_b = work.dims[4] != 0,
                .accumulate = work.dims[5] != 0,
                .output_fp32 = output.type == ElementType::kMaster},
        weight(product.transpose_a) {}

  [[nodiscard]] MatmulCall with_rows(std::int64_t rows) const {
    MatmulCall call = product;
    (weight ? call.k : call.m) = rows;
    return call;
  }
};

std::byte* bytes(const View& view) {
  return static_cast<std::byte*>(view.data);
}

std::int64_t width(const View& view) {
  return view.type == ElementType::kCompute ? 2 : 4;
}

// Work has the rows' number where they lie after each other: as many as there is room for.
GroupedProducts grouped_call(const Work& work, std::span<const View> operands) {
  const ExpertCall call(work, operands[2]);
  const MatmulCall& p = call.product;
  return {.a = operands[0].data,
          .b = operands[1].data,
          .c = operands[2].data,
          .counts = static_cast<const std::int32_t*>(operands[3].data),
          .m = p.m,
          .n = p.n,
          .k = p.k,
          .rows = operands[0].count / (call.weight ? p.m : p.k),
          .experts = work.dims[7],
          .sources = operands[3].count / work.dims[7],
          .rows_summed = call.weight,
          .transpose_b = p.transpose_b,
          .accumulate = p.accumulate,
          .output_fp32 = p.output_fp32};
}

// Products of codes. In a transpose each expert's columns are whole 16 (core/kernels.h).
struct NarrowCall {
  MatmulCall product;
  bool summed;                  // over the rows
  std::int64_t experts, width;  // of a row of the transposes
  OperandScales scales;

  NarrowCall(const Work& work, std::span<const View> operands)
      : product{.m = work.dims[0],
                .n = work.dims[1],
                .k = work.dims[2],
                .transpose_b = true,
                .accumulate = work.dims[4] != 0,
                .output_fp32 = operands[4].type == ElementType::kMaster,
                .format_a = work.dims[5] != 0 ? NumberFormat::kE5m2 : NumberFormat::kE4m3,
                .format_b = NumberFormat::kE4m3,
                .fast_accumulate = work.dims[5] == 0,
                .anywhere = true,
                .workspace_bytes = kMatmulWorkspace / Lanes::kCount},
        summed(work.dims[3] != 0),
        experts(work.dims[7]),
        width(operands[0].count / work.dims[0]),
        scales{static_cast<const float*>(operands[1].data),
               static_cast<const float*>(operands[3].data)} {
    if (summed) {
      product.row_a = product.row_b = width;
    } else if (work.dims[5] != 0) {  // the experts' transposes are side by side
      product.row_b = experts * product.k;
    }
  }

  [[nodiscard]] MatmulCall with_rows(std::int64_t rows) const {
    MatmulCall call = product;
    (summed ? call.k : call.m) = summed ? narrow_columns(rows) : rows;
    return call;
  }
  // What the algorithm is chosen for; a row of a transpose is no longer than it is.
  [[nodiscard]] MatmulCall like_rows(std::int64_t rows) const {
    MatmulCall call = with_rows(bucket_of(rows));
    call.k = summed ? std::min(call.k, width) : call.k;
    return call;
  }
  // Between one expert's weight and the next.
  [[nodiscard]] std::int64_t weight_step() const {
    return product.row_b != 0 ? product.k : product.n * product.k;
  }
};

std::int64_t rows_of(std::span<const std::int32_t> counts, std::size_t expert,
                     std::size_t experts) {
  std::int64_t rows = 0;
  for (std::size_t at = expert; at < counts.size(); at += experts) {
    rows += counts[at];
  }
  return rows;
}

}  // namespace

bool multiplies_grouped(const Work& work, std::span<const View> operands) {
  return can_group(grouped_call(work, operands));
}

void grouped_expert_products(const Work& work, std::span<const View> operands, void* workspace,
                             cudaStream_t stream) {
  grouped_products(grouped_call(work, operands), workspace, stream);
}

void expert_products(const Work& work, std::span<const View> operands,
                     std::span<const std::int32_t> counts, MatmulLibrary& matmuls, void* workspace,
                     cudaStream_t stream) {
  const ExpertCall call(work, operands[2]);
  const MatmulCall& p = call.product;
  const auto experts = static_cast<std::size_t>(work.dims[7]);
  const std::byte* a = bytes(operands[0]);
  const std::byte* b = bytes(operands[1]);
  std::byte* c = bytes(operands[2]);
  for (std::size_t expert = 0; expert < experts; ++expert) {
    const std::int64_t rows = rows_of(counts, expert, experts);
    if (rows > 0) {
      matmuls.run_like(call.with_rows(rows), call.with_rows(bucket_of(rows)), a, b, c, workspace,
                       stream);
    } else if (call.weight && !p.accumulate) {
      check(cudaMemsetAsync(c, 0, static_cast<std::size_t>(p.m * p.n * width(operands[2])), stream),
            "an expert without rows");
    }
    a += rows * (call.weight ? p.m : p.k) * width(operands[0]);
    b += (call.weight ? rows : p.k) * p.n * width(operands[1]);
    c += (call.weight ? p.m : rows) * p.n * width(operands[2]);
  }
}

void rehearse_expert_products(const Work& work, std::span<const View> operands,
                              MatmulLibrary& matmuls, void* workspace, cudaStream_t stream) {
  const ExpertCall call(work, operands[2]);
  const std::int64_t room = operands[0].count / (call.weight ? call.product.m : call.product.k);
  for (std::int64_t bucket = bucket_of(1); bucket < bucket_of(room + 1);
       bucket = bucket_of(bucket + 1)) {
    matmuls.run_like(call.with_rows(std::min(bucket, room)), call.with_rows(bucket),
                     operands[0].data, operands[1].data, operands[2].data, workspace, stream);
  }
}

void narrow_experts(const Work& work, std::span<const View> operands,
                    std::span<const std::int32_t> counts, MatmulLibrary& matmuls, void* workspace,
                    cudaStream_t stream, const Lanes* lanes) {
  const NarrowCall call(work, operands);
  const MatmulCall& p = call.product;
  if (lanes != nullptr) {
    lanes->fork(stream);
  }
  const std::byte* a = bytes(operands[0]);
  const std::byte* b = bytes(operands[2]);
  std::byte* c = bytes(operands[4]);
  for (std::int64_t expert = 0; expert < call.experts; ++expert) {
    const std::int64_t rows =
        rows_of(counts, static_cast<std::size_t>(expert), static_cast<std::size_t>(call.experts));
    const std::size_t lane = static_cast<std::size_t>(expert) % Lanes::kCount;
    const cudaStream_t own = lanes != nullptr ? lanes->stream(lane) : stream;
    if (rows > 0) {
      matmuls.run_like(call.with_rows(rows), call.like_rows(rows), a, b, c,
                       static_cast<std::byte*>(workspace) + lane * p.workspace_bytes, own,
                       call.scales);
    } else if (call.summed && !p.accumulate) {
      check(cudaMemsetAsync(c, 0, static_cast<std::size_t>(p.m * p.n * width(operands[4])), own),
            "an expert without rows");
    }
    a += call.summed ? narrow_columns(rows) : rows * p.k;
    b += call.summed ? narrow_columns(rows) : call.weight_step();
    c += (call.summed ? p.m : rows) * p.n * width(operands[4]);
  }
  if (lanes != nullptr) {
    lanes->join(stream);
  }
}

void rehearse_narrow_experts(const Work& work, std::span<const View> operands,
                             MatmulLibrary& matmuls, void* workspace, cudaStream_t stream) {
  const NarrowCall call(work, operands);
  const std::int64_t room =
      call.summed ? call.width - call.experts * kNarrowColumns : operands[0].count / call.product.k;
  for (std::int64_t bucket = bucket_of(1); bucket < bucket_of(room + 1);
       bucket = bucket_of(bucket + 1)) {
    matmuls.run_like(call.with_rows(std::min(bucket, room)), call.like_rows(bucket),
                     operands[0].data, operands[2].data, operands[4].data, workspace, stream,
                     call.scales);
  }
}

}  // namespace trireme::runtime::cuda
