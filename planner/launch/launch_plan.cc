#include "planner/launch/launch_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace trireme::planner {
namespace {

std::vector<Axis> axes_in_use(const Plan& plan, const std::array<Axis, 5>& order) {
  std::vector<Axis> axes;
  std::copy_if(order.begin(), order.end(), std::back_inserter(axes),
               [&](Axis axis) { return degree_of(plan, axis) > 1; });
  return axes;
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

void refuse_other_orders(const Plan& plan, std::string_view who) {
  if (axes_in_use(plan, plan.order) != axes_in_use(plan, Plan{}.order)) {
    refuse("order", fmt::format("{} places ranks tp, cp, fsdp, dp, pp (fastest first); leave the "
                                "order out of the layout",
                                who));
  }
}

std::vector<std::string> heading(const LaunchPlan& launch, std::string_view version) {
  const Job& job = launch.job;
  std::vector<std::string> lines = {
      fmt::format("For {}; written by 'trireme export'.", version),
      fmt::format("{} on {} ({} x {}), sequence {}, global batch {}", job.model.name,
                  job.cluster.name, job.cluster.gpus, job.cluster.gpu.name, job.sequence,
                  job.global_batch),
      fmt::format("Plan {}, {} micro-batches a step", short_form(launch.plan),
                  launch.plan.micro_batches),
      fmt::format("Predicted, as {}: step {:.4g} s, peak {:.2f} GiB allocated on the fullest "
                  "GPU",
                  job.framework.name, launch.step_seconds, launch.peak_allocated_gib)};
  lines.insert(lines.end(), launch.notes.begin(), launch.notes.end());
  return lines;
}

std::string commented(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) {
    text += "# " + line + "\n";
  }
  return text;
}

std::string torchrun(const LaunchPlan& launch) {
  std::string text = fmt::format("torchrun --nproc_per_node {}", launch.processes_per_host);
  text += fmt::format(" --nnodes {}", launch.hosts);
  if (launch.hosts > 1) {
    text += " --node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port 29500";
  }
  return text;
}

std::string where_to_start(const LaunchPlan& launch) {
  return launch.hosts == 1
             ? "on the host"
             : fmt::format("on each of {} hosts, with MASTER_ADDR and NODE_RANK set", launch.hosts);
}

}  // namespace trireme::planner
