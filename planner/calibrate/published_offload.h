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
// Papers on offload leave out the sequence and part of the shape: such a row gets `sequence` and
// heads of 128.
bool lacks_sequence(const PublishedRow& row);
void complete_offload_row(PublishedRow& row, std::int64_t sequence,
                          std::vector<std::string>& assumed);
void set_offload(const PublishedRow& row, Job& job);

}  // namespace trireme::planner
