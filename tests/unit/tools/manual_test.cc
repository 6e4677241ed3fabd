// Man pages and completions say what --help says: they are read from the same parser.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/unit/tools/command.h"

namespace trireme::tools {
namespace {

std::string file_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The words that begin with two hyphens at the start of --help's lines.
std::set<std::string> options_of_help(const std::string& command) {
  std::istringstream help(run_words(command + " --help").out);
  std::set<std::string> options;
  const std::regex option(R"(^  (?:-\w,)?(--[a-z0-9-]+).*)");
  std::smatch match;
  for (std::string line; std::getline(help, line);) {
    if (std::regex_match(line, match, option)) {
      options.insert(match[1]);
    }
  }
  return options;
}

TEST(Manual, APageHoldsEveryOptionOfHelp) {
  const TestFolder folder;
  ASSERT_EQ(run_command({"manual", "--output", folder.root()}).code, 0);
  std::size_t pages = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.root())) {
    ++pages;
    std::string command = entry.path().stem().string();
    command = command == "trireme" ? "" : command.substr(std::string("trireme-").size());
    std::replace(command.begin(), command.end(), '-', ' ');
    std::string page = file_text(entry.path());
    page = std::regex_replace(page, std::regex(R"(\\-)"), "-");
    const std::set<std::string> options = options_of_help(command);
    EXPECT_GE(options.size(), 1U) << command;
    for (const std::string& option : options) {
      EXPECT_NE(page.find(option), std::string::npos) << entry.path() << " lacks " << option;
    }
    EXPECT_EQ(page.find(".TH \"TRIREME"), 0U) << entry.path();
  }
  EXPECT_GE(pages, 23U);  // the program, its commands, and those of topo
}

TEST(Manual, EveryShellKnowsEveryCommandAndItsValues) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = run_command({"manual", "--shell", shell}).out;
    for (const char* word : {"estimate", "whatif", "doctor", "topo", "lint", "megatron-530b",
                             "dgx-h100x1", "selective"}) {
      EXPECT_NE(script.find(word), std::string::npos) << shell << " lacks " << word;
    }
  }
  expect_one_line(run_words("manual"), 2, "--shell");
  expect_one_line(run_words("manual --output /no/such/folder"), 2, "/no/such/folder");
}

TEST(Manual, TheVersionIsSaid) {
  EXPECT_EQ(run_words("--version").out.find("trireme 0."), 0U);
}

}  // namespace
}  // namespace trireme::tools
