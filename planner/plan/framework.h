// Whose memory and communication behaviour is modelled: data and a few named choices, in one place.
// The values and their sources are planner/plan/frameworks.json; `--set KEY=VALUE` overrides a
// choice.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/work.h"

namespace trireme::planner {

// How parameters, gradients and optimizer states lie in memory.
enum class StateLayout {
  kFlatBuffers,  // Megatron: compute-type parameters, one gradient buffer, fp32 main copy in the
                 // optimizer
  kTorch,  // PyTorch: the stored parameter is the optimizer's; gradients appear in backward, vanish
           // after the step
  kDeepSpeed,  // ZeRO: flat partitions, 16-bit gradients beside fp32 ones, buckets
};

// Who spreads parameters, gradients and optimizer states over the data-parallel ranks.
enum class Sharder {
  kBuffers,       // Megatron's distributed optimizer: states alone
  kMegatronFsdp,  // its fully sharded units
  kFsdp1,         // PyTorch's flat parameters
  kFsdp2,         // PyTorch's fully_shard: a DTensor a parameter
  kZero,          // DeepSpeed
  kTrireme,       // this project's runtime
};

// Which scales products in 8 bits have where this project's runtime multiplies: one a tensor, of
// its own largest value or of those of earlier steps, or one a block of 128.
enum class Fp8Recipe : std::uint8_t { kTensorwise, kDelayed, kBlockwise };

struct Framework {
  std::string name;         // of its entry: "megatron", "torchtitan"
  std::string version;      // "core_0.14", "26.02"; empty: as it stands
  std::string base;         // the entry without a like that it comes from: "megatron", "fsdp2"
  std::string constants;    // the entry of its fitted constants in topologies/fitted.json
  std::string host_counts;  // of planner/plan/host_counts.json; empty: not counted
  Sharder sharder = Sharder::kBuffers;
  models::Implementation implementation = models::Implementation::kTransformerEngine;

  StateLayout states = StateLayout::kFlatBuffers;

  // Bytes of one element of each state under mixed precision.
  double parameter_bytes = 2;    // as computed with
  double master_bytes = 4;       // fp32 copy; 0 = the parameter itself is the master
  double gradient_bytes = 4;     // accumulation buffer
  double moment_bytes = 8;       // both Adam moments
  double sgd_moment_bytes = 0;   // momentum, when the optimizer is SGD
  double reduce_bytes = 4;       // element on the wire of gradient reduction
  double fp16_reduce_bytes = 0;  // the same under fp16, when it differs
  bool fp8_parameters = false;   // under fp8, weights exist in 8 bits (and transposed) only
  bool fp32_shard_is_parameter =
      false;  // FSDP2: the resting shard is fp32, bf16 exists only while gathered

  // When and how data-parallel communication happens.
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
  bool reduce_every_micro_batch =
      false;  // torchtitan, ZeRO-2/3: reduction is not deferred to the last micro-batch
  bool root_unit_stays_gathered = false;            // FSDP2: embedding and head
  int prefetch_units = 1;                           // gathers ahead of compute
  std::int64_t sub_group_elements = 1'000'000'000;  // of its part that ZeRO-3 steps at a time
  std::int64_t prefetch_elements = 0;    // gathered ahead at least; ZeRO-3: all that may be there
  bool reshard_after_forward = true;     // false: every unit stays gathered, whatever the plan says
  bool shard_over_context = false;       // Megatron: the shard group is data x context
  std::int64_t bucket_elements = 0;      // gradient bucket; 0 = framework's own rule
  bool buckets_before_backward = false;  // DeepSpeed's are there with the loss
  // Copies of the gradients that their reduction makes beside a gradient buffer of the framework's:
  // bytes of an element. PyTorch's DDP has buckets.
  double ddp_bucket_bytes = 0;
  // An optimizer that steps a rank's part as one flat tensor: bytes of an element that lie there
  // for the step alone, beyond an fp32 gradient.
  double step_bytes = 0;

  // Tensor and pipeline parallel behaviour.
  bool tp_comm_overlap = false;
  bool tp_backward_overlap = true;  // input-gradient collectives beside the weight-gradient product
  bool regather_in_backward = true;  // sequence parallelism gathers column-parallel inputs again
  bool blocking_p2p = true;          // non-interleaved 1F1B sends and receives block
  bool host_runs_ahead = false;  // past the exchanges between stages, which only streams wait for
  bool p2p_overlap_interleaved = true;
  bool scattered_boundary = false;  // tensor ranks send a part each and gather the whole
  // Context parallelism by exchanging heads for tokens around attention (Ulysses), or by gathering
  // all keys and values (before it; PyTorch's beside the attention of a rank's own), not by passing
  // them round a ring beside it; keys and values repeated to the queries' heads before that.
  bool context_all_to_all = false;
  bool context_gather = false;
  bool context_repeats_heads = false;

  // Weights that an optimizer on the host hands back: bytes of an element that lie on the GPU
  // beside the parameters until they are cast, and whether they come from memory that is not
  // pinned.
  double offload_staging_bytes = 0;
  bool offload_pageable = false;
  // Gradients and parameters on the host: in pinned memory (DeepSpeed's pin_memory); whether the
  // host waits for each gradient of ZeRO-3 on its way there; whether a micro-batch's go down into
  // the sum in any case and come up again to be stepped from, however few there are.
  bool offload_pinned = true;
  bool offload_waits = false;
  bool offload_round_trip = false;
  // Threads that a rank has for an optimizer on the host: torchrun starts several ranks with
  // OMP_NUM_THREADS=1. 0: the ranks of a node share all its cores.
  std::int64_t host_threads = 0;

  // Experts (planner/cost/expert_time.h). A token goes once to each node (over NVLink: to each
  // rank) that holds one of its experts and comes back summed, as DeepEP and HybridEP do; else a
  // copy an expert, as NCCL's all-to-all does.
  bool dispatch_once = false;
  double dispatch_bytes = 2;    // of an element on its way to the experts
  bool expert_overlap = false;  // both exchanges run beside the layers of another micro-batch
  // Host work of a sparse layer beyond its kernels' launches, forward and backward, in bare
  // launches of a kernel: the router's and the dispatcher's small ops, experts one by one, counts
  // that the host waits for.
  double expert_launches = 0;
  // Kernels that each local expert has to itself in forward, twice as many in backward: its
  // products and casts, where they are issued expert by expert.
  int expert_kernels = 0;
  // One kernel puts tokens in their experts' order, and one puts them back.
  bool fused_permutation = true;
  // A layer's experts run one after the other, a module each (transformers before 5).
  bool experts_in_loop = false;
  // Rate of exchanges that dispatch once over an NVLink domain wider than a server, over its
  // links'.
  double wide_dispatch_rate = 1;
  // Every expert gets as many tokens: forced to, or by the correction of the router's bias.
  bool even_routing = false;
  // Nothing balances a router that is trained from new: it sends all tokens to the same experts.
  bool unbalanced_router = false;
  // A stand-in for the router gives a token experts that follow each other: they lie together.
  bool adjacent_experts = false;
  // Experts outside autocast's reach multiply in fp32 where parameters are kept so, unsharded.
  bool experts_without_autocast = false;

  // Under fp8: rate of the weights' gradients, which sum in fp32, over the other products'; and
  // what is kept in 8 bits: inputs of products in PyTorch's own modules too (Transformer Engine's
  // layers always do), what lies between the MLP's products, and the inputs of norms.
  double fp8_weight_gradient_rate = 1;
  // Rate of all products in 8 bits over one scale a tensor's, and whether each rank casts whole
  // weights for them, forward and backward, where shards are not gathered in 8 bits.
  double fp8_product_rate = 1;
  bool fp8_casts_weights = false;
  bool fp8_product_input = false;
  bool fp8_activation_input = false;
  bool fp8_norm_input = false;
  // Of this project's runtime: whence scales come, and how many steps delayed ones look back.
  Fp8Recipe fp8_recipe = Fp8Recipe::kTensorwise;
  std::int64_t fp8_history = 1024;
  // Micro-batches enter at both ends of the pipeline (DualPipe): a rank holds two stages, with
  // parameters and gradients of both, and has p + 1 micro-batches in flight.
  bool two_way_pipeline = false;

  // Loss and logits.
  double logit_bytes = 6;  // peak bytes per logit element
  bool cross_entropy_fusion = false;
  double fused_logit_bytes = 2;  // the same with cross_entropy_fusion
  bool compiles_loss = false;    // compiled with the model, which is such a fusion
  double kept_logit_bytes =
      4;  // of a micro-batch that waits between its forward and backward (GPipe)
  bool whole_logits =
      false;  // ranks of tp gather them, and each computes the loss over all of them
  bool multi_token_prediction = false;  // it trains a model's extra prediction modules
  std::int64_t loss_chunks = 1;  // parts in which logits and loss are computed one after the other
  bool gradient_accumulation_fusion = false;
  // Local layers join the gradients of queries, keys and values an element at a time. Of releases
  // whose steps were fitted (to 2022) the fitted rate of products holds it.
  bool element_joins = true;
  bool masked_softmax_fusion = true;  // local layers: unfused scores' mask and softmax, one kernel

  bool decomposed_norms = false;  // under sequence parallelism norms keep fp32 copies (DTensor)
  bool unfused_fp32_attention = false;  // no fused kernel of attention takes fp32
  bool attention_output_copy =
      true;  // false: an attention that writes tokens first, as flash-attention's package does
  // Host work in launches of a kernel: of one unit's gather and of its reduction, its collective
  // included, and each time of every parameter tensor in it that tensor parallelism splits too (a
  // DTensor over two meshes is wrapped again); and of its hooks in one micro-batch's forward and
  // backward, whether something is gathered or not.
  double unit_gather_launches = 0, unit_reduce_launches = 0, sharded_tensor_launches = 0;
  double unit_hook_launches = 0;
  bool compile = false;  // torch.compile on the blocks
  // What the host takes for its work over what a process does that is bound to its GPU's cores.
  double host_slowdown = 1;
  // Share of a step's kernels that a CUDA graph issues, so that the host does not (1: the whole
  // iteration is one graph).
  double graphed_launches = 0;
  // The step is traced into one graph whose kernels still run one by one: it keeps what compiled
  // blocks keep, at the speed of eager ones.
  bool traced_graph = false;
  bool pad_vocabulary = true;  // Megatron: to a multiple of 128 * tp
  double dropout = 0.0;
  bool fp32_norms = false;         // norms written out in PyTorch keep an fp32 copy of their input
  bool foreach_optimizer = false;  // PyTorch's foreach Adam: one copy of the parameters at the step
  // FSDP1 holds the inputs of units without trained parameters and their gradients until backward
  // ends, where checkpoints are reentrant.
  bool frozen_graph_stays = false;
  bool mixed_precision_pure = false;  // llm-foundry's PURE: bf16 throughout

  // What its programs choose where nobody says otherwise.
  bool recompute_per_op = false;          // selective recompute is PyTorch's per-op policy
  bool recomputes_by_default = false;     // selectively
  bool reshard_with_pipeline = true;      // parameters are let go after forward in a pipeline too
  bool ends_count_as_layers = false;      // embedding and head, where layers are spread over stages
  bool layers_by_cost = false;            // they are spread by their products', beside the head's
  bool micro_batches_are_chunks = false;  // as many micro-batches as there are pipeline chunks
  std::int64_t micro_batch = 0;           // sequences; 0: no default
  std::int64_t interleaved_chunks = 0;    // virtual stages a rank when interleaved; 0: no default

  // Allocator and process.
  double reserved_low = 1.02;  // reserved / allocated, the band
  double reserved_typical = 1.1;
  double reserved_high = 1.25;
  double interleaved_fragmentation = 0.15;  // more of it, with virtual pipeline chunks
  // PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: freed blocks of any size serve again.
  bool expandable_segments = false;
  // PyTorch before 2.8: what a collective reads and writes is recorded on the communication stream,
  // and its memory serves again only once that stream is known to have passed.
  bool recorded_collectives = false;
  bool launch_blocking = false;  // CUDA_LAUNCH_BLOCKING=1: the host waits for every kernel
  // torch.use_deterministic_algorithms: what is allocated is filled before a kernel writes it.
  bool deterministic = false;
  // Rows that this project's runtime has room for in what arrives at a rank's experts, over an even
  // load's; 0: for all that could come. One that is not enough ends the run.
  double expert_load = 0;
  bool world_group = false;  // barriers and norms run on a communicator of all ranks of its own
  double workspace_libraries = 2;  // cuBLAS-sized workspaces inside the allocator
  double lasting_gib = 0;    // batch, masks, random states and scalars that live through the step
  double context_gib = 0.6;  // CUDA context, libraries, workspace outside the allocator
};

// How ranks that share sequences come by each other's keys and values.
enum class ContextForm : std::uint8_t { kRing, kGather, kExchangeHeads };
inline ContextForm context_form(const Framework& framework) {
  return framework.context_all_to_all ? ContextForm::kExchangeHeads
         : framework.context_gather   ? ContextForm::kGather
                                      : ContextForm::kRing;
}

// Whether gradients are reduced, parameters gathered, beside compute (Megatron of 2020 to 2022 did
// neither), and whether the collective of an input gradient runs beside the weight gradient's
// product. Megatron of 2020 to 2022 had that with sequence parallelism only.
bool overlaps_gradient_reduction(const Framework& framework);
bool overlaps_parameter_gather(const Framework& framework);
bool overlaps_tensor_backward(const Framework& framework, bool sequence_parallel);

// Megatron's rules hold: layers split evenly, experts under tensor parallelism need sequence
// parallelism, no backward split in two, no GPipe.
bool is_megatron(const Framework& framework);
// PyTorch's own sharding: of parameters, gradients and states together, or of nothing.
bool is_torch(const Framework& framework);
// Products of weight gradients add to the buffers of the gradients themselves.
bool sums_in_place(const Framework& framework);
// "torchtitan@0.2.2", or the name alone.
std::string full_name(const Framework& framework);

std::vector<std::string> framework_names();
// "NAME" or "NAME@VERSION" (planner/plan/framework_versions.h). Throws Error on an unknown one.
Framework find_framework(const std::string& name);
// Applies KEY=VALUE. Throws Error on an unknown key (listing those that exist) or a wrong value.
void apply_setting(Framework& framework, const std::string& key, const std::string& value);
std::vector<std::string> setting_names();

// One choice of `--set`: what it means, and what the frameworks call it (empty: it has no switch).
struct Setting {
  std::string name, help, flag;
};
const std::vector<Setting>& settings();
// The value of a setting as `--set` spells it; empty for one that moves several fields together.
std::string setting_value(const Framework& framework, const std::string& name);

}  // namespace trireme::planner
