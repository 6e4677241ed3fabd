// Each kind of mistake in a step program's text is named with its line.
#include "core/program_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.h"

namespace trireme {
namespace {

std::string golden_text(const std::string& name) {
  std::ifstream file(std::string(TRIREME_SOURCE_DIR) + "/tests/golden/programs/" + name + ".txt");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string refusal_of(const std::string& text) {
  try {
    parse_program(text, "program.txt");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Mistake {
  std::string right, wrong, said;
};

// One line changed in a text that is read otherwise; the Error names that line.
void expect_named(const std::string& file, const std::vector<Mistake>& mistakes) {
  const std::string text = golden_text(file);
  ASSERT_EQ(refusal_of(text), "") << file;
  for (const Mistake& mistake : mistakes) {
    const std::size_t at = text.find(mistake.right);
    ASSERT_NE(at, std::string::npos) << mistake.right;
    std::string spoilt = text;
    spoilt.replace(at, mistake.right.size(), mistake.wrong);
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    const auto skipped = std::count(
        mistake.right.begin(),
        mistake.right.begin() + static_cast<std::ptrdiff_t>(std::min(
                                    mistake.right.find_last_of('\n') + 1, mistake.right.size())),
        '\n');
    const std::string error = refusal_of(spoilt);
    EXPECT_NE(error.find(mistake.said), std::string::npos) << mistake.wrong << "\n" << error;
    EXPECT_TRUE(error.starts_with("program.txt:" + std::to_string(line + skipped) + ":"))
        << mistake.wrong << "\n"
        << error;
  }
}

TEST(ProgramText, MistakesAboveTheRolesAreNamed) {
  EXPECT_EQ(refusal_of(""), "program.txt: holds no step program");
  expect_named("experts",
               {{"step_program 1", "step_program 2", "\"1\" expected, \"2\" found"},
                {"step_program", "program", "\"step_program\" expected"},
                {"\nranks ", "\nrank ", "\"rank\" starts no line before the first role"},
                {"stages=1:", "stages=", "is not DEGREE:STRIDE:PERIOD"},
                {"stages=1:", "stages=0:", "at least 1"},
                {"compute=2", "compute=two", "\"two\" is not a whole number"},
                {"sequence=8", "length=8", "sequence= expected, \"length=8\" found"},
                {" vocabulary=50", "", "vocabulary= expected, \"\" found"},
                {" vocabulary=50", " vocabulary=50 more", "\"more\" is too much"},
                {"activation=silu", "activation=tanh", "activation is plain, silu"},
                {"norm_epsilon=1e-05", "norm_epsilon=inf", "\"inf\" is not a finite number"},
                {"norm_epsilon=1e-05", "norm_epsilon=x", "\"x\" is not a number"},
                {"\nrotary 0", "\nrotary 1", "\"0\" expected, \"1\" found"},
                {"\ngroup 0 ", "\ngroup 7 ", "\"0\" expected, \"7\" found"},
                {"\nrole 0", "\nrole", "ends where a word should be"},
                {"\nrole 0", "\nrole 1", "\"0\" expected, \"1\" found"}});
}

TEST(ProgramText, MistakesInARoleAreNamed) {
  expect_named(
      "experts",
      {{"\ntokens ", "\ntoken ", "\"token\" starts no line of a role"},
       {"\nbuffer b0 ", "\nbuffer b9 ", "\"b0\" expected, \"b9\" found"},
       {"\nbuffer b16 tokens token", "\nbuffer b16 tokens byte", "\"byte\" is not known here"},
       {"\nbuffer b16 tokens ", "\nbuffer b16 nothing ", "\"nothing\" is not in the list of names"},
       {"\ntokens b16[0+8]", "\ntokens b16", "\"b16\" is not an operand"},
       {"\ntokens b16[0+8]", "\ntokens b4294967296[0+8]", "4294967296 is out of range"},
       {"\ntokens b16[0+8]", "\ntokens", "ends where an operand should be"},
       {"split=rows", "split=both", "split is none, rows or columns"},
       {"unit=0", "unit=-1", "-1 is out of range"},
       {"op 0 compute zero", "op 0 compute nil", "\"nil\" is not a kernel"},
       {"op 0 compute zero", "op 0 think zero", "is not in the list of names"},
       {"dims N=1", "dims M=1", "N= expected, \"M=1\" found"},
       {"reduction=max", "reduction=min", "reduction is sum or max"},
       {"op 2 all_gather", "op 2 all_scatter", "\"all_scatter\" is not a kind of op"},
       {"stream=compute", "stream=none", "\"none\" is not in the list of names"}});
  expect_named("interleaved", {{" channel=", " channel=-1", "is out of range"},
                               {" peer=", " peers=", "peer= expected"}});
}

TEST(ProgramText, AFingerprintTellsProgramsApart) {
  using Change = std::function<void(StepProgram&)>;
  const auto role = [](StepProgram& program) -> Program& { return program.roles.back(); };
  const std::vector<Change> changes = {
      [](StepProgram& program) { ++program.batch.micro_batches; },
      [](StepProgram& program) { program.arithmetic.norm_epsilon *= 2; },
      [](StepProgram& program) { ++program.groups.at(0).axes.at(0).stride; },
      [&](StepProgram& program) { ++role(program).parameters.at(0).rows; },
      [&](StepProgram& program) { ++role(program).operands.at(3).offset; },
      [&](StepProgram& program) { role(program).waits.at(1) = OpId(0); },
      [&](StepProgram& program) { ++role(program).works.at(0).dims.at(0); },
      [&](StepProgram& program) { role(program).ops.at(2).stream = StreamId(1); },
      [&](StepProgram& program) {
        for (Op& op : role(program).ops) {
          if (auto* send = std::get_if<Send>(&op.kind)) {
            ++send->peer;
            return;
          }
        }
        FAIL() << "sends nothing";
      }};
  const std::string text = golden_text("interleaved");
  const StepProgram program = parse_program(text, "program.txt");
  const std::uint64_t own = fingerprint(program);
  EXPECT_EQ(own, fingerprint(parse_program(print(program), "program.txt")));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    StepProgram other = program;
    changes[i](other);
    EXPECT_NE(fingerprint(other), own) << i;
  }
}

}  // namespace
}  // namespace trireme
