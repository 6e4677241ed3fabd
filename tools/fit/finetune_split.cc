#include "tools/fit/finetune_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>

namespace trireme::tools {
namespace {

// Values of fine-tuning (planner/calibrate/library_words.json, planner/cost/adapters.cc, the host's
// share of an adapter) are set with the rows of these programs in view.
constexpr std::string_view kSetWith[] = {"fms-acceleration", "Qwen finetune.py", "LitGPT"};

bool was_set_with(const std::string& program) {
  return std::any_of(std::begin(kSetWith), std::end(kSetWith), [&](std::string_view word) {
    return program.find(word) != std::string::npos;
  });
}

struct Errors {
  int rows = 0;
  double absolute = 0;
  void add(std::optional<double> predicted, std::optional<double> measured) {
    if (predicted && measured && *measured > 0) {
      absolute += std::abs(*predicted / *measured - 1);
      ++rows;
    }
  }
  [[nodiscard]] std::string text() const {
    return rows == 0 ? "   -" : fmt::format("{:6.1f} % ({:3} rows)", 100 * absolute / rows, rows);
  }
};

struct Program {
  Errors time, memory;
};

struct Half {
  std::map<std::string, Program> programs;
  Program all;
};

void print(const std::string& name, const Program& program) {
  fmt::print("{:70.70} step time {:20} memory {}\n", name, program.time.text(),
             program.memory.text());
}

}  // namespace

void print_finetune_split(const std::vector<planner::ValidationCase>& cases,
                          const std::vector<planner::ValidatedRow>& rows) {
  std::map<bool, Half> halves;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!cases[i].row.finetune || !rows[i].skipped.empty()) {
      continue;
    }
    const std::string& name = cases[i].row.framework;
    Half& half = halves[was_set_with(name)];
    for (Program* program : {&half.programs[name], &half.all}) {
      program->time.add(rows[i].predicted_seconds, rows[i].measured_seconds);
      program->memory.add(rows[i].predicted_memory_gib, rows[i].measured_memory_gib);
    }
  }
  for (const auto& [set, half] : halves) {
    fmt::print("--- fine-tuning: programs that {}\n",
               set ? "values were set with" : "are only scored");
    for (const auto& [name, program] : half.programs) {
      print(name, program);
    }
    print("all of them", half.all);
  }
}

}  // namespace trireme::tools
