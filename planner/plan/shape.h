// Sizes on one rank that every pass needs, worked out once.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/program.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

struct Shape {
  std::int64_t batch = 0;  // sequences of a micro-batch
  std::int64_t sequence = 0;
  std::int64_t tokens = 0;  // of a micro-batch
  std::int64_t local_tokens =
      0;  // of the residual stream: tokens / tensor under sequence parallelism
  std::int64_t hidden = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;  // heads on this rank
  std::int64_t v_dim = 0;            // size of a value head; head_dim unless attention is latent
  std::int64_t qkv = 0;              // (heads + kv_heads) * head_dim + kv_heads * v_dim
  std::int64_t attention = 0;        // heads * v_dim
  std::int64_t ffn = 0;              // on this rank
  std::int64_t up = 0;               // 2 ffn when gated
  std::int64_t vocabulary = 0;       // true size
  std::int64_t vocabulary_rows = 0;  // on this rank, padding included
  std::int64_t tensor = 1;
  std::int64_t expert_rows = 0;  // room for the rows that come to this rank's experts
  bool sequence_parallel = false;
  bool exchanges_heads = false;        // context parallelism by all-to-all (Ulysses)
  bool frees_gradients = false;        // they are memory of the backward and the optimizer only
  bool streams_optimizer = false;      // see moved_offload.h
  std::int64_t streamed_elements = 0;  // then: of a unit, at once
  bool workspaces = false;             // the program names those that its backend would have
};

Shape shape_of(const Job& job, const Plan& plan);

// The kernel that runs what the job asks for: plain products under fp32 where the framework has no
// fused one then (torchtitan from v0.2.2).
models::AttentionKernel attention_kernel(const Job& job);
// How the plan cuts one micro-batch of a layer of `sequence` tokens, and whose kernels run it: what
// models/work.h asks.
models::Shard shard_of(const Job& job, const Plan& plan, std::int64_t sequence);
models::Kernels kernels_of(const Job& job);
// A plan's sharding as the framework runs it. FSDP that shards gradients too gathers its units one
// by one, as full sharding that does not reshard; PyTorch's pipelines gather a stage once and
// reduce it once, as a distributed optimizer does. DeepSpeed's engine refuses fp32 sums beside
// 16-bit parameters without a stage (runtime/engine.py), so that one data-parallel rank runs its
// first, which shards nothing over it; so does what asks for none.
struct RunSharding {
  Sharding sharding = Sharding::kNone;
  bool reshards = false;   // after the forward
  bool root_unit = false;  // embedding, head and final norm are one unit
};
RunSharding run_sharding(const Job& job, const Plan& plan);
// How routed experts lie among the ranks of a stage, nearest first: `inner` ranks cut one expert,
// `experts` groups of those hold different ones, and `copies` of it all share states in groups of
// `shards`.
struct ExpertRanks {
  std::int64_t inner = 1, experts = 1, copies = 1, shards = 1;
};
ExpertRanks expert_ranks(const Job& job, const Plan& plan);
// Rows that come to a rank's experts from one micro-batch: when every expert gets as many, at most,
// and those that there is room for. This project's runtime learns in the step what comes, so it
// keeps room for all that could unless Framework::expert_load says less.
struct ExpertRows {
  std::int64_t even = 0, most = 0, room = 0;
};
ExpertRows expert_rows(const Job& job, const Plan& plan);
// Whether exchanges with the experts' ranks run beside the layers of another micro-batch, as
// Megatron's --overlap-moe-expert-parallel-comm and DualPipe have it: there is one, recompute does
// not repeat whole layers, and a pipeline has virtual stages or runs two ways.
bool overlaps_experts(const Job& job, const Plan& plan);
// Whether micro-batches enter the pipeline at both ends. A rank in a V has both ends itself, and
// one way leads through them.
bool runs_two_ways(const Job& job, const Plan& plan);
// The model with its vocabulary as the framework pads it.
models::Transformer padded_model(const Job& job, const Plan& plan);

// Keys a query sees in this layer's attention; 0: all before it.
std::int64_t window_of(const models::Transformer& model, std::int64_t layer);
// Which part of this layer is no kernel of core/kernels.h ("experts"), so that lower() writes the
// layer by its modelled work; empty when all are kernels.
std::string_view modelled_part(const Job& job, const Plan& plan, std::int64_t layer);
// Likewise every layer of another framework.
inline bool is_modelled_layer(const Job& job, const Plan& plan, std::int64_t layer) {
  return job.framework.implementation != models::Implementation::kTrireme ||
         !modelled_part(job, plan, layer).empty();
}

}  // namespace trireme::planner
