// Where the time of a step went: every instant of every rank counted once, so that the parts add up
// to the step, of a measured trace as of a simulated one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/program.h"
#include "core/trace.h"
#include "tools/trace_json.h"

namespace trireme::tools {

// Seconds since the step's start. A communication is not under way before its last member was ready
// (core/trace.h): from `ready` to `start` it waits.
struct TimedOp {
  std::uint32_t rank = 0, iteration = 0;
  std::string category;  // tools/trace_json.h
  bool computes = false;
  double ready = 0, start = 0, end = 0;
};

struct TimeSplit {
  // Mean over ranks and iterations. An instant belongs to the kernel that runs; else to the
  // communication under way, then exposed; else to what is waited for (pipeline_bubble: a message,
  // skew: a collective's last member); else it is unattributed.
  std::map<std::string, double> seconds;
  double step_seconds = 0;           // the sum of them
  double exposed_communication = 0;  // seconds under way with no kernel beside it
};

// `step_seconds` by iteration. Ranks without ops are not counted.
TimeSplit split_time(const std::vector<TimedOp>& ops, const std::vector<double>& step_seconds);

TimeSplit split_time(const StepProgram& program, const Trace& trace);
TimeSplit split_time(const TraceFile& file);

// In the order in which people read them; the categories of breakdown_seconds first.
const std::vector<std::string>& time_split_names();

}  // namespace trireme::tools
