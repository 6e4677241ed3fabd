// A step as a timeline to look at: for each rank the passes it computes, with their micro-batch,
// and for each of its streams what it communicates, hidden behind compute and exposed apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/program.h"
#include "sim/simulate.h"
#include "tools/page.h"

namespace trireme::tools {

// Neighbouring ops of one phase and micro-batch on one stream, drawn as one.
struct TimelineSpan {
  double begin = 0, end = 0;  // seconds
  Phase phase = Phase::kForward;
  std::int32_t micro_batch = -1;
  double busy = 0;     // seconds of its ops
  double exposed = 0;  // of them, in which the rank computes nothing
};
struct TimelineLane {
  std::string name;  // of the stream
  bool computes = false;
  std::vector<TimelineSpan> spans;  // by time
};
struct TimelineRank {
  std::string name;   // "stage 0, rank 0 (8 alike)"
  bool slow = false;  // computes more than 2 % longer than the middle one of its stage
  std::vector<TimelineLane> lanes;
};
struct TimelineChart {
  double seconds = 0;  // of the step
  std::vector<TimelineRank> ranks;
  std::size_t left_out = 0;  // ranks that are not drawn
};

// At most `most_ranks` of the ranks that differ: one of each stage, the slow ones, then the others.
// Gaps too short to be seen are closed until at most `most_spans` are left. Requires: a recorded
// trace.
TimelineChart timeline_chart(const StepProgram& program, const sim::Simulation& simulation,
                             std::size_t most_ranks, std::size_t most_spans);

// Adds the drawing, its buttons and its script.
void add_timeline(const TimelineChart& chart, Page& page);

}  // namespace trireme::tools
