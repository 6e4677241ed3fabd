#include "planner/launch/export.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/write_accelerate.h"
#include "planner/launch/write_deepspeed.h"
#include "planner/launch/write_megatron.h"
#include "planner/launch/write_megatron_bridge.h"
#include "planner/launch/write_torchtitan.h"

namespace trireme::planner {
namespace {

struct Route {
  LaunchFormat format;
  // What the format starts; the first is what a plan for trireme becomes.
  std::vector<std::string_view> frameworks;
  LaunchFile (*write)(const LaunchPlan&);
};

const std::vector<Route>& routes() {
  static const std::vector<Route> kRoutes = {
      {LaunchFormat::kMegatron, {"megatron", "megatron-fsdp", "fsdp2"}, write_megatron},
      {LaunchFormat::kMegatronBridge, {"megatron", "megatron-fsdp"}, write_megatron_bridge},
      {LaunchFormat::kTorchtitan, {"fsdp2"}, write_torchtitan},
      {LaunchFormat::kDeepspeed, {"deepspeed"}, write_deepspeed},
      {LaunchFormat::kAccelerate, {"fsdp2", "fsdp1"}, write_accelerate},
  };
  return kRoutes;
}

const Route& route_of(LaunchFormat format) {
  return *std::find_if(routes().begin(), routes().end(),
                       [&](const Route& route) { return route.format == format; });
}

}  // namespace

LaunchFormat default_launch_format(const std::string& framework) {
  if (framework.starts_with("megatron")) {
    return LaunchFormat::kMegatron;
  }
  if (framework == "fsdp1") {
    return LaunchFormat::kAccelerate;
  }
  if (framework == "fsdp2") {
    return LaunchFormat::kTorchtitan;
  }
  if (framework == "deepspeed") {
    return LaunchFormat::kDeepspeed;
  }
  refuse("--format", fmt::format("is missing; a plan for {} can become one of {}", framework,
                                 fmt::join(launch_format_names(), ", ")));
}

std::string launched_framework(LaunchFormat format, const std::string& framework,
                               Sharding sharding) {
  const Route& route = route_of(format);
  if (framework == "trireme") {
    const bool megatron = route.frameworks.front() == "megatron";
    const bool fsdp = sharding == Sharding::kFull || sharding == Sharding::kGradients;
    return megatron && fsdp ? "megatron-fsdp" : std::string(route.frameworks.front());
  }
  if (std::find(route.frameworks.begin(), route.frameworks.end(), framework) ==
      route.frameworks.end()) {
    refuse("--format",
           fmt::format("{} does not start {}; --framework {} would be right", to_string(format),
                       framework, fmt::join(route.frameworks, " or ")));
  }
  return framework;
}

void settle_launched_job(LaunchFormat format, LaunchPlan& launch) {
  Job& job = launch.job;
  const bool transformers = format == LaunchFormat::kAccelerate;
  if ((transformers || format == LaunchFormat::kTorchtitan) && job.model.multi_token_layers > 0) {
    job.model.multi_token_layers = 0;
    launch.notes.push_back(fmt::format("{}'s extra prediction module is left out: {} has none.",
                                       job.model.name,
                                       transformers ? "transformers" : "torchtitan"));
  }
  const bool megatron =
      format == LaunchFormat::kMegatron || format == LaunchFormat::kMegatronBridge;
  if (megatron && job.precision == topologies::Precision::kFp16 && job.framework.reduce_bytes > 2) {
    job.framework.gradient_bytes = job.framework.reduce_bytes = 2;
    launch.notes.emplace_back(
        "Gradients are accumulated and reduced in fp16, as Megatron does under --fp16.");
  }
  const bool local = job.framework.implementation == models::Implementation::kClassicMegatron;
  if (megatron && local && job.model.norm == models::Norm::kRmsNorm) {
    launch.notes.emplace_back(
        "Local layers with RMSNorm start only where Apex is not installed (its norm refuses it).");
  }
  if (megatron && local && job.model.moe) {
    launch.notes.emplace_back(
        "Local layers run experts one after the other, which the prediction does not have.");
  }
  // Its FSDP plugin gives parameters, reduction and output one type; DDP keeps fp32 gradients.
  const bool sharded =
      launch.plan.sharding != Sharding::kNone || job.framework.sharder == Sharder::kFsdp1;
  if (transformers && sharded && job.precision != topologies::Precision::kFp32 &&
      job.framework.reduce_bytes > 2) {
    job.framework.reduce_bytes = 2;
    launch.notes.emplace_back(
        "Gradients are reduced in 16 bits, as accelerate's mixed precision does.");
  }
}

bool is_in_launch_files(std::string_view setting) {
  constexpr std::string_view kWritten[] = {"overlap_grad_reduce",
                                           "overlap_param_gather",
                                           "tp_comm_overlap",
                                           "grad_dtype",
                                           "reduce_dtype",
                                           "parameter_dtype",
                                           "optimizer_dtype",
                                           "mixed_precision",
                                           "reshard_after_forward",
                                           "reduce_every_micro_batch",
                                           "cross_entropy_fusion",
                                           "compile",
                                           "dropout",
                                           "context_all_to_all",
                                           "dispatch_once",
                                           "expert_overlap",
                                           "loss_chunks",
                                           "implementation",
                                           "fp8_parameters",
                                           "gradient_accumulation_fusion",
                                           "p2p_overlap_interleaved",
                                           "pad_vocabulary",
                                           "traced_graph",
                                           "expandable_segments",
                                           "launch_blocking",
                                           "bucket_elements",
                                           "moment_bytes",
                                           "gradient_bytes",
                                           "reduce_bytes",
                                           "master_bytes"};
  return std::find(std::begin(kWritten), std::end(kWritten), setting) != std::end(kWritten);
}

LaunchFile write_launch(LaunchFormat format, const LaunchPlan& launch) {
  return route_of(format).write(launch);
}

}  // namespace trireme::planner
