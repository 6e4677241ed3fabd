#include "planner/plan/shape.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace trireme::planner {
namespace {

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

Shape shape_of(const Job& job, const Plan& plan) {
  const models::Transformer& model = job.model;
  Shape shape;
  shape.batch = plan.micro_batch;
  shape.sequence = job.sequence;
  shape.tokens = plan.micro_batch * job.sequence / plan.context;
  shape.tensor = plan.tensor;
  shape.sequence_parallel = plan.sequence_parallel && plan.tensor > 1;
  shape.exchanges_heads = plan.context > 1 && job.framework.context_all_to_all;
  shape.local_tokens = shape.sequence_parallel ? shape.tokens / plan.tensor : shape.tokens;
  shape.hidden = model.hidden;
  shape.heads = model.heads / plan.tensor;
  shape.kv_heads = ceil_divide(model.kv_heads, plan.tensor);
  shape.head_dim = shape.v_dim = model.head_dim;
  if (model.latent) {  // every head has keys and values of its own
    shape.kv_heads = shape.heads;
    shape.head_dim = model.latent->qk_nope + model.latent->qk_rope;
    shape.v_dim = model.latent->v_head;
  }
  shape.attention = shape.heads * shape.v_dim;
  shape.qkv = (shape.heads + shape.kv_heads) * shape.head_dim + shape.kv_heads * shape.v_dim;
  shape.ffn = model.ffn / plan.tensor;
  shape.up = (model.gated_mlp ? 2 : 1) * shape.ffn;
  shape.vocabulary = model.vocab;
  // Megatron pads the vocabulary to a multiple of 128 * tp.
  const std::int64_t rows = ceil_divide(model.vocab, plan.tensor);
  shape.vocabulary_rows = job.framework.pad_vocabulary ? ceil_divide(rows, 128) * 128 : rows;
  shape.expert_rows = expert_rows(job, plan).room;
  return shape;
}

models::AttentionKernel attention_kernel(const Job& job) {
  const bool plain =
      job.framework.unfused_fp32_attention && job.precision == topologies::Precision::kFp32;
  return plain ? models::AttentionKernel::kUnfused : job.attention;
}

models::Shard shard_of(const Job& job, const Plan& plan, std::int64_t sequence) {
  models::Shard shard;
  shard.micro_batch = plan.micro_batch;
  shard.sequence = sequence;
  shard.tensor_parallel = plan.tensor;
  shard.context_parallel = plan.context;
  shard.expert_parallel = plan.expert;
  shard.expert_tensor_parallel = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
  shard.sequence_parallel = plan.sequence_parallel;
  shard.even_routing = job.framework.even_routing;
  shard.unbalanced_router = job.framework.unbalanced_router;
  if (const ExpertRows rows = expert_rows(job, plan); rows.even > 0) {
    shard.expert_room = static_cast<double>(rows.room) / static_cast<double>(rows.even);
  }
  shard.attention = attention_kernel(job);
  return shard;
}

models::Kernels kernels_of(const Job& job) {
  return {.implementation = job.framework.implementation,
          .dropout = job.framework.dropout,
          .fused_cross_entropy = job.framework.cross_entropy_fusion,
          .masked_softmax = job.framework.masked_softmax_fusion,
          .element_joins = job.framework.element_joins &&
                           job.framework.implementation == models::Implementation::kClassicMegatron,
          .permuted_once = job.framework.dispatch_once,
          .expert_kernels = job.framework.expert_kernels,
          .fused_permutation = job.framework.fused_permutation};
}

RunSharding run_sharding(const Job& job, const Plan& plan) {
  const Sharder sharder = job.framework.sharder;
  RunSharding run;
  run.sharding = plan.sharding;
  run.reshards = plan.reshard_after_forward && job.framework.reshard_after_forward;
  if (plan.sharding == Sharding::kGradients &&
      (sharder == Sharder::kFsdp1 || sharder == Sharder::kMegatronFsdp)) {
    run.sharding = Sharding::kFull;
    run.reshards = false;
  } else if (plan.sharding == Sharding::kFull && plan.pipeline > 1 && sharder == Sharder::kFsdp2) {
    run.sharding = Sharding::kOptimizer;
  } else if (plan.sharding == Sharding::kNone && sharder == Sharder::kZero &&
             plan.data_parallel() == 1 && job.precision != topologies::Precision::kFp32 &&
             job.framework.bucket_elements > 0) {
    run.sharding = Sharding::kOptimizer;
  }
  run.root_unit = job.framework.root_unit_stays_gathered && run.sharding == Sharding::kFull &&
                  job.framework.implementation != models::Implementation::kTrireme;
  return run;
}

ExpertRanks expert_ranks(const Job& job, const Plan& plan) {
  ExpertRanks ranks;
  ranks.inner = plan.expert_tensor > 0 ? plan.expert_tensor : plan.tensor;
  ranks.experts = plan.expert;
  const std::int64_t split = ranks.inner * plan.expert;
  ranks.copies =
      std::max<std::int64_t>(1, plan.tensor * plan.context * plan.data_parallel() / split);
  const std::int64_t within =
      plan.tensor * plan.sharded * (job.framework.shard_over_context ? plan.context : 1);
  ranks.shards = plan.sharding == Sharding::kNone
                     ? 1
                     : std::max<std::int64_t>(
                           1, std::gcd(ranks.copies, std::max<std::int64_t>(1, within / split)));
  return ranks;
}

ExpertRows expert_rows(const Job& job, const Plan& plan) {
  if (!job.model.moe) {
    return {};
  }
  const models::MixtureOfExperts& moe = *job.model.moe;
  const ExpertRanks ranks = expert_ranks(job, plan);
  // Tokens are split over tensor ranks there, and those that share experts gather theirs.
  const std::int64_t tokens =
      plan.micro_batch * job.sequence / plan.context / plan.tensor * ranks.inner;
  const std::int64_t even = tokens * moe.experts_per_token;
  const std::int64_t local = moe.experts / ranks.experts;
  const std::int64_t most =
      ranks.experts == 1 ? even : ranks.experts * tokens * std::min(moe.experts_per_token, local);
  const double load = job.framework.expert_load;
  if (load == 0 && job.framework.implementation == models::Implementation::kTrireme) {
    return {even, most, most};
  }
  const double room = std::ceil(std::max(1.0, load) * static_cast<double>(even));
  return {even, most, std::min(most, static_cast<std::int64_t>(room))};
}

bool runs_two_ways(const Job& job, const Plan& plan) {
  return job.framework.two_way_pipeline && plan.pipeline > 1 && !is_in_v(plan.schedule);
}

bool overlaps_experts(const Job& job, const Plan& plan) {
  return job.framework.expert_overlap && job.model.moe && plan.expert > 1 &&
         plan.micro_batches > 1 && plan.recompute != Recompute::kFull &&
         (plan.pipeline == 1 || plan.virtual_pipeline > 1 || runs_two_ways(job, plan));
}

models::Transformer padded_model(const Job& job, const Plan& plan) {
  models::Transformer model = job.model;
  if (job.framework.pad_vocabulary) {
    const std::int64_t unit = 128 * plan.tensor;
    model.vocab = (model.vocab + unit - 1) / unit * unit;
  }
  return model;
}

std::int64_t window_of(const models::Transformer& model, std::int64_t layer) {
  return models::attention_window(model, layer);
}

namespace {

// Of a layer with experts.
std::string_view modelled_experts(const models::Transformer& model, const Plan& plan) {
  const models::MixtureOfExperts& moe = *model.moe;
  const std::pair<bool, std::string_view> parts[] = {
      {moe.capacity_factor > 0, "experts that drop what is beyond a capacity"},
      {moe.expert_bias || model.mlp_bias, "biases inside experts"},
      {moe.shared_gate, "a gate on its shared expert"},
      {plan.tensor > 1 && !plan.sequence_parallel,
       "experts under tensor parallelism without sequence parallelism"},
      {moe.shared_ffn % plan.tensor != 0,
       "a shared expert that tensor parallelism does not divide"}};
  for (const auto& [is_there, part] : parts) {
    if (is_there) {
      return part;
    }
  }
  return {};
}

}  // namespace

std::string_view modelled_part(const Job& job, const Plan& plan, std::int64_t layer) {
  const models::Transformer& model = job.model;
  if (models::is_moe_layer(model, layer)) {
    if (const auto part = modelled_experts(model, plan); !part.empty()) {
      return part;
    }
  }
  const std::pair<bool, std::string_view> parts[] = {
      {layer >= model.layers, "an extra prediction module"},
      {model.latent && plan.context > 1 && context_form(job.framework) == ContextForm::kGather,
       "latent attention under context parallelism that gathers keys"},
      {window_of(model, layer) > 0 && plan.context > 1 &&
           context_form(job.framework) == ContextForm::kRing,
       "a sliding window under context parallelism that passes keys round a ring"},
      {model.latent && model.qkv_bias, "biases inside latent attention"},
      {model.parallel_block && model.norms_per_layer > 2,
       "a parallel block of more than two norms"},
      {!model.parallel_block && model.norms_per_layer != 2 && model.norms_per_layer != 4,
       "another number of norms than two or four"},
      {model.position == models::Position::kAlibi, "ALiBi"},
      {model.attention_sinks, "attention sinks"},
      {plan.context > 1 && job.framework.context_all_to_all &&
           (model.heads % (plan.tensor * plan.context) != 0 ||
            (!model.latent && model.kv_heads % (plan.tensor * plan.context) != 0)),
       "an exchange of heads over more context ranks than there are key heads for"},
      {job.attention == models::AttentionKernel::kUnfused, "unfused attention"}};
  for (const auto& [is_there, part] : parts) {
    if (is_there) {
      return part;
    }
  }
  return {};
}

}  // namespace trireme::planner
