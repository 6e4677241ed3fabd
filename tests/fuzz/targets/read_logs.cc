// What others measured and printed: logs of nccl-tests and of trainings, rows of published
// measurements.
#include <cmath>
#include <string>

#include "planner/calibrate/measurement_file.h"
#include "planner/calibrate/published.h"
#include "planner/calibrate/training_log.h"
#include "tests/fuzz/targets/target.h"
#include "topologies/cluster.h"

namespace trireme::fuzz {

void read_measurements(std::string_view text) {
  static const planner::MeasurementHints hints{.cluster = topologies::load_cluster("dgx-h100x2"),
                                               .operation = "all_reduce",
                                               .ranks = 8,
                                               .other_card = true};
  const planner::MeasurementFile file =
      planner::parse_measurements(std::string(text), "f.log", hints);
  require(!file.collectives.empty() || !file.points.matmuls.empty() ||
              !file.points.attention.empty() || !file.points.passes.empty() ||
              !file.remarks.empty(),
          "what was accepted says something");
}

void read_training_log(std::string_view text) {
  const planner::StepLog log = planner::parse_step_log(text, "train.log");
  const double seconds = planner::steady_step_seconds(log, 1e6, 8);
  require(std::isfinite(seconds) && seconds > 0, "a step takes time");
}

void read_rows(std::string_view text) {
  planner::parse_published(std::string(text), "rows");
}

}  // namespace trireme::fuzz
