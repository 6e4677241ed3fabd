#include "tests/unit/tools/command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <system_error>

#include "core/files.h"
#include "tools/memory_stream.h"
#include "tools/program.h"

namespace trireme::tools {
namespace {

namespace fs = std::filesystem;

}  // namespace

nlohmann::json Answer::json() const {
  return out.empty() ? nlohmann::json() : nlohmann::json::parse(out);
}

Answer run_command(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  const MemoryStream out;
  const MemoryStream err;
  Console console;
  console.out = out.stream();
  console.err = err.stream();
  Answer answer;
  answer.code = run_program(arguments, console);
  answer.out = out.text();
  answer.err = err.text();
  return answer;
}

Answer run_words(const std::string& line, const std::vector<std::string>& more) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return run_command(words, more);
}

nlohmann::json json_of(const std::vector<std::string>& arguments,
                       const std::vector<std::string>& more) {
  const Answer answer = run_command(arguments, more);
  EXPECT_EQ(answer.code, 0) << answer.err;
  return answer.json();
}

void expect_one_line(const Answer& answer, int code, const std::string& part) {
  EXPECT_EQ(answer.code, code) << answer.err;
  EXPECT_EQ(std::count(answer.err.begin(), answer.err.end(), '\n'), 1) << answer.err;
  EXPECT_TRUE(answer.err.starts_with("trireme: ")) << answer.err;
  EXPECT_NE(answer.err.find(part), std::string::npos) << answer.err;
}

TestFolder::TestFolder() {
  std::string name = (fs::path(testing::TempDir()) / "trireme_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    ADD_FAILURE() << "no folder for the test in " << testing::TempDir();
  }
  root_ = name;
}

TestFolder::~TestFolder() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

std::string TestFolder::file(const std::string& name, const std::string& text) const {
  write_file_atomically(path(name), text);
  return path(name);
}

}  // namespace trireme::tools
