#include "planner/launch/export.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/launch_facts.h"
#include "planner/launch/launch_layout.h"
#include "planner/launch/megatron/megatron.h"
#include "planner/launch/refusals.h"
#include "topologies/node_groups.h"

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

void set_hosts(LaunchPlan& launch) {
  const topologies::Cluster& cluster = launch.job.cluster;
  // An NVL72 rack is one node of the topology, but 18 trays of two sockets and four GPUs start it.
  const topologies::Node& node = cluster.node;
  const std::int64_t sockets = std::clamp(node.sockets, 1, 2);
  const std::int64_t gpus =
      node.sockets > 2 ? std::max<std::int64_t>(1, node.gpus * sockets / node.sockets) : node.gpus;
  launch.processes_per_host = std::min(gpus, cluster.gpus);
  if (cluster.gpus % launch.processes_per_host != 0) {
    refuse("--gpus", fmt::format("{} GPUs are not whole hosts of {}; a launcher starts the same "
                                 "number of processes on each; {} or {} would be right",
                                 cluster.gpus, gpus, cluster.gpus / gpus * gpus,
                                 (cluster.gpus / gpus + 1) * gpus));
  }
  launch.hosts = cluster.gpus / launch.processes_per_host;
}

void refuse(std::string_view axis, const std::string& what) {
  throw Error(std::string(axis), what);
}

std::vector<std::string> heading(const LaunchPlan& launch, std::string_view command,
                                 std::string_view version, const std::string& expected) {
  const Job& job = launch.job;
  std::vector<std::string> lines = {
      fmt::format("Start {}: {}", where_to_start(launch), command),
      fmt::format("For {}; written by 'trireme export'.", version),
      fmt::format("{} on {} ({}), sequence {}, global batch {}", job.model.name, job.cluster.name,
                  topologies::cards_text(job.cluster), job.sequence, job.global_batch),
      fmt::format("Plan {}, {} micro-batches a step", short_form(launch.plan),
                  launch.plan.micro_batches),
      fmt::format("{}{}: step {:.4g} s, peak {:.2f} GiB allocated on the fullest GPU", kPredictedAs,
                  full_name(job.framework), launch.step_seconds, launch.peak_allocated_gib),
      "Its log should say: " + expected};
  lines.insert(lines.end(), launch.notes.begin(), launch.notes.end());
  return lines;
}

std::string commented(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += "# " + printable(line) + "\n";
  }
  return text;
}

std::string torchrun(const LaunchPlan& launch) {
  const bool slurm = launch.launcher == Launcher::kSlurm;
  std::string text = fmt::format("{}torchrun --nproc_per_node {} --nnodes {}", slurm ? "srun " : "",
                                 launch.processes_per_host, launch.hosts);
  if (slurm) {
    text +=
        " --rdzv_id \"$SLURM_JOB_ID\" --rdzv_backend c10d --rdzv_endpoint "
        "\"$MASTER_ADDR:29500\"";
  } else if (launch.hosts > 1) {
    text += " --node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port 29500";
  }
  return text;
}

std::string slurm_header(const LaunchPlan& launch) {
  return fmt::format(
      "#SBATCH --job-name=trireme\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --gpus-per-node={}\n#SBATCH --exclusive\n",
      launch.hosts, launch.processes_per_host);
}

std::int64_t warmup_steps(const LaunchPlan& launch) {
  return std::clamp<std::int64_t>(launch.steps / 10, 1, 2000);
}

std::vector<std::string> environment(const LaunchPlan& launch) {
  std::vector<std::string> variables;
  if (launch.job.framework.expandable_segments) {
    variables.emplace_back("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  }
  if (launch.job.framework.launch_blocking) {
    variables.emplace_back("CUDA_LAUNCH_BLOCKING=1");
  }
  return variables;
}

std::string environment_prefix(const LaunchPlan& launch) {
  std::string text;
  for (const std::string& variable : environment(launch)) {
    text += variable + " ";
  }
  return text;
}

std::string choices_of_the_program(const Job& job) {
  std::vector<std::string> choices;
  if (job.optimizer != Optimizer::kAdam) {
    choices.emplace_back(job.optimizer == Optimizer::kSgd ? "SGD" : "8-bit Adam");
  }
  if (job.attention == models::AttentionKernel::kUnfused) {
    choices.emplace_back("unfused attention");
  }
  if (job.framework.cross_entropy_fusion) {
    choices.emplace_back("fused cross entropy");
  }
  if (job.framework.loss_chunks > 1) {
    choices.push_back(fmt::format("a loss in {} chunks", job.framework.loss_chunks));
  }
  if (job.framework.dropout > 0) {
    choices.push_back(fmt::format("dropout {}", job.framework.dropout));
  }
  return fmt::format("{}", fmt::join(choices, ", "));
}

std::string where_to_start(const LaunchPlan& launch) {
  return launch.launcher == Launcher::kSlurm ? "on the login host"
         : launch.hosts == 1
             ? "on the host"
             : fmt::format("on each of {} hosts, with MASTER_ADDR and NODE_RANK set", launch.hosts);
}

LaunchFormat default_launch_format(std::string_view entry, std::string_view base) {
  // Programs that are named, before what they are built on.
  constexpr std::pair<std::string_view, LaunchFormat> kFormats[] = {
      {"megatron-bridge", LaunchFormat::kMegatronBridge},
      {"accelerate", LaunchFormat::kAccelerate},
      {"megatron", LaunchFormat::kMegatron},
      {"fsdp1", LaunchFormat::kAccelerate},
      {"fsdp2", LaunchFormat::kTorchtitan},
      {"deepspeed", LaunchFormat::kDeepspeed}};
  for (const auto& [start, format] : kFormats) {
    if (entry.starts_with(start) || base.starts_with(start)) {
      return format;
    }
  }
  refuse("--format", fmt::format("is missing; a plan for {} can become one of {}", entry,
                                 fmt::join(launch_format_names(), ", ")));
}

std::string launched_framework(LaunchFormat format, const Framework& framework, Sharding sharding) {
  const Route& route = route_of(format);
  const std::string& base = framework.base;
  if (base == "trireme") {
    const bool megatron = route.frameworks.front() == "megatron";
    const bool fsdp = sharding == Sharding::kFull || sharding == Sharding::kGradients;
    return program_of(format,
                      megatron && fsdp ? "megatron-fsdp" : std::string(route.frameworks.front()));
  }
  if (std::find(route.frameworks.begin(), route.frameworks.end(), base) == route.frameworks.end()) {
    refuse("--format", fmt::format("{} does not start {}; --framework {} would be right",
                                   to_string(format), base, fmt::join(route.frameworks, " or ")));
  }
  const std::string program = program_of(format, base);
  const std::string asked = full_name(framework);
  const std::string entry = asked.substr(0, asked.find('@'));
  const bool others = entry != program && is_program(entry);
  return asked == base || others ? program : asked;
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
  // Transformer Engine's loss, which writes over the logits, is of Megatron-Bridge's recipes alone.
  const double native = find_framework("megatron").fused_logit_bytes;
  if (format == LaunchFormat::kMegatron && job.framework.cross_entropy_fusion &&
      job.framework.fused_logit_bytes < native) {
    job.framework.fused_logit_bytes = native;
    launch.notes.emplace_back(
        "The fused loss is Megatron's native one, with fp32 copies of the logits: its trainer "
        "refuses Transformer Engine's.");
  }
  if (megatron && job.precision == topologies::Precision::kFp16 && job.framework.reduce_bytes > 2) {
    job.framework.gradient_bytes = job.framework.reduce_bytes = 2;
    launch.notes.emplace_back(
        "Gradients are accumulated and reduced in fp16, as Megatron does under --fp16.");
  }
  if (megatron && job.precision != topologies::Precision::kFp16 &&
      job.precision != topologies::Precision::kFp32 && job.optimizer != Optimizer::kSgd &&
      launch.plan.sharding == Sharding::kOptimizer && job.framework.sharder == Sharder::kBuffers &&
      small_moment_bytes(job) > 0 && job.framework.master_bytes == 4) {
    job.framework.master_bytes = 2;
    launch.notes.emplace_back(
        "Masters are 16-bit remainders, as Megatron-Core's precision-aware optimizer keeps them.");
  }
  if (megatron && job.precision != topologies::Precision::kFp16 &&
      job.precision != topologies::Precision::kFp32 && job.optimizer != Optimizer::kSgd &&
      job.offload.optimizer != OffloadTo::kNone && job.framework.master_bytes == 4 &&
      job.framework.sharder == Sharder::kBuffers) {
    job.framework.master_bytes = 2;
    launch.notes.emplace_back(
        "Masters are 16-bit remainders: an optimizer on the host needs the precision-aware one.");
  }
  if (megatron && job.offload.activations != OffloadTo::kNone &&
      job.offload.activation_share == 1 && job.model.layers > 1) {
    job.offload.activation_share =
        static_cast<double>(job.model.layers - 1) / static_cast<double>(job.model.layers);
    launch.notes.push_back(
        fmt::format("The activations of {} of {} layers go to the host: "
                    "--cpu-offloading-num-layers is below the model's.",
                    job.model.layers - 1, job.model.layers));
  }
  const bool local = job.framework.implementation == models::Implementation::kClassicMegatron;
  const bool rms_norm = job.model.norm == models::Norm::kRmsNorm;
  if (megatron && local && rms_norm) {
    launch.notes.emplace_back(
        "Local layers with RMSNorm start only where Apex is not installed (its norm refuses it).");
  }
  // Who has no Transformer Engine has seldom Apex, whose kernels the fused accumulation takes.
  const bool needs_apex = local && !rms_norm && launch.plan.sequence_parallel;
  if (megatron && needs_apex) {
    launch.notes.emplace_back(
        "Local layers with sequence parallelism start only with Apex, whose norm alone knows it.");
  } else if (megatron && local && job.framework.gradient_accumulation_fusion) {
    apply_setting(job.framework, "apex", "false");
    launch.notes.emplace_back(
        "Apex's kernels (softmax with its mask, fused accumulation) are off: local layers start "
        "without; predicted as --set apex=false is.");
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
  constexpr std::string_view kWritten =
      "overlap_grad_reduce overlap_param_gather tp_comm_overlap grad_dtype reduce_dtype "
      "parameter_dtype optimizer_dtype mixed_precision reshard_after_forward "
      "reduce_every_micro_batch cross_entropy_fusion compile dropout context_all_to_all "
      "context_gather "
      "dispatch_once expert_overlap "
      "loss_chunks whole_logits "
      "implementation fp8_parameters gradient_accumulation_fusion masked_softmax_fusion "
      "apex p2p_overlap_interleaved "
      "pad_vocabulary traced_graph expandable_segments launch_blocking deterministic "
      "bucket_elements "
      "moment_bytes "
      "gradient_bytes reduce_bytes master_bytes";
  return is_among(kWritten, setting);
}

LaunchFile write_launch(LaunchFormat format, const LaunchPlan& launch) {
  refuse_what_cannot_start(format, launch);
  return route_of(format).write(launch);
}

}  // namespace trireme::planner
