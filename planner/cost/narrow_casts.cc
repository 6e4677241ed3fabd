#include "planner/cost/narrow_casts.h"

#include <optional>
#include <span>

#include "models/layer_parts.h"
#include "planner/plan/narrow.h"

namespace trireme::planner {
namespace {

// One pass beside a product: over its rows (its input, or its output's gradient) or its weight.
struct CastPass {
  Kernel kernel;
  bool weight = false;
};

constexpr CastPass kForward[] = {{Kernel::kNarrowScale},
                                 {Kernel::kNarrowCast},
                                 {Kernel::kNarrowScale, true},
                                 {Kernel::kNarrowCast, true}};
constexpr CastPass kForwardKept[] = {{Kernel::kNarrowScale},
                                     {Kernel::kNarrowBoth},
                                     {Kernel::kNarrowScale, true},
                                     {Kernel::kNarrowCast, true}};
constexpr CastPass kInputGradient[] = {
    {Kernel::kNarrowScale}, {Kernel::kNarrowBoth}, {Kernel::kNarrowTurned, true}};
constexpr CastPass kInputGradientAlone[] = {  // of a frozen weight
    {Kernel::kNarrowScale},
    {Kernel::kNarrowCast},
    {Kernel::kNarrowTurned, true}};
// Of an input that was not kept; the gradient's transpose is there.
constexpr CastPass kWeightGradient[] = {{Kernel::kNarrowTurned}};

// Their rows' passes follow each other as a matrix's do.
Kernel expert_kernel(Kernel kernel) {
  constexpr int kApart =
      static_cast<int>(Kernel::kExpertNarrowScale) - static_cast<int>(Kernel::kNarrowScale);
  return static_cast<Kernel>(static_cast<int>(kernel) + kApart);
}

// The kernel that does a pass under the recipe; none: the recipe has no such pass.
std::optional<Kernel> kernel_of(Fp8Recipe recipe, const CastPass& pass, bool routed) {
  const bool of_experts = routed && !pass.weight;
  if (recipe != Fp8Recipe::kTensorwise && pass.kernel == Kernel::kNarrowScale) {
    return std::nullopt;
  }
  if (recipe == Fp8Recipe::kBlockwise) {
    return pass.kernel == Kernel::kNarrowCast   ? Kernel::kBlockCast
           : pass.kernel == Kernel::kNarrowBoth ? Kernel::kBlockBoth
                                                : Kernel::kBlockTurned;
  }
  const bool notes = pass.kernel == Kernel::kNarrowCast || pass.kernel == Kernel::kNarrowBoth;
  if (recipe == Fp8Recipe::kDelayed && notes) {
    const bool both = pass.kernel == Kernel::kNarrowBoth;
    return of_experts ? (both ? Kernel::kExpertDelayedBoth : Kernel::kExpertDelayedCast)
                      : (both ? Kernel::kDelayedBoth : Kernel::kDelayedCast);
  }
  return of_experts ? expert_kernel(pass.kernel) : pass.kernel;
}

// Read in 16 bits, written in 8.
std::int64_t bytes_of(Kernel kernel) {
  constexpr std::int64_t kRead = 2;
  return kernel == Kernel::kNarrowScale  ? kRead
         : kernel == Kernel::kNarrowBoth ? kRead + 2
                                         : kRead + 1;
}

// Forward finds a weight's scale in the first of the step's micro-batches: each has its share.
bool is_once_a_step(const CastPass& pass) {
  return pass.weight && pass.kernel == Kernel::kNarrowScale;
}

// The first of the products that make latents of one hidden state casts it for all of them.
enum class Latents : std::uint8_t { kApart, kShareInput };

class Adder {
 public:
  Adder(const Job& job, const Plan& plan, models::PassWork& work, Latents latents)
      : work_(work),
        latents_(latents),
        micro_batches_(plan.micro_batches),
        recipe_(job.framework.fp8_recipe) {}

  // Products of scores, where attention is not fused, stay in 16 bits.
  void add(const models::Matmul& product, std::span<const CastPass> passes) {
    using models::Part;
    const models::PartTraits& traits = models::traits_of(product.part);
    if (traits.stays_wide || product.wide) {
      return;
    }
    const bool makes_latents =
        product.part == Part::kQueryDown || product.part == Part::kKeyValueDown;
    const bool cast_before = makes_latents && latents_ == Latents::kShareInput && seen_;
    seen_ = seen_ || makes_latents;
    for (const CastPass& pass : passes) {
      if (!pass.weight && cast_before) {
        continue;
      }
      const std::int64_t elements =
          (pass.weight ? product.n : product.m) * product.k * product.count;
      const std::optional<Kernel> kernel = kernel_of(recipe_, pass, traits.routed);
      if (!kernel) {
        continue;
      }
      const std::int64_t share = is_once_a_step(pass) ? micro_batches_ : 1;
      work_.memory_bound.push_back({product.part, Bytes(bytes_of(pass.kernel) * elements / share),
                                    share > 1 ? 0 : 1, *kernel});
    }
  }

 private:
  models::PassWork& work_;
  Latents latents_;
  std::int64_t micro_batches_;
  Fp8Recipe recipe_;
  bool seen_ = false;
};

bool keeps(const KeptCodes& codes, models::Part part) {
  using models::Part;
  return (part == Part::kQkv && codes.qkv) || (part == Part::kMlpUp && codes.up) ||
         (part == Part::kMlpDown && codes.down) || (part == Part::kExpertsUp && codes.experts_up) ||
         (part == Part::kExpertsDown && codes.experts_down) ||
         (part == Part::kSharedDown && codes.shared_down);
}

}  // namespace

void add_narrow_casts(const Job& job, const Plan& plan, std::int64_t layer,
                      models::LayerWork& work) {
  if (!multiplies_narrow(job)) {
    return;
  }
  const bool trained = !job.training.has_adapters() && layer >= job.training.frozen_layers;
  const KeptCodes codes = trained ? kept_codes(job, plan) : KeptCodes{};
  Adder forward(job, plan, work.forward, Latents::kShareInput);
  for (const models::Matmul& product : work.forward.matmuls) {
    forward.add(product,
                keeps(codes, product.part) ? std::span<const CastPass>(kForwardKept) : kForward);
  }
  Adder input_gradient(job, plan, work.input_gradient, Latents::kApart);
  for (const models::Matmul& product : work.input_gradient.matmuls) {
    input_gradient.add(product,
                       trained ? std::span<const CastPass>(kInputGradient) : kInputGradientAlone);
  }
  Adder weight_gradient(job, plan, work.weight_gradient, Latents::kShareInput);
  for (const models::Matmul& product : work.weight_gradient.matmuls) {
    if (!keeps(codes, product.part)) {
      weight_gradient.add(product, kWeightGradient);
    }
  }
}

}  // namespace trireme::planner
