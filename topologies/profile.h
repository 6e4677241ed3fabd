// What calibration (or the shipped fit) knows about hardware beyond datasheets: efficiencies,
// launch costs, network corrections. The shipped one is topologies/fitted.json; `trireme calibrate`
// writes the same format (docs/calibration.md), with the machine it was measured on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/microbenchmarks.h"
#include "core/units.h"

namespace trireme::topologies {

// A measured matrix product: C[m,n] = A[m,k] B[k,n]. It speaks for products of its own precision;
// those of bf16 speak for fp16 too where fp16 was not measured.
struct MatmulPoint {
  double m = 0, n = 0, k = 0;
  FlopPerSecond rate;
  std::string layout;  // forward, input_gradient, weight_gradient; empty: of all
  MatmulPrecision precision = MatmulPrecision::kBf16;
};

// Products of experts in one launch of this project's runtime, as measured (GroupedSample).
struct GroupedPoint {
  double experts = 0, m = 0, n = 0, k = 0;
  FlopPerSecond rate;
  MatmulLayout layout = MatmulLayout::kForward;
  bool adds = false;
};

// Measured causal attention. `portable`: FlashAttention-2 as PyTorch ships it, else the vendor's
// kernel.
struct AttentionPoint {
  std::int64_t batch = 0, heads = 0, kv_heads = 0, sequence = 0, head_size = 0;
  Seconds forward, backward;  // backward 0: not measured
  bool portable = false;
};

// A memory-bound kernel of this project's runtime: seconds = fixed + traffic / rate.
struct KernelFit {
  Seconds fixed;
  BytesPerSecond rate;
};

// Fitted constants of one GPU; at most 8, each with a physical meaning. The owner of op_cost names
// them.
struct GpuFit {
  std::map<std::string, double> constants;
  std::vector<MatmulPoint> matmuls;          // measured table, may be empty
  std::vector<GroupedPoint> grouped;         // measured table, may be empty
  std::vector<AttentionPoint> attention;     // measured table, may be empty
  std::map<std::string, KernelFit> kernels;  // measured, by name in core/kernels.h; may be empty
  int compute_capability = 0;                // of the card; others inherit from the nearest
  std::string source;
  bool measured = false;  // false: carried from a datasheet or another card
};

// Seconds of one collective over one group shape by size: measured points, and the latency and rate
// of each regime (protocol and algorithm) that they fall into.
struct CollectiveTable {
  std::string operation;  // all_reduce all_gather reduce_scatter all_to_all broadcast send_recv
  std::string gpu;        // Gpu::name; the table speaks for no other
  std::string network;    // Network::name; empty when all ranks share a node
  std::int64_t ranks = 0, ranks_per_node = 0;
  struct Point {
    double bytes = 0, seconds = 0;  // bytes as nccl-tests' size column
  };
  std::vector<Point> points;  // ascending in bytes
  struct Regime {
    double up_to_bytes = 0;  // of the last regime: the largest size measured
    Seconds latency;         // seconds = latency + bytes / rate
    BytesPerSecond rate;
  };
  std::vector<Regime> regimes;
  double residual = 0;  // median relative error of the regimes over the points
  std::string source;
};

// A collective and a matrix product side by side: how much longer each takes (0.1 = 10 %).
struct OverlapFit {
  std::string operation;
  double compute_slowdown = 0, collective_slowdown = 0;
};

// Measured over predicted time of an op category, from whole runs.
struct Correction {
  double factor = 1;
  int runs = 0;         // that speak of it
  double evidence = 0;  // 0 to 1: the weight of the runs against no correction
};

// Ratios of measured to predicted step time that 90 % of runs lie between.
struct MeasuredInterval {
  double low = 1, high = 1;
  int runs = 0;
};

struct Profile {
  std::string name = "shipped";
  std::map<std::string, GpuFit> gpus;                             // by Gpu::name
  std::map<std::string, std::map<std::string, double>> networks;  // by Network::name
  std::map<std::string, std::map<std::string, double>>
      frameworks;  // by framework name, at most 6 fitted each
  // Measured over predicted step time that 90 % of the validation rows of a behaviour kept: "low"
  // and "high"; "other" for the rest.
  std::map<std::string, std::map<std::string, double>> intervals;

  // What a calibrated profile has beyond the shipped one.
  std::optional<MachineFingerprint> machine;
  std::string topology;  // the cluster that it was measured on, in words
  std::vector<CollectiveTable> collectives;
  std::vector<OverlapFit> overlaps;
  std::map<std::string, Correction> corrections;  // "compute", "collective", "send_recv"
  std::optional<MeasuredInterval> interval;
  std::map<std::string, double> residuals;  // median relative error of each fit over its points
  std::shared_ptr<const Microbenchmarks> points;
  // What the file left out and the shipped profile fills in: "gpus", "frameworks".
  std::vector<std::string> shipped_parts;
};

const Profile& shipped_profile();
// Reads a profile from JSON text that came from `where`. Throws Error.
Profile parse_profile(std::string_view text, const std::string& where);
std::string profile_text(const Profile& profile);  // reads back equal, shipped parts left out
// As parse_profile; what the file leaves out (all GPUs, a framework) is the shipped profile's.
// Throws Error.
Profile load_profile(const std::string& path);
// Over the old file in one step: an interrupted write leaves it whole. Throws Error.
void save_profile(const Profile& profile, const std::string& path);
// Fills in what the profile leaves out from the shipped one.
Profile with_shipped_parts(Profile profile);
// The factor by which runs were slower than predicted in a category; 1 without such a correction.
double correction_of(const Profile& profile, const std::string& category);

}  // namespace trireme::topologies
