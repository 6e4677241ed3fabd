// What `simulate` adds around the simulator: faults as people write them, the timeline, and the
// JSON that scripts read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/unit/tools/command.h"
#include "tools/fault_options.h"
#include "tools/memory_curve.h"
#include "tools/page.h"
#include "tools/program.h"
#include "tools/request.h"
#include "tools/simulation.h"
#include "tools/timeline.h"
#include "tools/timeline_chart.h"

namespace trireme::tools {
namespace {

const std::vector<std::string> kStep = {
    "simulate", "--model", "llama-3.1-8b",  "--cluster", "dgx-h100x1",     "--tp", "2",
    "--pp",     "2",       "--micro-batch", "1",         "--global-batch", "16",   "--seq",
    "2048"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(FaultOptions, ReadsWhatPeopleWrite) {
  const sim::Straggler rank = parse_straggler("1.2x@rank3");
  EXPECT_EQ(rank.factor, 1.2);
  EXPECT_EQ(rank.rank, Rank{3});
  EXPECT_FALSE(rank.stage);
  EXPECT_EQ(parse_straggler("1.5@stage2").stage, StageIndex{2});
  const sim::SlowLink rail = parse_slow_link("0.5x@nic3");
  EXPECT_EQ(rail.nic, 3);
  EXPECT_FALSE(rail.node);
  const sim::SlowLink node = parse_slow_link("0.25x@node7.nvlink");
  EXPECT_EQ(node.node, 7);
  EXPECT_EQ(node.kind, sim::SlowLink::Kind::kFastFabric);
  for (const char* wrong :
       {"", "1.2x", "x@rank1", "1.2x@", "1.2x@rank", "1.2x@rank-1", "0x@rank1", "1.2x@node1"}) {
    EXPECT_THROW(parse_straggler(wrong), Error) << wrong;
  }
  for (const char* wrong :
       {"", "0.5x@rank3", "0.5x@node", "0.5x@node1.gpu", "-1x@nics", "nan@nics"}) {
    EXPECT_THROW(parse_slow_link(wrong), Error) << wrong;
  }
}

TEST(SimulateCommand, PrintsTheContractsKeys) {
  const Answer answer = run_command(with(kStep, {"--json"}));
  const nlohmann::json json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json["schema"], "trireme.simulate/1");
  EXPECT_GT(json["events"].get<std::int64_t>(), 1000);
  EXPECT_GT(json["simulation_seconds"].get<double>(), 0);
  ASSERT_EQ(json["ranks"].size(), 2U);
  EXPECT_EQ(json["ranks"][1]["stage"], 1);
  EXPECT_EQ(json["ranks"][1]["rank"], 4);  // two stages of tensor 2 x data 2
  EXPECT_GT(json["ranks"][0]["busy_fraction"].get<double>(), 0.1);
  EXPECT_LT(json["ranks"][0]["busy_fraction"].get<double>(), 1.0);
  double sum = 0;
  for (const auto& item : json["time"]["breakdown_seconds"]) {
    sum += item.get<double>();
  }
  const double step = json["time"]["step_seconds"];
  EXPECT_NEAR(sum, step, 1e-9 * step);
}

// The buffers of the worst moment add up to the peak; a step of one backward holds no gradients of
// layers when the head's backward is the worst.
TEST(SimulateCommand, ListsWhatIsAliveAtThePeak) {
  const std::vector<std::string> step = {
      "simulate", "--model", "llama-3.1-8b", "--cluster", "dgx-h100x1",     "--gpus", "8",
      "--fsdp",   "8",       "--seq",        "2048",      "--global-batch", "8",      "--live",
      "--json"};
  const Answer answer = run_command(step);
  ASSERT_EQ(answer.code, 0) << answer.err;
  const nlohmann::json live = nlohmann::json::parse(answer.out).at("live_at_peak");
  double sum = 0;
  std::set<std::string> names;
  for (const nlohmann::json& buffer : live.at("buffers")) {
    sum += buffer.at("gib").get<double>();
    names.insert(buffer.at("name").get<std::string>());
  }
  EXPECT_NEAR(sum, live.at("gib").get<double>(), 1e-9);
  const double peak =
      nlohmann::json::parse(answer.out).at("memory").at("peak_allocated_gib").get<double>();
  EXPECT_NEAR(sum / peak, 1, 0.01);
  EXPECT_TRUE(names.contains("master"));
  EXPECT_TRUE(names.contains("gathered"));
  EXPECT_FALSE(live.at("op").get<std::string>().empty());
}

TEST(SimulateCommand, AStragglerSlowsTheStep) {
  const auto step_of = [](const std::vector<std::string>& more) {
    const Answer answer = run_command(with(with(kStep, {"--json"}), more));
    return nlohmann::json::parse(answer.out)["time"]["step_seconds"].get<double>();
  };
  const double base = step_of({});
  EXPECT_GT(step_of({"--straggler", "1.5x@rank1"}), base * 1.2);
  EXPECT_GT(step_of({"--straggler", "1.5x@stage1"}), base * 1.2);
  EXPECT_GE(step_of({"--slow-link", "0.1x@nvlink"}), base);
}

TEST(SimulateCommand, TwoRunsWithOneSeedWriteTheSameTrace) {
  const auto trace = [](const std::string& seed) {
    const std::string path = testing::TempDir() + "trireme_trace_" + seed + ".json";
    const Answer answer =
        run_command(with(kStep, {"--jitter", "0.05", "--seed", seed, "--trace", path}));
    EXPECT_EQ(answer.err, "");
    std::ifstream file(path);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::filesystem::remove(path);
    return text;
  };
  const std::string first = trace("5");
  EXPECT_GT(first.size(), 100'000U);
  EXPECT_EQ(first, trace("5"));
  EXPECT_NE(first, trace("6"));
}

TEST(SimulateCommand, TracesHaveWhatTheFormatAsksFor) {
  // The Trace Event Format's rules for the events that are written: complete events with a duration
  // that is not negative, on tracks that were named, which do not overlap on one track; counters
  // with numbers.
  const std::string path = testing::TempDir() + "trireme_trace_format.json";
  run_command(with(kStep, {"--trace", path}));
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);
  std::filesystem::remove(path);
  std::map<std::pair<int, int>, double> last_end;
  std::set<std::pair<int, int>> named;
  std::set<std::string> counters;
  for (const auto& event : trace["traceEvents"]) {
    const std::string kind = event["ph"];
    if (kind == "M" && event["name"] == "thread_name") {
      named.emplace(event["pid"].get<int>(), event["tid"].get<int>());
    } else if (kind == "C") {
      counters.insert(event["name"]);
      EXPECT_TRUE(event["args"].begin().value().is_number());
    } else if (kind == "X") {
      const std::pair track(event["pid"].get<int>(), event["tid"].get<int>());
      EXPECT_TRUE(named.contains(track));
      const double begin = event["ts"];
      EXPECT_GE(event["dur"].get<double>(), 0);
      EXPECT_GE(begin, last_end[track] - 1e-6);
      last_end[track] = begin + event["dur"].get<double>();
    }
  }
  EXPECT_GE(named.size(), 4U);
  EXPECT_TRUE(counters.contains("memory"));
  EXPECT_GE(counters.size(), 2U);  // and at least one link
}

TEST(SimulateCommand, DrawsTheBubble) {
  const Answer answer = run_command(with(kStep, {"--timeline"}));
  std::size_t stages = 0;
  for (std::size_t at = answer.out.find("stage   "); at != std::string::npos;
       at = answer.out.find("stage   ", at + 1)) {
    ++stages;
  }
  EXPECT_EQ(stages, 2U);
  // Stage 0 computes first, stage 1 waits for it: its row's first forward stands further right.
  const auto first_forward = [&](const std::string& stage) {
    const std::size_t row = answer.out.find('|', answer.out.find(stage));
    return answer.out.find('F', row) - row;
  };
  EXPECT_LT(first_forward("stage   0"), first_forward("stage   1")) << answer.out;
}

TEST(SimulateCommand, WrongFaultsAreOneLine) {
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"--straggler", "1.2x@rank99"},
        {"--straggler", "fast"},
        {"--slow-link", "0.5x@nic9"},
        {"--jitter", "-1"}}) {
    const Answer answer = run_command(with(kStep, wrong));
    EXPECT_EQ(answer.code, kWrongInput) << wrong[1];
    EXPECT_EQ(std::count(answer.err.begin(), answer.err.end(), '\n'), 1) << answer.err;
  }
}

// ---- the page's timeline and memory ---------------------------------------------------------

SimulatedStep step_of(const std::string& layout, const std::string& straggler = "") {
  JobOptions job;
  job.model = "llama-3.1-8b";
  job.cluster = "dgx-h100x1";
  job.sequence = 1024;
  job.global_batch = 8;
  LayoutOptions options;
  options.layout = layout;
  const Request request = make_request("", job, options);
  FaultOptions faults;
  if (!straggler.empty()) {
    faults.stragglers = {straggler};
  }
  sim::SimulateOptions settings;
  settings.faults = make_faults(faults);
  return simulate_plan(request.job, request.plan, settings);
}

struct Sums {
  double busy = 0, exposed = 0;
  std::size_t spans = 0;
};
Sums sums_of(const TimelineRank& rank, bool computes) {
  Sums sums;
  for (const TimelineLane& lane : rank.lanes) {
    for (const TimelineSpan& span : lane.spans) {
      sums.busy += lane.computes == computes ? span.busy : 0;
      sums.exposed += lane.computes == computes ? span.exposed : 0;
      ++sums.spans;
    }
  }
  return sums;
}

// With one communicating stream at a time what is exposed is what the simulator counts as exposed,
// however far the spans are merged.
TEST(TimelineChart, ExposedTimeIsTheSimulators) {
  const SimulatedStep step = step_of("tp8.mb1");
  const sim::ActorReport& actor = step.simulation.actors.front();
  std::size_t before = 0;
  for (const std::size_t most : {1'000'000U, 100U}) {
    const TimelineChart chart = timeline_chart(step.program, step.simulation, 4, most);
    ASSERT_EQ(chart.ranks.size(), 1U);  // all ranks are alike
    EXPECT_NEAR(chart.seconds, step.step_seconds, 1e-12);
    const Sums computing = sums_of(chart.ranks[0], true);
    const Sums communicating = sums_of(chart.ranks[0], false);
    EXPECT_NEAR(computing.busy, to_seconds(actor.busy).value, 1e-9);
    EXPECT_NEAR(communicating.busy, to_seconds(actor.communicating).value, 1e-9);
    EXPECT_NEAR(communicating.exposed, to_seconds(actor.exposed_communication).value, 1e-9);
    EXPECT_GT(communicating.exposed, 0);
    EXPECT_TRUE(before == 0 || computing.spans < before);
    before = computing.spans;
  }
}

TEST(TimelineChart, OneRankAStageAndTheSlowOneMarked) {
  const SimulatedStep step = step_of("tp2.pp2.fsdp2.mb1", "1.3x@rank3");
  const TimelineChart chart = timeline_chart(step.program, step.simulation, 3, 10'000);
  ASSERT_EQ(chart.ranks.size(), 3U);
  EXPECT_EQ(chart.left_out, step.simulation.actors.size() - 3);
  EXPECT_EQ(chart.ranks[0].name.substr(0, 15), "stage 0, rank 0");
  EXPECT_EQ(chart.ranks[1].name, "stage 0, rank 3: slow");
  EXPECT_EQ(chart.ranks[2].name.substr(0, 15), "stage 1, rank 4");
  std::set<std::int32_t> passes;
  for (const TimelineLane& lane : chart.ranks[0].lanes) {
    for (const TimelineSpan& span : lane.spans) {
      EXPECT_LE(span.busy, (span.end - span.begin) * (1 + 1e-9));
      EXPECT_LE(span.exposed, span.busy * (1 + 1e-9));
      if (lane.computes) {
        passes.insert(span.micro_batch);
      }
    }
  }
  EXPECT_EQ(passes, (std::set<std::int32_t>{-1, 0, 1, 2, 3}));  // 8 / fsdp2, and the optimizer
}

// The curve's fullest moment is the liveness sweep's peak, and its names add up to it.
TEST(MemoryCurve, PeakIsTheLivenessSweeps) {
  const SimulatedStep step = step_of("tp2.pp2.fsdp2.mb1");
  const trireme::Program& role = step.program.roles[0];
  const std::span<const OpTiming> timings(step.simulation.trace.timings.data(), role.ops.size());
  const MemoryCurve curve = memory_curve(step.program, role, timings, 50);
  const Liveness live = liveness(step.program, role);
  EXPECT_NEAR(curve.peak_gib, to_gib(live.peak), 1e-9);
  EXPECT_EQ(curve.peak_op, std::string(to_string(role.ops[index_of(live.peak_op)].origin.phase)) +
                               " " + op_label(role, role.ops[index_of(live.peak_op)]));
  double most = 0;
  for (std::size_t i = 0; i < curve.seconds.size(); ++i) {
    double sum = 0;
    double kept = 0;
    for (std::size_t name = 0; name < curve.names.size(); ++name) {
      sum += curve.gib[name][i];
      kept += curve.names[name].find("kept") != std::string::npos ? curve.gib[name][i] : 0;
    }
    most = std::max(most, sum);
    EXPECT_NEAR(kept, to_gib(live.persistent), 1e-9);
  }
  EXPECT_NEAR(most, curve.peak_gib, 1e-9);
  EXPECT_LE(curve.names.size(), 10U);
}

// What others wrote (names of models and files) ends neither a script nor a text in it.
TEST(Pages, TextsInScriptsEndNothing) {
  EXPECT_EQ(script_text("a</script>\"\\\n"), "a\\u003c/script\\u003e\\u0022\\u005c\\u000a");
  Page page("x<y");
  page.script("page_timeline");
  page.script("page_timeline");
  const std::string html = page.html();
  EXPECT_NE(html.find("<title>x&lt;y</title>"), std::string::npos);
  EXPECT_EQ(html.find("<script>"), html.rfind("<script>"));
}

TEST(Pages, OfSimulateAndTopoAskNobody) {
  const TestFolder folder;
  std::vector<std::string> simulate = kStep;
  simulate.insert(simulate.end(), {"--straggler", "1.2x@rank1"});
  const std::vector<std::pair<std::vector<std::string>, const char*>> pages = {
      {simulate, "Faults: straggler 1.2x@rank1."},
      {{"topo", "show", "--cluster", "dgx-h100x4", "--group", "16,2"}, "One node"}};
  for (const auto& [words, part] : pages) {
    EXPECT_EQ(run_command(words, {"--report", folder.path("page.html")}).code, kDone);
    std::ifstream in(folder.path("page.html"));
    const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    EXPECT_NE(page.find(part), std::string::npos);
    EXPECT_NE(page.find("Where the numbers come from"), std::string::npos);
    EXPECT_EQ(page.find("src="), std::string::npos);
    EXPECT_EQ(page.find("http-equiv"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme::tools
