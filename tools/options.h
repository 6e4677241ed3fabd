// The options that most commands share, as they were typed: what was not given stays
// empty. tools/request.h turns them into a job and a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/program.h"

namespace trireme::tools {

struct JobOptions {
  std::string model;
  std::string cluster;
  std::optional<std::int64_t> gpus, sequence, global_batch;
  // Empty: bf16 where the GPU has it, else fp16; adam; flash; trireme.
  std::string precision, optimizer, attention, framework;
  std::vector<std::string> settings;  // KEY=VALUE
  std::string calibration;
  // tools/sample_options.h
  std::optional<std::int64_t> lora_rank, freeze_layers, host_memory;
  std::string lora_targets, base, lengths, batching, offload;
};

struct LayoutOptions {
  std::string layout;  // the short form; the flags below override its parts
  std::optional<std::int64_t> tensor, pipeline, virtual_pipeline, replicas, sharded, context,
      expert, expert_tensor, micro_batch, data_parallel, recompute_layers;
  std::string sharding, recompute, schedule, recompute_modules, stage_layers, fsdp_unit;
  std::optional<bool> sequence_parallel;
};

// `model` and `cluster` are checked when the job is made, so that a plan file can bring them.
void add_job_options(Command& command, JobOptions& options);
void add_layout_options(Command& command, LayoutOptions& options);
// The plan file that `plan -o` wrote, as the command's only positional argument.
void add_plan_file_option(Command& command, std::string& path);

// A whole number from `low` to `high`. Throws Error naming `where`.
std::int64_t parse_count(const std::string& text, const std::string& where, std::int64_t low = 1,
                         std::int64_t high = 1'000'000'000);
// A finite number from `low` to `high`. Throws Error naming `where`.
double parse_number(const std::string& text, const std::string& where, double low, double high);
// "20,20,20,18"
std::vector<std::int64_t> parse_counts(const std::string& text, const std::string& where);

// An option that reads a whole number with errors in the project's own words.
void add_count_option(Command& command, const std::string& name, std::optional<std::int64_t>& value,
                      const std::string& description, std::int64_t low = 1,
                      std::int64_t high = 1'000'000'000);
// A repeatable option of KEY=VALUE settings. Throws Error where one has no '=', no key, or a key
// that another one sets to another value.
void add_settings_option(Command& command, const std::string& name,
                         std::vector<std::string>& settings, const std::string& description);
// Throws Error where what is said of recompute contradicts itself: --recompute-layers are of full
// recompute, --recompute-modules of selective.
void check_recompute_options(const std::string& recompute, bool layers, bool modules);
// An option with a closed set of values.
void add_choice_option(Command& command, const std::string& name, std::string& value,
                       const std::string& description, const std::vector<std::string>& choices);

}  // namespace trireme::tools
