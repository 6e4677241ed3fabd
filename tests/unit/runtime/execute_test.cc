// The executor and the reference backend on programs written by hand: collectives against their
// definition, waits, memory to the byte, and what happens when a rank fails or never comes.
#include "runtime/execute.h"
#include "runtime/measured_trace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "runtime/cpu/threads.h"
#include "tests/unit/runtime/never.h"

namespace trireme::runtime {
namespace {

// A time-out that ends nothing here: a wait that only it would end fails the test by the runner's.

constexpr GroupId kAll{0};
constexpr GroupId kPairs{1};  // neighbours
constexpr StreamId kMain{0};
constexpr StreamId kSide{1};

// Four ranks of one role; buffers are of 8 persistent master elements unless said.
class HandWritten {
 public:
  HandWritten() {
    step_.name = "by hand";
    step_.ranks = 4;
    step_.stages = {.degree = 1, .stride = 4, .period = 4};
    step_.widths = cpu::widths_of(cpu::Arithmetic::kFp64);
    step_.groups = {{"all", {{.degree = 4, .stride = 1, .period = 4}}},
                    {"pairs", {{.degree = 2, .stride = 1, .period = 2}}}};
    step_.roles.resize(1);
    role().names = {"op"};
    role().streams = {"compute", "side"};
  }
  Program& role() { return step_.roles[0]; }
  [[nodiscard]] const StepProgram& step() const { return step_; }

  Operand buffer(std::int64_t elements, bool persistent = true) {
    role().buffers.push_back(
        {.elements = elements, .type = ElementType::kMaster, .persistent = persistent});
    return {.buffer = BufferId(static_cast<std::uint32_t>(role().buffers.size() - 1)),
            .count = elements};
  }
  OpId add(const OpKind& kind, const std::vector<Operand>& operands, StreamId stream = kMain,
           const std::vector<OpId>& waits = {}) {
    Op op;
    op.kind = kind;
    op.stream = stream;
    op.waits = {static_cast<std::uint32_t>(role().waits.size()),
                static_cast<std::uint32_t>(waits.size())};
    op.operands = {static_cast<std::uint32_t>(role().operands.size()),
                   static_cast<std::uint32_t>(operands.size())};
    role().waits.insert(role().waits.end(), waits.begin(), waits.end());
    role().operands.insert(role().operands.end(), operands.begin(), operands.end());
    role().ops.push_back(op);
    return OpId(static_cast<std::uint32_t>(role().ops.size() - 1));
  }
  Compute work(Kernel kernel, std::array<std::int64_t, 8> dims) {
    Work added;
    added.kernel = kernel;
    added.dims = dims;
    role().works.push_back(added);
    return {static_cast<std::uint32_t>(role().works.size() - 1)};
  }
  // A program whose ranks differ: each rank its own role.
  void split_roles() {
    step_.stages = {.degree = 4, .stride = 1, .period = 4};
    step_.roles.assign(4, step_.roles[0]);
  }
  std::vector<Program>& roles() { return step_.roles; }

 private:
  StepProgram step_;
};

// Runs one step in which rank r's input holds r * 10 + i, and returns each rank's `output`.
std::vector<std::vector<double>> outputs_of(const HandWritten& program, const Operand& input,
                                            const Operand& output, std::uint64_t shuffle = 0) {
  std::vector<std::vector<double>> results(4);
  const auto tokens = synthetic_tokens(1, 8);
  cpu::run_on_threads(program.step(),
                      {.arithmetic = cpu::Arithmetic::kFp64, .shuffle_seed = shuffle}, kNever,
                      [&](cpu::ThreadRank& self) {
                        const std::uint32_t rank = index_of(self.executor.rank());
                        ParameterSlice slice;
                        slice.buffer = input.buffer;
                        slice.count = input.count;
                        std::vector<double> values(static_cast<std::size_t>(input.count));
                        for (std::size_t i = 0; i < values.size(); ++i) {
                          values[i] = rank * 10.0 + static_cast<double>(i);
                        }
                        self.executor.write_slice(slice, values);
                        self.executor.step({}, *tokens, 0, kNever);
                        slice.buffer = output.buffer;
                        slice.count = output.count;
                        results[rank] = self.executor.read_slice(slice);
                      });
  return results;
}

using Rows = std::vector<std::vector<double>>;

TEST(CpuCollectives, AllReduceSumsOverTheGroup) {
  HandWritten program;
  const Operand input = program.buffer(2);
  const Operand output = program.buffer(2);
  program.add(AllReduce{kPairs, Reduction::kSum}, {input, output});
  EXPECT_EQ(outputs_of(program, input, output), (Rows{{10, 12}, {10, 12}, {50, 52}, {50, 52}}));
}

TEST(CpuCollectives, AllReduceInPlaceAndMaximum) {
  HandWritten program;
  const Operand input = program.buffer(2);
  program.add(AllReduce{kAll, Reduction::kMax}, {input, input});
  EXPECT_EQ(outputs_of(program, input, input), (Rows(4, {30, 31})));
}

TEST(CpuCollectives, AllGatherFromTheOwnShardInPlace) {
  HandWritten program;
  const Operand whole = program.buffer(8);
  Operand own = whole;
  own.shard = kAll;
  own.count = 2;
  program.add(AllGather{kAll}, {own, whole});
  EXPECT_EQ(outputs_of(program, whole, whole), (Rows(4, {0, 1, 12, 13, 24, 25, 36, 37})));
}

TEST(CpuCollectives, ReduceScatterIntoTheOwnShardInPlace) {
  HandWritten program;
  const Operand whole = program.buffer(4);
  Operand own = whole;
  own.shard = kAll;
  own.count = 1;
  program.add(ReduceScatter{kAll}, {whole, own});
  const Rows results = outputs_of(program, whole, whole);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(results[rank][rank], 60.0 + 4.0 * static_cast<double>(rank));  // 0+10+20+30 + 4 i
  }
}

TEST(CpuCollectives, AllToAllTransposesAndBroadcastCopies) {
  HandWritten program;
  const Operand input = program.buffer(4);
  const Operand output = program.buffer(4);
  program.add(AllToAll{kAll}, {input, output});
  EXPECT_EQ(outputs_of(program, input, output),
            (Rows{{0, 10, 20, 30}, {1, 11, 21, 31}, {2, 12, 22, 32}, {3, 13, 23, 33}}));
  HandWritten second;
  const Operand from = second.buffer(2);
  second.add(Broadcast{kAll, 2}, {from, from});
  EXPECT_EQ(outputs_of(second, from, from), (Rows(4, {20, 21})));
}

// The last member's goes to the first; in pairs both change places.
TEST(CpuCollectives, ShiftPassesOnRoundTheGroup) {
  HandWritten program;
  const Operand input = program.buffer(2);
  const Operand output = program.buffer(2);
  program.add(Shift{kAll}, {input, output});
  EXPECT_EQ(outputs_of(program, input, output), (Rows{{30, 31}, {0, 1}, {10, 11}, {20, 21}}));
  HandWritten pairs;
  const Operand from = pairs.buffer(2);
  const Operand to = pairs.buffer(2);
  pairs.add(Shift{kPairs}, {from, to});
  EXPECT_EQ(outputs_of(pairs, from, to), (Rows{{10, 11}, {0, 1}, {30, 31}, {20, 21}}));
}

TEST(CpuExecutor, ARingOfSendsDoesNotDeadlockAcrossStreams) {
  HandWritten program;
  const Operand input = program.buffer(2);
  const Operand output = program.buffer(2);
  program.add(Send{.peer = 1, .channel = 0, .tag = 7}, {input}, kMain);
  program.add(Recv{.peer = 3, .channel = 0, .tag = 7}, {output}, kSide);
  program.split_roles();
  for (std::size_t rank = 0; rank < 4; ++rank) {  // rank r sends to r + 1, the last one to 0
    std::get<Send>(program.roles()[rank].ops[0].kind).peer = rank == 3 ? -3 : 1;
    std::get<Recv>(program.roles()[rank].ops[1].kind).peer = rank == 0 ? 3 : -1;
  }
  EXPECT_EQ(outputs_of(program, input, output), (Rows{{30, 31}, {0, 1}, {10, 11}, {20, 21}}));
}

// y += x on one stream after x was reduced on another, many times over: only the waits keep it
// right.
TEST(CpuExecutor, WaitsOrderStreamsUnderEveryShuffle) {
  HandWritten program;
  const Operand x = program.buffer(4);
  const Operand y = program.buffer(4);
  OpId added{};
  for (int i = 0; i < 10; ++i) {
    const OpId reduced = program.add(AllReduce{kPairs, Reduction::kSum}, {x, x}, kSide,
                                     i == 0 ? std::vector<OpId>{} : std::vector<OpId>{added});
    added = program.add(program.work(Kernel::kAdd, {4}), {y, x}, kMain, {reduced});
  }
  const Rows calm = outputs_of(program, x, y);
  EXPECT_EQ(calm[0][0], 10.0 * 1023);  // x0 = 0 + 10, doubling nine times: 10 (2^10 - 1)
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(outputs_of(program, x, y, seed), calm) << "shuffle seed " << seed;
  }
}

TEST(CpuExecutor, TheShuffleFindsAMissingWait) {
  HandWritten program;
  const Operand x = program.buffer(4);
  const Operand y = program.buffer(4);
  for (int i = 0; i < 10; ++i) {
    program.add(AllReduce{kPairs, Reduction::kSum}, {x, x}, kSide);
    program.add(program.work(Kernel::kAdd, {4}), {y, x}, kMain);  // forgets to wait
  }
  bool found = false;
  for (std::uint64_t seed = 1; seed <= 20 && !found; ++seed) {
    found = outputs_of(program, x, y, seed)[0][0] != 10.0 * 1023;
  }
  EXPECT_TRUE(found);
}

TEST(CpuExecutor, AllocatorPeakIsTheLivenessPeak) {
  HandWritten program;
  const Operand kept = program.buffer(3);
  const Operand a = program.buffer(5, false);
  const Operand b = program.buffer(7, false);
  const Operand c = program.buffer(11, false);
  program.add(program.work(Kernel::kZero, {5}), {a});
  program.add(program.work(Kernel::kZero, {7}), {b});
  program.add(program.work(Kernel::kZero, {5}), {a});
  program.add(program.work(Kernel::kZero, {11}), {c});
  program.add(program.work(Kernel::kZero, {3}), {kept});
  const Liveness expected = liveness(program.step(), program.role());
  EXPECT_EQ(expected.peak.value, 8 * (3 + 5 + 7));  // c comes after both have gone
  const auto tokens = synthetic_tokens(1, 8);
  cpu::run_on_threads(program.step(), {.arithmetic = cpu::Arithmetic::kFp64}, kNever,
                      [&](cpu::ThreadRank& self) {
                        for (int step = 0; step < 3; ++step) {
                          self.executor.step({}, *tokens, 0, kNever);
                        }
                        EXPECT_EQ(self.backend.memory().allocated_peak, expected.peak);
                      });
}

std::string failure_of(const HandWritten& program,
                       const std::function<void(cpu::ThreadRank&)>& before, Seconds timeout) {
  const auto tokens = synthetic_tokens(1, 8);
  try {
    cpu::run_on_threads(program.step(), {.arithmetic = cpu::Arithmetic::kFp64}, timeout,
                        [&](cpu::ThreadRank& self) {
                          before(self);
                          self.executor.step({}, *tokens, 0, timeout);
                        });
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CpuFailures, ARankThatDiesEndsTheOthersAndNamesTheirOps) {
  HandWritten program;
  const Operand x = program.buffer(4);
  program.add(AllReduce{kAll, Reduction::kSum}, {x, x});
  const std::string message = failure_of(
      program,
      [](cpu::ThreadRank& self) {
        if (self.executor.rank() == Rank(2)) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          throw std::runtime_error("killed by the test");
        }
      },
      kNever);
  EXPECT_NE(message.find("rank 2 failed: killed by the test"), std::string::npos) << message;
  EXPECT_NE(message.find("rank 0 was in op 0 (all_reduce op on stream compute)"), std::string::npos)
      << message;
  EXPECT_NE(message.find("rank 3 was in op 0"), std::string::npos) << message;
}

TEST(CpuFailures, AMessageThatNeverComesTimesOut) {
  HandWritten program;
  const Operand x = program.buffer(4);
  program.split_roles();
  auto& waiting = program.roles()[1];
  Op receive;
  receive.kind = Recv{.peer = -1, .channel = 0, .tag = 1};
  receive.operands = {0, 1};
  waiting.ops.push_back(receive);
  waiting.operands.push_back(x);
  const std::string message = failure_of(
      program, [](cpu::ThreadRank&) {}, Seconds(0.2));
  EXPECT_NE(message.find("made no progress for 0.2 s in op 0 (recv op on stream compute)"),
            std::string::npos)
      << message;
}

TEST(CpuFailures, DifferentCollectivesInOneGroupAreRefused) {
  HandWritten program;
  const Operand x = program.buffer(4);
  program.add(AllReduce{kAll, Reduction::kSum}, {x, x});
  program.split_roles();
  program.roles()[3].ops[0].kind = AllGather{kAll};
  const std::string message = failure_of(
      program, [](cpu::ThreadRank&) {}, kNever);
  EXPECT_NE(message.find("of the same group calls"), std::string::npos) << message;
}

TEST(CpuFailures, ModelledWorkIsRefused) {
  HandWritten program;
  const Operand x = program.buffer(4);
  program.add(program.work(Kernel::kModelledPass, {1}), {x});
  const std::string message = failure_of(
      program, [](cpu::ThreadRank&) {}, kNever);
  EXPECT_NE(message.find("can be timed but not executed"), std::string::npos) << message;
}

TEST(CpuExecutor, TimesAreOrderedAndSkewIsApart) {
  HandWritten program;
  const Operand x = program.buffer(4);
  program.add(AllReduce{kAll, Reduction::kSum}, {x, x});
  const auto tokens = synthetic_tokens(1, 8);
  std::vector<std::vector<StepResult>> results(4);
  std::vector<MemoryUse> memory(4);
  cpu::run_on_threads(
      program.step(), {.arithmetic = cpu::Arithmetic::kFp64}, kNever, [&](cpu::ThreadRank& self) {
        const std::uint32_t rank = index_of(self.executor.rank());
        if (rank == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most likely the last
        }
        results[rank] = {self.executor.step({.timed = true}, *tokens, 0, kNever)};
        memory[rank] = self.backend.memory();
      });
  const Trace trace = make_trace(program.step(), results, memory);
  ASSERT_EQ(trace.timings.size(), 4U);
  constexpr double kRounding = 1e-6;  // of a clock that counts from the machine's start
  SimTime last{};
  SimTime end{};
  for (const OpTiming& timing : trace.timings) {
    last = std::max(last, timing.ready);
    end = std::max(end, timing.end);
  }
  for (const OpTiming& timing : trace.timings) {
    EXPECT_LE(timing.ready, timing.start);
    EXPECT_LE(timing.start, timing.end);
    // Until the last one is ready all wait, and wait only: that is skew, whoever was the last.
    EXPECT_NEAR(to_seconds(timing.start - last).value, 0, kRounding) << index_of(timing.rank);
  }
  ASSERT_EQ(trace.step_times.size(), 1U);
  EXPECT_GT(to_seconds(SimTime{} + trace.step_times[0] - end).value, -kRounding);
}

// CUDA's events show one rank only: the last member's readiness comes from the other ranks.
TEST(MeasuredTrace, SkewIsFoundAcrossRanks) {
  HandWritten program;
  const Operand x = program.buffer(4);
  program.add(AllReduce{kAll, Reduction::kSum}, {x, x});
  std::vector<std::vector<StepResult>> results(4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const double ready = rank == 2 ? 0.03 : 0.01;
    results[rank] = {{.duration = Seconds(0.05), .began = 100, .ops = {{ready, ready, 0.04}}},
                     {.duration = Seconds(0.05), .began = 101, .ops = {{0.01, 0.01, 0.04}}}};
  }
  const Trace trace = make_trace(program.step(), results, std::vector<MemoryUse>(4));
  ASSERT_EQ(trace.timings.size(), 8U);
  for (const OpTiming& timing : trace.timings) {
    const double start = timing.iteration == 0 ? 0.03 : 0.01;
    EXPECT_NEAR(to_seconds(timing.start - SimTime{}).value, start, 1e-9) << index_of(timing.rank);
    EXPECT_NEAR(to_seconds(timing.end - SimTime{}).value, 0.04, 1e-9);
  }
}

}  // namespace
}  // namespace trireme::runtime
