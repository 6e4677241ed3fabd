#include "tools/variation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/quantity.h"
#include "planner/plan/names.h"
#include "tools/fault_options.h"
#include "topologies/cluster.h"
#include "topologies/node_groups.h"
#include "topologies/topology_file.h"

namespace trireme::tools {
namespace {

constexpr std::size_t kCasesLargest = 10'000;

const std::vector<std::string>& names() {
  static const std::vector<std::string> kNames = {"nic_bandwidth",
                                                  "nic_latency",
                                                  "nvlink_bandwidth",
                                                  "nvlink_latency",
                                                  "hbm_bandwidth",
                                                  "peak_flops",
                                                  "memory",
                                                  "gpus",
                                                  "gpu",
                                                  "cluster",
                                                  "seq",
                                                  "global_batch",
                                                  "micro_batch",
                                                  "precision",
                                                  "recompute",
                                                  "framework",
                                                  "schedule",
                                                  "tp",
                                                  "pp",
                                                  "vpp",
                                                  "cp",
                                                  "ep",
                                                  "etp",
                                                  "fsdp",
                                                  "dp"};
  return kNames;
}

// Values that what is varied takes.
std::string example_of(const std::string& name) {
  for (const auto& [named, values] : {std::pair{"cluster", "dgx-h100x8,hgx-h200x8"},
                                      {"gpu", "h100,h200"},
                                      {"precision", "bf16,fp8"},
                                      {"recompute", "none,full"},
                                      {"framework", "megatron,fsdp2"},
                                      {"schedule", "1f1b,interleaved"}}) {
    if (name == named) {
      return name + "=" + values;
    }
  }
  const bool factors = std::ranges::find(names(), name) < std::ranges::find(names(), "gpus");
  return name + (factors ? "=0.5x,1x,2x" : "=1,2,4");
}

bool is_factor(const std::string& value) {
  return !value.empty() && value.back() == 'x';
}

std::string where(const Change& change) {
  return "--vary " + change.name;
}

double positive_factor(const Change& change) {
  const double factor = parse_factor(change.value, where(change));
  if (!(factor > 0)) {
    throw Error(where(change), fmt::format("'{}': a factor must be above 0", change.value));
  }
  return factor;
}

// What `value` is of `old`: the factor, or the value over it.
template <typename Quantity>
Quantity changed(const Change& change, Quantity old,
                 const std::function<Quantity(std::string_view, std::string_view)>& parse) {
  using Rep = decltype(old.value);
  if (is_factor(change.value)) {
    return Quantity(static_cast<Rep>(static_cast<double>(old.value) * positive_factor(change)));
  }
  const Quantity parsed = parse(change.value, where(change));
  if (!(parsed.value > 0)) {
    throw Error(where(change), fmt::format("'{}' must be above 0", change.value));
  }
  return parsed;
}

// "dgx-h100x8=2.50": a machine and its price.
Change change_of(const std::string& name, const std::string& value) {
  const auto cut = value.rfind('=');
  if ((name != "cluster" && name != "gpu") || cut == std::string::npos) {
    return {name, value};
  }
  return {
      name, value.substr(0, cut),
      parse_number(value.substr(cut + 1), "--vary " + name + " " + value.substr(0, cut), 0, 1e6)};
}

// Compute speed: the datasheet's peaks and what was measured of them.
void scale_flops(double factor, planner::Job& job) {
  for (auto& [precision, rate] : job.cluster.gpu.peak_dense) {
    rate = rate * factor;
  }
  for (auto& [precision, rate] : job.cluster.gpu.sustained_matmul) {
    rate = rate * factor;
  }
  const auto fit = job.profile.gpus.find(job.cluster.gpu.name);
  if (fit != job.profile.gpus.end()) {
    for (topologies::MatmulPoint& point : fit->second.matmuls) {
      point.rate = point.rate * factor;
    }
    for (topologies::GroupedPoint& point : fit->second.grouped) {
      point.rate = point.rate * factor;
    }
  }
}

void set_gpus(const Change& change, planner::Job& job, std::int64_t gpus) {
  topologies::Cluster& cluster = job.cluster;
  if (gpus > cluster.node.gpus && cluster.network.kind == topologies::Network::Kind::kNone) {
    throw Error(where(change), fmt::format("{} GPUs: {} has no network, so it is one node of {}",
                                           gpus, cluster.name, cluster.node.gpus));
  }
  if (!cluster.network.torus.empty() && gpus > cluster.gpus) {
    throw Error(where(change), fmt::format("{} GPUs: the torus of {} has places for {}", gpus,
                                           cluster.name, cluster.gpus));
  }
  if (topologies::has_unlike_nodes(cluster)) {  // more of which, only the file can say
    cluster = topologies::narrowed(std::move(cluster), gpus);
    return;
  }
  // As many nodes as it takes; of racks as many GPUs of each, as under --gpus.
  cluster.nodes = (gpus + cluster.node.gpus - 1) / cluster.node.gpus;
  cluster.gpus = cluster.nodes * cluster.node.gpus;
  cluster = topologies::narrowed(std::move(cluster), gpus);
}

void change_nic_latency(const Change& change, planner::Job& job) {
  topologies::Node& node = job.cluster.node;
  const Seconds old = node.nic_latency.value > 0 ? node.nic_latency : Seconds(1e-6);
  node.nic_latency = changed<Seconds>(change, old, parse_duration);
}

void change_nvlink_latency(const Change& change, planner::Job& job) {
  topologies::Node& node = job.cluster.node;
  const Seconds old = node.nvlink_latency.value > 0 ? node.nvlink_latency : Seconds(1e-6);
  node.nvlink_latency = changed<Seconds>(change, old, parse_duration);
}

// Another kind of GPU: a cluster preset's nodes, or the card alone in the nodes there are.
void set_gpu(const Change& change, planner::Job& job) {
  const std::vector<std::string> presets = topologies::cluster_preset_names();
  const std::int64_t gpus = job.cluster.gpus;
  if (std::find(presets.begin(), presets.end(), change.value) != presets.end()) {
    job.cluster = topologies::load_cluster(change.value);
    set_gpus(change, job, gpus);
    return;
  }
  if (topologies::has_unlike_nodes(job.cluster)) {
    throw Error(where(change), job.cluster.name +
                                   " has nodes of several kinds; say another card in "
                                   "the groups of its topology file");
  }
  job.cluster.gpu = topologies::find_or_read_gpu(change.value, where(change));
  if (job.cluster.gpu.nvlink_per_gpu.value > 0 && job.cluster.node.nvlink_domain > 1) {
    job.cluster.node.nvlink_per_gpu = job.cluster.gpu.nvlink_per_gpu;
  }
}

}  // namespace

const std::vector<std::string>& resource_names() {
  static const std::vector<std::string> kResources = {"peak_flops",       "hbm_bandwidth",
                                                      "nvlink_bandwidth", "nvlink_latency",
                                                      "nic_bandwidth",    "nic_latency"};
  return kResources;
}

std::optional<std::int64_t> LayoutOptions::*axis_of(const std::string& name) {
  static constexpr std::pair<const char*, std::optional<std::int64_t> LayoutOptions::*> kAxes[] = {
      {"tp", &LayoutOptions::tensor},
      {"pp", &LayoutOptions::pipeline},
      {"vpp", &LayoutOptions::virtual_pipeline},
      {"cp", &LayoutOptions::context},
      {"ep", &LayoutOptions::expert},
      {"etp", &LayoutOptions::expert_tensor},
      {"fsdp", &LayoutOptions::sharded},
      {"dp", &LayoutOptions::replicas}};
  for (const auto& [axis, degree] : kAxes) {
    if (name == axis) {
      return degree;
    }
  }
  return nullptr;
}

Variation parse_variation(const std::string& text) {
  const std::size_t equals = text.find('=');
  Variation variation;
  variation.name = text.substr(0, equals);
  if (std::find(names().begin(), names().end(), variation.name) == names().end()) {
    throw Error("--vary", fmt::format("there is no '{}'; there are {}", variation.name,
                                      fmt::join(names(), ", ")));
  }
  std::string rest = equals == std::string::npos ? "" : text.substr(equals + 1) + ",";
  for (std::size_t cut = rest.find(','); cut != std::string::npos; cut = rest.find(',')) {
    const std::string value = rest.substr(0, cut);
    if (value.empty()) {
      throw Error("--vary", fmt::format("'{}' has an empty value; right is {}", text,
                                        example_of(variation.name)));
    }
    variation.values.push_back(value);
    rest.erase(0, cut + 1);
  }
  if (variation.values.empty()) {
    throw Error("--vary",
                fmt::format("'{}' names no values; right is {}", text, example_of(variation.name)));
  }
  return variation;
}

std::vector<std::vector<Change>> crossed(const std::vector<Variation>& variations) {
  std::vector<std::vector<Change>> cases = {{}};
  for (const Variation& variation : variations) {
    std::vector<std::vector<Change>> longer;
    if (cases.size() * variation.values.size() > kCasesLargest) {
      throw Error("--vary",
                  fmt::format("the values cross to more than {} cases; name fewer", kCasesLargest));
    }
    for (const std::vector<Change>& start : cases) {
      for (const std::string& value : variation.values) {
        longer.push_back(start);
        longer.back().push_back(change_of(variation.name, value));
      }
    }
    cases = std::move(longer);
  }
  return cases;
}

void apply_to_options(const Change& change, JobOptions& job, LayoutOptions& layout) {
  const auto one_of = [&](const std::vector<std::string>& choices) {
    if (std::find(choices.begin(), choices.end(), change.value) == choices.end()) {
      throw Error(where(change), fmt::format("there is no '{}'; there are {}", change.value,
                                             fmt::join(choices, ", ")));
    }
    return change.value;
  };
  if (change.name == "seq") {
    job.sequence = parse_count(change.value, where(change));
  } else if (change.name == "global_batch") {
    job.global_batch = parse_count(change.value, where(change));
  } else if (change.name == "micro_batch") {
    layout.micro_batch = parse_count(change.value, where(change));
  } else if (change.name == "precision") {
    job.precision = one_of(planner::kPrecisionNames.names());
  } else if (change.name == "recompute") {
    layout.recompute = one_of(planner::kRecomputeNames.names());
  } else if (change.name == "framework") {
    planner::find_framework(change.value);  // throws when there is none
    job.framework = change.value;
  } else if (change.name == "schedule") {
    layout.schedule = one_of(planner::kScheduleNames.names());
  } else if (const auto degree = axis_of(change.name)) {
    layout.*degree = parse_count(change.value, where(change));
  }
}

namespace {

// A change of every card or node, where they are unlike.
void apply_to_groups(const Change& change, planner::Job& job) {
  std::vector<topologies::NodeGroup> groups = job.cluster.groups;
  std::set<std::string> seen;
  for (topologies::NodeGroup& group : groups) {
    planner::Job one = job;
    one.cluster.groups.clear();
    one.cluster.gpu = group.gpu;
    one.cluster.node = group.node;
    apply_to_machine(change, one);
    group.gpu = one.cluster.gpu;
    group.node = one.cluster.node;
    if (seen.insert(group.gpu.name).second) {
      job.profile = one.profile;  // what was measured of the card goes with it
    }
  }
  const std::int64_t gpus = job.cluster.gpus;
  set_groups(job.cluster, std::move(groups));
  job.cluster.gpus = gpus;
}

}  // namespace

void apply_to_machine(const Change& change, planner::Job& job) {
  const bool whole = change.name == "cluster" || change.name == "gpus" || change.name == "gpu";
  if (topologies::has_unlike_nodes(job.cluster) && !whole) {
    apply_to_groups(change, job);
    return;
  }
  topologies::Node& node = job.cluster.node;
  topologies::Gpu& gpu = job.cluster.gpu;
  if (change.name == "nic_bandwidth") {
    node.nic = changed<BytesPerSecond>(change, node.nic, parse_bandwidth);
  } else if (change.name == "nic_latency") {
    change_nic_latency(change, job);
  } else if (change.name == "nvlink_bandwidth") {
    BytesPerSecond& fast = node.nvlink_domain > 1 ? node.nvlink_per_gpu : node.pcie_per_gpu;
    fast = changed<BytesPerSecond>(change, fast, parse_bandwidth);
    gpu.nvlink_per_gpu = node.nvlink_domain > 1 ? fast : gpu.nvlink_per_gpu;
  } else if (change.name == "nvlink_latency") {
    change_nvlink_latency(change, job);
  } else if (change.name == "hbm_bandwidth") {
    gpu.memory_bandwidth = changed<BytesPerSecond>(change, gpu.memory_bandwidth, parse_bandwidth);
  } else if (change.name == "memory") {
    gpu.memory = changed<Bytes>(change, gpu.memory, parse_bytes);
  } else if (change.name == "peak_flops") {
    const FlopPerSecond old = gpu.peak_dense[job.precision];
    if (!(old.value > 0)) {
      throw Error(where(change), fmt::format("{} has no peak for this precision", gpu.name));
    }
    scale_flops(changed<FlopPerSecond>(change, old, parse_flop_rate) / old, job);
  } else if (change.name == "cluster") {
    job.cluster = topologies::load_cluster(change.value);
  } else if (change.name == "gpus") {
    const std::int64_t gpus =
        is_factor(change.value)
            ? std::llround(static_cast<double>(job.cluster.gpus) * positive_factor(change))
            : parse_count(change.value, where(change));
    set_gpus(change, job, std::max<std::int64_t>(gpus, 1));
  } else if (change.name == "gpu") {
    set_gpu(change, job);
  }
}

}  // namespace trireme::tools
