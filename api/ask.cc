#include "api/ask.h"

#include <new>
#include <nlohmann/json.hpp>

#include "tools/memory_stream.h"
#include "tools/program.h"
#include "trireme/trireme.h"

namespace trireme::api {
namespace {

// "trireme: --tp: …\n" without what says that a program speaks.
std::string bare(std::string line) {
  constexpr std::string_view kProgram = "trireme: ";
  if (line.starts_with(kProgram)) {
    line.erase(0, kProgram.size());
  }
  while (line.ends_with('\n')) {
    line.pop_back();
  }
  return line;
}

}  // namespace

Error::Error(const std::string& line, bool machine_lacks)
    : std::runtime_error(line), machine_lacks_(machine_lacks) {}

Answer ask(const std::vector<std::string>& command, const std::vector<std::string>& arguments) try {
  Words words = command;
  words.emplace_back("--json");
  words.insert(words.end(), arguments.begin(), arguments.end());
  const tools::MemoryStream out;
  const tools::MemoryStream err;
  tools::Console console;
  console.out = out.stream();
  console.err = err.stream();
  const int code = tools::run_program(words, console);
  if (code != tools::kDone && code != tools::kAnswerIsNo) {
    throw Error(bare(err.text()), code == tools::kMissingMachine);
  }
  return {.json = out.text(), .yes = code == tools::kDone};
} catch (const std::bad_alloc&) {
  throw Error("memory: no room for an answer", true);
}

nlohmann::ordered_json json_of(const Words& command, const Words& arguments) {
  return nlohmann::ordered_json::parse(ask(command, arguments).json);
}

}  // namespace trireme::api
