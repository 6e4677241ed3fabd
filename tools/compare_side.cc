#include "tools/compare_side.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/json_reader.h"
#include "tools/trace_json.h"

namespace trireme::tools {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) {
    return *middle;
  }
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

ComparedSide side_of_trace(const std::string& path) {
  const TraceFile file = read_trace_json(path);
  ComparedSide side;
  side.path = path;
  side.source = file.source;
  side.by_micro_batch = true;
  struct Samples {
    std::string category;
    std::vector<double> transfer, skew;
  };
  std::map<OpKey, Samples> samples;
  std::map<std::uint32_t, std::set<std::pair<std::uint32_t, std::uint32_t>>>
      runs;  // of a stage: rank and iteration
  for (const TraceEvent& event : file.events) {
    Samples& sample = samples[{event.role, event.phase, event.label}];
    sample.category = event.category;
    sample.transfer.push_back(event.end - event.start);
    sample.skew.push_back(event.start - event.ready);
    runs[event.role].insert({event.rank, event.iteration});
  }
  for (auto& [key, sample] : samples) {
    const auto instances =
        static_cast<double>(sample.transfer.size()) / static_cast<double>(runs[key.stage].size());
    side.ops[key] = {sample.category, median(sample.transfer), median(sample.skew), instances};
  }
  if (!file.step_seconds.empty()) {
    side.step_seconds = median(file.step_seconds);
  }
  side.split = split_time(file);
  return side;
}

double largest(const nlohmann::json& values) {
  double result = 0;
  for (const nlohmann::json& value : values) {
    result = std::max(result, value.get<double>());
  }
  return result;
}

// The ops of a run's result: measured, or the predictions beside them.
ComparedSide side_of_result(const nlohmann::json& json, const std::string& path, bool predicted) {
  ComparedSide side;
  side.path = path;
  side.source = predicted ? "prediction in the run's result" : "execute";
  if (!predicted) {
    side.step_seconds = json.at("median_step_seconds").get<double>();
    side.peak_memory_gib = largest(json.at("peak_allocated_gib"));
    if (const auto split = json.find("exposed_seconds"); split != json.end() && !split->is_null()) {
      side.split = TimeSplit{};
      for (const auto& [name, seconds] : split->items()) {
        side.split->seconds[name] = seconds.get<double>();
        side.split->step_seconds += seconds.get<double>();
      }
      side.split->exposed_communication =
          json.value("exposed_communication_share", 0.0) * side.split->step_seconds;
    }
  }
  double steps = 0;
  for (const nlohmann::json& step : json.at("steps")) {
    steps += step.value("timed", true) ? 1 : 0;
  }
  for (const nlohmann::json& op : json.at("ops")) {
    const nlohmann::json& seconds = op.at(predicted ? "predicted_seconds" : "median_seconds");
    if (seconds.is_null()) {
      continue;
    }
    const std::string name = op.at("op").get<std::string>();
    const auto space = name.find(' ');
    const double ranks = op.value("ranks", 1.0);
    side.ops[{op.at("stage").get<std::uint32_t>(), name.substr(0, space),
              space == std::string::npos ? name : name.substr(space + 1)}] = {
        op.at("category").get<std::string>(), seconds.get<double>(),
        op.value("median_skew_seconds", 0.0),
        op.at("count").get<double>() / std::max(1.0, steps * ranks)};
  }
  return side;
}

ComparedSide side_of_estimate(const nlohmann::json& json, const std::string& path,
                              const std::string& schema) {
  ComparedSide side;
  side.path = path;
  side.source = schema.substr(8, schema.find('/') - 8);
  side.step_seconds = json.at("time").at("step_seconds").get<double>();
  side.peak_memory_gib = json.at("memory").at("peak_allocated_gib").get<double>();
  return side;
}

}  // namespace

ComparedSide read_compared_side(const std::string& path) {
  const nlohmann::json json = read_json_file(path);
  try {
    if (json.is_object() && json.contains("traceEvents")) {
      return side_of_trace(path);
    }
    const std::string schema = json.at("schema").get<std::string>();
    if (schema == "trireme.run/1") {
      return side_of_result(json, path, false);
    }
    if (schema == "trireme.estimate/1" || schema == "trireme.simulate/1") {
      return side_of_estimate(json, path, schema);
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(path,
                "lacks what its format must have; compare reads traces, and the JSON of run, "
                "estimate and simulate");
  }
  throw Error(path,
              "is none of what compare reads: a trace, or the JSON of run, estimate or simulate");
}

ComparedSide predicted_side_of_result(const std::string& path) {
  const nlohmann::json json = read_json_file(path);
  try {
    if (json.at("schema") == "trireme.run/1") {
      ComparedSide side = side_of_result(json, path, true);
      if (json.contains("predicted_step_seconds") && !json.at("predicted_step_seconds").is_null()) {
        side.step_seconds = json.at("predicted_step_seconds").get<double>();
      }
      if (side.step_seconds || !side.ops.empty()) {
        return side;
      }
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(path, "is not the JSON of run");
  }
  throw Error(path,
              "carries no predictions; run with --cluster, or name a second file to compare with");
}

OpKey without_place(OpKey key) {
  if (const auto dot = key.label.find('.');
      key.label.starts_with("L") && dot != std::string::npos) {
    key.label.erase(0, dot + 1);
  }
  if (const auto batch = key.label.rfind(" mb"); batch != std::string::npos) {
    key.label.erase(batch);
  }
  return key;
}

std::map<OpKey, OpStat> merged_ops(const ComparedSide& side) {
  if (!side.by_micro_batch) {
    return side.ops;
  }
  std::map<OpKey, OpStat> merged;
  for (const auto& [key, stat] : side.ops) {
    OpStat& sum = merged[without_place(key)];
    sum.category = stat.category;
    sum.transfer += stat.transfer * stat.count;  // made a mean below
    sum.skew += stat.skew * stat.count;
    sum.count += stat.count;
  }
  for (auto& [key, stat] : merged) {
    stat.transfer /= stat.count;
    stat.skew /= stat.count;
  }
  return merged;
}

}  // namespace trireme::tools
