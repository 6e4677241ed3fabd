#include "core/program_text.h"
#include "core/verify.h"
#include "tests/fuzz/targets/target.h"

namespace trireme::fuzz {

void read_program(std::string_view text) {
  const StepProgram program = parse_program(text, "p.txt");
  if (verify(program).empty()) {
    require(parse_program(print(program), "again") == program, "a program's text reads back");
  }
}

}  // namespace trireme::fuzz
