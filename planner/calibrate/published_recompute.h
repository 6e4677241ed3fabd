// What of a row's words about recompute a plan can say: layers, modules, every k-th block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/calibrate/published.h"

namespace trireme::planner {

// The number that follows `word`; -1 where none does.
std::int64_t number_after(const std::string& text, const std::string& word);

// The plan's recompute from what the row prints; what was taken beyond that is named in `assumed`.
void fill_recompute(const PublishedRow& row, const Job& job, Plan& plan,
                    std::vector<std::string>& assumed);

}  // namespace trireme::planner
