// What the files of rules share: each check is of one kind, and gives the first rule that is
// broken.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "planner/plan/rules.h"

namespace trireme::planner {

using Found = std::optional<Violation>;

template <typename... Arguments>
Found broken(Rule rule, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return Violation{rule, fmt::format(text, std::forward<Arguments>(arguments)...)};
}

inline bool is_torch(const Job& job) {
  return is_torch(job.framework);
}

// pipeline_rules.cc
Found check_pipeline(const Job& job, const Plan& plan);
Found check_interleaving(const Job& job, const Plan& plan);

}  // namespace trireme::planner
