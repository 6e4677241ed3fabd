// Which of several layouts that cannot be told apart an engineer would start with.
#pragma once

#include <string>
#include <string_view>

#include "planner/search/search.h"

namespace trireme::planner {

// Layouts of one job whose predicted steps differ by less than this share are not told apart. Of
// measured pairs that differ in nothing but the layout the prediction of their difference is off by
// 2.5 % in the median (simumax_b200 and zero_bubble_2024, 57 pairs, which state everything else),
// where a single time is off by up to a quarter: under half of that the order says nothing.
inline constexpr double kToldApart = 0.01;

// Orders as an engineer would choose: what surely fits before what is at risk, each by its step,
// and the layouts that are not told apart from the fastest by what is simplest and safest: tensor
// parallelism in the node, then the fewest axes and mechanisms, the fewest virtual stages, the
// widest margin of memory. Returns why the first is not the fastest, or nothing when it is.
std::string recommend(const Job& job, SearchResult& result);

// In a word, the first thing of those that speaks for `chosen` beside a faster one: "simpler".
std::string_view advantage_word(const Job& job, const Estimate& chosen, const Estimate& faster);

}  // namespace trireme::planner
