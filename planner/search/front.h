// The Pareto front of step time, memory and complexity. Time and memory are told apart by one part
// in a hundred (boxes of a logarithmic grid), so that the front is short enough to read and bounds
// can be tested in constant time.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/cost/memory.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// What search remembers of an evaluated layout.
struct Candidate {
  Plan plan;
  double step_seconds = 0, low_seconds = 0, high_seconds = 0;
  double memory_gib = 0;
  double value = 0;  // of the objective; smaller is better
  Fit fit = Fit::kNo;
  int complexity = 0;
};

// Axes and mechanisms that a layout asks a person to understand and to debug.
int complexity_of(const Plan& plan);
// The same, told whether the axes above 1 stand in the usual order (that of the enumeration).
int complexity_of(const Plan& plan, bool usual_order);
constexpr int kComplexityMost = 15;
constexpr int kMemoryBoxes = 1024;  // of 1 % each: from 16 MiB to 400 GiB

// A total order: value, then complexity, then memory, then the plan itself, so that no thread count
// changes an answer. Values within a millionth are the same.
bool better(const Candidate& a, const Candidate& b);

// Times and memories with their boxes: layouts have one or the other in common, so that a box,
// which takes a logarithm, is found once for many.
struct GridTime {
  double seconds = 0;
  int box = 0;
};
struct GridMemory {
  double gib = 0;
  int box = 0;
};
GridTime time_on_grid(double seconds);
GridMemory memory_on_grid(double gib);

class Front {
 public:
  Front();
  // True when some member is no worse than (time, memory, complexity) in each, within a box.
  [[nodiscard]] bool covers(const GridTime& time, const GridMemory& memory, int complexity) const;
  void insert(const Candidate& candidate);
  // Members that no other member covers, fastest first.
  [[nodiscard]] std::vector<Candidate> members() const;

 private:
  static constexpr int kLevels = kComplexityMost + 1;
  void spread(int complexity, int box, int time);

  // Smallest time box among members of at most this complexity and memory box.
  std::vector<std::array<int, kMemoryBoxes>> fastest_;
  std::vector<Candidate> kept_;
};

}  // namespace trireme::planner
