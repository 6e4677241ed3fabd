// A build from nothing compiles several files of a target as one (trireme_joined), one with ccache
// or a preset for developers does not: what clashes there must be seen here too.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The sources of each target, by the lists of its CMakeLists.txt: SOURCES and TEXTS.
std::vector<std::vector<fs::path>> target_sources() {
  const std::regex list(R"((SOURCES|TEXTS)((\s+[\w/]+\.cc)+))");
  const std::regex source(R"([\w/]+\.cc)");
  std::vector<std::vector<fs::path>> targets;
  for (const char* room :
       {"core", "models", "topologies", "planner", "sim", "runtime", "tools", "tests"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(TRIREME_SOURCE_DIR) / room)) {
      if (entry.path().filename() != "CMakeLists.txt") {
        continue;
      }
      const std::string text = content_of(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), list), end; at != end; ++at) {
        const std::string names = at->str(2);
        std::vector<fs::path>& files = targets.emplace_back();
        for (std::sregex_iterator name(names.begin(), names.end(), source); name != end; ++name) {
          files.push_back(entry.path().parent_path() / name->str());
        }
      }
    }
  }
  return targets;
}

// "const A& a, B b = {}" as the compiler tells functions apart: "const A&,B".
std::string types_of(const std::string& parameters) {
  static const std::regex kName(R"(\s*(\s|&|\*)\w+(\[\])?(\s*=[^,]*)?(,|$))");
  static const std::regex kSpace(R"(\s+)");
  return std::regex_replace(std::regex_replace(parameters, kSpace, " "), kName, "$1$4");
}

// "held(const A&,int)", and "held(const A&)" where the last parameter has a default: each way to
// call it.
std::vector<std::string> calls_of(const std::string& name, std::string parameters) {
  std::vector<std::string> calls = {name + "(" + types_of(parameters) + ")"};
  for (std::size_t equals = parameters.rfind('='); equals != std::string::npos;
       equals = parameters.rfind('=')) {
    const std::size_t comma = parameters.rfind(',', equals);
    if (parameters.find(',', equals) != std::string::npos) {
      break;  // of a default that is more than a word
    }
    parameters.resize(comma == std::string::npos ? 0 : comma);
    calls.push_back(name + "(" + types_of(parameters) + ")");
  }
  return calls;
}

// The beginnings of what a file declares in its unnamed namespaces, to the first '{' or ';'. They
// begin in the first column (clang-format).
std::vector<std::string> own_declarations(const std::string& text) {
  std::vector<std::string> declarations;
  std::istringstream lines(text);
  bool own = false, open = false;
  for (std::string line; std::getline(lines, line);) {
    for (std::size_t at; (at = line.find("= {}")) != std::string::npos;) {
      line.replace(at, 4, "= 0");  // a default, where no body begins
    }
    if (line == "namespace {" || line == "}  // namespace") {
      own = line == "namespace {";
      open = false;
    } else if (own && !line.empty() && (open || std::isalpha(line[0]) != 0 || line[0] == '[')) {
      open ? void(declarations.back() += " ") : void(declarations.emplace_back());
      declarations.back() += line.substr(0, line.find_first_of("{;"));
      open = line.find_first_of("{;") == std::string::npos;
    }
  }
  return declarations;
}

// By what the compiler tells them apart: "held(const Plan&,int)", "kMost"; of an alias, for what.
std::map<std::string, std::string> own_names(const std::string& text) {
  static const std::regex kType(R"(^(?:struct|class|enum class|enum) (\w+).*)");
  static const std::regex kAlias(R"(^using (\w+) = (.*))");
  static const std::regex kConstant(R"(^(?:const|constexpr) [^=(]* \*?(\w+)(?:\[[^=(]*)? ?=?.*)");
  static const std::regex kFunction(R"(^[^=(]*[ &*](\w+)\(([^(]*)\)[^()]*)");
  std::map<std::string, std::string> names;
  for (const std::string& declaration : own_declarations(text)) {
    std::smatch found;
    if (std::regex_match(declaration, found, kType)) {
      names[found[1]] = "";
    } else if (std::regex_match(declaration, found, kAlias)) {
      names[found[1]] = found[2];
    } else if (std::regex_match(declaration, found, kFunction)) {
      for (const std::string& call : calls_of(found[1], found[2])) {
        names[call] = "";
      }
    } else if (std::regex_match(declaration, found, kConstant)) {
      names[found[1]] = "";
    }
  }
  return names;
}

std::vector<std::string> clashes(const std::map<std::string, std::string>& texts) {
  std::map<std::string, std::pair<std::string, std::string>> first;  // by name: file, alias
  std::vector<std::string> found;
  for (const auto& [file, text] : texts) {
    for (const auto& [name, alias] : own_names(text)) {
      const auto [at, added] = first.try_emplace(name, file, alias);
      if (!added && (alias.empty() || alias != at->second.second)) {
        found.push_back(name + " in " + at->second.first + " and " + file);
      }
    }
  }
  return found;
}

TEST(OwnNames, StandInOneFileOfATarget) {
  std::size_t read = 0;
  for (const std::vector<fs::path>& files : target_sources()) {
    std::map<std::string, std::string> texts;
    for (const fs::path& file : files) {
      texts[file.string()] = content_of(file);
    }
    read += texts.size();
    for (const std::string& clash : clashes(texts)) {
      ADD_FAILURE() << clash << "; a build from nothing compiles both as one: rename or share it";
    }
  }
  EXPECT_GT(read, 600u);
}

TEST(OwnNames, APlantedClashIsFound) {
  const auto in = [](const std::string& text) {
    return "\nnamespace {\n" + text + "\n}  // namespace\n";
  };
  const std::string held =
      in("double held(const Plan& plan,\n            int rank = 0) {\n  return 1;\n}");
  EXPECT_EQ(clashes({{"a", held}, {"b", in("double held(const Plan& other, int at) {\n}")}}).size(),
            1u);
  EXPECT_EQ(clashes({{"a", held}, {"b", in("double held(const Plan& other) {\n}")}}).size(), 1u);
  EXPECT_EQ(clashes({{"a", in("A read(const B& b, const C& c = {}) {\n}")},
                     {"b", in("A read(const B& other) {\n}")}})
                .size(),
            1u);
  EXPECT_TRUE(
      clashes({{"a", held}, {"b", in("double held(const Job& job, int at) {\n}")}}).empty());
  EXPECT_EQ(
      clashes({{"a", in("constexpr int kMost = 3;")}, {"b", in("const double kMost[] = {1};")}})
          .size(),
      1u);
  EXPECT_EQ(clashes({{"a", in("struct Case {\n};")}, {"b", in("class Case {\n};")}}).size(), 1u);
  EXPECT_TRUE(clashes({{"a", in("using L = Plan;")}, {"b", in("using L = Plan;")}}).empty());
  EXPECT_EQ(clashes({{"a", in("using L = Plan;")}, {"b", in("using L = Job;")}}).size(), 1u);
}

}  // namespace
