// What is asked: values that carry the names of the program's options (underscores for dashes).
// What is not given stays empty and takes the default that `trireme COMMAND --help` names. Nothing
// here is kept between calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme::api {

using Count = std::optional<std::int64_t>;

// What is trained, and on what.
struct Job {
  std::string model{};  // a preset (models()), a config.json or its folder, a model file, or the
                        // text of such a file
  std::string
      cluster{};  // a preset with a node count (dgx-h100x8), a topology file, or the text of one
  Count gpus{};   // only the cluster's first so many
  Count seq{};    // tokens in a sequence
  Count global_batch{};  // sequences in a step
  std::string precision{}, optimizer{}, attention{};
  std::string framework{};  // NAME or NAME@VERSION: whose memory and communication is modelled
  std::vector<std::string> set{};  // KEY=VALUE: settings of the framework
  std::string calibration{};       // a profile's file
  // Any other options of the command as they stand on a command line: {"--lora-rank", "16"}.
  std::vector<std::string> more{};
};

// How it is laid out. A degree that is not given follows from the others and the GPU count when it
// can, else it is 1.
struct Layout {
  std::string layout{};  // the short form, tp8.pp4.fsdp2.mb1; the fields below override its parts
  Count tp{}, pp{}, vpp{}, dp{}, fsdp{}, cp{}, ep{}, etp{}, data_parallel{};  // ranks
  Count micro_batch{};                                                        // sequences
  std::string sharding{};   // none optimizer gradients full
  std::string recompute{};  // none selective full
  Count recompute_layers{};
  std::string recompute_modules{}, schedule{}, stage_layers{}, fsdp_unit{};
  std::optional<bool> sequence_parallel{};
};

struct SimulateOptions {
  std::vector<std::string> straggler{};  // 1.2x@rank3, 1.2x@stage2
  std::vector<std::string> slow_link{};  // 0.5x@node2.nic3, 0.5x@nvlink
  std::string jitter{}, rank_spread{};   // deviations, as shares: 0.02
  Count seed{};
  bool no_contention = false;
};

struct PlanOptions {
  Layout layout{};                        // what it gives is fixed, the rest is searched
  std::string objective{};                // time memory cost utility
  std::vector<std::string> constraint{};  // tp<=8
  std::string price{};                    // dollars per GPU and hour, for the objective cost
  Count top{};                            // how many layouts to answer with
  Count refine{};                         // simulate so many of them and rank by it
  Count threads{};
  bool keep_switches = false;
};

struct WhatIfOptions {
  Layout layout{};
  std::vector<std::string> vary{};                    // nic_bandwidth=0.5x,1x,2x
  std::vector<std::string> straggler{}, slow_link{};  // as of SimulateOptions
  bool keep_layout = false, simulate = false;
  Count threads{};
};

struct CheckOptions {
  // megatron megatron-bridge torchtitan deepspeed accelerate; empty: by the contents
  std::string format{};
  std::vector<std::string> words{};  // what the script is called with
};

// Measurements to fit; give one of `fit`, `from_points` and `from_run`, or none to measure this
// machine's GPUs.
struct CalibrateOptions {
  std::string output{};            // the profile to write
  std::vector<std::string> fit{};  // logs of nccl-tests, tables of collectives, micro-benchmarks
  std::string from_points{};
  // Results of `trireme run`, rows of measurements, training logs.
  std::vector<std::string> from_run{};
  bool quick = false;
  Layout layout{};
};

struct SweepOptions {
  Layout layout{};                        // what it gives is fixed, the rest is swept
  std::vector<std::string> constraint{};  // tp<=8
  Count threads{};
};

}  // namespace trireme::api
