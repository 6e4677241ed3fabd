#include "tests/fuzz/targets/target.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/error.h"

namespace trireme::fuzz {

void require(bool holds, const char* promise) {
  if (!holds) {
    std::fprintf(stderr, "broken: %s\n", promise);
    std::abort();
  }
}

void ask(void (*read)(std::string_view text), std::string_view text) {
  try {
    read(text);
  } catch (const Error& error) {
    const std::string line = error.what();
    require(line.find('\n') == std::string::npos, "an error is one line");
    require(line.size() < 6000, "an error's line can be read");
  }
}

namespace {

// What this process writes, gone when it ends.
struct Scratch {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("trireme_fuzz_" + std::to_string(::getpid()));
  Scratch() { std::filesystem::create_directories(folder); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  Scratch(Scratch&&) = delete;
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
};

}  // namespace

std::string scratch_file(std::string_view text, std::string_view extension) {
  static const Scratch scratch;
  const std::string path = (scratch.folder / "text").string() + std::string(extension);
  std::FILE* file = std::fopen(path.c_str(), "w");
  require(file != nullptr, "a scratch file can be written");
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
  return path;
}

}  // namespace trireme::fuzz
