// Why a layout: every formula F1 to F20 with its numbers beside what the detailed model says, the
// rules F21 to F23 with whether they agree, F24's warnings, and where two layouts differ.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cost/estimate.h"
#include "planner/plan/job.h"
#include "planner/search/decide.h"
#include "planner/search/search.h"

namespace trireme::planner {

struct FormulaRow {
  std::string_view number;  // "F3"
  std::string_view meaning;
  double given = 0;      // the textbook value; may be infinite or not a number
  std::string practice;  // what the detailed model has instead
};

struct Explanation {
  std::vector<FormulaRow> formulas;
  std::vector<Verdict> verdicts;          // F21, F22, F23
  std::vector<std::string> warnings;      // F24
  std::vector<ComparisonRow> comparison;  // F27
};

// `rivals` are the other layouts of the search, for F20's fit and F21's utility; may be empty.
Explanation explain(const Job& job, const Estimate& chosen, const std::vector<Estimate>& rivals);

// Seconds of each category by which `other` differs, largest first; positive: `other` is slower
// there.
struct Difference {
  std::string_view category;
  double seconds = 0;
};
std::vector<Difference> differences(const TimeEstimate& chosen, const TimeEstimate& other);

}  // namespace trireme::planner
