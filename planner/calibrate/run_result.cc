#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json_reader.h"
#include "planner/calibrate/run_fit.h"

namespace trireme::planner {
namespace {

std::string category_of(const std::string& category) {
  return category == "compute" || category == "optimizer" ? "compute"
         : category == "pipeline_p2p"                     ? "send_recv"
                                                          : "collective";
}

}  // namespace

// Other programs may add keys to a result, so only those that are needed are looked at.
MeasuredRun read_run_result(const std::string& path) {
  const nlohmann::json json = read_json_file(path);
  JsonReader reader(json, path);
  if (reader.text("schema") != "trireme.run/1") {
    reader.fail("schema", "expected \"trireme.run/1\", a result of trireme run -o");
  }
  MeasuredRun run;
  run.name = path;
  run.step_seconds = reader.number("median_step_seconds", 1e-9, 1e9);
  if (reader.has("predicted_step_seconds")) {
    run.predicted_step_seconds = reader.number("predicted_step_seconds", 1e-9, 1e9);
  }
  for (JsonReader& op : reader.objects("ops")) {
    if (!op.has("predicted_seconds") || !op.has("median_seconds")) {
      continue;
    }
    const double count = op.number("count", 0, 1e12);
    CategorySeconds& seconds = run.categories[category_of(op.text("category"))];
    seconds.measured += count * op.number("median_seconds", 0, 1e9);
    seconds.predicted += count * op.number("predicted_seconds", 0, 1e9);
  }
  if (run.categories.empty() && run.predicted_step_seconds <= 0) {
    throw Error(path, "holds no predictions; run with --cluster, so that each op is predicted too");
  }
  return run;
}

}  // namespace trireme::planner
