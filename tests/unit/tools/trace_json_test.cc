#include "tools/trace_json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"

namespace trireme::tools {
namespace {

StepProgram two_ops() {
  StepProgram program;
  program.name = "tp2";
  program.ranks = 2;
  program.stages = {.degree = 1, .stride = 2, .period = 2};
  program.groups = {{"tensor", {{.degree = 2, .stride = 1, .period = 2}}}};
  program.roles.resize(1);
  Program& role = program.roles[0];
  role.names = {"mlp_down", "reduce \"it\""};
  role.streams = {"compute", "tensor"};
  role.buffers.resize(1);
  role.buffers[0].elements = 8;
  role.operands = {{.buffer = BufferId(0), .count = 8}};
  role.works.resize(1);
  Op compute;
  compute.kind = Compute{0};
  compute.origin = {.phase = Phase::kForward, .layer = 3, .micro_batch = 1};
  compute.operands = {0, 1};
  Op reduce = compute;
  reduce.kind = AllReduce{GroupId(0)};
  reduce.name = 1;
  reduce.stream = StreamId(1);
  role.ops = {compute, reduce};
  return program;
}

TEST(TraceJson, ReadsBackWhatItWrote) {
  const StepProgram program = two_ops();
  Trace trace;
  trace.source = "execute";
  trace.timings = {{Rank(1), RoleIndex(0), OpId(0), 4, {1'000'000}, {1'000'000}, {3'500'001}},
                   {Rank(1), RoleIndex(0), OpId(1), 4, {3'500'001}, {4'000'000}, {9'000'000}}};
  trace.step_times = {SimDuration(9'000'000)};
  const std::string path = testing::TempDir() + "trireme_trace.json";
  write_file_atomically(path, trace_json(program, trace));
  const TraceFile file = read_trace_json(path);
  EXPECT_EQ(file.source, "execute");
  ASSERT_EQ(file.step_seconds.size(), 1U);
  EXPECT_DOUBLE_EQ(file.step_seconds[0], 9e-6);
  ASSERT_EQ(file.events.size(), 2U);
  EXPECT_EQ(file.events[0].label, "L3.mlp_down mb1");
  EXPECT_EQ(file.events[0].category, "compute");
  EXPECT_NEAR(file.events[0].end, 3.500001e-6, 1e-15);
  EXPECT_EQ(file.events[1].label, "L3.reduce \"it\" mb1");
  EXPECT_EQ(file.events[1].category, "tensor_parallel");
  EXPECT_EQ(file.events[1].kind, "all_reduce");
  EXPECT_EQ(file.events[1].iteration, 4U);
  EXPECT_NEAR(file.events[1].start - file.events[1].ready, 0.499999e-6, 1e-15);
  std::filesystem::remove(path);
}

TEST(TraceJson, HasTracksAndAMemoryCounter) {
  const StepProgram program = two_ops();
  Trace trace;
  trace.timings = {{Rank(0), RoleIndex(0), OpId(0), 0, {0}, {0}, {1'000'000}},
                   {Rank(0), RoleIndex(0), OpId(1), 0, {1'000'000}, {1'000'000}, {2'000'000}}};
  const auto json =
      nlohmann::json::parse(trace_json(program, trace, {{2, "link 0"}}, {{2, "load", {5}, 0.5}}));
  int names = 0;
  std::vector<double> bytes;
  for (const auto& event : json.at("traceEvents")) {
    names += event.at("ph") == "M" ? 1 : 0;
    if (event.at("ph") == "C" && event.at("name") == "memory") {
      bytes.push_back(event.at("args").at("bytes").get<double>());
    }
  }
  EXPECT_EQ(names, 1 + 2 * 2 + 1);  // the rank, two tracks with their order, the link
  EXPECT_EQ(bytes, (std::vector<double>{16, 0}));
}

TEST(TraceJson, RefusesOtherFiles) {
  const std::string path = testing::TempDir() + "trireme_not_a_trace.json";
  for (const char* text : {"{}", "[]", R"({"otherData": {"schema": "trireme.trace/1"}})",
                           R"({"otherData": {"schema": "x"}, "traceEvents": []})"}) {
    write_file_atomically(path, text);
    EXPECT_THROW(read_trace_json(path), Error) << text;
  }
  std::filesystem::remove(path);
}

// Two messages from rank 0 to rank 1 match in order; one to rank 2, which was not recorded, has no
// arrow.
TEST(TraceJson, ArrowsLeadFromSendToReceive) {
  StepProgram program = two_ops();
  program.ranks = 3;
  Program& role = program.roles[0];
  const auto with = [&](OpKind kind) {
    Op op = role.ops[0];
    op.kind = kind;
    return op;
  };
  const std::vector<Op> ops = {with(Send{1, 0, 7}), with(Send{1, 0, 8}), with(Send{2, 0, 9}),
                               with(Recv{-1, 0, 7}), with(Recv{-1, 0, 8})};
  role.ops = ops;
  Trace trace;
  trace.source = "simulate";
  trace.step_times = {SimDuration(9'000'000)};
  const auto at = [](std::uint32_t rank, std::uint32_t op, std::int64_t begin, std::int64_t end) {
    return OpTiming{Rank(rank), RoleIndex(0), OpId(op), 0, {begin}, {begin}, {end}};
  };
  trace.timings = {at(0, 0, 1'000'000, 2'000'000), at(0, 1, 3'000'000, 4'000'000),
                   at(0, 2, 5'000'000, 6'000'000), at(1, 3, 1'000'000, 2'000'000),
                   at(1, 4, 3'000'000, 4'000'000)};
  const auto json = nlohmann::json::parse(trace_json(program, trace));
  std::map<int, std::vector<nlohmann::json>> arrows;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "s" || event["ph"] == "f") {
      arrows[event["id"].get<int>()].push_back(event);
    }
  }
  ASSERT_EQ(arrows.size(), 2U);
  double begin = 1;
  for (const auto& [id, ends] : arrows) {
    ASSERT_EQ(ends.size(), 2U);
    EXPECT_EQ(ends[0]["ph"], "s");
    EXPECT_EQ(ends[0]["pid"], 0);
    EXPECT_EQ(ends[0]["ts"], begin);
    EXPECT_EQ(ends[1]["bp"], "e");
    EXPECT_EQ(ends[1]["pid"], 1);
    EXPECT_EQ(ends[1]["ts"], begin + 0.5);
    begin += 2;
  }
}

}  // namespace
}  // namespace trireme::tools
