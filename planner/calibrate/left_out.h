// What to expect of a source that no fit saw, and the intervals of predictions that follow.
#pragma once

#include <string>
#include <vector>

#include "planner/calibrate/validation.h"

namespace trireme::planner {

// Every case under a fit that saw nothing of its source, in the order of `cases`; sources that are
// never fitted under `fitted`, the fit of all.
std::vector<ValidatedRow> validate_left_out(const std::vector<ValidationCase>& cases,
                                            const topologies::Profile& fitted);

// Where 90 % of measured over predicted lie, for a behaviour that enough sources speak of, and for
// the rest ("other").
struct LeftOutInterval {
  std::string behaviour;
  std::size_t sources = 0;
  double low = 0, high = 0;
};
// How many rows of a source lie in the interval that the other sources make.
struct Coverage {
  std::string behaviour, source;
  int inside = 0, rows = 0;
};
struct LeftOutIntervals {
  std::vector<LeftOutInterval> intervals;
  std::vector<Coverage> coverage;
  [[nodiscard]] double share_inside() const;
};

// `rows` as validate_left_out gives them.
LeftOutIntervals left_out_intervals(const std::vector<ValidationCase>& cases,
                                    const std::vector<ValidatedRow>& rows);

}  // namespace trireme::planner
