// Predicted against published memory, each row under its own behaviour, kind and scope. Prints the
// error of every source and holds what is reached. Rows live outside the project: without them the
// test says that it skipped.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "planner/calibrate/published.h"
#include "planner/cost/memory.h"
#include "planner/cost/published_memory.h"

namespace trireme::planner {
namespace {

std::string data_folder() {
  if (const char* folder = std::getenv("TRIREME_SHARED_DATA")) {
    return std::string(folder) + "/published";
  }
  return std::string(TRIREME_SOURCE_DIR) + "/../shared/data/published";
}

struct Error1 {
  std::string id;
  double predicted = 0, measured = 0, relative = 0;
};
struct SourceErrors {
  std::vector<Error1> dense, sparse;
};

double mean_of(const std::vector<Error1>& errors) {
  double sum = 0;
  for (const Error1& error : errors) {
    sum += std::abs(error.relative);
  }
  return errors.empty() ? 0 : sum / static_cast<double>(errors.size());
}
double worst_of(const std::vector<Error1>& errors) {
  double worst = 0;
  for (const Error1& error : errors) {
    worst = std::max(worst, std::abs(error.relative));
  }
  return worst;
}

class PublishedMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(data_folder())) {
      GTEST_SKIP() << "no published rows at " << data_folder();
    }
    const char* chatty = std::getenv("TRIREME_VERBOSE");
    const std::string verbose = chatty != nullptr ? chatty : "";
    for (const PublishedFile& file : read_published(data_folder())) {
      for (const PublishedRow& row : file.rows) {
        add(row, !verbose.empty() && row.source.find(verbose) != std::string::npos);
      }
    }
    for (const auto& [source, errors] : sources_) {
      fmt::print(
          "{:26} dense {:3} rows mean {:5.2f} % worst {:5.2f} %   experts {:3} rows mean {:5.2f} % "
          "worst {:5.2f} %\n",
          source, errors.dense.size(), 100 * mean_of(errors.dense), 100 * worst_of(errors.dense),
          errors.sparse.size(), 100 * mean_of(errors.sparse), 100 * worst_of(errors.sparse));
    }
  }

  void add(const PublishedRow& row, bool verbose) {
    if (!row.peak_memory_gib || row.outcome == "suspect") {
      return;
    }
    const PublishedCase found = row_to_case(row);
    if (!found.skipped.empty()) {
      if (verbose) {
        fmt::print("{} skipped: {}\n", row.id, found.skipped);
      }
      return;
    }
    MemoryModel model(found.job);
    MemoryEstimate estimate;
    model.estimate(found.plan, estimate);
    Error1 error;
    error.id = row.id;
    error.measured = *row.peak_memory_gib;
    error.predicted = published_memory_gib(row, found.plan, estimate);
    error.relative = (error.predicted - error.measured) / std::max(error.measured, 1.5);
    (found.job.model.moe ? sources_[row.source].sparse : sources_[row.source].dense)
        .push_back(error);
    if (verbose) {
      const MemoryItems& items = estimate.stages[estimate.peak_stage].items;
      fmt::print(
          "{} {:+.2f}% pred {:.3f} meas {:.3f} diff {:+.3f} {} {} stage {} tp{} pp{} v{} cp{} ep{} "
          "sh{}x{} mb{} m{} | p {:.2f} g {:.2f} o {:.2f} "
          "a {:.2f} gp {:.2f} l {:.2f} c {:.2f} x {:.2f} | {}\n",
          row.id, 100 * error.relative, error.predicted, error.measured,
          error.predicted - error.measured, row.memory_kind, row.memory_scope, estimate.peak_stage,
          found.plan.tensor, found.plan.pipeline, found.plan.virtual_pipeline, found.plan.context,
          found.plan.expert, found.plan.sharded, found.plan.replicas, found.plan.micro_batch,
          found.plan.micro_batches, items.parameters, items.gradients, items.optimizer,
          items.activations, items.gathered_parameters, items.logits, items.communication,
          items.other, row.model);
    }
  }

  std::map<std::string, SourceErrors> sources_;
};

TEST_F(PublishedMemory, SimumaxDense) {
  EXPECT_LE(mean_of(sources_["simumax_b200"].dense), 0.01);
}

}  // namespace
}  // namespace trireme::planner
