// What is answered. Fields carry the names and the units of the program's JSON keys
// (docs/json_keys.md says what each means): _gib = 2^30 bytes, _seconds, _gbps = 1e9 bit/s,
// _gbytes_per_second = 1e9 byte/s, _tflops = 1e12 FLOP/s. `json` of each is what `trireme COMMAND
// --json` prints, with the keys that have no field here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trireme::api {

struct Model {
  std::string name;
  std::int64_t parameters = 0, active_parameters = 0, layers = 0, hidden = 0, heads = 0,
               kv_heads = 0, vocab = 0;
};

struct Cluster {
  std::string name, gpu, network;
  std::int64_t gpus_per_node = 0, nics = 0;
  double peak_tflops = 0, memory_gib = 0, memory_gbytes_per_second = 0,
         nvlink_gbytes_per_second = 0, nic_gbps = 0;
};

struct ModelSummary {
  std::string name;
  std::int64_t parameters = 0, active_parameters = 0;
};
struct ClusterSummary {
  std::string name, gpu;
  std::int64_t gpus = 0;
};

struct ChosenLayout {
  std::string short_form;  // key "short"
  std::int64_t tp = 1, pp = 1, vpp = 1, dp = 1, fsdp = 1, cp = 1, ep = 1, etp = 1, micro_batch = 1,
               micro_batches = 1;
  std::string sharding, recompute, schedule;
  std::int64_t recompute_layers = -1, fsdp_unit = 1;
  bool sequence_parallel = false, reshard_after_forward = true;
  std::vector<std::int64_t> stage_layers;
};

struct MemoryBreakdown {  // GiB; adds up to the peak allocated
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0, gathered_parameters = 0,
         logits = 0, communication = 0, other = 0;
};
struct StageMemory {
  std::int64_t stage = 0;
  double peak_allocated_gib = 0;
  MemoryBreakdown breakdown_gib;
};
struct Memory {
  double peak_allocated_gib = 0, peak_reserved_gib = 0, device_gib = 0, capacity_gib = 0,
         host_gib = 0, host_capacity_gib = 0, reserved_low_gib = 0, reserved_high_gib = 0;
  std::int64_t peak_stage = 0;
  MemoryBreakdown breakdown_gib;  // of the peak stage
  std::vector<StageMemory> stages;
};

struct TimeBreakdown {  // seconds of exposed time; adds up to the step
  double compute = 0, tensor_parallel = 0, context_parallel = 0, expert_parallel = 0,
         pipeline_bubble = 0, pipeline_p2p = 0, data_parallel = 0, optimizer = 0, offload = 0,
         other = 0;
};
struct Time {
  double step_seconds = 0, low_seconds = 0, high_seconds = 0;  // low to high: 90 % interval
  double hidden_communication_seconds = 0;
  TimeBreakdown breakdown_seconds;
};
struct Throughput {
  double tokens_per_second = 0, tokens_per_second_per_gpu = 0, model_tflops_per_gpu = 0, mfu = 0,
         hfu = 0, mfu_full_attention = 0, peak_tflops = 0;
};

struct Estimate {
  ModelSummary model;
  ClusterSummary cluster;
  ChosenLayout layout;
  std::int64_t sequence = 0, global_batch = 0;  // tokens; sequences
  std::string framework;
  bool fits = false;
  std::string fit;  // fits at_risk no
  Memory memory;
  Time time;
  Throughput throughput;
  std::string json;
};

struct RankUse {
  std::int64_t rank = 0, stage = 0;
  double busy_fraction = 0, exposed_communication_seconds = 0;
};
struct Simulation {
  Estimate estimate;
  std::int64_t events = 0;
  double simulation_seconds = 0;  // of this machine's time
  std::vector<RankUse> ranks;
  std::string json;
};

struct Plan {
  std::optional<Estimate> best;  // empty: nothing fits; `json` says why
  std::vector<Estimate> alternatives;
  std::int64_t space = 0, evaluated = 0, pruned_by_bound = 0, feasible = 0;  // layouts
  double search_seconds = 0;
  std::string json;
};

struct WhatIfCase {
  std::map<std::string, std::string> change;  // nic_bandwidth: 0.5x
  std::optional<Estimate> estimate;           // empty: no layout; see the notes
  double step_ratio = 0;                      // to the base
  std::vector<std::string> notes;
};
struct WhatIf {
  Estimate base;
  std::vector<WhatIfCase> cases;
  std::string json;
};

struct Violation {
  std::string rule, severity, detail, fix;  // severity: error warning
};
struct Check {
  std::vector<Violation> violations;
  std::optional<Estimate> estimate, better;
  std::string json;
};

struct Calibration {
  std::string profile;  // the file that was written
  std::vector<std::string> remarks;
  std::string json;
};

// Every legal layout, one an entry of each column, those that do not fit among them.
struct Sweep {
  std::vector<std::int32_t> tp, pp, vpp, dp, fsdp, cp, ep, etp, micro_batch, micro_batches;
  // Indices into sharding_names and the like.
  std::vector<std::int8_t> sharding, recompute, schedule, fit;
  std::vector<double> step_seconds, low_seconds, high_seconds, peak_allocated_gib;
  double seconds = 0;  // of this machine's time
  [[nodiscard]] std::size_t layouts() const { return step_seconds.size(); }

  static constexpr const char* sharding_names[] = {"none", "optimizer", "gradients", "full"};
  static constexpr const char* recompute_names[] = {"none", "selective", "full"};
  static constexpr const char* schedule_names[] = {"gpipe", "1f1b", "interleaved", "zb-h1",
                                                   "zb-h2", "zb-v", "dualpipe-v"};
  static constexpr const char* fit_names[] = {"fits", "at_risk", "no"};
};

}  // namespace trireme::api
