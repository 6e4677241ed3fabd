#include "tests/property/random_plans.h"

#include <fmt/format.h>

#include <cstdlib>

#include "planner/plan/rules.h"

namespace trireme::tests {
namespace {

using planner::Plan;

models::Transformer random_model(Random& random) {
  models::Transformer model;
  model.name = "random";
  model.layers = 1 + random.below(8);
  model.head_dim = 4 << random.below(2);
  model.heads = 2 << random.below(3);
  model.kv_heads = model.heads >> random.below(2);
  model.hidden = 8 * (1 + random.below(8));
  model.ffn = 16 * (1 + random.below(6));
  model.vocab = 32 + random.below(100);
  model.max_sequence = 64;
  if (random.chance(40)) {
    model.position = models::Position::kLearned;
    model.position_rows = 64;
    model.norm = models::Norm::kLayerNorm;
    model.gated_mlp = false;
    model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  }
  model.qk_norm = random.chance(20);
  model.tied_embeddings = random.chance(40);
  return model;
}

Plan random_plan(Random& random) {
  Plan plan;
  plan.tensor = 1 << random.below(3);
  plan.pipeline = 1 << random.below(3);
  plan.sharded = 1 << random.below(3);
  plan.replicas = 1 << random.below(2);
  plan.micro_batch = 1 + random.below(2);
  plan.micro_batches = 1 + random.below(8);
  plan.sequence_parallel = plan.tensor > 1 && random.chance(60);
  if (plan.sharded > 1) {
    plan.sharding = static_cast<planner::Sharding>(1 + random.below(3));
  }
  if (plan.pipeline > 1) {
    using planner::Schedule;
    constexpr Schedule kDrawn[] = {Schedule::kGpipe,       Schedule::kOneForwardOneBackward,
                                   Schedule::kInterleaved, Schedule::kZeroBubbleH1,
                                   Schedule::kZeroBubbleV, Schedule::kDualPipeV};
    plan.schedule = kDrawn[random.below(6)];
    plan.virtual_pipeline = planner::is_in_v(plan.schedule)           ? planner::kChunksInV
                            : plan.schedule == Schedule::kInterleaved ? 2 + random.below(2)
                                                                      : 1;
  }
  plan.recompute = static_cast<planner::Recompute>(random.below(3));
  plan.recompute_layers = random.chance(50) ? -1 : random.below(3);
  plan.recompute_modules = static_cast<std::uint16_t>(1 + random.below(7));
  plan.reshard_after_forward = random.chance(60);
  plan.fsdp_unit = random.below(4);
  if (random.chance(30)) {
    plan.order = {planner::Axis::kTensor, planner::Axis::kContext, planner::Axis::kPipeline,
                  planner::Axis::kSharded, planner::Axis::kReplica};
  }
  return plan;
}

}  // namespace

std::string RandomCase::describe() const {
  return fmt::format(
      "{} sharding {} recompute {} layers {} modules {} unit {} m {} L {} heads {}/{}",
      planner::short_form(plan), planner::to_string(plan.sharding),
      planner::to_string(plan.recompute), plan.recompute_layers, plan.recompute_modules,
      plan.fsdp_unit, plan.micro_batches, job.model.layers, job.model.heads, job.model.kv_heads);
}

RandomCase random_case(std::uint64_t seed) {
  Random random(seed * 7919 + 13);
  while (true) {
    RandomCase drawn;
    drawn.job.model = random_model(random);
    drawn.job.framework = planner::find_framework("trireme");
    drawn.job.framework.reduce_every_micro_batch = random.chance(30);
    drawn.job.framework.prefetch_units = static_cast<int>(random.below(3));
    drawn.job.framework.regather_in_backward = random.chance(70);
    drawn.job.framework.blocking_p2p = random.chance(30);
    drawn.job.sequence = 8;
    drawn.plan = random_plan(random);
    drawn.job.global_batch =
        drawn.plan.micro_batch * drawn.plan.micro_batches * drawn.plan.data_parallel();
    drawn.job.cluster.gpus = drawn.plan.gpus();
    const bool kv_heads_divide = drawn.job.model.kv_heads % drawn.plan.tensor == 0;
    if (kv_heads_divide && !planner::check_plan(drawn.job, drawn.plan)) {
      return drawn;
    }
  }
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace trireme::tests
