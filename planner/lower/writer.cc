#include "planner/lower/writer.h"

#include <cmath>

#include "planner/cost/product_time.h"
#include "planner/plan/host_counts.h"

namespace trireme::planner::lowering {
namespace {

constexpr double kThousandths = 1e3;

// What the host takes to issue a part, in thousandths of a plain launch; 0 where it was not
// counted.
std::int64_t host_of(const Writer& w, const models::PassWork& work) {
  const HostCounts* counts = host_counts_of(w.job.framework);
  if (counts == nullptr) {
    return 0;
  }
  const Phase phase = w.builder.origin.phase;
  const bool backward = phase == Phase::kBackward || phase == Phase::kWeightGradient;
  return std::llround(kThousandths *
                      counted_launches(*counts, work, backward, shares_heads(w.job.model)).plain);
}

}  // namespace

Operand linear(Writer& w, std::string_view name, const Operand& x, const Slot& weight,
               std::int64_t rows, std::int64_t in, std::int64_t out) {
  const Operand y = w.builder.buffer(name, rows * out, ElementType::kCompute);
  w.builder.compute(name, Kernel::kMatmul, {rows, out, in, 0, 1, 0},
                    {x, w.units.weight(weight), y});
  return y;
}

void add_bias(Writer& w, std::string_view name, const Operand& y, const Slot& bias,
              std::int64_t rows) {
  if (bias.count > 0) {
    w.builder.compute(name, Kernel::kBiasForward, {rows, bias.count}, {y, w.units.weight(bias)});
  }
}

Operand linear_input_gradient(Writer& w, std::string_view name, const Operand& dy,
                              const Slot& weight, std::int64_t rows, std::int64_t in,
                              std::int64_t out) {
  const Operand dx = w.builder.buffer(name, rows * in, ElementType::kCompute);
  w.builder.compute(name, Kernel::kMatmul, {rows, in, out, 0, 0, 0},
                    {dy, w.units.weight(weight), dx});
  return dx;
}

void linear_weight_gradient(Writer& w, std::string_view name, const Operand& dy, const Operand& x,
                            const Slot& weight, std::int64_t rows, std::int64_t in,
                            std::int64_t out) {
  if (!w.units.is_trained(weight)) {
    return;
  }
  const Phase before = w.builder.origin.phase;
  w.builder.origin.phase = Phase::kWeightGradient;
  const GradientTarget target = w.units.gradient(weight);
  w.builder.compute(name, Kernel::kMatmul, {out, in, rows, 1, 0, target.accumulate},
                    {dy, x, target.operand});
  w.builder.origin.phase = before;
}

void bias_gradient(Writer& w, std::string_view name, const Operand& dy, const Slot& bias,
                   std::int64_t rows) {
  if (w.units.is_trained(bias)) {
    const GradientTarget target = w.units.gradient(bias);
    w.builder.compute(name, Kernel::kBiasBackward, {rows, bias.count, target.accumulate},
                      {dy, target.operand});
  }
}

NormState norm(Writer& w, std::string_view name, const Operand& x, const NormSlots& slots) {
  const std::int64_t rows = w.shape.local_tokens;
  const std::int64_t hidden = x.count / rows;
  NormState state;
  state.x = x;
  state.y = w.builder.buffer(name, x.count, ElementType::kCompute);
  state.rstd = w.builder.buffer("rstd", rows, ElementType::kMaster);
  if (slots.bias.count > 0) {
    state.mean = w.builder.buffer("mean", rows, ElementType::kMaster);
    w.builder.compute(name, Kernel::kLayerNormForward, {rows, hidden},
                      {x, w.units.weight(slots.weight), w.units.weight(slots.bias), state.y,
                       state.mean, state.rstd});
  } else {
    w.builder.compute(name, Kernel::kRmsNormForward, {rows, hidden},
                      {x, w.units.weight(slots.weight), state.y, state.rstd});
  }
  return state;
}

Operand norm_gradient(Writer& w, std::string_view name, const Operand& dy, const NormState& state,
                      const NormSlots& slots, const Operand& residual, Operand dx) {
  const std::int64_t rows = w.shape.local_tokens;
  const std::int64_t hidden = dy.count / rows;
  dx = present(dx) ? dx : dy;
  const std::int64_t adds = present(residual) ? 1 : 0;
  const Operand& added = present(residual) ? residual : dy;
  const GradientTarget weight = w.units.gradient(slots.weight);
  if (slots.bias.count > 0) {
    const GradientTarget bias = w.units.gradient(slots.bias);
    w.builder.compute(name, Kernel::kLayerNormBackward, {rows, hidden, weight.accumulate, adds},
                      {dy, state.x, w.units.weight(slots.weight), state.mean, state.rstd, added, dx,
                       weight.operand, bias.operand});
  } else {
    w.builder.compute(
        name, Kernel::kRmsNormBackward, {rows, hidden, weight.accumulate, adds},
        {dy, state.x, w.units.weight(slots.weight), state.rstd, added, dx, weight.operand});
  }
  return dx;
}

Operand gather_tokens(Writer& w, std::string_view name, const Operand& local) {
  if (!w.shape.sequence_parallel) {
    return local;
  }
  const Operand all = w.builder.buffer(name, local.count * w.shape.tensor, ElementType::kCompute);
  w.builder.all_gather(name, w.groups.tensor, local, all, Stream::kTensor);
  return all;
}

Operand reduce_tokens(Writer& w, std::string_view name, const Operand& partial) {
  if (w.shape.tensor == 1) {
    return partial;
  }
  if (!w.shape.sequence_parallel) {
    w.builder.all_reduce(name, w.groups.tensor, Reduction::kSum, partial, partial, Stream::kTensor);
    return partial;
  }
  const Operand local =
      w.builder.buffer(name, partial.count / w.shape.tensor, ElementType::kCompute);
  w.builder.reduce_scatter(name, w.groups.tensor, partial, local, Stream::kTensor);
  return local;
}

void write_product(Writer& w, const models::Matmul& product, const Operand& a, const Operand& b,
                   const Operand& output) {
  const models::PartTraits& traits = models::traits_of(product.part);
  const ProductWidth width = product_width(product.part, has_fp32_experts(w.job, w.plan));
  w.builder.compute(traits.name, Kernel::kModelledMatmul,
                    {product.m, product.n, product.k, product.count, static_cast<int>(width),
                     host_of(w, {.matmuls = {product}, .attention = {}, .memory_bound = {}})},
                    {a, b, output});
}

void write_passes(Writer& w, std::string_view name, const models::PassWork& work, models::Half half,
                  const Operand& input, const Operand& output) {
  std::int64_t bytes = 0;
  std::int64_t kernels = 0;
  models::PassWork passes;
  for (const models::MemoryBoundWork& pass : work.memory_bound) {
    if (models::traits_of(pass.part).half == half) {
      bytes += pass.traffic.value;
      kernels += pass.kernels;
      passes.memory_bound.push_back(pass);
    }
  }
  w.builder.modelled_pass(name, kernels, Bytes(bytes), {input, output}, host_of(w, passes));
}

void settle_tensor(Writer& w) {
  if (w.shape.tensor > 1 && !overlaps_tensor_backward(w.job.framework, w.shape.sequence_parallel)) {
    w.builder.also_wait(w.builder.last_on(Stream::kTensor));
  }
}

}  // namespace trireme::planner::lowering
