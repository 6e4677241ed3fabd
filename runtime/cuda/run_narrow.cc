#include "runtime/cuda/call.h"
#include "runtime/cuda/expert_products.h"
#include "runtime/cuda/host_counts.h"
#include "runtime/cuda/narrow.h"
#include "runtime/cuda/narrow_blocks.h"

namespace trireme::runtime::cuda {
namespace {

std::uint8_t* codes(const Call& c, std::size_t operand) {
  return static_cast<std::uint8_t*>(c.operands[operand].data);
}

void need_multiples(const Call& c, std::int64_t extent) {
  constexpr std::int64_t kMultiple = 16;
  bool fits = extent % kMultiple == 0;
  for (const View& view : c.operands) {
    fits =
        fits && (view.count == 1 || reinterpret_cast<std::uintptr_t>(view.data) % kMultiple == 0);
  }
  if (!fits) {
    throw Error(std::string(signature_of(c.work.kernel).name),
                "products in 8 bits need extents that are multiples of 16 on each rank; one is " +
                    std::to_string(extent));
  }
}

// cuBLASLt 13.1 refuses others with "not supported".
void need_aligned_scales(const Call& c) {
  for (const std::size_t operand : {1U, 3U}) {
    if (reinterpret_cast<std::uintptr_t>(c.operands[operand].data) % 16 != 0) {
      throw Error(std::string(signature_of(c.work.kernel).name),
                  "scales of products in 8 bits begin at whole 16 bytes; one does not");
    }
  }
}

// Rows of codes (operand 0) by rows of codes (2), with their scales (1 and 3), into operand 4.
void queue_product(const Call& c, MatmulCall product) {
  product.m = c.dim(0);
  product.n = c.dim(1);
  product.k = c.dim(2);
  product.transpose_b = true;
  product.accumulate = c.flag(3);
  product.output_fp32 = c.is_master(4);
  product.format_b = NumberFormat::kE4m3;
  c.context.matmuls->run(product, c.operands[0].data, c.operands[2].data, c.operands[4].data,
                         c.context.matmul_workspace, c.stream(), {c.master(1), c.master(3)});
}

void multiply(const Call& c) {
  need_aligned_scales(c);
  const bool gradient = c.flag(4);
  // Sums of gradients are added up in fp32 every few columns; forward's stay in the units' own
  // accumulator, as in Transformer Engine and torchao.
  queue_product(c, {.format_a = gradient ? NumberFormat::kE5m2 : NumberFormat::kE4m3,
                    .fast_accumulate = !gradient});
}

void run_blocks(const Call& c) {
  constexpr std::size_t kExtents = 2;
  const bool multiplies = c.work.kernel == Kernel::kBlockMatmul;
  for (std::size_t i = 0; i < kExtents + (multiplies ? 1 : 0); ++i) {
    if (c.dim(i) % kScaleBlock != 0) {
      throw Error(
          std::string(signature_of(c.work.kernel).name),
          "products by blocks need extents that are multiples of 128 on each rank; one is " +
              std::to_string(c.dim(i)));
    }
  }
  if (multiplies) {
    queue_product(c, {.format_a = NumberFormat::kE4m3,
                      .scales = c.flag(4) ? ScaleForm::kSquaresOfB : ScaleForm::kLines});
    return;
  }
  BlockCast cast{c.compute(0), c.dim(0), c.dim(1), c.flag(2)};
  if (c.work.kernel != Kernel::kBlockTurned) {
    cast.codes = codes(c, 1);
    cast.scales = c.master(2);
  }
  if (c.work.kernel != Kernel::kBlockCast) {
    const std::size_t first = c.work.kernel == Kernel::kBlockBoth ? 3 : 1;
    cast.turned = codes(c, first);
    cast.turned_scales = c.master(first + 1);
  }
  block_cast(c.stream(), cast);
}

void multiply_experts(const Call& c) {
  need_aligned_scales(c);
  need_multiples(c, c.dim(1));
  if (!c.flag(3)) {
    need_multiples(c, c.dim(2));
  }
  if (c.context.counts == nullptr) {
    rehearse_narrow_experts(c.work, c.operands, *c.context.matmuls, c.context.matmul_workspace,
                            c.stream());
    return;
  }
  narrow_experts(c.work, c.operands, c.context.counts->read(c.operands[5]), *c.context.matmuls,
                 c.context.matmul_workspace, c.stream(), c.context.lanes);
}

// Delayed scaling has its scales before it casts.
void run_delayed(const Call& c, NumberFormat format) {
  const bool both =
      c.work.kernel == Kernel::kDelayedBoth || c.work.kernel == Kernel::kExpertDelayedBoth;
  const bool routed = c.work.kernel >= Kernel::kExpertDelayedCast;
  need_multiples(c, c.dim(1));
  const std::int64_t rows = routed ? c.operands[0].count / c.dim(1) : c.dim(0);
  const std::size_t first = routed ? 4 : 3;  // of the codes
  NarrowCast cast{c.compute(0), c.master(1), codes(c, first), both ? codes(c, first + 1) : nullptr,
                  rows,         c.dim(1),    format,          rows};
  if (routed) {
    cast.turned_width = narrow_width(rows, c.dim(4));
    cast.arrived = {c.tokens(2), static_cast<int>(c.dim(3)), static_cast<int>(c.dim(4))};
  } else {
    need_multiples(c, rows);
  }
  cast.largest = c.master(first - 1);
  narrow_cast(c.stream(), cast);
}

// Rows of experts, of which there is room for more than came.
void run_expert_casts(const Call& c, NumberFormat format) {
  const Kernel kernel = c.work.kernel;
  if (kernel == Kernel::kExpertNarrowMatmul) {
    multiply_experts(c);
    return;
  }
  const std::int64_t width = c.dim(1);
  need_multiples(c, width);
  const bool scales = kernel == Kernel::kExpertNarrowScale;
  const ArrivedRows arrived{c.tokens(scales ? 1 : 2), static_cast<int>(c.dim(3)),
                            static_cast<int>(c.dim(4))};
  const std::int64_t count = c.operands[0].count;
  if (scales) {
    narrow_scale(c.stream(), c.compute(0), c.master(2), count, format, width, arrived);
    return;
  }
  const std::int64_t rows = count / width;
  NarrowCast cast{c.compute(0), c.master(1), nullptr, nullptr,
                  rows,         width,       format,  narrow_width(rows, c.dim(4)),
                  arrived};
  if (kernel == Kernel::kExpertNarrowTurned) {
    cast.turned = codes(c, 3);
  } else {
    cast.codes = codes(c, 3);
    cast.turned = kernel == Kernel::kExpertNarrowBoth ? codes(c, 4) : nullptr;
  }
  narrow_cast(c.stream(), cast);
}

}  // namespace

void run_narrow(const Call& c) {
  const Kernel kernel = c.work.kernel;
  if (kernel >= Kernel::kBlockCast && kernel <= Kernel::kBlockMatmul) {
    run_blocks(c);
    return;
  }
  if (kernel == Kernel::kDelayedScales) {
    delayed_scales(c.stream(), c.master(0), c.master(1), static_cast<int>(c.dim(0)),
                   static_cast<int>(c.dim(1)), static_cast<int>(c.dim(2)));
    return;
  }
  const NumberFormat format = c.work.dims[static_cast<std::size_t>(dim_index(kernel, "gradient"))]
                                  ? NumberFormat::kE5m2
                                  : NumberFormat::kE4m3;
  if (kernel >= Kernel::kDelayedCast && kernel <= Kernel::kExpertDelayedBoth) {
    run_delayed(c, format);
    return;
  }
  if (kernel >= Kernel::kExpertNarrowScale && kernel <= Kernel::kExpertNarrowMatmul) {
    run_expert_casts(c, format);
    return;
  }
  need_multiples(c, c.dim(0));
  if (kernel == Kernel::kNarrowScale) {
    narrow_scale(c.stream(), c.compute(0), c.master(1), c.dim(0), format);
    return;
  }
  need_multiples(c, c.dim(1));
  if (kernel == Kernel::kNarrowMatmul) {
    multiply(c);
    return;
  }
  NarrowCast cast{c.compute(0), c.master(1), nullptr, nullptr,
                  c.dim(0),     c.dim(1),    format,  c.dim(0)};
  if (kernel == Kernel::kNarrowTurned) {
    cast.turned = codes(c, 2);
  } else {
    cast.codes = codes(c, 2);
    cast.turned = kernel == Kernel::kNarrowBoth ? codes(c, 3) : nullptr;
  }
  narrow_cast(c.stream(), cast);
}

}  // namespace trireme::runtime::cuda
