// A step program as text, one op a line, that parses back: for people, golden files and fuzzing.
//
//   op 17 compute matmul L5.mlp_up mb3 forward chunk=0 stream=compute after=15,16 b40[0+64]
//   b7[0+512] b41[0+128]
//         dims m=4 n=32 k=16 transpose_a=0 transpose_b=1 accumulate=0 flop=4096 traffic=1408 (on
//         the same line)
//
// An operand is bBUFFER[OFFSET+COUNT], with @GROUP after the buffer when it is the own shard. The
// format's version is in the first line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/program.h"

namespace trireme {

std::string print(const StepProgram& program);
// One role's op, as its line in the text.
std::string print_op(const StepProgram& program, const Program& role, OpId op);
// Tells programs apart in a fraction of their text's time: batch, arithmetic, groups, parameters,
// each op's kind, group, peer and work, its operands and waits.
std::uint64_t fingerprint(const StepProgram& program);
// The inverse of print: parse(print(p)) == p for every program whose works, operands and waits
// stand in order of use (as lowering writes them). Throws Error naming `name` and the line.
StepProgram parse_program(std::string_view text, const std::string& name);

}  // namespace trireme
