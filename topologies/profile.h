// What calibration (or the shipped fit) knows about hardware beyond datasheets: efficiencies,
// launch costs, network corrections. The shipped one is topologies/fitted.json; `trireme calibrate`
// writes the same format.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace trireme::topologies {

// A measured matrix product: C[m,n] = A[m,k] B[k,n].
struct MatmulPoint {
  double m = 0, n = 0, k = 0;
  FlopPerSecond rate;
};

// Fitted constants of one GPU; at most 8, each with a physical meaning. The owner of op_cost names
// them.
struct GpuFit {
  std::map<std::string, double> constants;
  std::vector<MatmulPoint> matmuls;  // measured table, may be empty
  int compute_capability = 0;        // of the card; others inherit from the nearest
  std::string source;
  bool measured = false;  // false: carried from a datasheet or another card
};

struct Profile {
  std::string name = "shipped";
  std::map<std::string, GpuFit> gpus;                             // by Gpu::name
  std::map<std::string, std::map<std::string, double>> networks;  // by Network::name
  std::map<std::string, std::map<std::string, double>>
      frameworks;  // by framework name, at most 6 each
  // Measured over predicted step time that 90 % of the validation rows of a behaviour kept: "low" and
  // "high"; "other" for the rest.
  std::map<std::string, std::map<std::string, double>> intervals;
};

const Profile& shipped_profile();
// Reads a profile from JSON text that came from `where`. Throws Error.
Profile parse_profile(std::string_view text, const std::string& where);
std::string profile_text(const Profile& profile);  // reads back equal
Profile load_profile(const std::string& path);     // throws Error

}  // namespace trireme::topologies
