#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tools/program.h"

int main(int argc, char** argv) {
  using trireme::tools::Console;
  Console console;
  const char* no_colour = std::getenv("NO_COLOR");
  console.colour = ::isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
  console.progress = ::isatty(STDERR_FILENO) == 1;
  return trireme::tools::run_program(std::vector<std::string>(argv + 1, argv + argc), console);
}
