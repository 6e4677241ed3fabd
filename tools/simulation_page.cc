// A simulated step as a page: what was simulated, the timeline, times, memory, ranks, links.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tools/fault_options.h"
#include "tools/memory_curve.h"
#include "tools/page_parts.h"
#include "tools/pages.h"
#include "tools/report.h"
#include "tools/simulation.h"
#include "tools/table.h"
#include "tools/timeline_chart.h"

namespace trireme::tools {
namespace {

constexpr std::size_t kMostRanks = 32;
constexpr std::size_t kMostSpans = 40'000;

std::string share_text(double part, double whole) {
  return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0);
}

// Communication of each stream, mean over the ranks drawn: exposed and hidden apart.
void add_hidden_and_exposed(const TimelineChart& chart, Page& page) {
  BarChart bars{.title = "Communication by stream, exposed and hidden behind compute, seconds",
                .bars = {},
                .colours = {"var(--exposed)", "var(--hidden)"}};
  std::vector<std::string> names;
  for (const TimelineRank& rank : chart.ranks) {
    for (const TimelineLane& lane : rank.lanes) {
      if (!lane.computes && std::find(names.begin(), names.end(), lane.name) == names.end()) {
        names.push_back(lane.name);
      }
    }
  }
  for (const std::string& name : names) {
    double exposed = 0;
    double all = 0;
    for (const TimelineRank& rank : chart.ranks) {
      for (const TimelineLane& lane : rank.lanes) {
        for (const TimelineSpan& span :
             lane.name == name && !lane.computes ? lane.spans : std::vector<TimelineSpan>{}) {
          exposed += span.exposed / static_cast<double>(chart.ranks.size());
          all += span.busy / static_cast<double>(chart.ranks.size());
        }
      }
    }
    bars.bars.push_back(
        {.name = name,
         .text = fmt::format("{}, of it {} exposed ({}) and {} hidden", duration_text(all),
                             duration_text(exposed), share_text(exposed, all),
                             duration_text(all - exposed)),
         .parts = {{"exposed", exposed}, {"hidden", all - exposed}}});
  }
  page.bars(bars);
}

void add_ranks(const SimulatedStep& step, Page& page) {
  Table table{.head = {"rank", "stage", "ranks alike", "busy", "exposed communication", "idle"},
              .rows = {},
              .text_columns = 0};
  for (const sim::ActorReport& actor : step.simulation.actors) {
    if (table.rows.size() == 2 * kMostRanks) {
      break;
    }
    const double idle =
        to_seconds(actor.spent[static_cast<std::size_t>(sim::Activity::kIdle)]).value;
    table.rows.push_back({fmt::format("{}", index_of(actor.rank)),
                          fmt::format("{}", index_of(actor.role)),
                          grouped(static_cast<double>(actor.ranks)),
                          share_text(to_seconds(actor.busy).value, step.step_seconds),
                          duration_text(to_seconds(actor.exposed_communication).value),
                          share_text(idle, step.step_seconds)});
  }
  const std::size_t more = step.simulation.actors.size() - table.rows.size();
  page.heading("Ranks");
  page.table(table);
  if (more > 0) {
    page.text(fmt::format("and {} more", more));
  }
}

void add_links(const SimulatedStep& step, Page& page) {
  BarChart bars{.title = "Busiest links, per cent of what they can carry in a step",
                .bars = {},
                .limit = 100,
                .limit_name = "all that the link can carry"};
  for (const sim::LinkReport& link : busiest_links(step.simulation, 16)) {
    bars.bars.push_back(
        {.name = link.name,
         .text = fmt::format("{:.1f} % of {:.1f} GB/s; {} alike", 100 * link.utilisation,
                             link.capacity.value / 1e9, link.links),
         .parts = {{"used", 100 * link.utilisation}}});
  }
  page.bars(bars);
}

// The role that holds most, over the time of its first rank.
void add_memory_curve(const planner::Job& job, const SimulatedStep& step, Page& page) {
  std::size_t fullest = 0;
  Bytes most;
  for (std::size_t role = 0; role < step.program.roles.size(); ++role) {
    const Bytes peak = liveness(step.program, step.program.roles[role]).peak;
    if (peak.value > most.value) {
      most = peak;
      fullest = role;
    }
  }
  const auto& timings = step.simulation.trace.timings;
  const auto first = std::find_if(timings.begin(), timings.end(), [&](const OpTiming& timing) {
    return index_of(timing.role) == fullest;
  });
  if (first == timings.end()) {
    return;
  }
  const auto last = std::find_if(
      first, timings.end(), [&](const OpTiming& timing) { return timing.rank != first->rank; });
  const trireme::Program& role = step.program.roles[fullest];
  if (static_cast<std::size_t>(last - first) != role.ops.size()) {
    return;
  }
  const MemoryCurve curve = memory_curve(step.program, role, {first, last}, 400);
  page.areas({.title = fmt::format("Memory over the step, stage {}", fullest),
              .x_name = "seconds of the step",
              .y_name = "GiB of buffers",
              .names = curve.names,
              .x = curve.seconds,
              .values = curve.gib,
              .limit = to_gib(job.cluster.gpu.memory),
              .limit_name = "the card's memory",
              .mark = {curve.peak_seconds, "peak"}});
  page.text(
      fmt::format("Op by op from the step program's buffers: {:.2f} GiB at {}. The closed form "
                  "gives {} allocated, with what the framework adds.",
                  curve.peak_gib, curve.peak_op, gib_text(step.estimate.memory.allocated_gib)));
}

// GPUs node by node, coloured by their place in one group.
std::string rank_map(const StepProgram& program, const topologies::Cluster& cluster,
                     const std::string& name,
                     std::int64_t (*place)(const StepProgram&, Rank, GroupId), GroupId group) {
  constexpr std::int64_t kNodes = 8;
  constexpr std::int64_t kAcross = 8;
  constexpr int kSide = 26;
  const std::int64_t per_node = cluster.node.gpus;
  const std::int64_t nodes = std::min((program.ranks + per_node - 1) / per_node, kNodes);
  const std::int64_t down = (per_node + kAcross - 1) / kAcross;
  const std::int64_t across = std::min(per_node, kAcross);
  std::string inside;
  for (std::int64_t node = 0; node < nodes; ++node) {
    const std::int64_t top = 18 + node * (down * kSide + 10);
    inside +=
        fmt::format("<rect class=\"node\" x=\"0\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\"/>",
                    top - 3, across * kSide + 6, down * kSide + 6);
    for (std::int64_t gpu = 0; gpu < per_node; ++gpu) {
      const std::int64_t rank = node * per_node + gpu;
      if (rank >= program.ranks) {
        break;
      }
      const std::int64_t at = place(program, static_cast<Rank>(rank), group);
      const std::int64_t x = 4 + gpu % kAcross * kSide;
      const std::int64_t y = top + gpu / kAcross * kSide;
      inside += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"22\" height=\"22\" rx=\"3\" fill=\"{}\"><title>rank {}: "
          "{} {}"
          "</title></rect><text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
          x, y, colour_at(static_cast<std::size_t>(at)), rank, html_text(name), at, x + 11, y + 15,
          at);
    }
  }
  const std::int64_t height = 18 + nodes * (down * kSide + 10);
  const std::int64_t width = across * kSide + 10;
  return fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" aria-label=\"ranks "
      "by {2}\">"
      "<text class=\"soft\" x=\"0\" y=\"11\">{2}</text>{3}</svg>\n",
      width, height, html_text(name), inside);
}

void add_rank_maps(const planner::Job& job, const StepProgram& program, Page& page) {
  std::string maps;
  if (program.stages.degree > 1) {
    maps += rank_map(
        program, job.cluster, "stage",
        [](const StepProgram& p, Rank rank, GroupId) {
          return static_cast<std::int64_t>(index_of(role_of(p, rank)));
        },
        kNoGroup);
  }
  for (std::size_t i = 0; i < program.groups.size(); ++i) {
    const Group& group = program.groups[i];
    constexpr std::array<std::string_view, 5> kShown = {"tensor", "shard", "replica", "context",
                                                        "expert"};
    const bool shown = std::ranges::find(kShown, group.name) != kShown.end();
    if (shown && group_size(group) > 1) {
      maps += rank_map(
          program, job.cluster, group.name,
          [](const StepProgram& p, Rank rank, GroupId id) { return index_in_group(p, id, rank); },
          static_cast<GroupId>(i));
    }
  }
  if (!maps.empty()) {
    page.heading("The cluster's nodes, each GPU with its place in its groups");
    page.raw("<div class=\"tiles\">" + maps + "</div>\n");
    if (job.cluster.nodes > 8) {
      page.text(fmt::format("The first 8 of {} nodes.", job.cluster.nodes));
    }
  }
}

void add_asked(const FaultOptions& faults, Page& page) {
  page.heading("What was asked");
  std::vector<std::string> all;
  for (const std::string& straggler : faults.stragglers) {
    all.push_back("straggler " + straggler);
  }
  for (const std::string& link : faults.slow_links) {
    all.push_back("slow link " + link);
  }
  if (!faults.jitter.empty()) {
    all.push_back(fmt::format("jitter {}, seed {}", faults.jitter, faults.seed.value_or(0)));
  }
  if (!faults.rank_spread.empty()) {
    all.push_back(fmt::format("spread of the ranks {}, seed {}", faults.rank_spread,
                              faults.seed.value_or(0)));
  }
  page.text(all.empty() ? "No faults: every GPU and link as sound as the others."
                        : fmt::format("Faults: {}.", fmt::join(all, "; ")));
}

}  // namespace

Page simulation_page(const planner::Job& job, const SimulatedStep& step,
                     const FaultOptions& faults) {
  Page page(planner::short_form(step.estimate.plan) + ": " + job_text(job));
  page.text(verdict(step.estimate.memory));
  page.table({.head = {"step", "tokens/s", "MFU", "events", "simulated in"},
              .rows = {{duration_text(step.step_seconds),
                        grouped(step.estimate.throughput.tokens_per_second),
                        fmt::format("{:.1f} %", 100 * step.estimate.throughput.mfu),
                        grouped(static_cast<double>(step.simulation.events)),
                        duration_text(step.wall_seconds)}}});
  const TimelineChart chart = timeline_chart(step.program, step.simulation, kMostRanks, kMostSpans);
  page.heading("The step");
  add_timeline(chart, page);
  page.bars({.title = "Exposed time of a step, mean over the ranks, seconds",
             .bars = {time_bar("step", step.estimate.time)}});
  add_hidden_and_exposed(chart, page);
  add_ranks(step, page);
  add_rank_maps(job, step.program, page);
  add_links(step, page);
  add_memory_curve(job, step, page);
  add_memory(job, step.estimate.memory, page);
  add_asked(faults, page);
  add_provenance(job, page, "Discrete-event simulation");
  return page;
}

}  // namespace trireme::tools
