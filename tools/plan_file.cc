#include "tools/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"
#include "tools/report.h"

namespace trireme::tools {
namespace {

using planner::Plan;

constexpr const char* kSchema = "trireme.plan_file/1";
constexpr std::int64_t kCountMax = 1'000'000'000;

// A preset keeps its name; a file is named so that it is found from any folder.
std::string absolute_if_file(const std::string& name) {
  std::error_code ignored;
  return std::filesystem::exists(name, ignored) ? std::filesystem::absolute(name).string() : name;
}

struct CountKey {
  const char* key;
  std::optional<std::int64_t> JobOptions::*member;
};
constexpr CountKey kCounts[] = {{"gpus", &JobOptions::gpus},
                                {"seq", &JobOptions::sequence},
                                {"global_batch", &JobOptions::global_batch},
                                {"lora_rank", &JobOptions::lora_rank},
                                {"freeze_layers", &JobOptions::freeze_layers},
                                {"host_memory", &JobOptions::host_memory}};
struct TextKey {
  const char* key = nullptr;
  std::string JobOptions::*member = nullptr;
  bool may_be_file = false;
};
constexpr TextKey kTexts[] = {{"model", &JobOptions::model, true},
                              {"cluster", &JobOptions::cluster, true},
                              {"precision", &JobOptions::precision},
                              {"optimizer", &JobOptions::optimizer},
                              {"attention", &JobOptions::attention},
                              {"framework", &JobOptions::framework},
                              {"calibration", &JobOptions::calibration, true},
                              {"lora_targets", &JobOptions::lora_targets},
                              {"base", &JobOptions::base},
                              {"lengths", &JobOptions::lengths, true},
                              {"batching", &JobOptions::batching},
                              {"offload", &JobOptions::offload}};

template <typename Choice>
Choice choice(JsonReader& reader, const char* key, std::initializer_list<Choice> choices) {
  const std::string text = reader.text(key);
  std::string known;
  for (const Choice candidate : choices) {
    if (planner::to_string(candidate) == text) {
      return candidate;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", planner::to_string(candidate));
  }
  reader.fail(key, fmt::format("is '{}'; it must be one of {}", text, known));
}

void read_order(JsonReader& reader, Plan& plan) {
  const nlohmann::json& order = reader.raw("order");
  if (!order.is_array() || order.size() != plan.order.size()) {
    reader.fail("order", "must list tp, cp, fsdp, dp and pp, fastest first");
  }
  for (std::size_t i = 0; i < plan.order.size(); ++i) {
    const std::string name = order[i].is_string() ? order[i].get<std::string>() : std::string();
    const auto known = Plan{}.order;
    const auto found = std::find_if(known.begin(), known.end(), [&](planner::Axis axis) {
      return planner::to_string(axis) == name;
    });
    if (found == known.end() || std::count(order.begin(), order.end(), order[i]) != 1) {
      reader.fail("order", "must list each of tp, cp, fsdp, dp and pp once, fastest first");
    }
    plan.order[i] = *found;
  }
}

void read_stage_layers(JsonReader& reader, Plan& plan) {
  const nlohmann::json& layers = reader.raw("stage_layers");
  if (!layers.is_array()) {
    reader.fail("stage_layers", "is no list; a count of layers for each stage, or [], is expected");
  }
  for (const nlohmann::json& count : layers) {
    const double layers_of_stage = count.is_number_integer() ? count.get<double>() : -1;
    if (layers_of_stage < 0 || layers_of_stage > static_cast<double>(kCountMax)) {
      reader.fail("stage_layers",
                  fmt::format("holds {}; counts of layers from 0 to {} are expected",
                              count.is_structured() ? "lists" : count.dump(), kCountMax));
    }
    plan.stage_layers.push_back(count.get<std::int64_t>());
  }
}

void read_recompute(JsonReader& reader, Plan& plan) {
  using planner::Recompute;
  plan.recompute =
      choice(reader, "recompute", {Recompute::kNone, Recompute::kSelective, Recompute::kFull});
  plan.recompute_layers = reader.integer("recompute_layers", -1, kCountMax);
  plan.recompute_modules = 0;
  std::string names = reader.text("recompute_modules");
  for (std::replace(names.begin(), names.end(), '+', ' '); !names.empty();) {
    const auto cut = std::min(names.find(' '), names.size());
    plan.recompute_modules = static_cast<std::uint16_t>(
        plan.recompute_modules | planner::recompute_module_of(names.substr(0, cut)));
    names.erase(0, cut + 1);
  }
}

}  // namespace

nlohmann::json job_options_json(const JobOptions& options) {
  Json job;
  for (const auto& [key, member, may_be_file] : kTexts) {
    if (!(options.*member).empty()) {
      job[key] = may_be_file ? absolute_if_file(options.*member) : options.*member;
    }
  }
  for (const auto& [key, member] : kCounts) {
    if (options.*member) {
      job[key] = *(options.*member);
    }
  }
  job["settings"] = options.settings;
  return job;
}

JobOptions read_job_options(JsonReader reader) {
  JobOptions options;
  for (const auto& [key, member, may_be_file] : kTexts) {
    if (reader.has(key)) {
      options.*member = reader.text(key);
    }
  }
  for (const auto& [key, member] : kCounts) {
    if (reader.has(key)) {
      options.*member = reader.integer(key, 1, kCountMax);
    }
  }
  if (reader.has("settings")) {
    const nlohmann::json& settings = reader.raw("settings");
    if (!settings.is_array()) {
      reader.fail("settings", "is not an array of KEY=VALUE strings");
    }
    for (const nlohmann::json& setting : settings) {
      if (!setting.is_string()) {
        reader.fail("settings", "holds something that is not a KEY=VALUE string");
      }
      options.settings.push_back(setting.get<std::string>());
    }
  }
  reader.finish();
  return options;
}

Plan read_layout(JsonReader reader) {
  using planner::Schedule;
  using planner::Sharding;
  Plan plan;
  reader.ignore("short");
  constexpr std::pair<const char*, std::int64_t Plan::*> kDegrees[] = {
      {"tp", &Plan::tensor},
      {"pp", &Plan::pipeline},
      {"vpp", &Plan::virtual_pipeline},
      {"dp", &Plan::replicas},
      {"fsdp", &Plan::sharded},
      {"cp", &Plan::context},
      {"ep", &Plan::expert},
      {"etp", &Plan::expert_tensor},
      {"micro_batch", &Plan::micro_batch},
      {"micro_batches", &Plan::micro_batches}};
  for (const auto& [key, member] : kDegrees) {
    plan.*member = reader.integer(key, 1, kCountMax);
  }
  plan.expert_tensor = plan.expert_tensor == plan.tensor ? 0 : plan.expert_tensor;
  plan.sharding =
      choice(reader, "sharding",
             {Sharding::kNone, Sharding::kOptimizer, Sharding::kGradients, Sharding::kFull});
  plan.schedule = choice(reader, "schedule",
                         {Schedule::kGpipe, Schedule::kOneForwardOneBackward,
                          Schedule::kInterleaved, Schedule::kZeroBubbleH1, Schedule::kZeroBubbleH2,
                          Schedule::kZeroBubbleV, Schedule::kDualPipeV});
  read_recompute(reader, plan);
  plan.sequence_parallel = reader.boolean("sequence_parallel");
  plan.reshard_after_forward = reader.boolean("reshard_after_forward");
  plan.fsdp_unit = reader.integer("fsdp_unit", 0, kCountMax);
  read_stage_layers(reader, plan);
  plan.prediction_apart = reader.has("prediction_apart") && reader.boolean("prediction_apart");
  read_order(reader, plan);
  reader.finish();
  return plan;
}

void write_plan_file(const std::string& path, const JobOptions& options,
                     const planner::Estimate& estimate) {
  const Json file = {{"schema", kSchema},
                     {"job", job_options_json(options)},
                     {"layout", layout_json(estimate.plan)},
                     {"predicted",
                      {{"step_seconds", estimate.time.step_seconds},
                       {"peak_allocated_gib", estimate.memory.allocated_gib}}}};
  write_file_atomically(path, file.dump(2) + "\n");
}

PlanFile read_plan_file(const std::string& path) {
  const nlohmann::json json = read_json_file(path);
  JsonReader reader(json, path);
  const std::string schema = reader.text("schema");
  if (schema != kSchema) {
    reader.fail("schema", fmt::format("is '{}'; a plan file has '{}' (write one with 'trireme plan "
                                      "-o FILE')",
                                      schema, kSchema));
  }
  PlanFile file;
  file.options = read_job_options(reader.object("job"));
  file.plan = read_layout(reader.object("layout"));
  reader.ignore("predicted");
  reader.finish();
  return file;
}

JobOptions merged(JobOptions base, const JobOptions& over) {
  if (!over.cluster.empty()) {
    base.gpus.reset();  // they were the file's machine's
  }
  for (const auto& [key, member, may_be_file] : kTexts) {
    if (!(over.*member).empty()) {
      base.*member = over.*member;
    }
  }
  for (const auto& [key, member] : kCounts) {
    if (over.*member) {
      base.*member = over.*member;
    }
  }
  base.settings.insert(base.settings.end(), over.settings.begin(), over.settings.end());
  return base;
}

}  // namespace trireme::tools
