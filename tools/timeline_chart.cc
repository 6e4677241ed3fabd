#include "tools/timeline_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <span>
#include <utility>

namespace trireme::tools {
namespace {

constexpr double kSlow = 1.02;
constexpr double kUnits = 4e6;        // of a step, in a page
constexpr double kFinest = 1 / 40e3;  // of a step: shorter gaps are closed at once

struct Interval {
  double begin = 0, end = 0;
};

bool computes(const Op& op) {
  return std::holds_alternative<Compute>(op.kind) || std::holds_alternative<Copy>(op.kind);
}

double seconds_of(SimTime time) {
  return to_seconds(time - SimTime{}).value;
}

// What of [begin, end) the disjoint, sorted intervals cover.
double covered(const std::vector<Interval>& intervals, double begin, double end) {
  auto at = std::lower_bound(intervals.begin(), intervals.end(), begin,
                             [](const Interval& i, double value) { return i.end <= value; });
  double sum = 0;
  for (; at != intervals.end() && at->begin < end; ++at) {
    sum += std::min(at->end, end) - std::max(at->begin, begin);
  }
  return sum;
}

std::vector<Interval> united(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> result;
  for (const Interval& next : intervals) {
    if (!result.empty() && next.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, next.end);
    } else {
      result.push_back(next);
    }
  }
  return result;
}

// Closes gaps of at most `gap` between spans of one phase and micro-batch.
std::vector<TimelineSpan> merged_spans(const std::vector<TimelineSpan>& spans, double gap) {
  std::vector<TimelineSpan> result;
  for (const TimelineSpan& span : spans) {
    TimelineSpan* last = result.empty() ? nullptr : &result.back();
    if (last != nullptr && last->phase == span.phase && last->micro_batch == span.micro_batch &&
        span.begin - last->end <= gap) {
      last->end = std::max(last->end, span.end);
      last->busy += span.busy;
      last->exposed += span.exposed;
    } else {
      result.push_back(span);
    }
  }
  return result;
}

// Of the actors' ranks: one of each stage first, then those that are slow, then the others.
std::vector<const sim::ActorReport*> chosen_actors(const std::vector<sim::ActorReport>& actors,
                                                   const std::vector<bool>& slow,
                                                   std::size_t most) {
  std::vector<std::pair<int, const sim::ActorReport*>> order;
  std::map<RoleIndex, bool> seen;
  for (std::size_t i = 0; i < actors.size(); ++i) {
    const bool first = !std::exchange(seen[actors[i].role], true);
    order.emplace_back(first ? 0 : slow[i] ? 1 : 2, &actors[i]);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  order.resize(std::min(order.size(), most));
  std::vector<const sim::ActorReport*> result;
  result.reserve(order.size());
  for (const auto& [place, actor] : order) {
    result.push_back(actor);
  }
  std::sort(result.begin(), result.end(), [](const auto* a, const auto* b) {
    return std::pair(a->role, a->rank) < std::pair(b->role, b->rank);
  });
  return result;
}

std::vector<bool> slow_actors(const std::vector<sim::ActorReport>& actors) {
  std::map<RoleIndex, std::vector<SimDuration>> busy;
  for (const sim::ActorReport& actor : actors) {
    busy[actor.role].push_back(actor.busy);
  }
  for (auto& [role, times] : busy) {
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                     times.end());
  }
  std::vector<bool> slow;
  for (const sim::ActorReport& actor : actors) {
    const std::vector<SimDuration>& times = busy[actor.role];
    slow.push_back(to_seconds(actor.busy).value >
                   kSlow * to_seconds(times[times.size() / 2]).value);
  }
  return slow;
}

// The lanes of one rank, op by op: those that compute first, then stream by stream.
std::vector<TimelineLane> lanes_of(const trireme::Program& role,
                                   std::span<const OpTiming> timings) {
  std::vector<Interval> computing;
  for (const OpTiming& timing : timings) {
    if (computes(role.ops[index_of(timing.op)])) {
      computing.push_back({seconds_of(timing.start), seconds_of(timing.end)});
    }
  }
  computing = united(std::move(computing));
  std::map<std::pair<bool, std::uint32_t>, TimelineLane> lanes;
  for (const OpTiming& timing : timings) {
    const Op& op = role.ops[index_of(timing.op)];
    TimelineSpan span{seconds_of(timing.start), seconds_of(timing.end), op.origin.phase,
                      op.origin.micro_batch};
    span.busy = span.end - span.begin;
    if (span.busy <= 0) {
      continue;
    }
    span.exposed = computes(op) ? 0 : span.busy - covered(computing, span.begin, span.end);
    const std::uint32_t stream = index_of(op.stream);
    TimelineLane& lane = lanes[{!computes(op), stream}];
    lane.computes = computes(op);
    lane.name = computes(op) || stream > 0 ? role.streams[stream] : "in line";
    lane.spans.push_back(span);
  }
  std::vector<TimelineLane> result;
  for (auto& [key, lane] : lanes) {
    std::sort(lane.spans.begin(), lane.spans.end(),
              [](const TimelineSpan& a, const TimelineSpan& b) { return a.begin < b.begin; });
    result.push_back(std::move(lane));
  }
  return result;
}

std::size_t close_gaps(TimelineChart& chart, double gap) {
  std::size_t spans = 0;
  for (TimelineRank& rank : chart.ranks) {
    for (TimelineLane& lane : rank.lanes) {
      lane.spans = merged_spans(lane.spans, gap);
      spans += lane.spans.size();
    }
  }
  return spans;
}

// ---- as text --------------------------------------------------------------------------------

constexpr std::array<std::pair<const char*, const char*>, 7> kPhases = {
    {{"forward", "#4477aa"},
     {"recompute", "#aa3377"},
     {"backward", "#228833"},
     {"weight gradient", "#3a9fc0"},
     {"parameter gather", "#777777"},
     {"gradient reduce", "#777777"},
     {"optimizer", "#a08a1c"}}};

long long units(double seconds, double step) {
  return std::llround(seconds / step * kUnits);
}

int per_cent(double part, double whole) {
  return static_cast<int>(std::lround(whole > 0 ? std::clamp(100 * part / whole, 0.0, 100.0) : 0));
}

std::string lane_json(const TimelineLane& lane, double step) {
  std::string text = fmt::format("{{\"name\":\"{}\",\"computes\":{},\"spans\":[",
                                 script_text(lane.name), lane.computes);
  long long at = 0;
  for (const TimelineSpan& span : lane.spans) {
    const long long begin = std::max(units(span.begin, step), at);
    const long long end = std::max(units(span.end, step), begin + 1);
    fmt::format_to(std::back_inserter(text), "{}{},{},{},{},{},{}", text.back() == '[' ? "" : ",",
                   begin - at, end - begin, static_cast<int>(span.phase), span.micro_batch + 1,
                   std::max(per_cent(span.busy, span.end - span.begin), 1),
                   per_cent(span.exposed, span.busy));
    at = end;
  }
  return text + "]}";
}

std::string timeline_json(const TimelineChart& chart) {
  std::string text =
      fmt::format("{{\"seconds\":{:.9g},\"units\":{:g},\"kinds\":[", chart.seconds, kUnits);
  for (const auto& [name, colour] : kPhases) {
    text += fmt::format("{}[\"{}\",\"{}\"]", text.back() == '[' ? "" : ",", name, colour);
  }
  text += "],\"ranks\":[";
  for (const TimelineRank& rank : chart.ranks) {
    text += fmt::format("{}{{\"name\":\"{}\",\"slow\":{},\"lanes\":[",
                        text.back() == '[' ? "" : ",\n", script_text(rank.name), rank.slow);
    for (const TimelineLane& lane : rank.lanes) {
      text += (text.back() == '[' ? "" : ",\n") + lane_json(lane, chart.seconds);
    }
    text += "]}";
  }
  return text + "]}";
}

}  // namespace

TimelineChart timeline_chart(const StepProgram& program, const sim::Simulation& simulation,
                             std::size_t most_ranks, std::size_t most_spans) {
  TimelineChart chart;
  chart.seconds = to_seconds(simulation.step).value;
  const std::vector<bool> slow = slow_actors(simulation.actors);
  const auto& timings = simulation.trace.timings;
  const auto by_rank = [](const OpTiming& a, const OpTiming& b) { return a.rank < b.rank; };
  for (const sim::ActorReport* actor : chosen_actors(simulation.actors, slow, most_ranks)) {
    OpTiming key;
    key.rank = actor->rank;
    const auto [first, last] = std::equal_range(timings.begin(), timings.end(), key, by_rank);
    TimelineRank rank;
    rank.slow = slow[static_cast<std::size_t>(actor - simulation.actors.data())];
    rank.name = fmt::format("stage {}, rank {}{}{}", index_of(actor->role), index_of(actor->rank),
                            actor->ranks > 1 ? fmt::format(" ({} alike)", actor->ranks) : "",
                            rank.slow ? ": slow" : "");
    rank.lanes = lanes_of(program.roles[index_of(actor->role)], {first, last});
    for (TimelineLane& lane : rank.lanes) {
      lane.spans = merged_spans(lane.spans, chart.seconds * kFinest);
    }
    chart.ranks.push_back(std::move(rank));
  }
  chart.left_out = simulation.actors.size() - chart.ranks.size();
  for (double gap = chart.seconds * kFinest;
       close_gaps(chart, gap) > most_spans && gap < chart.seconds;) {
    gap *= 2;
  }
  return chart;
}

void add_timeline(const TimelineChart& chart, Page& page) {
  std::string key;
  for (const auto& [name, colour] : kPhases) {
    if (std::string(colour) != "#777777") {
      key += fmt::format("<span><b style=\"background:{}\"></b>{}</span>", colour, name);
    }
  }
  page.raw(fmt::format(
      "<figure class=\"timeline\"><p class=\"key\">{}<span><b "
      "style=\"background:var(--exposed)\"></b>"
      "communication, exposed</span><span><b "
      "style=\"background:var(--hidden)\"></b>hidden</span></p>\n"
      "<p class=\"buttons\"><button value=\"+\" title=\"key +\">zoom in</button>"
      "<button value=\"-\" title=\"key -\">zoom out</button>"
      "<button value=\"ArrowLeft\" title=\"key left\">&larr;</button>"
      "<button value=\"ArrowRight\" title=\"key right\">&rarr;</button>"
      "<button value=\"0\" title=\"key 0\">whole step</button></p>\n"
      "<div class=\"tall\"><canvas tabindex=\"0\" role=\"application\" aria-label=\"Timeline of "
      "the step. "
      "Plus and minus zoom, left and right move, comma and point go from pass to pass, up and down "
      "from stream to stream.\"></canvas></div>\n"
      "<p class=\"hint\">Drag to move; Ctrl and the wheel, or + and - zoom; , and . go from pass "
      "to "
      "pass, up and down from stream to stream. A bar is as high as the share of its time that is "
      "busy. Numbers are micro-batches.{}</p><p class=\"said\" aria-live=\"polite\"></p>"
      "<div class=\"tip\" hidden></div>\n<script type=\"application/json\">{}</script></figure>\n",
      key,
      chart.left_out > 0 ? fmt::format(" {} more ranks that differ are not drawn.", chart.left_out)
                         : "",
      timeline_json(chart)));
  page.script("page_timeline");
}

}  // namespace trireme::tools
