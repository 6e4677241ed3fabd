// The house rules that a program can check: include arrows, line length, banned words, every test
// file built.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"core", {"core"}},
    {"models", {"models", "core"}},
    {"topologies", {"topologies", "core"}},
    {"planner", {"core", "models", "topologies"}},
    {"sim", {"sim", "core", "topologies"}},
    {"runtime", {"runtime", "core"}},
};

// What is installed must compile without the tree.
const std::set<std::string> kPublicHeadersMayInclude = {"trireme"};

// The planner's own rooms: what each may include of the others. No file stands outside them.
const std::map<std::string, std::set<std::string>> kPlannerRooms = {
    {"plan", {"plan"}},
    {"cost", {"cost", "plan"}},
    {"lower", {"lower", "cost", "plan"}},
    {"walk", {"walk", "cost", "plan"}},
    {"search", {"search", "cost", "plan"}},
    {"budget", {"budget", "plan"}},
    {"calibrate", {"calibrate", "cost", "plan"}},
    {"shell", {"shell"}},
    {"launch", {"launch", "plan", "shell"}},
    {"start", {"start", "launch", "plan"}},
};

struct SourceFile {
  std::string room;
  std::string path;  // from the root
  std::vector<std::string> lines;
};

bool is_source(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".cc" || extension == ".h" || extension == ".cu" || extension == ".cuh";
}

std::vector<SourceFile> source_files() {
  std::vector<SourceFile> files;
  const fs::path root(TRIREME_SOURCE_DIR);
  for (const char* room :
       {"core", "models", "topologies", "planner", "sim", "runtime", "tools", "api", "tests"}) {
    if (!fs::exists(root / room)) {
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
      if (!entry.is_regular_file() || !is_source(entry.path())) {
        continue;
      }
      SourceFile file{room, fs::relative(entry.path(), root).string(), {}};
      std::ifstream stream(entry.path());
      for (std::string line; std::getline(stream, line);) {
        file.lines.push_back(line);
      }
      files.push_back(std::move(file));
    }
  }
  return files;
}

// The room of planner/cost/time.cc is "cost"; of a file that is in none, what stands there instead.
std::string planner_room(const std::string& path) {
  const auto begin = path.find('/') + 1;
  return path.substr(begin, path.find('/', begin) - begin);
}

bool is_allowed(const SourceFile& file, const std::string& included) {
  const std::string room = included.substr(0, included.find('/'));
  if (file.path.starts_with("api/include/")) {
    return kPublicHeadersMayInclude.contains(room);
  }
  if (file.room == "planner" && room == "planner") {
    const auto doors = kPlannerRooms.find(planner_room(file.path));
    return doors != kPlannerRooms.end() && doors->second.contains(planner_room(included));
  }
  return kMayInclude.at(file.room).contains(room);
}

std::vector<std::string> wrong_arrows(const SourceFile& file) {
  std::vector<std::string> faults;
  if (!kMayInclude.contains(file.room) && !file.path.starts_with("api/include/")) {
    return faults;
  }
  static const std::regex kInclude(R"re(^#include "([a-z_]+/.*)".*)re");
  for (const std::string& line : file.lines) {
    std::smatch match;
    if (std::regex_match(line, match, kInclude) && !is_allowed(file, match[1])) {
      faults.push_back(file.path + ": " + line);
    }
  }
  return faults;
}

// Columns as a reader counts them: continuation bytes of UTF-8 do not count.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

constexpr std::size_t kColumnLimit = 120;

TEST(Tidy, IncludesFollowTheArrowsOfTheArchitecture) {
  for (const SourceFile& file : source_files()) {
    EXPECT_EQ(wrong_arrows(file), std::vector<std::string>{});
  }
}

TEST(Tidy, APlantedWrongArrowIsFound) {
  const SourceFile planted{"core", "core/planted.h", {"#include \"planner/plan/plan.h\""}};
  EXPECT_EQ(wrong_arrows(planted).size(), 1U);
  const SourceFile circle{
      "planner", "planner/cost/planted.h", {"#include \"planner/lower/lower.h\""}};
  EXPECT_EQ(wrong_arrows(circle).size(), 1U);
  const SourceFile installed{"api", "api/include/planted.h", {"#include \"core/error.h\""}};
  EXPECT_EQ(wrong_arrows(installed).size(), 1U);
}

TEST(Tidy, ThePlannersRoomsHaveNoCircle) {
  std::set<std::string> left;
  for (const auto& [room, doors] : kPlannerRooms) {
    left.insert(room);
  }
  // A room that opens only on rooms already gone can go; what cannot go stands in a circle.
  const auto can_go = [&left](const std::string& room) {
    return std::ranges::none_of(kPlannerRooms.at(room), [&](const std::string& other) {
      return other != room && left.contains(other);
    });
  };
  for (auto room = std::ranges::find_if(left, can_go); room != left.end();
       room = std::ranges::find_if(left, can_go)) {
    left.erase(room);
  }
  EXPECT_EQ(left, std::set<std::string>{});
}

// What other programs call must not bring a command line with it.
TEST(Tidy, TheSharedAnswersKnowNoCommandLine) {
  const fs::path tools = fs::path(TRIREME_SOURCE_DIR) / "tools";
  std::ifstream stream(tools / "CMakeLists.txt");
  const std::string list{std::istreambuf_iterator<char>(stream), {}};
  const auto begin = list.find("trireme_library(answers");
  const std::string answers = list.substr(begin, list.find(')', begin) - begin);
  EXPECT_EQ(answers.find("CLI11"), std::string::npos);
  const std::regex source(R"(\w+\.cc)");
  std::size_t files = 0;
  for (std::sregex_iterator at(answers.begin(), answers.end(), source), end; at != end; ++at) {
    std::ifstream file(tools / at->str());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(text.find("CLI/CLI.hpp"), std::string::npos) << at->str();
    files += text.empty() ? 0U : 1U;
  }
  EXPECT_GT(files, 20U);
}

// A file that includes one of these takes seconds longer to compile: 31 commands did CLI11's, and
// the first build took over ten minutes on two cores.
TEST(Tidy, HeavyHeadersStayBehindTheirDoors) {
  const std::set<std::string> doors = {"tools/command.cc", "tools/command_tree.cc",
                                       "tools/program.cc", "tools/fit/main.cc"};
  std::set<std::string> found;
  const std::regex heavy(R"re(^#include <(nlohmann/json\.hpp|boost/.*|Eigen/.*)>.*)re");
  for (const SourceFile& file : source_files()) {
    for (const std::string& line : file.lines) {
      if (line.starts_with("#include <CLI/")) {
        found.insert(file.path);
      }
      EXPECT_FALSE(file.room != "tests" && file.path.ends_with(".h") &&
                   std::regex_match(line, heavy))
          << file.path << ": " << line;
    }
  }
  EXPECT_EQ(found, doors);
}

TEST(Tidy, LinesAreShort) {
  for (const SourceFile& file : source_files()) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_LE(columns(file.lines[i]), kColumnLimit) << file.path << ":" << i + 1;
    }
  }
}

TEST(Tidy, NothingIsUnfinishedByItsOwnWords) {
  const std::regex banned(
      "\\b(TO"
      "DO|FIX"
      "ME|XX"
      "X|st"
      "ub|unimpl"
      "emented)\\b");
  for (const SourceFile& file : source_files()) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(file.lines[i], banned)) << file.path << ":" << i + 1;
    }
  }
}

// The fuzz preset and clang-tidy are clang 14 over the distribution's standard library, which fail
// at views and at algorithms that answer with a subrange. Either kept tools/fuzz from building.
TEST(Tidy, ClangFourteenCompilesIt) {
  const std::regex beyond(
      "std::"
      "views|std::ranges::(unique|remove|remove_if|partition|stable_partition|rotate|search|"
      "find_end|equal_range)\\b");
  for (const SourceFile& file : source_files()) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(file.lines[i], beyond)) << file.path << ":" << i + 1;
    }
  }
}

// Statements that are a call of CUDA's or NCCL's and drop what it says; calls that free are left
// out.
std::vector<std::string> dropped_results(const SourceFile& file) {
  static const std::regex kCall(
      R"re(^\s*(cuda|nccl)(?!\w*(Destroy|Free|Abort|GetLastError))\w+\(.*)re");
  std::vector<std::string> faults;
  std::string before = ";";
  for (const std::string& line : file.lines) {
    const auto last = line.find_last_not_of(' ');
    const bool starts = before.ends_with(';') || before.ends_with('{') || before.ends_with('}');
    if (starts && std::regex_match(line, kCall)) {
      faults.push_back(file.path + ": " + line);
    }
    before = last == std::string::npos ? before : line.substr(0, last + 1);
  }
  return faults;
}

// What ncclSend and ncclRecv said of a failure was lost.
TEST(Tidy, NoResultOfADeviceCallIsDropped) {
  for (const SourceFile& file : source_files()) {
    if (file.path.starts_with("runtime/cuda/") && file.path.ends_with(".cc")) {
      EXPECT_EQ(dropped_results(file), std::vector<std::string>{});
    }
  }
  const SourceFile planted{
      "runtime",
      "planted.cc",
      {"  for (;;) {", "    ncclSend(a,", "             b);", "  cudaFree(a);"}};
  EXPECT_EQ(dropped_results(planted).size(), 1U);
}

TEST(Tidy, EveryTestFileIsBuilt) {
  std::string lists;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(TRIREME_SOURCE_DIR) / "tests")) {
    if (entry.path().filename() == "CMakeLists.txt") {
      std::ifstream stream(entry.path());
      lists.append(std::istreambuf_iterator<char>(stream), {});
    }
  }
  for (const SourceFile& file : source_files()) {
    const std::string name = fs::path(file.path).filename().string();
    if (file.room == "tests" && name.ends_with("_test.cc")) {
      EXPECT_NE(lists.find(name), std::string::npos) << file.path << " is in no CMakeLists.txt";
    }
  }
}

}  // namespace
