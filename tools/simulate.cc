// `trireme simulate`: one layout through the discrete-event simulator.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "core/json_reader.h"
#include "tools/commands.h"
#include "tools/fault_options.h"
#include "tools/launchable.h"
#include "tools/live_buffers.h"
#include "tools/pages.h"
#include "tools/report.h"
#include "tools/report_option.h"
#include "tools/request.h"
#include "tools/sample_options.h"
#include "tools/simulation.h"
#include "tools/switches_report.h"
#include "tools/table.h"
#include "tools/timeline.h"
#include "tools/trace_json.h"

namespace trireme::tools {
namespace {

struct SimulateArguments {
  std::string plan_file;
  JobOptions job;
  LayoutOptions layout;
  FaultOptions faults;
  std::string trace, report;
  bool timeline = false, live = false, unfold = false, no_contention = false, json = false;
};

// Loads of the links that carry anything, as counter tracks of one process below the ranks.
std::string trace_text(const SimulatedStep& step) {
  const sim::Simulation& simulation = step.simulation;
  std::vector<CounterProcess> processes;
  std::vector<CounterPoint> counters;
  const auto process = static_cast<std::uint32_t>(step.program.ranks);
  processes.push_back({process, "links (share of their capacity)"});
  for (const sim::LinkSample& sample : simulation.samples) {
    counters.push_back({process, simulation.links[sample.link].name, sample.time, sample.load});
  }
  return trace_json(step.program, simulation.trace, processes, counters);
}

void print_ranks(const Console& console, const SimulatedStep& step) {
  Table table{.head = {"rank", "stage", "ranks alike", "busy", "exposed communication", "idle"},
              .rows = {},
              .text_columns = 0};
  constexpr std::size_t kRows = 32;
  for (const sim::ActorReport& actor : step.simulation.actors) {
    if (table.rows.size() == kRows) {
      break;
    }
    const auto idle = actor.spent[static_cast<std::size_t>(sim::Activity::kIdle)];
    const auto share = [&](SimDuration part) {
      return fmt::format("{:.1f} %", 100 * to_seconds(part).value / step.step_seconds);
    };
    table.rows.push_back({fmt::format("{}", index_of(actor.rank)),
                          fmt::format("{}", index_of(actor.role)), fmt::format("{}", actor.ranks),
                          share(actor.busy), share(actor.exposed_communication), share(idle)});
  }
  print_table(console, table);
  if (step.simulation.actors.size() > kRows) {
    fmt::print(console.out, "and {} more\n", step.simulation.actors.size() - kRows);
  }
}

void print_links(const Console& console, const SimulatedStep& step) {
  Table table{.head = {"busiest links", "alike", "GB/s", "used"}, .rows = {}};
  for (const sim::LinkReport& link : busiest_links(step.simulation, 6)) {
    table.rows.push_back({link.name, fmt::format("{}", link.links),
                          fmt::format("{:.1f}", link.capacity.value / 1e9),
                          fmt::format("{:.1f} %", 100 * link.utilisation)});
  }
  if (!table.rows.empty()) {
    fmt::print(console.out, "\n");
    print_table(console, table);
  }
}

// The stage that needs the most.
LiveAtPeak worst_stage(const SimulatedStep& step) {
  LiveAtPeak worst;
  for (const trireme::Program& role : step.program.roles) {
    LiveAtPeak live = live_at_peak(step.program, role);
    worst = live.bytes > worst.bytes ? std::move(live) : std::move(worst);
  }
  return worst;
}

void print_live(const Console& console, const LiveAtPeak& live) {
  Table table{.head = {"alive at the peak", "kept between steps", "buffers", "GiB"},
              .rows = {},
              .text_columns = 2};
  for (const LiveBuffers& entry : live.buffers) {
    table.rows.push_back({entry.name, entry.persistent ? "yes" : "",
                          grouped(static_cast<double>(entry.count)),
                          fmt::format("{:.3f}", to_gib(entry.bytes))});
  }
  fmt::print(console.out, "\n");
  print_heading(console, fmt::format("{:.2f} GiB at {}", to_gib(live.bytes), live.op));
  print_table(console, table);
}

Json live_json(const LiveAtPeak& live) {
  Json buffers = Json::array();
  for (const LiveBuffers& entry : live.buffers) {
    buffers.push_back({{"name", entry.name},
                       {"persistent", entry.persistent},
                       {"count", entry.count},
                       {"gib", to_gib(entry.bytes)}});
  }
  return {{"op", live.op}, {"gib", to_gib(live.bytes)}, {"buffers", buffers}};
}

int run(const SimulateArguments& options, Console& console) {
  const Request request = make_request(options.plan_file, options.job, options.layout);
  sim::SimulateOptions settings;
  settings.faults = make_faults(options.faults);
  settings.unfold = options.unfold;
  settings.share_links = !options.no_contention;
  settings.record_links = !options.trace.empty();
  settings.record_trace = !options.trace.empty() || !options.report.empty() || options.timeline;
  const SimulatedStep step = simulate_plan(request.job, request.plan, settings);
  if (!step.simulation.deadlock.empty()) {
    fmt::print(console.err, "trireme: simulate: the step never ends\n{}", step.simulation.deadlock);
    return kAnswerIsNo;
  }
  if (!options.trace.empty()) {
    write_file_atomically(options.trace, trace_text(step));
  }
  if (!options.report.empty()) {
    write_page(options.report, simulation_page(request.job, step, options.faults));
  }
  if (options.json) {
    Json json = simulation_json(request.job, step);
    if (options.live) {
      json["live_at_peak"] = live_json(worst_stage(step));
    }
    print_json(console, "simulate", json);
    return exit_code_of(step.estimate.memory);
  }
  print_estimate(console, request.job, step.estimate);
  if (const std::string told =
          told_switches(request.job, step.estimate, decided_switches(request.options));
      !told.empty()) {
    fmt::print(console.out, "{}\n", told);
  }
  fmt::print(console.out, "\n");
  print_ranks(console, step);
  print_links(console, step);
  if (options.live) {
    print_live(console, worst_stage(step));
  }
  if (options.timeline) {
    fmt::print(console.out, "\n");
    print_timeline(console, step.program, step.simulation.trace);
  }
  fmt::print(console.out, "\n{} events in {}\n",
             grouped(static_cast<double>(step.simulation.events)),
             duration_text(step.wall_seconds));
  return exit_code_of(step.estimate.memory);
}

}  // namespace

void add_simulate_command(Command& app, Program& program) {
  auto options = std::make_shared<SimulateArguments>();
  Command* command =
      add_command(app, program, "simulate", "one layout, op by op, with links shared and faults",
                  "trireme simulate --model llama-3.1-70b --cluster dgx-h100x8 --tp 8 --pp 4 "
                  "--global-batch 64 --timeline --trace step.json");
  add_plan_file_option(*command, options->plan_file);
  add_job_options(*command, options->job);
  add_trained_options(*command, options->job);
  add_layout_options(*command, options->layout);
  add_fault_options(*command, options->faults);
  command->add_option("--trace", options->trace, "write a Chrome/Perfetto trace to this file");
  add_report_option(*command, options->report);
  command->add_flag("--timeline", options->timeline, "draw the step, one line a stage");
  command->add_flag("--live", options->live,
                    "list the step program's buffers that are alive when most memory is in use");
  command->add_flag("--unfold", options->unfold, "simulate every rank by itself");
  command->add_flag("--no-contention", options->no_contention,
                    "let transfers pass each other on links");
  command->add_flag("--json", options->json, "JSON on stdout");
  program.on(command, [options](Console& console) { return run(*options, console); });
}

}  // namespace trireme::tools
