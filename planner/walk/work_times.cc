#include "planner/walk/work_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/kernel_work.h"
#include "planner/cost/context_pieces.h"
#include "planner/cost/product_time.h"
#include "planner/cost/ring_attention.h"
#include "planner/plan/narrow.h"
#include "planner/walk/state_pass.h"

namespace trireme::planner {
namespace {

// Of an embedding's backward that begins a gradient.
Bytes cleared_table(const Work& work) {
  const bool clears = work.kernel == Kernel::kEmbeddingBackward && work.dims[4] == 0;
  return Bytes(clears ? 4 * work.dims[1] * work.dims[2] : 0);
}

// Of a modelled product; a program read from text may say anything.
ProductWidth width_of(const Work& work) {
  const std::int64_t wide = work.dims[4];
  if (wide < 0 || wide > static_cast<std::int64_t>(ProductWidth::kFp32)) {
    throw Error("program",
                fmt::format("modelled_matmul has wide {}: it is 0 (the layer's width), 1 "
                            "(16 bits) or 2 (fp32)",
                            wide));
  }
  return static_cast<ProductWidth>(wide);
}

ContextShape context_shape(const Work& work) {
  const auto& d = work.dims;
  return {d[0], d[1] / d[7], d[7], d[2], d[3], d[4]};
}

RingShape ring_shape(const Work& work) {
  const auto& d = work.dims;
  return {d[0], d[1], d[2], d[3], d[4], d[5]};
}

double kernels_of(const Job& job, const Work& work) {
  if (work.kernel == Kernel::kRingAttentionBackward) {
    return 1.0 + ring_pieces(ring_shape(work), topologies::Pass::kBackward).kernels;
  }
  if (work.kernel == Kernel::kContextAttentionForward ||
      work.kernel == Kernel::kContextAttentionBackward) {
    const bool backward = work.kernel == Kernel::kContextAttentionBackward;
    return 1.0 + context_pieces(context_shape(work), backward).kernels;
  }
  const bool experts =
      work.kernel == Kernel::kExpertMatmul || work.kernel == Kernel::kExpertNarrowMatmul;
  return work.kernel == Kernel::kModelledPass ? static_cast<double>(work.dims[0])
         : experts                            ? own_expert_launches(job, work.dims[7])
                                              : 1.0;
}

}  // namespace

WorkTimer::WorkTimer(const Job& job, const topologies::OpCost& cost, const BehaviourFit& fit)
    : job_(job),
      cost_(cost),
      fit_(fit),
      counts_(host_counts_of(job.framework)),
      narrow_(multiplies_narrow(job)),
      portable_attention_(job.framework.sharder != Sharder::kTrireme &&
                          job.framework.implementation !=
                              models::Implementation::kTransformerEngine) {}

Seconds WorkTimer::time(const Work& work, WorkPlace place) const {
  const auto& d = work.dims;
  const bool gradient = place == WorkPlace::kWeightGradient;
  if (work.kernel == Kernel::kMatmul) {  // outside, and beside products in 8 bits, in bf16
    const bool wide = place == WorkPlace::kOutside || narrow_;
    return time_product({d[0], d[1], d[2], 1},
                        {wide ? ProductWidth::k16Bits : ProductWidth::kOfLayer, d[3] != 0});
  }
  if (work.kernel == Kernel::kNarrowMatmul || work.kernel == Kernel::kBlockMatmul) {
    return time_product({d[0], d[1], d[2], 1}, {ProductWidth::kOfLayer, gradient});
  }
  if (work.kernel == Kernel::kExpertMatmul || work.kernel == Kernel::kExpertNarrowMatmul) {
    // Every expert with its share of the rows.
    const bool adds = d[work.kernel == Kernel::kExpertMatmul ? 5 : 4] != 0;
    const auto share = [&](std::int64_t rows) { return std::max<std::int64_t>(1, rows / d[7]); };
    return time_product(d[3] != 0 ? topologies::MatmulShape{d[0], d[1], share(d[2]), d[7]}
                                  : topologies::MatmulShape{share(d[0]), d[1], d[2], d[7]},
                        {ProductWidth::kOfLayer, gradient, adds});
  }
  if (work.kernel == Kernel::kModelledMatmul) {
    return time_product({d[0], d[1], d[2], d[3]}, {width_of(work), gradient});
  }
  if (work.kernel == Kernel::kAttentionForward) {
    return time_attention(work, 1, topologies::Pass::kForward);
  }
  if (work.kernel == Kernel::kAttentionBackward) {
    return time_attention(work, 1, topologies::Pass::kBackward);
  }
  if (work.kernel == Kernel::kContextAttentionForward) {
    return time_attention(work, d[7], topologies::Pass::kForward);
  }
  if (work.kernel == Kernel::kContextAttentionBackward) {
    return time_attention(work, d[7], topologies::Pass::kBackward);
  }
  if (work.kernel == Kernel::kRingAttentionForward) {
    return time_ring(work, topologies::Pass::kForward);
  }
  if (work.kernel == Kernel::kRingAttentionBackward) {
    return time_ring(work, topologies::Pass::kBackward);
  }
  if (work.kernel == Kernel::kModelledAttention) {
    return time_modelled_attention(work);
  }
  return time_pass(work);
}

Seconds WorkTimer::time_product(const topologies::MatmulShape& shape,
                                const ProductKind& kind) const {
  return Seconds(product_seconds(job_, cost_, fit_, shape, kind));
}

Seconds WorkTimer::time_modelled_attention(const Work& work) const {
  const auto& d = work.dims;
  const bool backward = d[7] != 0;
  const Seconds time = cost_.attention(
      {.batch = d[0],
       .heads = d[1],
       .kv_heads = d[2],
       .query_length = d[3],
       .key_length = d[4],
       .qk_dim = d[5],
       .v_dim = d[6],
       .causal = true,
       .flash = true,
       .portable = portable_attention_},
      job_.precision, backward ? topologies::Pass::kBackward : topologies::Pass::kForward);
  return time * (1 / fit_.attention_rate);
}

// `ranks` share the queries.
Seconds WorkTimer::time_attention(const Work& work, std::int64_t ranks,
                                  topologies::Pass pass) const {
  const auto& d = work.dims;
  const std::int64_t keys = d[5] > 0 ? std::min(d[1], 2 * d[5]) : d[1];
  const Seconds time = cost_.attention({.batch = d[0],
                                        .heads = d[2],
                                        .kv_heads = d[3],
                                        .query_length = d[1] / ranks,
                                        .key_length = keys,
                                        .qk_dim = d[4],
                                        .v_dim = ranks > 1 ? d[4] : d[6],
                                        .causal = true,
                                        .flash = true,
                                        .portable = portable_attention_},
                                       job_.precision, pass);
  const Seconds whole = time * (1 / fit_.attention_rate);
  if (ranks == 1) {
    return whole;
  }
  const ContextPieces pieces =
      context_pieces(context_shape(work), pass == topologies::Pass::kBackward);
  return whole + time_pieces(pieces.traffic, pieces.kernels);
}

Seconds WorkTimer::time_ring(const Work& work, topologies::Pass pass) const {
  const RingShape shape = ring_shape(work);
  const RingPieces pieces = ring_pieces(shape, pass);
  const Seconds step = ring_step_seconds(cost_, shape, work.dims[7] == 0, job_.precision, pass);
  return step * (1 / fit_.attention_rate) + time_pieces(pieces.traffic, pieces.kernels);
}

Seconds WorkTimer::time_pieces(Bytes traffic, int kernels) const {
  if (kernels == 0) {
    return Seconds(0);
  }
  const double bytes = static_cast<double>(traffic.value) * fit_.memory_traffic;
  return cost_.memory_bound(Bytes(static_cast<std::int64_t>(bytes)), kernels);
}

// By the kernel's own measurement, where the profile has it. Sums of gradients stream as casts
// do; clearing a table streams.
std::optional<Seconds> WorkTimer::time_own(const Work& work) const {
  const Kernel kernel = adds_gradients(work) ? Kernel::kCast : work.kernel;
  const Bytes cleared = cleared_table(work);
  const auto time = cost_.own_kernel(kernel, work.traffic - cleared);
  if (!time || cleared.value == 0) {
    return time;
  }
  const double bytes = static_cast<double>(cleared.value) * fit_.memory_traffic;
  return *time + cost_.memory_bound(Bytes(static_cast<std::int64_t>(bytes)), 0);
}

Seconds WorkTimer::time_pass(const Work& work) const {
  const bool modelled = work.kernel == Kernel::kModelledPass;
  if (const auto own = modelled ? std::nullopt : time_own(work)) {
    return *own;
  }
  const double traffic = is_state_pass(work) ? 1.0 : fit_.memory_traffic;
  const double bytes = static_cast<double>(work.traffic.value) * traffic;
  return cost_.memory_bound(Bytes(static_cast<std::int64_t>(bytes)),
                            static_cast<int>(kernels_of(job_, work)));
}

double WorkTimer::launches(const Work& work) const {
  if (counts_ == nullptr) {
    return kernels_of(job_, work);
  }
  constexpr double kThousandths = 1e3;
  if (work.kernel == Kernel::kModelledMatmul) {
    return static_cast<double>(work.dims[5]) / kThousandths;
  }
  if (work.kernel == Kernel::kModelledPass) {
    return static_cast<double>(work.dims[2]) / kThousandths;
  }
  if (work.kernel == Kernel::kModelledAttention) {
    const PassCount count = attention_count(*counts_, shares_heads(job_.model));
    return work.dims[7] != 0 ? count.backward.plain : count.forward.plain;
  }
  return kernels_of(job_, work);
}

}  // namespace trireme::planner
