#include "tools/trace_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/json_reader.h"

namespace trireme::tools {
namespace {

constexpr double kPicosecondsPerMicrosecond = 1e6;

double microseconds(SimTime time) {
  return static_cast<double>(time.picoseconds) / kPicosecondsPerMicrosecond;
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const std::string& group_name(const StepProgram& program, const OpKind& kind) {
  static const std::string none;
  return std::visit(
      [&](const auto& value) -> const std::string& {
        if constexpr (requires { value.group; }) {
          return value.group == kNoGroup ? none : program.groups[index_of(value.group)].name;
        } else {
          return none;
        }
      },
      kind);
}

class Writer {
 public:
  Writer(const StepProgram& program, const Trace& trace) : program_(program), trace_(trace) {}

  std::string text(const std::vector<CounterProcess>& processes,
                   const std::vector<CounterPoint>& counters) {
    out_ =
        "{\"displayTimeUnit\": \"ns\",\n\"otherData\": {\"schema\": \"trireme.trace/1\", "
        "\"source\": ";
    out_ +=
        quoted(trace_.source) + ", \"layout\": " + quoted(program_.name) + ", \"step_seconds\": [";
    for (std::size_t i = 0; i < trace_.step_times.size(); ++i) {
      append("{}{:.12g}", i == 0 ? "" : ", ", to_seconds(trace_.step_times[i]).value);
    }
    out_ += "]},\n\"traceEvents\": [";
    name_tracks();
    for (const CounterProcess& process : processes) {
      event(R"("ph": "M", "pid": {}, "name": "process_name", "args": {{"name": {}}})",
            process.process, quoted(process.name));
    }
    for (const OpTiming& timing : trace_.timings) {
      add_op(timing);
    }
    add_messages();
    add_memory();
    for (const CounterPoint& point : counters) {
      event(R"("ph": "C", "pid": {}, "name": {}, "ts": {:.6f}, "args": {{"value": {:.6g}}})",
            point.process, quoted(point.track), microseconds(point.at), point.value);
    }
    out_ += "\n]}\n";
    return std::move(out_);
  }

 private:
  template <typename... Arguments>
  void append(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Arguments>(arguments)...);
  }
  template <typename... Arguments>
  void event(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    out_ += first_ ? "\n{" : ",\n{";
    first_ = false;
    append(format, std::forward<Arguments>(arguments)...);
    out_ += "}";
  }

  // Names each process and track once, in the order in which ranks appear.
  void name_tracks() {
    std::map<std::uint32_t, std::uint32_t> role_of_rank;
    for (const OpTiming& timing : trace_.timings) {
      role_of_rank.emplace(index_of(timing.rank), index_of(timing.role));
    }
    for (const auto& [rank, role] : role_of_rank) {
      event(R"("ph": "M", "pid": {}, "name": "process_name", "args": {{"name": {}}})", rank,
            quoted(fmt::format("rank {} (stage {})", rank, role)));
      const auto& streams = program_.roles[role].streams;
      for (std::size_t stream = 0; stream < streams.size(); ++stream) {
        event(R"("ph": "M", "pid": {}, "tid": {}, "name": "thread_name", "args": {{"name": {}}})",
              rank, stream, quoted(streams[stream]));
        event(
            R"("ph": "M", "pid": {}, "tid": {}, "name": "thread_sort_index", "args": {{"sort_index": {}}})",
            rank, stream, stream);
      }
    }
  }

  void add_op(const OpTiming& timing) {
    const trireme::Program& role = program_.roles[index_of(timing.role)];
    const Op& op = role.ops[index_of(timing.op)];
    event(
        R"("ph": "X", "pid": {}, "tid": {}, "name": {}, "cat": "{}", "ts": {:.6f}, "dur": {:.6f}, )"
        R"("args": {{"op": {}, "role": {}, "kind": "{}", "phase": "{}", "layer": {}, "micro_batch": {}, )"
        R"("iteration": {}, "ready_us": {:.6f}}})",
        index_of(timing.rank), index_of(op.stream), quoted(op_label(role, op)),
        category_of(program_, role, op), microseconds(timing.start),
        microseconds(timing.end) - microseconds(timing.start), index_of(timing.op),
        index_of(timing.role), kind_name(op.kind), to_string(op.origin.phase), op.origin.layer,
        op.origin.micro_batch, timing.iteration, microseconds(timing.ready));
  }

  // Arrows from each send to its receive, where both ends were recorded. Messages of one sender,
  // receiver and channel match in order (core/program.h).
  void add_messages() {
    using Route = std::tuple<std::int64_t, std::int64_t, std::uint16_t, std::uint32_t>;
    std::map<Route, std::pair<std::vector<const OpTiming*>, std::vector<const OpTiming*>>> routes;
    for (const OpTiming& timing : trace_.timings) {
      const Op& op = program_.roles[index_of(timing.role)].ops[index_of(timing.op)];
      const auto own = static_cast<std::int64_t>(index_of(timing.rank));
      if (const auto* send = std::get_if<Send>(&op.kind)) {
        routes[{own, own + send->peer, send->channel, timing.iteration}].first.push_back(&timing);
      } else if (const auto* recv = std::get_if<Recv>(&op.kind)) {
        routes[{own + recv->peer, own, recv->channel, timing.iteration}].second.push_back(&timing);
      }
    }
    std::size_t arrow = 0;
    for (const auto& [route, ends] : routes) {
      for (std::size_t i = 0; i < std::min(ends.first.size(), ends.second.size()); ++i) {
        add_arrow(*ends.first[i], *ends.second[i], ++arrow);
      }
    }
  }

  // From the send's start into the middle of the receive: an arrow binds to the op that it ends in.
  void add_arrow(const OpTiming& send, const OpTiming& recv, std::size_t arrow) {
    const auto track = [&](const OpTiming& timing) {
      return index_of(program_.roles[index_of(timing.role)].ops[index_of(timing.op)].stream);
    };
    event(
        R"("ph": "s", "pid": {}, "tid": {}, "name": "message", "cat": "message", "id": {}, "ts": {:.6f})",
        index_of(send.rank), track(send), arrow, microseconds(send.start));
    event(
        R"("ph": "f", "bp": "e", "pid": {}, "tid": {}, "name": "message", "cat": "message", "id": {}, "ts": {:.6f})",
        index_of(recv.rank), track(recv), arrow,
        (microseconds(recv.start) + microseconds(recv.end)) / 2);
  }

  // Memory of the first iteration of each rank: a buffer counts from the start of its first op to
  // the end of its last.
  void add_memory() {
    std::map<std::uint32_t, std::vector<const OpTiming*>> by_rank;
    for (const OpTiming& timing : trace_.timings) {
      if (timing.iteration == trace_.timings.front().iteration) {
        by_rank[index_of(timing.rank)].push_back(&timing);
      }
    }
    for (const auto& [rank, timings] : by_rank) {
      const trireme::Program& role = program_.roles[index_of(timings.front()->role)];
      if (timings.size() != role.ops.size()) {
        continue;
      }
      std::int64_t live = liveness(program_, role).persistent.value;
      std::map<std::int64_t, std::int64_t> changes;
      const std::vector<Lifetime> lives = lifetimes(role);
      for (std::size_t i = 0; i < lives.size(); ++i) {
        if (!role.buffers[i].persistent && lives[i].first <= lives[i].last) {
          const std::int64_t size = size_of(program_, role.buffers[i]).value;
          changes[timings[lives[i].first]->start.picoseconds] += size;
          changes[timings[lives[i].last]->end.picoseconds] -= size;
        }
      }
      for (const auto& [at, change] : changes) {
        live += change;
        event(R"("ph": "C", "pid": {}, "name": "memory", "ts": {:.6f}, "args": {{"bytes": {}}})",
              rank, microseconds({at}), live);
      }
    }
  }

  const StepProgram& program_;
  const Trace& trace_;
  std::string out_;
  bool first_ = true;
};

}  // namespace

std::string category_of(const StepProgram& program, const trireme::Program& /*role*/,
                        const Op& op) {
  if (std::holds_alternative<Send>(op.kind) || std::holds_alternative<Recv>(op.kind)) {
    return "pipeline_p2p";
  }
  if (op.origin.phase == Phase::kOptimizer) {
    return "optimizer";
  }
  if (std::holds_alternative<Compute>(op.kind) || std::holds_alternative<Copy>(op.kind)) {
    return "compute";
  }
  const std::string& group = group_name(program, op.kind);
  if (group == "tensor") {
    return "tensor_parallel";
  }
  const bool of_parameters =
      op.origin.phase == Phase::kParameterGather || op.origin.phase == Phase::kGradientReduce;
  return of_parameters ? "data_parallel" : "other";
}

std::string trace_json(const StepProgram& program, const Trace& trace,
                       const std::vector<CounterProcess>& processes,
                       const std::vector<CounterPoint>& counters) {
  return Writer(program, trace).text(processes, counters);
}

TraceFile read_trace_json(const std::string& path) {
  const nlohmann::json json = read_json_file(path);
  TraceFile file;
  try {
    const nlohmann::json& head = json.at("otherData");
    if (head.at("schema") != "trireme.trace/1") {
      throw Error(path, "is not a trace of trireme (otherData.schema must be trireme.trace/1)");
    }
    file.source = head.at("source").get<std::string>();
    file.step_seconds = head.at("step_seconds").get<std::vector<double>>();
    for (const nlohmann::json& event : json.at("traceEvents")) {
      if (event.at("ph") != "X") {
        continue;
      }
      const nlohmann::json& details = event.at("args");
      TraceEvent op;
      op.rank = event.at("pid").get<std::uint32_t>();
      op.role = details.at("role").get<std::uint32_t>();
      op.iteration = details.at("iteration").get<std::uint32_t>();
      op.label = event.at("name").get<std::string>();
      op.phase = details.at("phase").get<std::string>();
      op.kind = details.at("kind").get<std::string>();
      op.category = event.at("cat").get<std::string>();
      op.ready = details.at("ready_us").get<double>() * 1e-6;
      op.start = event.at("ts").get<double>() * 1e-6;
      op.end = op.start + event.at("dur").get<double>() * 1e-6;
      file.events.push_back(std::move(op));
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(path, "is not a trace of trireme; write one with run --trace or simulate --trace");
  }
  return file;
}

}  // namespace trireme::tools
