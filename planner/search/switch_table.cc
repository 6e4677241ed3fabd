// Which switches frameworks have. Flags: Megatron-LM d98e8a64 training/arguments.py, torchtitan
// v0.2.2 config/job_config.py, PyTorch's allocator notes, accelerate 1.15's dynamo_config.
#include <fmt/format.h>

#include <algorithm>

#include "planner/plan/framework.h"
#include "planner/plan/shape.h"
#include "planner/search/counts.h"
#include "planner/search/switches.h"

namespace trireme::planner {
namespace {

constexpr std::string_view kFp8 = "precision=fp8";

struct FrameworkSwitch {
  std::string_view family;  // what a framework's name begins with, or its base
  Switch which;
  bool (*is_on)(const Job&);
};

bool fuses_loss(const Job& job) {
  return job.framework.cross_entropy_fusion;
}
bool compiles(const Job& job) {
  return job.framework.compile;
}
bool overlaps_tensor(const Job& job) {
  return job.framework.tp_comm_overlap;
}
bool overlaps_reduction(const Job& job) {
  return job.framework.overlap_grad_reduce;
}
bool overlaps_gather(const Job& job) {
  return job.framework.overlap_param_gather;
}
bool expands_segments(const Job& job) {
  return job.framework.expandable_segments;
}

// DeepEP and HybridEP are for Hopper and Blackwell of the data centre.
bool dispatches_once(const Job& job) {
  const int card = job.cluster.gpu.compute_capability;
  return !job.model.moe || job.framework.dispatch_once || card < 90 || card > 110;
}
bool overlaps_exchanges(const Job& job) {
  return !job.model.moe || job.framework.expert_overlap;
}

// Keys and values of a sequence that is worth spreading go round a ring, where this project's
// runtime has kernels for it (planner/lower/lower.cc, check_executable).
std::string_view part_without_ring(const Job& job, const Plan& plan) {
  if (job.model.function.attention_cap > 0) {
    return "capped scores";
  }
  for (std::int64_t layer = 0; layer < models::trained_layers(job.model); ++layer) {
    if (const std::string_view part = modelled_part(job, plan, layer); !part.empty()) {
      return part;
    }
  }
  return {};
}

bool has_no_ring_to_offer(const Job& job) {
  constexpr bool kNamed = false;
  if (!job.framework.context_gather || job.framework.context_all_to_all ||
      context_degrees(job, job.cluster.gpus, kNamed).size() == 1) {
    return true;
  }
  Job ring = job;
  ring.framework.context_gather = false;
  Plan spread;
  spread.context = 2;
  return !part_without_ring(ring, spread).empty();
}

constexpr std::string_view kExpandable = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";

constexpr FrameworkSwitch kSwitches[] = {
    {"megatron",
     {"fused loss", "cross_entropy_fusion=true", "--cross-entropy-loss-fusion"},
     [](const Job& job) { return fuses_loss(job) || job.framework.deterministic; }},
    {"megatron",
     {"gradient reduction beside backward", "overlap_grad_reduce=true", "--overlap-grad-reduce"},
     overlaps_reduction},
    {"megatron",
     {.name = "parameter gather beside forward",
      .setting = "overlap_param_gather=true",
      .flag = "--overlap-param-gather",
      .needs = "overlap_grad_reduce"},
     overlaps_gather},
    {"megatron",
     {"TP overlap", "tp_comm_overlap=true", "--tp-comm-overlap"},
     [](const Job& job) { return overlaps_tensor(job) || job.framework.deterministic; }},
    {"megatron",
     {"tokens sent once a node (DeepEP)", "dispatch_once=true",
      "--moe-token-dispatcher-type flex --moe-enable-deepep"},
     dispatches_once},
    {"megatron",
     {"expert exchanges beside another micro-batch", "expert_overlap=true",
      "--overlap-moe-expert-parallel-comm"},
     overlaps_exchanges},
    {"megatron",
     {"messages between stages beside compute", "p2p_overlap_interleaved=true",
      "without --no-overlap-p2p-communication"},
     [](const Job& job) { return job.framework.p2p_overlap_interleaved; }},
    {"megatron",
     {"expandable segments", "expandable_segments=true", kExpandable},
     expands_segments},
    {"megatron",
     {"16-bit gradient reduction", "grad_dtype=bf16", "--grad-reduce-in-bf16", true},
     [](const Job& job) { return job.framework.reduce_bytes < 4; }},
    {"megatron",
     {"weights in 8 bits only", "fp8_parameters=true", "--fp8-param-gather", true},
     [](const Job& job) {
       return job.framework.fp8_parameters || job.precision != topologies::Precision::kFp8;
     }},
    {"megatron", {"fp8", kFp8, "--fp8-format hybrid", true}, nullptr},
    {"fsdp2", {"compile", "compile=true", "[compile] enable = true"}, compiles},
    {"fsdp2",
     {"fused loss", "cross_entropy_fusion=true", "[compile] components = [\"loss\"]"},
     fuses_loss},
    {"fsdp2",
     {.name = "TP overlap",
      .setting = "tp_comm_overlap=true",
      .flag = "[parallelism] enable_async_tensor_parallel = true",
      .needs = "compile"},
     overlaps_tensor},
    {"fsdp2", {"expandable segments", "expandable_segments=true", kExpandable}, expands_segments},
    {"fsdp2", {"fp8", kFp8, "[model] converters = [\"quantize.linear.float8\"]", true}, nullptr},
    {"accelerate",
     {"compile", "compile=true", "dynamo_config: dynamo_backend: INDUCTOR"},
     compiles},
    {"accelerate",
     {"expandable segments", "expandable_segments=true", kExpandable},
     expands_segments},
    {"fsdp1", {"compile", "compile=true", "dynamo_config: dynamo_backend: INDUCTOR"}, compiles},
    {"fsdp1", {"expandable segments", "expandable_segments=true", kExpandable}, expands_segments},
    {"deepspeed",
     {"gradient reduction beside backward", "overlap_grad_reduce=true", "\"overlap_comm\": true"},
     overlaps_reduction},
    {"deepspeed",
     {"expandable segments", "expandable_segments=true", kExpandable},
     expands_segments},
    {"trireme",
     {.name = "ring context parallelism",
      .setting = "context_gather=false",
      .flag = "keys and values passed round a ring",
      .trades = true},
     has_no_ring_to_offer},
};

std::string_view key_of(std::string_view setting) {
  return setting.substr(0, setting.find('='));
}

// fp8 stands beside 16-bit training on a card that has it.
bool can_be_switched(const Job& job, const FrameworkSwitch& row) {
  using topologies::Precision;
  if (row.is_on == nullptr) {
    return job.precision == Precision::kBf16 &&
           job.cluster.gpu.peak_dense.contains(Precision::kFp8);
  }
  return !row.is_on(job);
}

// A program with rows of its own has no others, whatever it is built on.
std::string_view switch_family(const Framework& framework) {
  const auto begins = [&](const std::string& name) {
    const auto row =
        std::find_if(std::begin(kSwitches), std::end(kSwitches),
                     [&](const FrameworkSwitch& one) { return name.starts_with(one.family); });
    return row == std::end(kSwitches) ? std::string_view() : row->family;
  };
  const std::string_view own = begins(framework.name);
  return own.empty() ? begins(framework.base) : own;
}

}  // namespace

bool lacks_its_need(const Job& job, const Switch& one) {
  return !one.needs.empty() && setting_value(job.framework, std::string(one.needs)) == "false";
}

std::vector<Switch> switches_of(const Job& job, const std::vector<std::string>& given) {
  const std::string_view family = switch_family(job.framework);
  const auto decided = [&](std::string_view key) {
    return std::any_of(given.begin(), given.end(),
                       [&](const std::string& one) { return one == key; });
  };
  std::vector<Switch> found;
  for (const FrameworkSwitch& row : kSwitches) {
    const bool lacks = decided(row.which.needs) && lacks_its_need(job, row.which);
    if (row.family == family && !decided(key_of(row.which.setting)) && !lacks &&
        can_be_switched(job, row)) {
      found.push_back(row.which);
    }
  }
  return found;
}

std::string idle_ring(const Job& job, const Plan& plan) {
  if (job.framework.sharder != Sharder::kTrireme || plan.context == 1 ||
      context_form(job.framework) != ContextForm::kRing) {
    return {};
  }
  const std::string_view part = part_without_ring(job, plan);
  return part.empty() ? ""
                      : fmt::format(
                            "context_gather=false: this project's runtime has no ring "
                            "beside {}; its time is that of a framework's, and `run` "
                            "refuses it",
                            part);
}

void switch_on(Job& job, const Switch& one) {
  if (one.setting == kFp8) {
    job.precision = topologies::Precision::kFp8;
    return;
  }
  const std::string_view key = key_of(one.setting);
  apply_setting(job.framework, std::string(key), std::string(one.setting.substr(key.size() + 1)));
}

}  // namespace trireme::planner
