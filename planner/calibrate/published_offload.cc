#include "planner/calibrate/published_offload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "planner/calibrate/published.h"
#include "planner/calibrate/row_words.h"
#include "planner/cost/offload_fit.h"

namespace trireme::planner {

namespace {

using nlohmann::json;

// Measurements and remarks that stand in the dict beside the configuration.
constexpr std::string_view kMeasuredOfOffload[] = {
    "where",           "host_memory_gb", "host_memory_gb_per_node",
    "optimizer_on",    "fit_boundary",   "forward_s",
    "backward_s",      "optimizer_s",    "optimizer_s_min",
    "run_total_s",     "run_wall_clock", "rl_step_seconds",
    "rollout_seconds", "host_oom",       "note",
    "pcie_traffic"};

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

void read_what(const json& words, OffloadRow& row) {
  for (const json& word : words) {
    const std::string text = text_of(word);
    row.parameters = row.parameters || contains(text, "parameters");
    row.gradients = row.gradients || contains(text, "gradients");
    row.optimizer = row.optimizer || contains(text, "optimizer states");
    row.activations = row.activations || contains(text, "activation");
  }
}

// "Megatron optimizer_cpu_offload, fraction 0.5"
double share_of(const std::string& mechanism) {
  const auto at = mechanism.find("fraction ");
  const double share =
      at == std::string::npos ? 1 : std::strtod(mechanism.c_str() + at + 9, nullptr);
  return share > 0 && share <= 1 ? share : 1;
}

OffloadTo place(bool away, bool nvme) {
  return !away ? OffloadTo::kNone : nvme ? OffloadTo::kNvme : OffloadTo::kHost;
}

}  // namespace

std::string read_offload(const json& object, OffloadRow& row, std::set<std::string>& unknown) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  std::string fault;
  for (const auto& [key, value] : object.items()) {
    if (key == "what") {
      if (!value.is_array()) {
        fault = "offload.what should be an array of words";
        continue;
      }
      read_what(value, row);
    } else if (key == "mechanism") {
      row.mechanism = text_of(value);
      row.optimizer_share = share_of(row.mechanism);
    } else if (key == "parameters_on") {
      row.parameters_on_nvme = text_of(value) == "NVMe";
    } else if (key == "optimizer_states_on") {
      row.optimizer_on_nvme = text_of(value) == "NVMe";
    } else if (key == "activations_on") {
      row.activations = row.activations || text_of(value) == "CPU";
    } else if (key == "fraction" || key == "optimizer_fraction") {
      row.optimizer_share = value.is_number() ? value.get<double>() : row.optimizer_share;
    } else if (key == "host_memory_limit_gb_per_node" || key == "host_memory_limit_gib") {
      const double unit = key == "host_memory_limit_gib" ? 1 : 1e9 / kGib;
      row.host_gib = value.is_number() ? unit * value.get<double>() : 0;
    } else if (std::find(std::begin(kMeasuredOfOffload), std::end(kMeasuredOfOffload), key) ==
               std::end(kMeasuredOfOffload)) {
      unknown.insert("offload." + key);
    }
  }
  if (!(row.optimizer_share >= 0) || row.optimizer_share > 1) {
    fault = "offload.fraction should be a number from 0 to 1";
  }
  return fault;
}

bool lacks_sequence(const PublishedRow& row) {
  return row.offload && row.layers && row.hidden && !row.peak_memory_gib && !row.seq;
}

void complete_offload_row(PublishedRow& row, std::int64_t sequence,
                          std::vector<std::string>& assumed) {
  constexpr std::int64_t kUsualHead = 128;
  if (!row.offload || !row.layers || !row.hidden || row.peak_memory_gib) {
    return;
  }
  if (!row.seq) {
    row.seq = sequence;
    assumed.push_back(fmt::format("seq={}", sequence));
  }
  if (!row.heads && *row.hidden % kUsualHead == 0) {
    row.heads = *row.hidden / kUsualHead;
    assumed.push_back(fmt::format("heads={}", *row.heads));
  }
}

void set_offload(const PublishedRow& row, Job& job) {
  const OffloadRow& printed = *row.offload;
  Offload& offload = job.offload;
  offload.optimizer = place(printed.optimizer, printed.optimizer_on_nvme);
  offload.optimizer_share = printed.optimizer_share;
  offload.parameters = place(printed.parameters, printed.parameters_on_nvme);
  offload.activations = place(printed.activations, false);
  offload.gradients = place(printed.gradients, false);
  // DeepSpeed steps on the host from gradients that went there during backward; PyTorch's FSDP
  // takes the gradients of offloaded parameters with them.
  const bool deepspeed = job.framework.states == StateLayout::kDeepSpeed && printed.optimizer;
  const bool torch = job.framework.states == StateLayout::kTorch && printed.parameters;
  if (deepspeed || torch) {
    offload.gradients = OffloadTo::kHost;
  }
  if (torch) {
    offload.optimizer = OffloadTo::kHost;
  }
  if (!offloads_gradients(job.framework)) {
    offload.gradients = OffloadTo::kNone;
  }
  offload.host_gib = printed.host_gib;
}

}  // namespace trireme::planner
