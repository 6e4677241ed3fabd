// What a framework can switch on beside the layout, and what each switch brings. What leaves the
// numbers of training as they are is switched on by `plan`; what changes them is only offered.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/job.h"
#include "planner/search/search.h"

namespace trireme::planner {

struct Switch {
  std::string_view name;     // "fused loss"
  std::string_view setting;  // KEY=VALUE of --set, or "precision=fp8"
  std::string_view flag;     // as the framework's own file spells it
  bool changes_numerics = false;
  bool trades = false;  // helps some layouts and slows others: the best of both are compared
  std::string_view needs = {};  // the key of a switch without which the program refuses this one
};

// Those that the job's framework has and its settings leave off, except on keys in `given`, which
// somebody has decided on.
std::vector<Switch> switches_of(const Job& job, const std::vector<std::string>& given);
void switch_on(Job& job, const Switch& one);
// The job leaves off what the switch needs.
bool lacks_its_need(const Job& job, const Switch& one);

struct SwitchGain {
  Switch which;
  bool applied = false;     // it is on in the plan beside which this stands
  double gain_seconds = 0;  // this layout's step is so much shorter with it than without; where it
                            // makes it fit, than that of the best that fits as surely without
  // Where that is another layout, which the switch has no memory for: so much longer is its step.
  std::optional<double> best_without_seconds = {};
  bool decides_fit = false;      // without it nothing is as sure to fit
  Fit fit_without = Fit::kFits;  // of this layout
  bool makes_fit = false;        // this layout is surer to fit with it
};

// What `context_gather=false` does not do where no kernel of this project's runtime passes keys
// round a ring ("unfused attention"); empty: it does, or nothing asks for it.
std::string idle_ring(const Job& job, const Plan& plan);

// What each switch that is off would bring this plan, most first; those that bring nothing are left
// out. Requires: check_plan found no violation.
std::vector<SwitchGain> switch_gains(const Job& job, const Plan& plan,
                                     const std::vector<std::string>& given);

struct SwitchedSearch {
  Job job;  // with the switches that are applied
  SearchResult result;
  std::vector<SwitchGain> switches;  // applied ones first, each group by its gain
};

// The best layouts with the switches of the best (as switched_for says): switches decide between
// layouts, so layouts are searched with them on, and all that the answer names are of one set of
// switches, `job`'s.
SwitchedSearch search_with_switches(const Job& job, const SearchOptions& options,
                                    const std::vector<std::string>& given);

// Measures anew the gains in `found`, whose best is another layout now than `best`, which they were
// measured for. `job` is the one that was asked for, without switches.
void measure_gains(const Job& job, const SearchOptions& options, const Estimate& best,
                   SwitchedSearch& found);

}  // namespace trireme::planner
