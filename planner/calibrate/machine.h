// Which cluster a measured machine is, and how far it is from another.
#pragma once

#include <string>
#include <vector>

#include "core/microbenchmarks.h"
#include "planner/plan/job.h"
#include "topologies/cluster.h"

namespace trireme::planner {

// The node preset with this GPU, narrowed to the GPUs that were measured. Throws Error when the GPU
// is not known.
topologies::Cluster cluster_of_machine(const MachineFingerprint& machine);

// Fields in which the profile's machine differs from the cluster, in words: "gpu: H200-SXM-141GB,
// here H100-SXM5-80GB". Empty: the same card, or a profile without a machine.
std::vector<std::string> differing_fields(const topologies::Profile& profile,
                                          const topologies::Cluster& cluster);

// Where the numbers of a prediction come from.
struct QuantitySource {
  std::string quantity;  // "matrix products", "collectives in the node", …
  std::string source;    // in words
  enum class Kind { kMeasured, kTransferred, kFitted, kDatasheet } kind = Kind::kDatasheet;
};
struct ProfileSources {
  std::string profile;       // its name
  bool calibrated = false;   // not the shipped one
  bool transferred = false;  // measured on another card
  std::vector<std::string> differs;
  std::vector<QuantitySource> quantities;
};
ProfileSources profile_sources(const Job& job);
std::string_view to_string(QuantitySource::Kind kind);

}  // namespace trireme::planner
