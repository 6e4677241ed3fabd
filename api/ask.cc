#include "api/ask.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tools/program.h"
#include "trireme/trireme.h"

namespace trireme::api {
namespace {

// What a command prints, kept in memory.
class Caught {
 public:
  Caught() : stream_(::open_memstream(&text_, &size_)) {
    if (stream_ == nullptr) {
      throw Error("memory: no room for an answer", true);
    }
  }
  Caught(const Caught&) = delete;
  Caught& operator=(const Caught&) = delete;
  Caught(Caught&&) = delete;
  Caught& operator=(Caught&&) = delete;
  ~Caught() {
    std::fclose(stream_);
    std::free(text_);
  }
  [[nodiscard]] std::FILE* stream() const { return stream_; }
  [[nodiscard]] std::string text() const {
    std::fflush(stream_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
};

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

Answer ask(const std::vector<std::string>& command, const std::vector<std::string>& arguments) {
  Words words = command;
  words.emplace_back("--json");
  words.insert(words.end(), arguments.begin(), arguments.end());
  const Caught out;
  const Caught err;
  tools::Console console;
  console.out = out.stream();
  console.err = err.stream();
  const int code = tools::run_program(words, console);
  if (code != tools::kDone && code != tools::kAnswerIsNo) {
    throw Error(bare(err.text()), code == tools::kMissingMachine);
  }
  return {.json = out.text(), .yes = code == tools::kDone};
}

nlohmann::ordered_json json_of(const Words& command, const Words& arguments) {
  return nlohmann::ordered_json::parse(ask(command, arguments).json);
}

}  // namespace trireme::api
