// Every rule of the tables: a configuration that breaks it, and the nearest one that does not.
#include "planner/start/launch_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "planner/launch/read_launch.h"

namespace trireme::planner {
namespace {

struct Case {
  LaunchFormat format{};
  const char* rule = nullptr;
  const char* broken = nullptr;
  const char* holds = nullptr;
  const char* fix = "";  // words that the fix must have
  const char* cluster = "dgx-h100x2";
};

constexpr LaunchFormat kM = LaunchFormat::kMegatron;
constexpr LaunchFormat kB = LaunchFormat::kMegatronBridge;
constexpr LaunchFormat kT = LaunchFormat::kTorchtitan;
constexpr LaunchFormat kD = LaunchFormat::kDeepspeed;
constexpr LaunchFormat kA = LaunchFormat::kAccelerate;

// A GPT of 24 layers, 16 heads; batch 64 on 16 GPUs.
constexpr const char* kGpt =
    "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
    "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 24 --hidden-size 2048 "
    "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 51200 "
    "--bf16 "
    "--micro-batch-size 1 --global-batch-size 64 ";
// The same without the line that FSDP must not have, and with what it needs.
constexpr const char* kFsdp =
    "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 24 --hidden-size 2048 "
    "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 51200 "
    "--bf16 "
    "--untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 64 "
    "--no-gradient-accumulation-fusion ";
constexpr const char* kExperts =
    "--num-experts 8 --disable-bias-linear --moe-token-dispatcher-type alltoall ";
constexpr const char* kBridge =
    "from megatron.bridge.recipes.llama import llama3_8b_pretrain_config as recipe\ncfg = "
    "recipe()\n"
    "cfg.train.global_batch_size = 64\ncfg.train.micro_batch_size = 1\ncfg.model.seq_length = "
    "4096\n";
constexpr const char* kTitan =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = "
    "8\n[parallelism]\n";

std::string text_of(const Case& row, const char* part) {
  const std::string words = part;
  if (row.format == kM) {
    const bool fsdp =
        words.find("fsdp") != std::string::npos || words.find("torch_dcp") != std::string::npos;
    const bool experts = words.find("EXPERTS") != std::string::npos;
    std::string text = std::string(fsdp ? kFsdp : kGpt) + words;
    if (experts) {
      text.replace(text.find("EXPERTS"), 7, kExperts);
    }
    return text;
  }
  return (row.format == kB ? kBridge : row.format == kT ? kTitan : "") + words;
}

RuleReport report_of(const Case& row, const char* part) {
  const LaunchConfig config = read_launch(row.format, text_of(row, part), "f", {});
  LaunchOptions options{.cluster = row.cluster};
  if (row.format == kD || row.format == kA) {
    options.model = "llama-3.2-1b";
    options.sequence = 4096;
  }
  return check_launch(config, make_launch_case(config, options));
}

constexpr Case kCases[] = {
    {kM, "world % (tp * pp * cp)",
     "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 3",
     "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4",
     "--pipeline-model-parallel-size 1, 2 or 4"},
    {kM, "values that Megatron-LM takes", "--attention-backend flsh", "--attention-backend flash",
     "use flash"},
    {kM, "values that Megatron-LM takes", "--normalization rmsnorm", "--normalization RMSNorm",
     "use RMSNorm"},
    {kM, "world % (etp * ep * pp)",
     "EXPERTS --expert-model-parallel-size 8 --expert-tensor-parallel-size 4",
     "EXPERTS --expert-model-parallel-size 8 --expert-tensor-parallel-size 2",
     "--expert-model-parallel-size"},
    {kM, "one way to say virtual stages",
     "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3 "
     "--num-virtual-stages-per-pipeline-rank 2",
     "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3",
     "keep --num-layers-per-virtual-pipeline-stage"},
    {kM, "(layers + embedding + loss) % pp", "--pipeline-model-parallel-size 16",
     "--pipeline-model-parallel-size 8", "--pipeline-model-parallel-size 2, 4 or 8"},
    {kM, "(layers + embedding + loss) % pp",
     "--pipeline-model-parallel-size 4 --account-for-embedding-in-pipeline-split",
     "--pipeline-model-parallel-size 4", ""},
    {kM, "stage layers % virtual stages",
     "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4",
     "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3", "1, 2, 3, 6"},
    {kM, "first and last stage's layers",
     "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 5",
     "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 3", "stages of 6"},
    {kM, "pipeline layout",
     "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout \"Et*12|t*11L\"",
     "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout \"Et*12|t*12L\"",
     "24 times t"},
    {kM, "pipeline layout",
     "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout \"t*12|t*12L\"",
     "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout \"Et*12|t*12L\"",
     "begin with E"},
    {kM, "virtual stages need pp", "--num-virtual-stages-per-pipeline-rank 2",
     "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
     "--pipeline-model-parallel-size 2"},
    {kM, "virtual stages need pp",
     "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
     "--no-overlap-p2p-communication",
     "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
     "--no-overlap-p2p-communication",
     "--pipeline-model-parallel-size 4"},
    {kM, "pp <= micro-batch group <= micro-batches",
     "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
     "--global-batch-size 20",
     "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
     "--global-batch-size 32",
     "--global-batch-size 16, 32 or 48"},
    {kM, "hidden % heads", "--num-attention-heads 24", "--num-attention-heads 32",
     "--kv-channels, e.g. 85"},
    {kM, "max_position_embeddings >= seq", "--position-embedding-type rope --seq-length 4096",
     "--position-embedding-type rope", "--max-position-embeddings 4096"},
    {kM, "sequence_parallel needs tp > 1", "--sequence-parallel",
     "--sequence-parallel --tensor-model-parallel-size 2", "--tensor-model-parallel-size 2"},
    {kM, "recompute granularity, method, number", "--recompute-granularity full",
     "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
     "--recompute-method uniform --recompute-num-layers 1"},
    {kM, "recompute granularity, method, number",
     "--recompute-granularity selective --recompute-method uniform",
     "--recompute-granularity selective", "leave out --recompute-method"},
    {kM, "distribute_saved_activations", "--distribute-saved-activations",
     "--distribute-saved-activations --tensor-model-parallel-size 2 --recompute-granularity full "
     "--recompute-method uniform --recompute-num-layers 1",
     "tp 2"},
    {kM, "cpu_offloading", "--cpu-offloading --cpu-offloading-num-layers 24",
     "--cpu-offloading --cpu-offloading-num-layers 23", "at most 23"},
    {kM, "CUDA_DEVICE_MAX_CONNECTIONS == 1",
     "--bf16\nexport CUDA_DEVICE_MAX_CONNECTIONS=8\ntorchrun --nproc_per_node 16 p.py --num-layers "
     "24 --hidden-size 2048 "
     "--num-attention-heads 16 --seq-length 2048 --vocab-size 51200 --bf16 "
     "--tensor-model-parallel-size 2 "
     "--micro-batch-size 1 --use-distributed-optimizer --overlap-grad-reduce --sequence-parallel",
     "--tensor-model-parallel-size 2", "export CUDA_DEVICE_MAX_CONNECTIONS=1"},
    {kM, "defer_embedding_wgrad_compute", "--defer-embedding-wgrad-compute",
     "--defer-embedding-wgrad-compute --pipeline-model-parallel-size 2", "pp 2"},
    {kM, "overlap_p2p or batch_p2p",
     "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --batch-p2p-comm",
     "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2",
     "leave out batch_p2p"},
    {kM, "overlap_param_gather needs", "--overlap-param-gather",
     "--overlap-param-gather --overlap-grad-reduce --use-distributed-optimizer",
     "--use-distributed-optimizer --overlap-grad-reduce"},
    {kM, "overlap_param_gather_with_optimizer_step needs",
     "--overlap-param-gather-with-optimizer-step",
     "--overlap-param-gather-with-optimizer-step --overlap-param-gather --overlap-grad-reduce "
     "--use-distributed-optimizer --pipeline-model-parallel-size 2 "
     "--num-virtual-stages-per-pipeline-rank 2",
     "2 or more virtual stages"},
    {kM, "distributed optimizer instances", "--num-distributed-optimizer-instances 2",
     "--num-distributed-optimizer-instances 2 --use-distributed-optimizer",
     "--use-distributed-optimizer"},
    {kM, "bucket size or number", "--ddp-bucket-size 40000000 --ddp-num-buckets 4",
     "--ddp-num-buckets 4", "leave out"},
    {kM, "tp_comm_overlap needs sequence_parallel",
     "--tensor-model-parallel-size 2 --tp-comm-overlap",
     "--tensor-model-parallel-size 2 --tp-comm-overlap --sequence-parallel", "--sequence-parallel"},
    {kM, "deterministic_mode needs", "--deterministic-mode --cross-entropy-loss-fusion",
     "--deterministic-mode", "leave out --cross-entropy-loss-fusion"},
    {kM, "context-parallel kinds and sizes", "--context-parallel-size 4 --cp-comm-type a2a+p2p",
     "--context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2",
     "--hierarchical-context-parallel-sizes 2 2"},
    {kM, "hybrid_context_parallel", "--hybrid-context-parallel --pipeline-model-parallel-size 2",
     "--hybrid-context-parallel", "pp 1"},
    {kM, "expert biases need etp 1",
     "--num-experts 8 --tensor-model-parallel-size 2 --sequence-parallel",
     "--num-experts 8 --tensor-model-parallel-size 2 --sequence-parallel --disable-bias-linear",
     "--disable-bias-linear"},
    {kM, "one expert a token", "EXPERTS --moe-router-topk 1",
     "EXPERTS --moe-router-topk 1 --moe-router-pre-softmax", "--moe-router-pre-softmax"},
    {kM, "overlap_moe_expert_parallel_comm needs", "EXPERTS --overlap-moe-expert-parallel-comm",
     "EXPERTS --overlap-moe-expert-parallel-comm --expert-model-parallel-size 4", "ep 2"},
    {kM, "latent attention excludes grouped queries",
     "--multi-latent-attention --group-query-attention --num-query-groups 4",
     "--multi-latent-attention", "leave out --group-query-attention"},
    {kM, "cross-entropy fusion of TE", "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te",
     "--cross-entropy-fusion-impl te", "native"},
    {kM, "optimizer_cpu_offload", "--optimizer-cpu-offload",
     "--optimizer-cpu-offload --use-precision-aware-optimizer", "--use-precision-aware-optimizer"},
    {kM, "bf16 or fp16", "--fp16", "", "leave out --fp16"},
    {kM, "local layers with RMSNorm", "--transformer-impl local --normalization RMSNorm",
     "--transformer-impl local --normalization RMSNorm --no-persist-layer-norm "
     "--no-gradient-accumulation-fusion",
     "add --no-persist-layer-norm"},
    {kM, "local layers with RMSNorm",
     "--transformer-impl local --normalization RMSNorm --no-persist-layer-norm",
     "--transformer-impl local --normalization RMSNorm --no-persist-layer-norm "
     "--no-gradient-accumulation-fusion",
     "add --no-gradient-accumulation-fusion"},
    {kM, "local layers with RMSNorm",
     "--transformer-impl local --normalization RMSNorm --no-persist-layer-norm "
     "--no-gradient-accumulation-fusion --tensor-model-parallel-size 2 --sequence-parallel",
     "--transformer-impl local --normalization RMSNorm --no-persist-layer-norm "
     "--no-gradient-accumulation-fusion --tensor-model-parallel-size 2",
     "leave out --sequence-parallel"},
    {kM, "local layers with cp", "--transformer-impl local --context-parallel-size 2",
     "--context-parallel-size 2", "--context-parallel-size 1"},
    {kM, "local experts run one by one", "EXPERTS --transformer-impl local", "EXPERTS",
     "transformer_engine"},
    {kM, "flags have values", "--lr --num-layers", "--lr 1e-4 --num-layers 24", "leave it out"},
    {kM, "flags that Megatron-LM knows", "--pp 2", "--pipeline-model-parallel-size 2",
     "--pipeline-model-parallel-size"},
    {kM, "bf16 or fp16 is given",
     "\ntorchrun --nproc_per_node 16 p.py --num-layers 24 --hidden-size 2048 "
     "--num-attention-heads 16 --seq-length 2048 --vocab-size 51200 --micro-batch-size 1 "
     "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
     "--global-batch-size 64",
     "", "add --bf16"},
    {kM, "local layers need --no-rope-fusion",
     "--transformer-impl local --position-embedding-type rope",
     "--transformer-impl local --position-embedding-type rope --no-rope-fusion",
     "--no-rope-fusion"},
    {kM, "attention-backend local needs spec local", "--attention-backend local",
     "--attention-backend local --spec local", "--attention-backend auto"},
    {kM, "eval-iters needs eval-interval", "--eval-iters 0", "--eval-iters 0 --eval-interval 1000",
     "--eval-interval 1000"},
    {kM, "CUDA_DEVICE_MAX_CONNECTIONS != 1 with FSDP",
     "--use-megatron-fsdp --ckpt-format fsdp_dtensor\nexport CUDA_DEVICE_MAX_CONNECTIONS=1",
     "--use-megatron-fsdp --ckpt-format fsdp_dtensor", "unset"},
    {kM, "one FSDP", "--use-megatron-fsdp --use-torch-fsdp2", "--use-torch-fsdp2", "leave out one"},
    {kM, "torch FSDP2 needs",
     "--use-torch-fsdp2 --pipeline-model-parallel-size 2 --use-distributed-optimizer",
     "--use-torch-fsdp2", "pp 1, no distributed optimizer"},
    {kM, "Megatron-FSDP optimizer",
     "--use-megatron-fsdp --optimizer muon --ckpt-format fsdp_dtensor",
     "--use-megatron-fsdp --ckpt-format fsdp_dtensor", "adam or sgd"},
    {kM, "meta device needs sharding",
     "--use-megatron-fsdp --init-model-with-meta-device --ckpt-format fsdp_dtensor",
     "--use-megatron-fsdp --init-model-with-meta-device --ckpt-format fsdp_dtensor "
     "--data-parallel-sharding-strategy optim_grads_params",
     "optim_grads_params"},
    {kM, "sharding strategy needs Megatron-FSDP",
     "--data-parallel-sharding-strategy optim_grads_params",
     "--data-parallel-sharding-strategy no_shard", "--use-megatron-fsdp"},
    {kM, "checkpoint format", "--use-megatron-fsdp",
     "--use-megatron-fsdp --ckpt-format fsdp_dtensor", "fsdp_dtensor"},
    {kM, "checkpoint format",
     "--use-torch-fsdp2 --ckpt-format torch_dcp --tensor-model-parallel-size 2",
     "--use-torch-fsdp2 --ckpt-format torch_dcp", "torch_dist"},
    {kM, "manual registration needs NCCL user buffers",
     "--use-megatron-fsdp --fsdp-manual-registration",
     "--use-megatron-fsdp --fsdp-manual-registration --use-nccl-ub", "--use-nccl-ub"},
    {kB, "rank order with Megatron-FSDP",
     "cfg.dist.use_tp_pp_dp_mapping = True\ncfg.ddp.use_megatron_fsdp = True\n",
     "cfg.ddp.use_megatron_fsdp = True\n", "use_tp_pp_dp_mapping"},
    {kB, "average_in_collective with Megatron-FSDP",
     "cfg.ddp.average_in_collective = True\ncfg.ddp.use_megatron_fsdp = True\n",
     "cfg.ddp.average_in_collective = False\ncfg.ddp.use_megatron_fsdp = True\n", "false"},
    {kB, "model and dataset sequence length", "cfg.dataset.seq_length = 8192\n",
     "cfg.dataset.seq_length = 4096\n", "4096"},
    {kB, "fine-tuning with cp > 1",
     "cfg = llama3_8b_finetune_config()\ncfg.model.recipe = \"llama3_8b_finetune_config\"\n"
     "cfg.model.context_parallel_size = 2\n",
     "cfg.model.recipe = \"llama3_8b_finetune_config\"\ncfg.model.context_parallel_size = 2\n"
     "cfg.model.calculate_per_token_loss = True\ncfg.ddp.average_in_collective = False\n",
     "calculate_per_token"},
    {kB, "packed sequences need micro-batch 1",
     "cfg.dataset.packed_sequence_size = 4096\ncfg.train.micro_batch_size = 2\n",
     "cfg.dataset.packed_sequence_size = 4096\n", "train.micro_batch_size=1"},
    {kB, "checkpoint format", "cfg.ddp.use_megatron_fsdp = True\ncfg.checkpoint.save = \"x\"\n",
     "cfg.ddp.use_megatron_fsdp = True\n", "fsdp_dtensor"},
    {kT, "keys that torchtitan has", "tensor_parralel_degree = 2\n", "tensor_parallel_degree = 2\n",
     "parallelism.tensor_parallel_degree"},
    {kT, "keys that torchtitan has", "[activation_chekpoint]\nmode = \"full\"\n",
     "[activation_checkpoint]\nmode = \"full\"\n", "activation_checkpoint.mode"},
    {kD, "keys that DeepSpeed has",
     R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stagee": 2}})",
     R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, "my_own": 1})",
     "zero_optimization.stage"},
    {kD, "keys that DeepSpeed has",
     R"({"train_micro_batch_size_per_gpu": 1, "zero_optimisation": {"stage": 2}})",
     R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}})",
     "zero_optimization.stage"},
    {kA, "sharding strategies that FSDP has",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: FOO\n",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n",
     "SHARD_GRAD_OP"},
    {kA, "keys that accelerate has", "distributed_type: FSDP\nfsdp_config:\n  fsdp_versoin: 2\n",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n", "fsdp_config.fsdp_version"},
    {kT, "mixed precision needs sharding",
     "data_parallel_shard_degree = 1\ntensor_parallel_degree = 4\n"
     "pipeline_parallel_degree = 4\n",
     "data_parallel_shard_degree = 2\ntensor_parallel_degree = 8\n",
     "data_parallel_shard_degree to 2"},
    {kT, "mixed precision needs sharding", "tensor_parallel_degree = 16\n",
     "tensor_parallel_degree = 8\n", "training.dtype"},
    {kT, "keys that torchtitan v0.2 has", "[compile]\nconponent_list = 1\n[compile.model]\nx = 1\n",
     "[compile]\nenable = true\n", "job.custom_config_module"},
    {kT, "embedding and head in a stage",
     "pipeline_parallel_degree = 4\npipeline_parallel_first_stage_less_layers = 100\n",
     "pipeline_parallel_degree = 4\npipeline_parallel_first_stage_less_layers = 11\n",
     "pipeline_parallel_first_stage_less_layers = 11 or less"},
    {kT, "embedding and head in a stage",
     "pipeline_parallel_degree = 4\npipeline_parallel_last_stage_less_layers = 100\n",
     "pipeline_parallel_degree = 4\npipeline_parallel_last_stage_less_layers = 2\n",
     "use parallelism.pipeline_parallel_last_stage_less_layers"},
    {kT, "stages % pp", "pipeline_parallel_degree = 4\npipeline_parallel_layers_per_stage = 12\n",
     "pipeline_parallel_degree = 4\npipeline_parallel_layers_per_stage = 9\n", "= 11"},
    {kT, "stages % pp",
     "pipeline_parallel_degree = 4\npipeline_parallel_layers_per_stage = 9\n"
     "pipeline_parallel_schedule = \"Interleaved1F1B\"\n",
     "pipeline_parallel_degree = 4\npipeline_parallel_layers_per_stage = 3\n"
     "pipeline_parallel_schedule = \"Interleaved1F1B\"\n",
     "layers_per_stage = 3"},
    {kT, "pipeline_parallel_schedule",
     "pipeline_parallel_degree = 2\npipeline_parallel_schedule = \"Foo\"\n",
     "pipeline_parallel_degree = 2\npipeline_parallel_schedule = \"interleaved1f1b\"\n",
     "1F1B, Interleaved1F1B, GPipe"},
    {kT, "local batch % pipeline micro-batch",
     "pipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 3\n",
     "pipeline_parallel_degree = 2\npipeline_parallel_microbatch_size = 2\n", "= 1"},
    {kD, "keys that DeepSpeed has",
     R"({"zero_optimisation": {"stage": 1}, "train_batch_size": 16})",
     R"({"zero_optimization": {"stage": 1}, "train_batch_size": 16})", "zero_optimization.stage"},
    {kD, "train_batch = micro * accumulation * dp",
     R"({"train_batch_size": 100, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4})",
     R"({"train_batch_size": 128, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4})",
     "train_batch_size 128"},
    {kD, "fp32 sums need a ZeRO stage",
     R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}, "train_micro_batch_size_per_gpu": 1})",
     R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}, "zero_optimization": {"stage": 1}})",
     "stage 1"},
    {kD, "offload_param needs stage 3",
     R"({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}})",
     R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})", "stage 3"},
    {kD, "offload_optimizer needs ZeRO",
     R"({"zero_optimization": {"offload_optimizer": {"device": "cpu"}}})",
     R"({"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}})", "stage 1"},
    {kD, "offload devices that DeepSpeed has",
     R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "gpu"}}})",
     R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}})", "cpu, nvme"},
    {kD, "bf16 or fp16", R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})",
     R"({"bf16": {"enabled": true}, "fp16": {"enabled": false}})", "fp16"},
    {kD, "dp % mics_shard_size", R"({"zero_optimization": {"stage": 3, "mics_shard_size": 5}})",
     R"({"zero_optimization": {"stage": 3, "mics_shard_size": 4}})", "divisor of 16"},
    {kA, "keys that accelerate has", "distributed_type: MULTI_GPU\nmixed_precison: bf16\n",
     "distributed_type: MULTI_GPU\nmixed_precision: bf16\n", "mixed_precision"},
    {kA, "parallelism_config needs FSDP version 2",
     "distributed_type: FSDP\nparallelism_config:\n  parallelism_config_dp_shard_size: 16\n",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nparallelism_config:\n"
     "  parallelism_config_dp_shard_size: 16\n",
     "fsdp_version: 2"},
    {kA, "FSDP needs shards",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nparallelism_config:\n"
     "  parallelism_config_tp_size: 2\n",
     "distributed_type: MULTI_GPU\nparallelism_config:\n  parallelism_config_tp_size: 2\n",
     "MULTI_GPU"},
    {kA, "cp or sp",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nparallelism_config:\n"
     "  parallelism_config_cp_size: 2\n  parallelism_config_sp_size: 2\n",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nparallelism_config:\n"
     "  parallelism_config_cp_size: 2\n",
     "sp_size: 1"},
    {kA, "dp_replicate with tp or cp needs dp_shard",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nparallelism_config:\n"
     "  parallelism_config_dp_replicate_size: 8\n  parallelism_config_tp_size: 2\n",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nparallelism_config:\n"
     "  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 4\n"
     "  parallelism_config_tp_size: 2\n",
     "dp_shard_size: 8"},
    {kM, "mxfp8 needs Blackwell", "--fp8-format hybrid --fp8-recipe mxfp8",
     "--fp8-format hybrid --fp8-recipe tensorwise", "tensorwise"},
    {kB, "mxfp8 needs Blackwell", "cfg.mixed_precision = \"bf16_with_mxfp8_mixed\"\n",
     "cfg.mixed_precision = \"bf16_mixed\"\n", "current_scaling"},
    {kT, "async tensor parallelism needs compile",
     "tensor_parallel_degree = 2\nenable_async_tensor_parallel = true\n",
     "tensor_parallel_degree = 2\nenable_async_tensor_parallel = true\n[compile]\nenable = true\n",
     "enable = true"},
    {kA, "values that FSDP's plugin takes",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_WRAP\n",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_auto_wrap_policy: transformer_based_wrap\n",
     "TRANSFORMER_BASED_WRAP"},
    {kA, "efficient loading needs synchronised states",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_sync_module_states: false\n",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_sync_module_states: false\n  "
     "fsdp_cpu_ram_efficient_loading: false\n",
     "fsdp_sync_module_states: true"},
    {kA, "reshard_after_forward of FSDP version 1",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_reshard_after_forward: SHARD_GRAD_OP\n",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n",
     "fsdp_sharding_strategy"},
    {kB, "values that Megatron-Bridge takes", "cfg.mixed_precision = \"bf16_mixd\"\n",
     "cfg.mixed_precision = \"bf16_mixed\"\n", "bf16_mixed"},
    {kA, "reshard_after_forward is a switch",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: "
     "FULL_SHARD\n",
     "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: "
     "true\n",
     "true"},
    {kT, "values that torchtitan takes", "fsdp_reshard_after_forward = \"allways\"\n",
     "fsdp_reshard_after_forward = \"always\"\n", "always"},
    {kD, "values that DeepSpeed takes",
     R"({"train_micro_batch_size_per_gpu": 1, "communication_data_type": "bf17"})",
     R"({"train_micro_batch_size_per_gpu": 1, "communication_data_type": "BF16"})", "bf16"},
    {kA, "values that accelerate takes", "distributed_type: FSDP\nmixed_precision: bf17\n",
     "distributed_type: FSDP\nmixed_precision: BF16\n", "bf16"},
    {kB, "fields that Megatron-Bridge has", "cfg.model.tensor_model_paralel_size = 2\n",
     "cfg.model.tensor_model_parallel_size = 2\n", "model.tensor_model_parallel_size"},
    {kD, "keys that DeepSpeed has",
     R"({"train_batch_size": 16, "activation_checkpointing": {"cpu_checkpoint": true}})",
     R"({"train_batch_size": 16, "activation_checkpointing": {"cpu_checkpointing": true}})",
     "activation_checkpointing.cpu_checkpointing"},
    {kD, "keys that DeepSpeed has", R"({"train_batch_size": 16, "fp16": {"enable": true}})",
     R"({"train_batch_size": 16, "fp16": {"enabled": true, "initial_scale_power": 16}})",
     "fp16.enabled"},
    {kA, "keys that accelerate has",
     "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stages: 3\n",
     "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n", "zero_stage"},
    {kD, "1-bit optimizers without ZeRO",
     R"({"optimizer": {"type": "OneBitAdam"}, "zero_optimization": {"stage": 2}})",
     R"({"optimizer": {"type": "OneBitAdam"}, "train_batch_size": 16})", "stage 0"},
    {kD, "optimizers that ZeRO is tested with",
     R"({"optimizer": {"type": "Lamb"}, "zero_optimization": {"stage": 1}})",
     R"({"optimizer": {"type": "Lamb"}, "zero_optimization": {"stage": 1}, "zero_allow_untested_optimizer": true})",
     "zero_allow_untested_optimizer"},
    {kD, "optimizers that ZeRO is tested with",
     R"({"optimizer": {"type": "SGD"}, "zero_optimization": {"stage": 3}})",
     R"({"optimizer": {"type": "Lion"}, "zero_optimization": {"stage": 3}})",
     "zero_allow_untested_optimizer"},
    {kD, "Ulysses needs a ZeRO stage",
     R"({"bf16": {"enabled": true}, "sequence_parallel_size": 2})",
     R"({"bf16": {"enabled": true}, "sequence_parallel_size": 2, "zero_optimization": {"stage": 1}})",
     "stage 1"},
    {kT, "micro-batches >= stages",
     "pipeline_parallel_degree = 8\npipeline_parallel_microbatch_size = 2\n",
     "pipeline_parallel_degree = 8\npipeline_parallel_microbatch_size = 1\n",
     "local_batch_size = 16"},
    {kT, "micro-batches >= stages",
     "pipeline_parallel_degree = 8\npipeline_parallel_schedule = \"DualPipeV\"\n",
     "pipeline_parallel_degree = 4\npipeline_parallel_schedule = \"DualPipeV\"\n",
     "local_batch_size = 16"},
    {kT, "micro-batches >= stages",
     "pipeline_parallel_degree = 4\npipeline_parallel_schedule = \"gpipe\"\n[experimental]\n"
     "pipeline_parallel_microbatches = 2\n",
     "pipeline_parallel_degree = 4\npipeline_parallel_schedule = \"gpipe\"\n[experimental]\n"
     "pipeline_parallel_microbatches = 4\n",
     "pipeline_parallel_microbatches = 4"},
    {kM, "distributed optimizer instances",
     "EXPERTS --expert-model-parallel-size 8 --tensor-model-parallel-size 2 --sequence-parallel "
     "--use-distributed-optimizer --num-distributed-optimizer-instances 2",
     "EXPERTS --expert-model-parallel-size 4 --tensor-model-parallel-size 2 --sequence-parallel "
     "--use-distributed-optimizer --num-distributed-optimizer-instances 2",
     "use a divisor of 1"},
    {kM, "distributed optimizer instances",
     "--context-parallel-size 16 --use-distributed-optimizer "
     "--num-distributed-optimizer-instances 3",
     "--context-parallel-size 16 --use-distributed-optimizer "
     "--num-distributed-optimizer-instances 2",
     "use a divisor of 16"},
    {kM, "recompute granularity, method, number",
     "--recompute-activations --recompute-granularity full --recompute-method uniform "
     "--recompute-num-layers 1",
     "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
     "leave out --recompute-activations"},
    {kM, "recompute granularity, method, number",
     "--recompute-activations --recompute-granularity full", "--recompute-activations",
     "leave out one of the two"},
};

const LaunchViolation* find(const RuleReport& report, const std::string& rule) {
  const auto found = std::find_if(report.violations.begin(), report.violations.end(),
                                  [&](const auto& violation) { return violation.rule == rule; });
  return found == report.violations.end() ? nullptr : &*found;
}

TEST(LaunchRules, EachIsBrokenByOneConfigurationAndNotByTheNext) {
  for (const Case& row : kCases) {
    if (!reads_format(row.format)) {
      continue;  // built without toml++ or yaml-cpp
    }
    SCOPED_TRACE(std::string(row.rule) + ": " + row.broken);
    const RuleReport report = report_of(row, row.broken);
    const LaunchViolation* violation = find(report, row.rule);
    ASSERT_NE(violation, nullptr);
    EXPECT_NE(violation->fix.find(row.fix), std::string::npos) << violation->fix;
    EXPECT_FALSE(violation->detail.empty());
    EXPECT_EQ(find(report_of(row, row.holds), row.rule), nullptr);
  }
}

// One finding for a value that no release takes, none for those that some release does.
TEST(LaunchRules, OnlyWordsThatNoReleaseTakesAreWrong) {
  struct Value {
    LaunchFormat format;
    const char *key, *wrong, *right;
  };
  const Value values[] = {
      {kM, "optimizer", "adamw", "dist_muon"},
      {kM, "recompute_granularity", "ful", "selective"},
      {kM, "exp_avg_dtype", "fp12", "fp8"},
      {kM, "moe_router_load_balancing_type", "aux_los", "aux_loss seq_aux_loss"},
      {kM, "cp_comm_type", "p2", "a2a+p2p"},
      {kM, "lr_decay_style", "cosin", "my_own_style"},
      {kM, "attention_backend", "AttnBackend.fussed", "AttnBackend.fused"},
      {kM, "fp8_format", "e5m2", "hybrid"},
      {kM, "lr", "1e-4x", "1e-4"},
      {kM, "clip_grad", "1.0.", ".5"},
      {kM, "train_iters", "500k", "500_000"},
      {kB, "moe_router_score_function", "sigmod", "sigmoid"},
      {kB, "attention_backend", "AttnBackend.fussed", "AttnBackend.fused"},
      {kB, "main_grads_dtype", nullptr, "torch.bfloat16"},
      {kB, "mixed_precision", "bf16_mixd", "bf16-mixed"},
      {kB, "mixed_precision", nullptr, "bf16_mixed(grad_reduce_in_fp32=False)"},
      {kT, "optimizer.name", "adamw", "AdamW"},
      {kT, "training.dtype", "bf16", "bfloat16"},
      {kT, "training.mixed_precision_param", "fp32", "float32"},
      {kT, "compile.components", "model los", "model loss"},
      {kT, "model.converters", "quantize.linear.flaot8", "quantize.linear.float8"},
      {kT, "lr_scheduler.decay_type", "cos", "cosine"},
      {kD, "data_types.grad_accum_dtype", "fp31", "bfloat16"},
      {kD, "optimizer.type", "AdmW", "adamw"},
      {kD, "optimizer.type", "Adom", "MyOwnOptimizer"},
      {kD, "scheduler.type", "WarmupCosinLR", "WarmupCosineLR"},
      {kA, "mixed_precision", "bf17", "no"},
      {kA, "mixed_precision", "int8", "False"},
      {kA, "dynamo_config.dynamo_backend", "INDUKTOR", "inductor"},
      {kA, "dynamo_config.dynamo_mode", "fast", "reduce-overhead"},
      {kA, "fp8_config.fp8_backend", "xe", "TE"},
      {kA, "deepspeed_config.offload_optimizer_device", "gpu", "cpu"},
      {kA, "parallelism_config.parallelism_config_cp_comm_strategy", "ring", "alltoall"},
  };
  const auto finding = [](const Value& value, const char* text) {
    LaunchConfig config;
    config.format = value.format;
    config.settings.push_back({value.key, text, value.key, 1});
    return values_known(config, {});
  };
  for (const Value& value : values) {
    EXPECT_FALSE(finding(value, value.right)) << value.key << " " << value.right;
    EXPECT_TRUE(value.wrong == nullptr || finding(value, value.wrong)) << value.key;
  }
  EXPECT_EQ(finding({kT, "optimizer.name", "", ""}, "Adamw")->fix, "use AdamW");
  EXPECT_EQ(finding({kT, "model.converters", "", ""}, "my.own")->severity, Severity::kWarning);
}

TEST(LaunchRules, AnotherAxisIsNoSlip) {
  const LaunchConfig config =
      read_launch(kA,
                  "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n"
                  "parallelism_config:\n  parallelism_config_ep_size: 2\n",
                  "f", {});
  for (const LaunchSetting& setting : config.unknown) {
    EXPECT_EQ(setting.meant, "") << setting.key;
  }
}

TEST(LaunchRules, TorchtitanSequenceAndExperts) {
  if (!reads_format(LaunchFormat::kTorchtitan)) {
    GTEST_SKIP() << "built without toml++";
  }
  const auto report = [](const std::string& text) {
    const LaunchConfig config = read_torchtitan(text, "t", {});
    return check_launch(config, make_launch_case(config, {.cluster = "dgx-h100x2"}));
  };
  const std::string llama =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\ntensor_parallel_degree = 8\n";
  const RuleReport odd = report(llama + "[training]\nseq_len = 2056\n");
  ASSERT_NE(find(odd, "seq % (tp * 2 * cp)"), nullptr);  // 2056 / 16 = 128.5
  EXPECT_NE(find(odd, "seq % (tp * 2 * cp)")->fix.find("2048 or 2064"), std::string::npos);
  EXPECT_EQ(find(report(llama + "[training]\nseq_len = 2064\n"), "seq % (tp * 2 * cp)"), nullptr);
  const std::string experts =
      "[model]\nname = \"qwen3\"\nflavor = \"30B-A3B\"\n[parallelism]\nexpert_parallel_degree = ";
  EXPECT_NE(find(report(experts + "32\n"), "(dp_shard * cp * tp) % ep"), nullptr);
  EXPECT_EQ(find(report(experts + "16\n"), "(dp_shard * cp * tp) % ep"), nullptr);
}

TEST(LaunchRules, EveryRowHasItsTest) {
  // These have a test of their own.
  std::set<std::string> tested = {"seq % (tp * 2 * cp)",
                                  "(dp_shard * cp * tp) % ep",
                                  "experts in transformers' loop",  // check_cases_test
                                  "models and flavors that torchtitan has",
                                  "models that torchtitan cuts into stages",
                                  "attention with context parallelism",  // check_readings_test
                                  "keys that the trainer has",
                                  "DeepSpeed or FSDP",
                                  "the JSON's batch is the run's"};  // trainer_keys_test
  for (const Case& row : kCases) {
    tested.insert(row.rule);
  }
  for (const LaunchFormat format : {kM, kB, kT, kD, kA}) {
    for (const auto& table : rule_tables(format)) {
      for (const LaunchRule& rule : table) {
        EXPECT_TRUE(tested.contains(std::string(rule.name))) << rule.name;
      }
    }
  }
}

TEST(LaunchRules, RulesOfEveryLayoutAreReportedOnceWithAFix) {
  const Case heads{kM, "heads % tp", "--tensor-model-parallel-size 3 --num-attention-heads 16", "",
                   ""};
  const RuleReport report = report_of(heads, heads.broken);
  EXPECT_EQ(std::count_if(report.violations.begin(), report.violations.end(),
                          [](const auto& violation) { return violation.rule == "heads % tp"; }),
            1);
  EXPECT_NE(find(report, "heads % tp")->fix.find("--tensor-model-parallel-size 1, 2 or 4"),
            std::string::npos)
      << find(report, "heads % tp")->fix;
  EXPECT_FALSE(report.layout_holds);
  EXPECT_EQ(find(report, "gpus = tp * pp * cp * fsdp * dp"), nullptr);  // as world % (tp * pp * cp)
}

TEST(LaunchRules, ValuesOfAFixHold) {
  const Case batch{kM, "global_batch % (dp * micro_batch)", "--micro-batch-size 3", "", ""};
  const RuleReport report = report_of(batch, batch.broken);
  const LaunchViolation* violation = find(report, batch.rule);
  ASSERT_NE(violation, nullptr);  // 64 over 16 x 3
  EXPECT_NE(violation->fix.find("--global-batch-size 48, 96"), std::string::npos) << violation->fix;
  EXPECT_NE(violation->fix.find("--micro-batch-size 1, 2 or 4"), std::string::npos)
      << violation->fix;
}

TEST(LaunchRules, ThousandsOfChunksAreNotListed) {
  const LaunchConfig config =
      read_megatron(std::string(kGpt) +
                        " --num-layers 50001 --pipeline-model-parallel-size 4 "
                        "--num-virtual-stages-per-pipeline-rank 5000",
                    "f", {});
  const LaunchCase found = make_launch_case(config, {.cluster = "dgx-h100x2"});
  const auto broken = broken_rules(found.job, found.plan);
  const auto layers = std::find_if(broken.begin(), broken.end(), [](const Violation& violation) {
    return violation.rule == Rule::kLayersDivide;
  });
  ASSERT_NE(layers, broken.end());
  EXPECT_LT(layers->detail.size(), 200U);
}

TEST(LaunchRules, AFixBreaksNoOtherRule) {
  // Mixtral on 16 GPUs: no size of the experts' tensor parallelism makes 8 x 4 fit into 16.
  const std::string mixtral =
      "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
      "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
      "--ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
      "--num-query-groups 8 --seq-length 4096 --max-position-embeddings 32768 --swiglu "
      "--vocab-size 32000 --num-experts 8 --moe-router-topk 2 --bf16 --micro-batch-size 1 "
      "--global-batch-size 64 --use-distributed-optimizer ";
  const auto report = [&](const std::string& layout) {
    const LaunchConfig config = read_megatron(mixtral + layout, "f", {});
    return check_launch(config, make_launch_case(config, {.cluster = "dgx-h100x2"}));
  };
  const RuleReport grid = report("--expert-model-parallel-size 8 --pipeline-model-parallel-size 4");
  ASSERT_FALSE(grid.violations.empty());
  const std::string fix = grid.violations.front().fix;
  EXPECT_EQ(fix.find("expert-tensor-parallel-size"), std::string::npos) << fix;
  ASSERT_NE(fix.find("--expert-model-parallel-size 1, 2 or 4"), std::string::npos) << fix;
  for (const char* experts : {"1", "2", "4"}) {
    const RuleReport mended = report(
        "--pipeline-model-parallel-size 4 "
        "--expert-model-parallel-size " +
        std::string(experts));
    EXPECT_TRUE(mended.violations.empty() || mended.violations.front().severity != Severity::kError)
        << experts << ": " << mended.violations.front().rule;
  }
}

// Model-Optimizer#1302: 4 shards on 8 processes; 4 and 8 ranks of tensor parallelism make no 8 with
// them, and an FSDP file has no stages.
TEST(LaunchRules, AFixMultipliesWithTheFilesOwnDegrees) {
  if (!reads_format(LaunchFormat::kAccelerate)) {
    GTEST_SKIP() << "built without yaml-cpp";
  }
  const std::string file =
      "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n"
      "parallelism_config:\n  parallelism_config_dp_shard_size: 4\n";
  const auto report = [](const std::string& text) {
    const LaunchConfig config = read_accelerate(text, "f", {});
    return check_launch(
        config, make_launch_case(
                    config, {.model = "llama-3.2-1b", .cluster = "dgx-h100x1", .sequence = 4096}));
  };
  const RuleReport broken = report(file);
  const LaunchViolation* product = find(broken, "gpus = tp * pp * cp * fsdp * dp");
  ASSERT_NE(product, nullptr);
  for (const char* mends :
       {"parallelism_config_dp_replicate_size: 2", "parallelism_config_dp_shard_size: 8",
        "parallelism_config_tp_size: 2", "parallelism_config_cp_size: 2"}) {
    EXPECT_NE(product->fix.find(mends), std::string::npos) << product->fix;
    const bool replaces = std::string_view(mends).starts_with("parallelism_config_dp_shard_size");
    const RuleReport mended =
        report((replaces ? file.substr(0, file.find("  parallelism_config_dp_shard")) : file) +
               "  " + mends + "\n");
    EXPECT_TRUE(mended.ranks_hold) << mends;
  }
  for (const char* wrong : {"megatron_lm", "tp_size: 2, 4", "cp_size: 2, 4"}) {
    EXPECT_EQ(product->fix.find(wrong), std::string::npos) << product->fix;
  }
}

TEST(LaunchRules, BlackwellNeedsNoSingleConnection) {
  const LaunchConfig config = read_megatron(
      "torchrun --nproc_per_node 8 p.py --num-layers 24 --hidden-size 2048 --num-attention-heads "
      "16 "
      "--seq-length 2048 --vocab-size 51200 --bf16 --tensor-model-parallel-size 2 "
      "--micro-batch-size 1",
      "f", {});
  const auto report = [&](const char* cluster) {
    return check_launch(config, make_launch_case(config, {.cluster = cluster}));
  };
  EXPECT_EQ(find(report("dgx-b200x1"), "CUDA_DEVICE_MAX_CONNECTIONS == 1"), nullptr);
  ASSERT_NE(find(report("dgx-h100x1"), "CUDA_DEVICE_MAX_CONNECTIONS == 1"), nullptr);
  EXPECT_EQ(find(report("dgx-h100x1"), "CUDA_DEVICE_MAX_CONNECTIONS == 1")->severity,
            Severity::kError);
}

TEST(LaunchRules, RanksBeyondTheClusterAndPrecisionsItLacks) {
  const LaunchConfig config = read_megatron(std::string(kGpt), "f", {});
  const RuleReport few = check_launch(config, make_launch_case(config, {.cluster = "dgx-h100x1"}));
  ASSERT_NE(find(few, "ranks <= GPUs of the cluster"), nullptr);
  EXPECT_FALSE(few.ranks_hold);
  const RuleReport old = check_launch(config, make_launch_case(config, {.cluster = "dgx1-v100x2"}));
  EXPECT_NE(find(old, "precision of the GPU"), nullptr);
}

}  // namespace
}  // namespace trireme::planner
