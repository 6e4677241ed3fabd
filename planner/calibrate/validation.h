// Predictions beside measurements: what `trireme validate` prints and what the fits minimise.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/calibrate/published.h"
#include "planner/cost/memory.h"
#include "topologies/profile.h"

namespace trireme::planner {

// A row made ready once: its job and plan, or why it cannot be modelled.
struct ValidationCase {
  PublishedRow row;
  PublishedCase found;
  std::optional<double> measured_seconds;  // of one step, from what the row prints
};

struct ValidatedRow {
  std::string id, source;
  std::optional<double> measured_seconds, predicted_seconds, low_seconds, high_seconds;
  std::optional<double> measured_memory_gib, predicted_memory_gib;
  std::string memory_kind;
  std::string behaviour;  // "NAME@VERSION" that the row was predicted under
  std::optional<Fit> fit;
  std::vector<std::string> assumed;
  std::string skipped;  // empty = predicted
};

// Errors of one source: predicted over measured less one.
struct SourceErrors {
  std::string source;
  int rows = 0, skipped = 0, compared = 0;
  double mean_absolute = 0, mean = 0, worst = 0;
  int memory_compared = 0;
  double memory_mean_absolute = 0, memory_worst = 0;  // the worst with its sign
};

// Cases of rows under `profile`; open layout fields are filled by the fastest plan that fits.
std::vector<ValidationCase> validation_cases(const std::vector<PublishedFile>& files,
                                             const topologies::Profile& profile);
// Seconds of a case under another profile (its plan stays). Throws Error.
double predict_seconds(const ValidationCase& one, const topologies::Profile& profile);
ValidatedRow validate_case(const ValidationCase& one, const topologies::Profile& profile);
// One entry a source, in order of appearance. `counts` chooses the rows that enter the errors.
std::vector<SourceErrors> source_errors(const std::vector<ValidationCase>& cases,
                                        const std::vector<ValidatedRow>& rows,
                                        const std::function<bool(const ValidationCase&)>& counts);
// Measured and not marked as broken: what the statistics of `validate` are about.
bool is_measured_row(const ValidationCase& one);
// The rows that ship with the program: those of the sources that the constants are fitted on
// (`fit_sources`), and those that no fit ever sees.
std::vector<PublishedFile> shipped_rows();
// Dense, bf16 or fp16, 1F1B or interleaved (or no pipeline), not marked suspect: what the accuracy
// targets are about.
bool is_gated_row(const ValidationCase& one);

}  // namespace trireme::planner
