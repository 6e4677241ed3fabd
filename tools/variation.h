// One thing changed: `--vary nic_bandwidth=0.5x,1x,2x`, and what it means for a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/plan/job.h"
#include "tools/options.h"

namespace trireme::tools {

// One name and the values it takes in turn.
struct Variation {
  std::string name;
  std::vector<std::string> values;
};
struct Change {
  std::string name, value;
  double dollars_per_gpu_hour = 0;  // of a cluster or a GPU; 0: none was given
};

// "nic_bandwidth=0.5x,1x,2x"; of cluster and gpu, prices too: "cluster=dgx-h100x8=2.50". Throws
// Error: no such name (listing those there are), no value.
Variation parse_variation(const std::string& text);

// Every combination of one value each, the last variation fastest. Throws Error above 10,000, and
// on a price that is none.
std::vector<std::vector<Change>> crossed(const std::vector<Variation>& variations);

// The degree that a name varies ("cp"); null when it varies something else.
std::optional<std::int64_t> LayoutOptions::*axis_of(const std::string& name);

// Changes the options of a job and a layout that a name stands for (seq, precision, micro_batch,
// …). Throws Error on a value that is none.
void apply_to_options(const Change& change, JobOptions& job, LayoutOptions& layout);
// Changes the machine (nic_bandwidth, gpus, gpu, …): a factor ("0.5x"), or a value with its unit
// ("200 Gbit/s"). Throws Error likewise.
void apply_to_machine(const Change& change, planner::Job& job);

// The resources whose amount can be scaled, for elasticities.
const std::vector<std::string>& resource_names();

}  // namespace trireme::tools
