// Every legal layout of a job, estimated: what search spares itself by bounds, for who wants the
// whole table.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "planner/search/search.h"

namespace trireme::planner {

struct SweepOptions {
  std::vector<Constraint> constraints;
  FixedChoices fixed;
  int threads = 1;
};
struct SweepSink {
  std::function<void(std::size_t layouts)> begin;  // once, before the first layout
  // Once a layout, those that do not fit among them; `at` counts from 0 in the order of the space,
  // whatever the threads. Called on several threads at once, never twice with one `at`.
  std::function<void(std::size_t at, const RankedPlan& layout)> take;
};

// Requires: job.global_batch > 0, options.threads >= 1.
void sweep(const Job& job, const SweepOptions& options, const SweepSink& sink);

}  // namespace trireme::planner
