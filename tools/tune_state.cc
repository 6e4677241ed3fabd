#include "tools/tune_state.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"
#include "tools/plan_file.h"

namespace trireme::tools {
namespace {

constexpr std::array kOutcomes = {TuneOutcome::kOk, TuneOutcome::kOutOfMemory, TuneOutcome::kFailed,
                                  TuneOutcome::kTimeout};

std::string state_path(const std::string& folder) {
  return folder + "/tune.json";
}

TuneOutcome outcome_of(JsonReader& reader) {
  const std::string name = reader.text("outcome");
  const auto* found = std::find_if(kOutcomes.begin(), kOutcomes.end(),
                                   [&](TuneOutcome each) { return to_string(each) == name; });
  if (found == kOutcomes.end()) {
    reader.fail("outcome", "is not ok, oom, failed or timeout");
  }
  return *found;
}

TuneRun read_run(JsonReader& reader, const std::string& folder) {
  TuneRun run;
  run.name = reader.text("name");
  run.layout = reader.text("layout");
  run.plan = read_plan_file(folder + "/" + run.name + ".plan.json").plan;
  run.predicted_seconds = reader.number("predicted_seconds", 0, 1e12);
  run.predicted_reserved_gib = reader.number("predicted_reserved_gib", 0, 1e9);
  run.outcome = outcome_of(reader);
  if (run.outcome == TuneOutcome::kOk) {
    run.measured_seconds = reader.number("measured_seconds", 1e-9, 1e12);
  }
  run.detail = reader.text("detail");
  run.wall_seconds = reader.number("wall_seconds", 0, 1e9);
  return run;
}

}  // namespace

std::string_view to_string(TuneOutcome outcome) {
  switch (outcome) {
    case TuneOutcome::kOk:
      return "ok";
    case TuneOutcome::kOutOfMemory:
      return "oom";
    case TuneOutcome::kFailed:
      return "failed";
    case TuneOutcome::kTimeout:
      return "timeout";
  }
  return "";
}

Json runs_json(const std::vector<TuneRun>& runs, const std::string& framework) {
  Json all = Json::array();
  for (const TuneRun& run : runs) {
    Json one = {{"name", run.name},
                {"layout", run.layout},
                {"framework", framework},
                {"predicted_seconds", run.predicted_seconds},
                {"predicted_reserved_gib", run.predicted_reserved_gib},
                {"measured_seconds", nullptr},
                {"outcome", to_string(run.outcome)},
                {"detail", run.detail},
                {"wall_seconds", run.wall_seconds}};
    if (run.measured_seconds) {
      one["measured_seconds"] = *run.measured_seconds;
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<TuneRun> read_runs(const std::string& folder, const std::string& job) {
  std::vector<TuneRun> runs;
  const std::string path = state_path(folder);
  if (!std::filesystem::exists(path)) {
    return runs;
  }
  const nlohmann::json json = read_json_file(path);
  JsonReader reader(json, path);
  if (reader.text("schema") != "trireme.tune_state/1") {
    reader.fail("schema",
                "expected \"trireme.tune_state/1\"; another --state folder would be right");
  }
  if (reader.text("job") != job) {
    reader.fail("job", "is of '" + reader.text("job") + "', not of '" + job +
                           "'; another --state folder would be right");
  }
  for (JsonReader& one : reader.objects("runs")) {
    runs.push_back(read_run(one, folder));
  }
  return runs;
}

void save_runs(const std::string& folder, const std::string& job, const std::string& framework,
               const std::vector<TuneRun>& runs) {
  const Json json = {
      {"schema", "trireme.tune_state/1"}, {"job", job}, {"runs", runs_json(runs, framework)}};
  write_file_atomically(state_path(folder), json.dump(1) + "\n");
}

}  // namespace trireme::tools
