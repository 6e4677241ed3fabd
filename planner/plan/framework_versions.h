// Frameworks by name and release: what each did is data in frameworks.json. An entry is a framework
// as it stands, its versions say what a release did otherwise, its recipes what a kind of run does
// otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/framework.h"
#include "topologies/cluster.h"

namespace trireme::planner {

struct FrameworkVersion {
  std::string name;
  std::string version;  // empty: as it stands
  std::string since;    // date of the release, "2026-02-20"; empty: not dated
  std::string summary;  // what it does otherwise, in a line
  std::string source;
};
// Every entry as it stands, followed by its versions, in the order of the file.
const std::vector<FrameworkVersion>& framework_versions();

struct Job;

// What recipes ask of a run.
struct RecipeCase {
  topologies::Precision precision = topologies::Precision::kBf16;
  int compute_capability = 0;
  bool latent = false, experts = false, gated = true, unfused = false;
  bool tensor = false;       // tensor parallelism
  bool pipeline = false;     // pipeline parallelism
  bool expert_bias = false;  // biases inside experts (gpt-oss)
  bool rack = false;         // an NVLink domain wider than a server (GB200, GB300)
  bool tuning = false;       // of a trained model, whose router is trained too
};
bool is_rack(const topologies::Cluster& cluster);
// What the job says of it by its model, precision, attention, card and training.
RecipeCase recipe_case_of(const Job& job);

// As find_framework(name), with the recipes that hold for `run`. A release between two that are
// listed is the older of them. Throws Error on an unknown name or version, listing what there is.
Framework find_framework(const std::string& name, const RecipeCase& run);

// The framework and version of a run that was printed as `words` at `date` ("2024-12"): the entry
// whose words it holds (of those that shard as `behaviour` does, where that names an entry), the
// version by its words, else by its date, else the newest. "NAME@VERSION"; just `behaviour` when it
// names a version; empty when nothing matches.
std::string behaviour_of(const std::string& behaviour, std::string_view words,
                         std::string_view notes, std::string_view date);

}  // namespace trireme::planner
