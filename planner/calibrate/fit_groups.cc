// Which constants are fitted, with what is known of each without a published run, and on which
// sources.
#include "planner/calibrate/fit.h"

namespace trireme::planner {

namespace {

FitConstant card(const char* entry, const char* name, double prior, double width) {
  return {FitConstant::Owner::kGpu, {entry}, name, prior, width};
}

FitConstant shared(std::vector<std::string> entries, const char* name, double prior, double width) {
  return {FitConstant::Owner::kFramework, std::move(entries), name, prior, width};
}

// One constant a cause: what is of PyTorch's eager interpreter, of unfused passes or of a
// collective beside compute is the same whoever calls it.
const std::vector<std::string> fused = {"megatron", "megatron-fsdp"};
const std::vector<std::string> compiled = {"fsdp1-compiled", "fsdp2-compiled"};
const std::vector<std::string> torch = {"fsdp1", "fsdp2", "fsdp1-compiled", "fsdp2-compiled"};
const std::vector<std::string> megatron = {"megatron", "megatron-classic", "megatron-fsdp",
                                           "deepspeed", "deepspeed-2021"};

}  // namespace

std::vector<FitConstant> fit_constants() {
  return {
      // cuBLAS reaches 0.93 in short runs (aiconfigurator) and under load, as on H100, 0.92 of
      // that.
      card("A100-SXM4-80GB", "matmul_efficiency", 0.85, 0.08),
      card("A100-SXM4-80GB", "matmul_half_k", 150, 0.3),
      card("A100-SXM4-80GB", "kernel_seconds", 3e-6, 0.2),
      // H100's by its watts (0.71).
      card("H100-SXM-96GB-HBM2e", "matmul_efficiency", 0.57, 0.08),
      card("H100-SXM-96GB-HBM2e", "portable_attention_efficiency", 0.26, 0.1),
      // A kernel takes PyTorch's interpreter and autograd 40 to 70 us on the hosts of traced steps.
      shared({"megatron-classic"}, "host_factor", 10, 0.25),
      shared({"fsdp1", "fsdp2"}, "host_factor", 12, 0.3),
      // DeepSpeed's with it: under the old megatron's 12 the fine-tuning runs of transformers with
      // DeepSpeed (87 of 2026's corpus, one A100) came out 62 % too slow.
      shared({"megatron", "megatron-fsdp", "deepspeed", "deepspeed-2021"}, "host_factor", 1.5, 0.4),
      shared({"megatron-classic", "fsdp2", "deepspeed", "deepspeed-2021"}, "memory_traffic", 0.9,
             0.15),
      // Low-precision layer norms of llm-foundry, fused residuals.
      shared({"fsdp1"}, "memory_traffic", 0.8, 0.2),
      shared(fused, "memory_traffic", 1.6, 0.15),
      shared(compiled, "memory_traffic", 1.5, 0.15),
      // Products took 7 % more beside DDP's all-reduce, a traced step says: 0.41 of it.
      shared(torch, "overlap_slowdown", 0.35, 0.2),
      shared(megatron, "overlap_slowdown", 0.35, 0.3),
      shared({"megatron-classic", "deepspeed", "deepspeed-2021"}, "exchange_seconds", 2e-4, 0.5),
      shared({"megatron", "megatron-fsdp"}, "exchange_seconds", 5e-5, 0.7),
      shared({"megatron-classic", "deepspeed", "deepspeed-2021", "fsdp1", "fsdp2", "fsdp1-compiled",
              "fsdp2-compiled"},
             "step_seconds", 3e-3, 0.7),
      // Megatron's timers, barriers and loss scaling: its small models of the regression tests take
      // that long.
      shared(fused, "step_seconds", 0.03, 0.3),
      shared({"fsdp2"}, "tensor_host_seconds", 0.01, 0.5),
      // Triton's flash attention of 2023 took twice FlashAttention-2's time on A100, less later.
      shared({"fsdp1"}, "attention_rate", 0.6, 0.15),
      // cuBLAS of CUDA 12.0 and 12.1 on Hopper, over today's.
      shared({"fsdp1", "fsdp1-compiled"}, "new_card_rate", 0.83, 0.08),
  };
}

// BigScience's nodes were slowed by their PCIe and NUMA settings until the day they were changed:
// nothing here says so.
std::vector<FitSource> fit_sources() {
  return {{"korthikanti_2022", 0.06},   {"megatron_sc21", 0.06},    {"vtrain_single_node", 0.08},
          {"vtrain_multi_node", 0.10},  {"bloom_bigscience", 0.13}, {"zero_bubble_2024", 0.08},
          {"nemo_launcher_a100", 0.12}, {"llm_foundry_mpt", 0.06},  {"torch_h200", 0.06},
          {"pytorch_side", 0.06},       {"torchtitan", 0.10}};
}

}  // namespace trireme::planner
