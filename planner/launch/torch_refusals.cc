// Sources: torchtitan v0.2.2, distributed/parallel_dims.py, config/job_config.py,
// models/*/infra/parallelize.py; DeepSpeed edaa7221, docs/_pages/config-json.md (AutoTP, AutoEP),
// runtime/zero/mics.py, runtime/pipe/module.py; accelerate 16cb6eb8, parallelism_config.py,
// utils/dataclasses.py.
#include <algorithm>

#include "planner/launch/launch_facts.h"
#include "planner/launch/refusals.h"
#include "planner/launch/torchtitan.h"
#include "planner/plan/stages.h"

namespace trireme::planner {
namespace {

bool is_full(const Launched& l) {
  return l.plan.sharding == Sharding::kFull;
}

bool is_first_fsdp(const Launched& l) {
  return l.job.framework.sharder == Sharder::kFsdp1;
}

// Shards inside groups, copies between them.
bool is_hybrid(const Launched& l) {
  return l.plan.sharding != Sharding::kNone && l.plan.replicas > 1;
}

template <auto kOne, auto kOther>
bool has_both(const Launched& l) {
  return l.plan.*kOne > 1 && l.plan.*kOther > 1;
}

bool splits_norms(const Launched& l) {
  return l.plan.tensor > 1 && l.plan.sequence_parallel;
}

bool has_other_expert_tensor(const Launched& l) {
  return l.job.model.moe && expert_tensor_of(l.plan) != l.plan.tensor;
}

bool recomputes_a_part_of(const Launched& l, std::int64_t layers) {
  return l.plan.recompute == Recompute::kFull && l.plan.recompute_layers >= 0 &&
         l.plan.recompute_layers < layers;
}

bool always_overlaps(const Job& job) {
  return job.framework.overlap_grad_reduce && job.framework.overlap_param_gather;
}

// torchtitan recomputes all layers of a chunk, or every k-th.
bool recomputes_every_kth(const Launched& l) {
  const std::int64_t recomputed = l.plan.recompute_layers;
  if (l.plan.recompute != Recompute::kFull || recomputed <= 0) {
    return true;
  }
  const std::vector<Chunk> chunks = chunks_of(l.job, l.plan);
  const auto all = [&](const Chunk& chunk) { return recomputed >= chunk.own_layers(); };
  const std::int64_t every = chunks.front().own_layers() / recomputed;
  return std::all_of(chunks.begin(), chunks.end(), all) ||
         std::all_of(chunks.begin(), chunks.end(),
                     [&](const Chunk& chunk) { return chunk.own_layers() == every * recomputed; });
}

// ParallelDims.seq_len_divisor has the 2 of the causal balance also without context parallelism.
bool has_odd_sequence(const Launched& l) {
  return l.job.sequence % (l.plan.tensor * 2 * l.plan.context) != 0;
}

constexpr JobRefusal kTorchtitanJobs[] = {
    {"--precision", [](const Job& job) { return job.precision == topologies::Precision::kFp16; },
     "torchtitan trains in bf16, fp32 or fp8, not fp16"},
    {"reduce_dtype",
     [](const Job& job) {
       return job.framework.mixed_precision_pure ||
              (mixes_types(job) && job.framework.reduce_bytes != 4);
     },
     "torchtitan reduces gradients in fp32; --set reduce_dtype=fp32 would be right"},
    {"--optimizer", [](const Job& job) { return job.optimizer != Optimizer::kAdam; },
     "torchtitan has Adam and AdamW; --optimizer adam would be right"},
    {"optimizer_dtype",
     [](const Job& job) {
       return job.framework.moment_bytes != (job.framework.master_bytes == 0 ? 4 : 8);
     },
     "torchtitan keeps moments in the parameters' type; --set optimizer_dtype to the same as "
     "parameter_dtype would be right"},
    {"loss_chunks", [](const Job& job) { return job.framework.loss_chunks > 1; },
     "torchtitan v0.2.2 computes the loss in one part; --set loss_chunks=1 would be right"},
    {"tp_comm_overlap",
     [](const Job& job) { return job.framework.tp_comm_overlap && !job.framework.compile; },
     "torchtitan's async tensor parallelism needs torch.compile; --set compile=true would be "
     "right"},
    {"dropout", [](const Job& job) { return job.framework.dropout > 0; },
     "torchtitan's models have none; --set dropout=0"},
    {"overlap_grad_reduce", [](const Job& job) { return !always_overlaps(job); },
     "FSDP2 always overlaps; --set overlap_grad_reduce=true would be right"},
    {"traced_graph", [](const Job& job) { return job.framework.traced_graph; },
     "torchtitan compiles block by block; --set compile=true would be right"},
    {"--attention",
     [](const Job& job) { return job.attention == models::AttentionKernel::kUnfused; },
     "torchtitan's models run fused attention; --attention flash would be right"},
};

constexpr Refusal kTorchtitanLayouts[] = {
    {"--seq", has_odd_sequence,
     "{seq} is not divisible by tp {tp} x 2 x cp {cp}; {even_seq} would be right"},
    {"recompute-layers", [](const Launched& l) { return !recomputes_every_kth(l); },
     "torchtitan recomputes all layers or every k-th, and {recomputed} of a stage's is neither; "
     "--recompute full would be right"},
    {"pp", [](const Launched& l) { return l.plan.pipeline > 1 && !torchtitan_code(l).pipelines; },
     "torchtitan's code of {model} has no pipelining; pp 1 would be right"},
    {"cp",
     [](const Launched& l) { return l.plan.context > 1 && torchtitan_code(l).flex_attention; },
     "torchtitan's code of {model} runs FlexAttention, which has no context parallelism; cp 1 "
     "would be "
     "right"},
    {"sequence_parallel",
     [](const Launched& l) { return l.plan.tensor > 1 && !l.plan.sequence_parallel; },
     "torchtitan's tensor parallelism always has it; --sequence-parallel would be right"},
    {"etp",
     [](const Launched& l) {
       return has_other_expert_tensor(l) && (l.plan.expert == 1 || expert_tensor_of(l.plan) != 1);
     },
     "torchtitan has etp tp ({tp}), or 1 with ep > 1, not {etp}"},
    {"ep",
     [](const Launched& l) {
       return l.job.model.moe && l.plan.expert > 1 &&
              l.plan.sharded * l.plan.context * l.plan.tensor %
                      (l.plan.expert * expert_tensor_of(l.plan)) !=
                  0;
     },
     "torchtitan spreads experts over fsdp {fsdp} x cp {cp} x tp {tp} ranks, which ep {ep} x etp "
     "{etp} "
     "does not divide; a larger fsdp would be right"},
    {"sharding",
     [](const Launched& l) { return !is_full(l) && (l.plan.context > 1 || l.plan.expert > 1); },
     "torchtitan always shards parameters with cp and ep; --sharding full would be right"},
    {"dp",
     [](const Launched& l) {
       return l.plan.replicas > 1 && l.plan.sharded == 1 && l.plan.replicas != l.plan.gpus();
     },
     "torchtitan's DDP runs beside no other axis; --fsdp instead of --dp would be right"},
    {"--precision",
     [](const Launched& l) {
       return !is_full(l) && l.plan.tensor * l.plan.pipeline > 1 && is_mixed(l) &&
              l.job.framework.master_bytes > 0;
     },
     "torchtitan v0.2.2 trains in fp32 where tp or pp run without sharding; --fsdp 2 or more, "
     "--precision "
     "fp32, or bf16 alone (--set parameter_dtype=bf16 --set optimizer_dtype=bf16 --set "
     "reduce_dtype=fp32) would be right"},
    {"fsdp-unit", [](const Launched& l) { return is_full(l) && l.plan.fsdp_unit != 1; },
     "torchtitan wraps each block; --fsdp-unit block would be right"},
    {"schedule",
     [](const Launched& l) {
       return l.plan.pipeline > 1 && (l.plan.schedule == Schedule::kZeroBubbleH1 ||
                                      l.plan.schedule == Schedule::kZeroBubbleH2);
     },
     "torchtitan has no {schedule}: its zero-bubble schedules run two chunks a rank; zb-v, 1f1b or "
     "interleaved would be right"},
    {"recompute-modules",
     [](const Launched& l) {
       return l.plan.recompute == Recompute::kSelective && l.plan.recompute_modules != kTorchPerOp;
     },
     "torchtitan recomputes per op or whole layers, not {modules}; --recompute-modules op would be "
     "right"},
    {"reduce_every_micro_batch",
     [](const Launched& l) {
       return !l.job.framework.reduce_every_micro_batch && l.plan.pipeline == 1 &&
              l.plan.micro_batches > 1 && l.plan.data_parallel() > 1;
     },
     "torchtitan reduces gradients after every micro-batch; --set reduce_every_micro_batch=true "
     "would be "
     "right"},
    {"context_all_to_all",
     [](const Launched& l) { return l.plan.context > 1 && l.job.framework.context_all_to_all; },
     "torchtitan passes keys and values on; --set context_all_to_all=false would be right"},
};

// Tensor, sequence, expert and pipeline parallelism each come with ZeRO, not with each other.
constexpr JobRefusal kDeepspeedJobs[] = {
    {"--precision", [](const Job& job) { return job.precision == topologies::Precision::kFp8; },
     "DeepSpeed's JSON has bf16, fp16 and fp32, not fp8"},
    {"parameter_dtype",
     [](const Job& job) {
       return mixes_types(job) &&
              (job.framework.master_bytes != 4 || job.framework.mixed_precision_pure);
     },
     "DeepSpeed keeps an fp32 copy of the parameters; --set parameter_dtype=fp32 would be right"},
    {"--optimizer",
     [](const Job& job) {
       return job.framework.moment_bytes != 8 || job.optimizer == Optimizer::kAdam8bit;
     },
     "DeepSpeed's JSON has Adam and SGD with fp32 moments; --optimizer adam would be right"},
    {"compile", [](const Job& job) { return job.framework.compile || job.framework.traced_graph; },
     "DeepSpeed's JSON does not compile layers; --set compile=false would be right"},
    {"tp_comm_overlap", [](const Job& job) { return job.framework.tp_comm_overlap; },
     "DeepSpeed's AutoTP has none; --set tp_comm_overlap=false would be right"},
};

constexpr Refusal kDeepspeedLayouts[] = {
    {"cp", has_both<&Plan::tensor, &Plan::context>,
     "DeepSpeed's configuration has no cp with tp; one of the two at 1 would be right"},
    {"ep", has_both<&Plan::tensor, &Plan::expert>,
     "DeepSpeed's configuration has no ep with tp; one of the two at 1 would be right"},
    {"ep", has_both<&Plan::context, &Plan::expert>,
     "DeepSpeed's configuration has no ep with cp; one of the two at 1 would be right"},
    {"pp", has_both<&Plan::tensor, &Plan::pipeline>,
     "DeepSpeed's configuration has no pp with tp; one of the two at 1 would be right"},
    {"pp", has_both<&Plan::context, &Plan::pipeline>,
     "DeepSpeed's configuration has no pp with cp; one of the two at 1 would be right"},
    {"pp", has_both<&Plan::expert, &Plan::pipeline>,
     "DeepSpeed's configuration has no pp with ep; one of the two at 1 would be right"},
    {"sequence_parallel", splits_norms,
     "DeepSpeed's AutoTP keeps norms and residuals whole; --no-sequence-parallel would be right"},
    {"sharding",
     [](const Launched& l) {
       return l.plan.context > 1 && l.plan.sharding == Sharding::kNone &&
              l.plan.data_parallel() > 1 && l.job.precision == topologies::Precision::kBf16;
     },
     "DeepSpeed's bf16 optimizer without a ZeRO stage stops beside cp; --sharding optimizer would "
     "be right"},
    {"vpp", [](const Launched& l) { return l.plan.virtual_pipeline > 1; },
     "DeepSpeed's pipeline engine has one chunk a stage; --vpp 1 would be right"},
    {"etp", has_other_expert_tensor,
     "DeepSpeed splits experts as it does the rest; --etp {tp} would be right"},
    {"stage-layers",
     [](const Launched& l) {
       const auto chunks = chunks_of(l.job, l.plan);
       return std::any_of(chunks.begin(), chunks.end(), [&](const Chunk& chunk) {
         return chunk.own_layers() != l.job.model.layers / l.plan.pipeline;
       });
     },
     "DeepSpeed's JSON cannot say an uneven split (PipelineModule's partition_method does, in the "
     "program); equal stages would be right"},
    {"dp",
     [](const Launched& l) {
       return is_hybrid(l) && (!is_full(l) || l.plan.expert > 1 || l.plan.context > 1);
     },
     "DeepSpeed shards in groups (MiCS) under ZeRO-3 alone; --sharding full without ep and cp, or "
     "--dp 1 "
     "--fsdp {data}, would be right"},
    {"reshard_after_forward",
     [](const Launched& l) { return is_full(l) && !l.plan.reshard_after_forward; },
     "ZeRO-3 always reshards; --sharding gradients would be right"},
    {"fsdp-unit", [](const Launched& l) { return is_full(l) && l.plan.fsdp_unit != 1; },
     "ZeRO-3 gathers by module; --fsdp-unit block would be right"},
    {"recompute", [](const Launched& l) { return l.plan.recompute == Recompute::kSelective; },
     "DeepSpeed recomputes whole layers; --recompute full or none would be right"},
    {"recompute-layers",
     [](const Launched& l) {
       return recomputes_a_part_of(l, l.job.model.layers / l.plan.pipeline);
     },
     "DeepSpeed recomputes all layers or none; leave it out"},
    // A 16-bit model with fp32 sums needs a stage, which over several ranks shards them.
    {"sharding",
     [](const Launched& l) {
       return l.plan.sharding == Sharding::kNone && l.plan.data_parallel() > 1 && is_mixed(l) &&
              l.job.framework.gradient_bytes == 4;
     },
     "DeepSpeed keeps fp32 sums beside 16-bit parameters with a ZeRO stage only; --sharding "
     "optimizer "
     "would be right"},
};

constexpr JobRefusal kAccelerateJobs[] = {
    {"parameter_dtype",
     [](const Job& job) {
       return job.framework.master_bytes != 4 || job.framework.mixed_precision_pure;
     },
     "accelerate keeps fp32 parameters under mixed precision; --set parameter_dtype=fp32 would be "
     "right"},
    {"optimizer_dtype", [](const Job& job) { return job.framework.moment_bytes != 8; },
     "torch's Adam keeps moments in the parameters' fp32; --set optimizer_dtype=fp32 would be "
     "right"},
    {"tp_comm_overlap", [](const Job& job) { return job.framework.tp_comm_overlap; },
     "accelerate has no such switch; leave the setting out"},
    {"traced_graph", [](const Job& job) { return job.framework.traced_graph; },
     "accelerate has no such switch; leave the setting out"},
    {"overlap_grad_reduce", [](const Job& job) { return !always_overlaps(job); },
     "PyTorch's FSDP and DDP always overlap; --set overlap_grad_reduce=true would be right"},
};

constexpr Refusal kAccelerateLayouts[] = {
    {"tp", [](const Launched& l) { return is_first_fsdp(l) && l.plan.tensor > 1; },
     "FSDP1 runs beside no other axis; --framework fsdp2 would be right"},
    {"cp", [](const Launched& l) { return is_first_fsdp(l) && l.plan.context > 1; },
     "FSDP1 runs beside no other axis; --framework fsdp2 would be right"},
    {"reshard_after_forward",
     [](const Launched& l) {
       return is_first_fsdp(l) && is_full(l) && !l.plan.reshard_after_forward;
     },
     "FSDP1 calls that SHARD_GRAD_OP; --sharding gradients would be right"},
    {"fsdp",
     [](const Launched& l) {
       return is_first_fsdp(l) && is_hybrid(l) && l.plan.sharded != l.processes_per_host;
     },
     "FSDP1's HYBRID_SHARD shards over the {host} GPUs of a host, not {fsdp}; --fsdp {host} would "
     "be right"},
    {"pp", [](const Launched& l) { return l.plan.pipeline > 1; },
     "accelerate has no pipeline parallelism; pp 1, or --format torchtitan or megatron, would be "
     "right"},
    {"ep", [](const Launched& l) { return l.plan.expert > 1; },
     "accelerate has no expert parallelism; ep 1, or --format torchtitan or megatron, would be "
     "right"},
    {"sequence_parallel", splits_norms,
     "transformers' tensor-parallel plans keep norms and residuals whole; --no-sequence-parallel "
     "would be "
     "right"},
    {"etp", has_other_expert_tensor, "experts are split as the rest is; etp {tp} would be right"},
    {"sharding",
     [](const Launched& l) { return !is_first_fsdp(l) && !is_full(l) && l.plan.context > 1; },
     "accelerate shards parameters over the cp ranks; --sharding full would be right"},
    {"dp",
     [](const Launched& l) {
       return !is_first_fsdp(l) && l.plan.replicas > 1 && l.plan.sharded == 1 &&
              (l.plan.tensor > 1 || l.plan.context > 1);
     },
     "accelerate's ParallelismConfig takes dp_replicate with tp or cp only when dp_shard is above "
     "1; "
     "--fsdp instead of --dp would be right"},
    {"recompute",
     [](const Launched& l) {
       return l.plan.recompute == Recompute::kSelective ||
              recomputes_a_part_of(l, l.job.model.layers);
     },
     "accelerate recomputes every layer or none; --recompute full or none would be right"},
    {"recompute",
     [](const Launched& l) {
       return l.plan.recompute == Recompute::kFull && l.plan.sharding == Sharding::kNone &&
              !is_first_fsdp(l);
     },
     "accelerate's switch belongs to FSDP; --sharding full would be right"},
    {"fsdp-unit", [](const Launched& l) { return is_full(l) && l.plan.fsdp_unit > 1; },
     "accelerate wraps each layer or the whole model; --fsdp-unit block or model would be right"},
    {"context_all_to_all",
     [](const Launched& l) { return l.job.framework.context_all_to_all && l.plan.context > 1; },
     "accelerate's context parallelism passes keys and values; --set context_all_to_all=false "
     "would be "
     "right"},
};

}  // namespace

std::span<const JobRefusal> torchtitan_job_refusals() {
  return kTorchtitanJobs;
}
std::span<const Refusal> torchtitan_layout_refusals() {
  return kTorchtitanLayouts;
}
std::span<const JobRefusal> deepspeed_job_refusals() {
  return kDeepspeedJobs;
}
std::span<const Refusal> deepspeed_layout_refusals() {
  return kDeepspeedLayouts;
}
std::span<const JobRefusal> accelerate_job_refusals() {
  return kAccelerateJobs;
}
std::span<const Refusal> accelerate_layout_refusals() {
  return kAccelerateLayouts;
}

}  // namespace trireme::planner
