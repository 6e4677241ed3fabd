// Traces as files that Perfetto and chrome://tracing open: ranks as processes, streams as tracks,
// memory as a counter. Predictions and measurements have the same format, so that `compare` can
// join them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/program.h"
#include "core/trace.h"

namespace trireme::tools {

// What an op is for: the categories of breakdown_seconds. "compute", "tensor_parallel",
// "pipeline_p2p", "data_parallel", "optimizer", "other".
std::string category_of(const StepProgram& program, const trireme::Program& role, const Op& op);

// A counter track: values over time on one rank (or link, as a process of its own name).
struct CounterPoint {
  std::uint32_t process = 0;  // a rank, or ranks + i for further tracks
  std::string track;          // "link load", …
  SimTime at;
  double value = 0;
};
struct CounterProcess {
  std::uint32_t process = 0;
  std::string name;
};

// The trace as JSON text. Memory is counted from the program's buffers and the times of the ops
// that touch them.
std::string trace_json(const StepProgram& program, const Trace& trace,
                       const std::vector<CounterProcess>& processes = {},
                       const std::vector<CounterPoint>& counters = {});

// One op of a file. Times in seconds since the step's start.
struct TraceEvent {
  std::uint32_t rank = 0, role = 0, iteration = 0;
  std::string label;  // "L5.mlp_up mb3": with phase and role the key of a join
  std::string phase;  // "forward", …
  std::string kind;   // "compute", "all_reduce", …
  std::string category;
  double ready = 0, start = 0, end = 0;
};
struct TraceFile {
  std::string source;                // "walk", "simulate", "execute"
  std::vector<double> step_seconds;  // by iteration
  std::vector<TraceEvent> events;
};
// Throws Error: missing, or not a trace of ours.
TraceFile read_trace_json(const std::string& path);

}  // namespace trireme::tools
