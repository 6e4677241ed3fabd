// The program's commands run inside a test: what they print and how they end.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trireme::tools {

struct Answer {
  int code = -1;
  std::string out, err;
  // The JSON on stdout; null when it holds none.
  [[nodiscard]] nlohmann::json json() const;
};

// `more` follows `arguments`.
Answer run_command(std::vector<std::string> arguments, const std::vector<std::string>& more = {});
// The words of a line, split at spaces, and then `more`, which may hold some.
Answer run_words(const std::string& line, const std::vector<std::string>& more = {});
// The JSON of a command that must succeed.
nlohmann::json json_of(const std::vector<std::string>& arguments,
                       const std::vector<std::string>& more = {});

// One line "trireme: …" on stderr that holds `part`, and this exit code.
void expect_one_line(const Answer& answer, int code, const std::string& part);

// A folder of this test's own, gone with it.
class TestFolder {
 public:
  TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  TestFolder(TestFolder&&) = delete;
  TestFolder& operator=(TestFolder&&) = delete;
  ~TestFolder();

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] std::string path(const std::string& name) const { return (root_ / name).string(); }
  // Writes a file and returns its path.
  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path root_;
};

}  // namespace trireme::tools
