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
    std::int64_t rows = 0;
    for (std::size_t at = expert; at < counts.size(); at += experts) {
      rows += counts[at];
    }
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

}  // namespace trireme::runtime::cuda
