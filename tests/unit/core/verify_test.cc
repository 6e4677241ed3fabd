// Every diagnosis of core/verify.h, each by a program that is sound but for one thing.
#include "core/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "core/files.h"
#include "core/program.h"
#include "core/program_text.h"

namespace trireme {
namespace {

// Two stages of two ranks. Stage 0 fills a, sums it over its ranks on another stream and sends it;
// stage 1 adds what comes to y. c is given the memory of b. Both stages sum y over all ranks.
constexpr const char* kSound = R"(step_program 1 sound
ranks 4 stages=2:2:4 tensor=- data=-
widths compute=2 master=4 token=4
batch sequence=1 micro_batch=1 micro_batches=1 vocabulary=1
group 0 pair 2:1:2
group 1 all 4:1:4
role 0
names y a fill sum send total b c
streams compute side
buffer b0 y master elements=8 persistent
buffer b1 a master elements=8
buffer b2 b master elements=8
buffer b3 c master elements=8
op 0 compute zero fill forward stream=compute b1[0+8] dims N=8 flop=0 traffic=32
op 1 all_reduce sum forward stream=side after=0 b1[0+8] b1[0+8] group=0 reduction=sum
op 2 send send forward stream=compute after=1 b1[0+8] peer=2 channel=0 tag=7
op 3 compute zero b forward stream=compute b2[0+8] dims N=8 flop=0 traffic=32
op 4 compute zero c forward stream=side after=3 b3[0+8] dims N=8 flop=0 traffic=32
op 5 all_reduce total forward stream=compute b0[0+8] b0[0+8] group=1 reduction=sum
role 1
names y a receive add total
streams compute side
buffer b0 y master elements=8 persistent
buffer b1 a master elements=8
op 0 recv receive forward stream=side b1[0+8] peer=-2 channel=0 tag=7
op 1 compute add add forward stream=compute after=0 b0[0+8] b1[0+8] dims N=8 flop=0 traffic=96
op 2 all_reduce total forward stream=compute b0[0+8] b0[0+8] group=1 reduction=sum
)";

struct Broken {
  std::string expected;  // part of a problem
  std::function<void(StepProgram&)> spoil;
};

Op& op(StepProgram& program, std::size_t role, std::size_t index) {
  return program.roles[role].ops[index];
}

// Makes the first op of stage 0 a router.
void route(StepProgram& program, std::int64_t experts, std::int64_t each, std::int64_t groups,
           std::int64_t chosen) {
  Work& work = program.roles[0].works[std::get<Compute>(op(program, 0, 0).kind).work];
  work.kernel = Kernel::kRouteForward;
  work.dims = {1, experts, each};
  program.arithmetic.router_groups = groups;
  program.arithmetic.router_groups_chosen = chosen;
}

Operand& operand(StepProgram& program, std::size_t role, std::size_t index, std::uint32_t which) {
  return program.roles[role].operands[op(program, role, index).operands.first + which];
}

void forget_waits(StepProgram& program, std::size_t role, std::size_t index) {
  op(program, role, index).waits.count = 0;
}

// An op of a role as it stands, once more at its end.
void repeat(StepProgram& program, std::size_t role, std::size_t index) {
  Op again = op(program, role, index);
  again.waits.count = 0;
  program.roles[role].ops.push_back(again);
}

// Op 1 of role 0 becomes an exchange of rows, with y, which is no tokens, for counts.
void exchange_rows(StepProgram& program, std::int64_t row) {
  Program& role = program.roles[0];
  role.ops[1].kind = AllToAll{GroupId(0), row};
  const Operand rows = operand(program, 0, 1, 0);
  role.ops[1].operands = {static_cast<std::uint32_t>(role.operands.size()), 4};
  const Operand counts{BufferId(0), kNoGroup, 0, 2};
  role.operands.insert(role.operands.end(), {rows, rows, counts, counts});
}

std::vector<Broken> broken_programs() {
  return {
      {"group pair: an axis does not fit 4 ranks", [](auto& p) { p.groups[0].axes[0].period = 3; }},
      {"2 roles on a stage axis of 3", [](auto& p) { p.stages.degree = 3; }},
      {"op 2: an index is out of range", [](auto& p) { op(p, 0, 2).stream = StreamId(2); }},
      {"waits for op 3, which is not earlier",
       [](auto& p) { p.roles[0].waits[op(p, 0, 2).waits.first] = OpId(3); }},
      {"its group does not exist", [](auto& p) { op(p, 0, 1).kind = AllReduce{GroupId(2)}; }},
      {"its work does not exist", [](auto& p) { op(p, 0, 0).kind = Compute{9}; }},
      {"has 1 operands instead of 2", [](auto& p) { op(p, 0, 5).operands.count = 1; }},
      {"an operand's buffer or group does not exist",
       [](auto& p) { operand(p, 0, 2, 0).buffer = BufferId(4); }},
      {"an operand leaves buffer a", [](auto& p) { operand(p, 0, 2, 0).offset = 1; }},
      {"an operand leaves buffer a",
       [](auto& p) {
         operand(p, 0, 2, 0).shard = GroupId(0);
         operand(p, 0, 2, 0).count = 4;
         operand(p, 0, 2, 0).stride = 5;
       }},
      {"touches buffer y on the host", [](auto& p) { p.roles[0].buffers[0].host = true; }},
      {"8 elements in and 8 out do not fit 2 ranks",
       [](auto& p) { op(p, 0, 1).kind = AllGather{GroupId(0)}; }},
      {"passes on a buffer while the same one is filled",
       [](auto& p) {
         op(p, 0, 1).kind = Shift{GroupId(0)};
         operand(p, 0, 1, 1) = operand(p, 0, 1, 0);
       }},
      {"8 elements in and 8 out are not whole rows of 3", [](auto& p) { exchange_rows(p, 3); }},
      {"its operand 2 is not counts of each of 2 ranks", [](auto& p) { exchange_rows(p, 4); }},
      {"reads a before anything wrote it",
       [](auto& p) {
         op(p, 0, 0).kind = Copy{};
         op(p, 0, 0).operands = op(p, 0, 1).operands;
       }},
      {"is not ordered after op 1, which writes a", [](auto& p) { forget_waits(p, 0, 2); }},
      {"is not ordered after op 1, which reads a",
       [](auto& p) {
         repeat(p, 1, 0);
         p.roles[1].ops.back().kind = Recv{-2, 1, 0};
         op(p, 0, 3).kind = Send{2, 1, 0};
         operand(p, 0, 3, 0).buffer = BufferId(0);
       }},
      {"may be given memory for c that op 3 still uses", [](auto& p) { forget_waits(p, 0, 4); }},
      {"peer 1 is not a rank of another stage",
       [](auto& p) {
         op(p, 0, 2).kind = Send{1, 0, 7};
       }},
      {"role 0 sends 2 messages to role 1 on channel 0, which receives 1",
       [](auto& p) { repeat(p, 0, 2); }},
      {"(tag 8) does not match role 1 op 0",
       [](auto& p) {
         op(p, 0, 2).kind = Send{2, 0, 8};
       }},
      {"role 1 issues not as many collectives of group all as role 0",
       [](auto& p) { repeat(p, 0, 5); }},
      {"is not the same collective as role 0 op 5",
       [](auto& p) {
         op(p, 1, 2).kind = AllReduce{GroupId(1), Reduction::kMax};
       }},
      {"cannot choose 2 of 8 experts from 1 of 3 groups", [](auto& p) { route(p, 8, 2, 3, 1); }},
      {"cannot choose 5 of 8 experts from 2 of 4 groups", [](auto& p) { route(p, 8, 5, 4, 2); }},
      {"cannot choose 2 of 8 experts from 3 of 2 groups", [](auto& p) { route(p, 8, 2, 2, 3); }},
      {"cannot choose 2 of 8 experts from 1 of -2 groups", [](auto& p) { route(p, 8, 2, -2, 1); }},
      {"role 0 never gets to op 2",
       [](auto& p) {  // each stage waits for the other's message
         op(p, 1, 2).kind = Send{-2, 1, 0};
         op(p, 1, 2).operands.count = 1;
         std::swap(op(p, 1, 2).kind, op(p, 1, 0).kind);
         std::swap(op(p, 1, 2).operands, op(p, 1, 0).operands);
         op(p, 1, 2).stream = op(p, 1, 0).stream;
         op(p, 1, 1).kind = Copy{};
         operand(p, 1, 1, 1).buffer = BufferId(0);
         op(p, 0, 5).kind = Recv{2, 1, 0};
         op(p, 0, 5).operands.count = 1;
       }},
  };
}

std::vector<std::string> problems_of(const Broken& broken) {
  StepProgram program = parse_program(kSound, "sound");
  broken.spoil(program);
  return verify(program);
}

TEST(Verify, ASoundProgramHasNoProblems) {
  EXPECT_EQ(verify(parse_program(kSound, "sound")), std::vector<std::string>{});
}

TEST(Verify, EachBrokenProgramIsFound) {
  for (const Broken& broken : broken_programs()) {
    const std::vector<std::string> problems = problems_of(broken);
    std::string all;
    for (const std::string& problem : problems) {
      all += problem + "\n";
    }
    EXPECT_NE(all.find(broken.expected), std::string::npos)
        << "expected: " << broken.expected << "\nfound:\n"
        << all;
  }
}

// Every sentence that the two files can say is said by one of the programs above.
TEST(Verify, NoDiagnosisIsWithoutItsProgram) {
  std::vector<std::string> said;
  for (const Broken& broken : broken_programs()) {
    for (const std::string& problem : problems_of(broken)) {
      said.push_back(problem);
    }
  }
  // A call that reports, up to the first literal after it.
  const std::regex report(R"re((?:problem|problems_?\.push_back)\((?:[^";]*?)"([^"]*)")re");
  const std::regex gap(R"re(\{[^}]*\})re");
  int sentences = 0;
  for (const char* name : {"core/verify.cc", "core/rendezvous.cc"}) {
    const std::string text =
        read_file(std::string(TRIREME_SOURCE_DIR) + "/" + name, "a source file");
    for (auto at = std::sregex_iterator(text.begin(), text.end(), report);
         at != std::sregex_iterator(); ++at) {
      const std::string sentence = (*at)[1];
      const std::vector<std::string> pieces(
          std::sregex_token_iterator(sentence.begin(), sentence.end(), gap, -1), {});
      ++sentences;
      EXPECT_TRUE(std::any_of(said.begin(), said.end(), [&](const std::string& problem) {
        return std::all_of(pieces.begin(), pieces.end(), [&](const std::string& piece) {
          return problem.find(piece) != std::string::npos;
        });
      })) << sentence;
    }
  }
  EXPECT_GE(sentences, 20);
}

TEST(Verify, StopsAtTwentyProblems) {
  StepProgram program = parse_program(kSound, "sound");
  for (int i = 0; i < 40; ++i) {
    repeat(program, 0, 0);
    program.roles[0].ops.back().kind = Compute{9};
  }
  EXPECT_EQ(verify(program).size(), 20U);
}

}  // namespace
}  // namespace trireme
