// Reads the text form of a step program.
#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/program_text.h"
#include "core/role_parse.h"
#include "core/text_line.h"

namespace trireme {
namespace {

GroupAxis parse_axis(const TextLine& line, std::string_view text) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos) {
    line.fail(fmt::format("\"{}\" is not DEGREE:STRIDE:PERIOD", text));
  }
  const GroupAxis axis{line.number(text.substr(0, first)),
                       line.number(text.substr(first + 1, second - first - 1)),
                       line.number(text.substr(second + 1))};
  if (axis.degree < 1 || axis.stride < 1 || axis.period < 1) {
    line.fail("degree, stride and period are at least 1");
  }
  return axis;
}

bool parse_flag(TextLine& line, std::string_view key) {
  return line.number_of(key) != 0;
}

double finite(const TextLine& line, std::string_view text) {
  const double value = line.real(text);
  if (!std::isfinite(value)) {
    line.fail(fmt::format("\"{}\" is not a finite number", text));
  }
  return value;
}

double parse_real(TextLine& line, std::string_view key) {
  return finite(line, line.value(key));
}

Arithmetic parse_arithmetic(TextLine& line) {
  Arithmetic a;
  const auto activation = find_activation(line.value("activation"));
  if (!activation) {
    line.fail("activation is plain, silu, gelu, gelu_tanh, relu, relu2 or quick_gelu");
  }
  a.activation = *activation;
  a.norm_epsilon = parse_real(line, "norm_epsilon");
  a.norm_plus_one = parse_flag(line, "norm_plus_one");
  a.attention_scale = parse_real(line, "attention_scale");
  a.attention_cap = parse_real(line, "attention_cap");
  a.embedding_multiplier = parse_real(line, "embedding_multiplier");
  a.residual_multiplier = parse_real(line, "residual_multiplier");
  a.logit_multiplier = parse_real(line, "logit_multiplier");
  a.logit_cap = parse_real(line, "logit_cap");
  a.router_normalises = parse_flag(line, "router_normalises");
  a.router_scale = parse_real(line, "router_scale");
  a.router_groups = line.number_of("router_groups");
  a.router_groups_chosen = line.number_of("router_groups_chosen");
  a.router_groups_by_two = parse_flag(line, "router_groups_by_two");
  a.initial_deviation = parse_real(line, "initial_deviation");
  return a;
}

RotaryTable parse_rotary(TextLine& line) {
  RotaryTable table;
  table.scale = parse_real(line, "scale");
  table.neighbours = parse_flag(line, "neighbours");
  while (!line.done()) {
    table.frequencies.push_back(finite(line, line.word("a frequency")));
  }
  return table;
}

class ProgramParser {
 public:
  StepProgram run(std::string_view text, const std::string& name) {
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      ++number;
      TextLine line(text.substr(begin, end - begin), fmt::format("{}:{}", name, number));
      begin = end + 1;
      if (line.done()) {
        continue;
      }
      take(line, number);
      line.finish();
    }
    if (number == 0) {
      throw Error(name, "holds no step program");
    }
    return std::move(program_);
  }

 private:
  void take(TextLine& line, std::size_t number) {
    const std::string_view head = line.peek();
    if (number == 1 || head == "step_program") {
      line.literal("step_program");
      line.literal("1");
      const std::string_view title = line.word("the program's name");
      program_.name = title == "-" ? "" : title;
    } else if (head == "role") {
      line.literal("role");
      line.literal(fmt::format("{}", program_.roles.size()));
      roles_.clear();
      program_.roles.emplace_back();
      roles_.emplace_back(program_.roles.back());
    } else if (!roles_.empty()) {
      if (!roles_.back().take(line)) {
        line.fail(fmt::format("\"{}\" starts no line of a role", head));
      }
    } else {
      take_head(line, head);
    }
  }

  void take_head(TextLine& line, std::string_view head) {
    line.word("a line's name");
    if (head == "ranks") {
      program_.ranks = line.number(line.word("the number of ranks"));
      program_.stages = parse_axis(line, line.value("stages"));
      program_.tensor = parse_group(line, line.value("tensor"));
      program_.data = parse_group(line, line.value("data"));
      if (const auto expert = line.optional_value("expert")) {
        program_.expert = parse_group(line, *expert);
        program_.expert_tensor = parse_group(line, line.value("expert_tensor"));
      }
      if (const auto context = line.optional_value("context")) {
        program_.context = parse_group(line, *context);
      }
    } else if (head == "widths") {
      program_.widths.compute = line.number_of("compute");
      program_.widths.master = line.number_of("master");
      program_.widths.token = line.number_of("token");
    } else if (head == "batch") {
      program_.batch.sequence = line.number_of("sequence");
      program_.batch.micro_batch = line.number_of("micro_batch");
      program_.batch.micro_batches = line.number_of("micro_batches");
      program_.batch.vocabulary = line.number_of("vocabulary");
    } else if (head == "arithmetic") {
      program_.arithmetic = parse_arithmetic(line);
    } else if (head == "rotary") {
      line.literal(fmt::format("{}", program_.arithmetic.rotary.size()));
      program_.arithmetic.rotary.push_back(parse_rotary(line));
    } else if (head == "group") {
      line.literal(fmt::format("{}", program_.groups.size()));
      Group group;
      group.name = line.word("the group's name");
      while (!line.done()) {
        group.axes.push_back(parse_axis(line, line.word("an axis")));
      }
      program_.groups.push_back(std::move(group));
    } else {
      line.fail(fmt::format("\"{}\" starts no line before the first role", head));
    }
  }

  StepProgram program_;
  std::vector<RoleParser> roles_;  // the one being read, if any
};

}  // namespace

StepProgram parse_program(std::string_view text, const std::string& name) {
  return ProgramParser().run(text, name);
}

}  // namespace trireme
