#include "planner/cost/reserved_memory.h"

#include <algorithm>

namespace trireme::planner {

namespace {

// Without expandable segments the optimizer's states, created at the end of the first step, take
// pieces of the loss's large blocks, which the second step then allocates again: this share of one
// block on average (16 runs of PyTorch 2.11 on H200, 0.2 to 1.4).
constexpr double kLostBlocks = 0.5;
// What expandable segments, where freed memory serves requests of any size, leave of the rest.
constexpr double kExpandable = 0.7;
// Where collectives' tensors are recorded on the communication stream, the host, which runs ahead
// of the GPU, allocates the next ones beside them: as many whole activations typically, and as many
// more at most (a layer's forward has two gathers and two reductions).
constexpr double kRecordedBlocks = 2;
// The bottom of the band says "no", so it leaves room for the prediction's own error. States are
// counted exactly; of the rest, one in twenty predictions is this much above what was measured, or
// more (rows that print allocated memory and had no part in the counts: Megatron-LM's golden values
// 12 %, Megatron-Bridge's pairs 7 %, zero bubble 2 % of all that is allocated).
constexpr double kOverPredicted = 0.12;

// Layers that recompute take and free their blocks between checkpoints that stay. Megatron's runs
// that print both held 1.02 to 1.09 of what was allocated without recompute (33 runs) and 1.05 to
// 1.21 with it (5, dense and experts). Expandable segments help less: scripts of ms-swift
// print 1.05 to 1.23 of what is counted (9 of 10). With the prediction's own error:
constexpr double kRecomputedHigh = 1.24;
// The mean of those five (1.05, 1.08, 1.18, 1.20, 1.21):
constexpr double kRecomputedTypical = 1.14;

// Of the activations and logits of a micro-batch, what stays cached in blocks of other lengths
// (transformers on one A100, lengths from 100 to 8192 tokens; 1.0 to 1.8 for six models).
constexpr double kVaryingBlocks = 1.2;

// Whoever lays memory out before a step (reserved_high 1) has nothing to fragment.
bool recomputes_in_megatron(const Framework& framework, const Plan& plan) {
  return framework.states == StateLayout::kFlatBuffers && framework.reserved_high > 1 &&
         framework.implementation != models::Implementation::kTrireme &&
         plan.recompute != Recompute::kNone;
}

}  // namespace

// Were all of it activations, of which fill_reserved's low end takes the least.
double most_that_fits_gib(const Job& job, double capacity_gib) {
  constexpr double kRounding = 1 + 1e-9;  // sums in another order
  return kRounding * capacity_gib /
         ((1 - kOverPredicted) * std::max(1.0, job.framework.reserved_low));
}

void fill_reserved(const Job& job, const Plan& plan, MemoryEstimate& out) {
  const Framework& framework = job.framework;
  const bool torch = framework.states == StateLayout::kTorch;
  double base = out.allocated_gib;
  double recorded = 0;
  for (const StageMemory& stage : out.stages) {
    const double lost = torch && !framework.expandable_segments ? kLostBlocks : 0;
    base = std::max(base, stage.reserved_base + lost * stage.largest_block);
    recorded = std::max(
        recorded, framework.recorded_collectives ? kRecordedBlocks * stage.exchanged_block : 0);
  }
  // Samples of every length: a block that one micro-batch freed rarely fits the next.
  const bool varies = !job.training.lengths.empty() && job.training.batching != Batching::kPacked &&
                      !framework.expandable_segments;
  if (varies) {
    const StageMemory& peak = out.stages.at(out.peak_stage);
    const MemoryItems& items = peak.items;
    recorded += kVaryingBlocks * (items.activations + items.logits);
  }
  // Chunks of an interleaved schedule are freed in another order than they came.
  const double chunks = plan.virtual_pipeline > 1 ? framework.interleaved_fragmentation : 0;
  const bool recomputes = recomputes_in_megatron(framework, plan);
  double typical = std::max(framework.reserved_typical, recomputes ? kRecomputedTypical : 1.0) - 1;
  double spread = std::max(0.0, framework.reserved_high + chunks - 1 - typical);
  if (framework.expandable_segments) {
    typical *= kExpandable;
    spread *= kExpandable;
  }
  out.reserved_gib = base * (1 + typical) + recorded;
  const MemoryItems& items = out.stages.at(out.peak_stage).items;
  const double states = items.parameters + items.gradients + items.optimizer;
  const double counted = states + (1 - kOverPredicted) * std::max(0.0, out.allocated_gib - states);
  out.reserved_low_gib = counted * std::max(1.0, framework.reserved_low);
  out.reserved_gib = std::max(out.reserved_gib, out.reserved_low_gib);
  const double top = std::max(1 + typical + spread, recomputes ? kRecomputedHigh : 1.0);
  out.reserved_high_gib = std::max(out.reserved_gib, base * top + 2 * recorded);
  if (framework.implementation != models::Implementation::kTrireme &&
      out.allocated_gib < out.capacity_gib) {
    // As below; whether that is in time is left open: the high end stays.
    out.reserved_gib = std::min(out.reserved_gib, out.capacity_gib);
  }
  if (varies && base < out.capacity_gib) {
    // The allocator gives cached blocks back before it runs out.
    out.reserved_gib = std::min(out.reserved_gib, out.capacity_gib);
    out.reserved_high_gib = std::min(out.reserved_high_gib, out.capacity_gib);
  }
}

}  // namespace trireme::planner
