// The dict `offload` of a printed row: what lives outside the GPU, where, and what the host holds.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "planner/plan/job.h"

namespace trireme::planner {

struct PublishedRow;

struct OffloadRow {
  bool optimizer = false, gradients = false, parameters = false, activations = false;
  bool optimizer_on_nvme = false, parameters_on_nvme = false;
  double optimizer_share = 1;
  double host_gib = 0;  // limit a node; 0 = not printed
  std::string mechanism;
};

// Reads the dict; keys that no model reads are added to `unknown` as "offload.KEY". Returns what is
// wrong with it, or nothing.
std::string read_offload(const nlohmann::json& object, OffloadRow& row,
                         std::set<std::string>& unknown);
// Shape and sequence that papers on offload leave out: GPT-2's 1,024 tokens and heads of 128.
void complete_offload_row(PublishedRow& row, std::vector<std::string>& assumed);
void set_offload(const PublishedRow& row, Job& job);

}  // namespace trireme::planner
