// Reads the text form of a step program.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "core/error.h"
#include "core/program_text.h"
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

GroupId parse_group(const TextLine& line, std::string_view text) {
  return text == "-" ? kNoGroup : static_cast<GroupId>(line.index<std::uint32_t>(text));
}

// bBUFFER[@GROUP][OFFSET+COUNT], or - for none.
Operand parse_operand(const TextLine& line, std::string_view text) {
  if (text == "-") {
    return {};
  }
  const std::size_t open = text.find('[');
  const std::size_t plus = text.find('+');
  if (text.empty() || text[0] != 'b' || open == std::string_view::npos ||
      plus == std::string_view::npos || plus < open || text.back() != ']') {
    line.fail(fmt::format("\"{}\" is not an operand", text));
  }
  const std::size_t at = std::min(text.find('@'), open);
  Operand operand;
  operand.buffer = static_cast<BufferId>(line.index<std::uint32_t>(text.substr(1, at - 1)));
  if (at < open) {
    operand.shard = parse_group(line, text.substr(at + 1, open - at - 1));
  }
  operand.offset = line.number(text.substr(open + 1, plus - open - 1));
  operand.count = line.number(text.substr(plus + 1, text.size() - plus - 2));
  return operand.count == 0 ? Operand{} : operand;
}

// Finds an enumerator by the text to_string gives it.
template <typename Enum>
Enum parse_enum(const TextLine& line, std::string_view text, int count) {
  for (int i = 0; i < count; ++i) {
    if (to_string(static_cast<Enum>(i)) == text) {
      return static_cast<Enum>(i);
    }
  }
  line.fail(fmt::format("\"{}\" is not known here", text));
}

class RoleParser {
 public:
  explicit RoleParser(Program& role) : role_(role) {}

  // False when the line is not a role's.
  bool take(TextLine& line) {
    const std::string_view head = line.peek();
    if (head == "names" || head == "streams") {
      line.word("the list's name");
      std::vector<std::string>& list = head == "names" ? role_.names : role_.streams;
      while (!line.done()) {
        list.emplace_back(line.word("a name"));
      }
      return true;
    }
    if (head == "buffer") {
      take_buffer(line);
    } else if (head == "unit") {
      take_unit(line);
    } else if (head == "parameter") {
      take_parameter(line);
    } else if (head == "op") {
      take_op(line);
    } else if (head == "tokens" || head == "targets" || head == "loss" || head == "gradient_norm") {
      line.word("the operand's name");
      Operand& operand = head == "tokens"    ? role_.tokens
                         : head == "targets" ? role_.targets
                         : head == "loss"    ? role_.loss
                                             : role_.gradient_norm;
      operand = parse_operand(line, line.word("an operand"));
    } else {
      return false;
    }
    return true;
  }

 private:
  std::uint32_t index_of_name(const TextLine& line, const std::vector<std::string>& list,
                              std::map<std::string, std::uint32_t, std::less<>>& known,
                              std::string_view name) {
    if (known.empty()) {
      for (std::uint32_t i = 0; i < list.size(); ++i) {
        known.emplace(list[i], i);
      }
    }
    const auto found = known.find(name);
    if (found == known.end()) {
      line.fail(fmt::format("\"{}\" is not in the list of names", name));
    }
    return found->second;
  }

  // [L3.]name [mb2]
  std::uint32_t take_label(TextLine& line, std::int32_t& layer, std::int32_t& micro_batch) {
    std::string_view text = line.word("a name");
    const std::size_t dot = text.find('.');
    if (dot != std::string_view::npos && text[0] == 'L' && dot > 1 &&
        text.substr(1, dot - 1).find_first_not_of("0123456789") == std::string_view::npos) {
      layer = line.index<std::int32_t>(text.substr(1, dot - 1));
      text = text.substr(dot + 1);
    }
    const std::string_view next = line.peek();
    if (next.size() > 2 && next.substr(0, 2) == "mb") {
      micro_batch = line.index<std::int32_t>(line.word("the micro-batch").substr(2));
    }
    return index_of_name(line, role_.names, names_, text);
  }

  void take_buffer(TextLine& line) {
    line.literal("buffer");
    line.literal(fmt::format("b{}", role_.buffers.size()));
    Buffer buffer;
    buffer.name = take_label(line, buffer.layer, buffer.micro_batch);
    buffer.type = parse_enum<ElementType>(line, line.word("the type"), 3);
    buffer.elements = line.number_of("elements");
    if (line.peek() == "persistent") {
      line.word("persistent");
      buffer.persistent = true;
    }
    role_.buffers.push_back(buffer);
  }

  void take_unit(TextLine& line) {
    line.literal("unit");
    line.literal(fmt::format("{}", role_.units.size()));
    ParameterUnit unit;
    unit.name = line.word("the unit's name");
    unit.elements = line.number_of("elements");
    unit.shard = parse_group(line, line.value("shard"));
    for (int s = 0; s < kStateCount; ++s) {
      StateStorage& storage = unit.states[static_cast<std::size_t>(s)];
      std::string_view text = line.value(to_string(static_cast<State>(s)));
      if (!text.empty() && text.back() == '/') {
        storage.sharded = true;
        text.remove_suffix(1);
      }
      storage.operand = parse_operand(line, text);
    }
    role_.units.push_back(std::move(unit));
  }

  void take_parameter(TextLine& line) {
    line.literal("parameter");
    Parameter parameter;
    parameter.name = line.word("the parameter's name");
    parameter.rows = line.number_of("rows");
    parameter.columns = line.number_of("columns");
    parameter.local_rows = line.number_of("local_rows");
    parameter.local_columns = line.number_of("local_columns");
    const std::string_view split = line.value("split");
    if (split != "none" && split != "rows" && split != "columns") {
      line.fail("split is none, rows or columns");
    }
    parameter.split = split == "none"   ? Split::kNone
                      : split == "rows" ? Split::kRows
                                        : Split::kColumns;
    parameter.unit = line.index<std::uint32_t>(line.value("unit"));
    parameter.offset = line.number_of("offset");
    if (const auto first = line.optional_value("expert_first")) {
      parameter.expert_first = line.number(*first);
      parameter.expert_step = line.number_of("expert_step");
    }
    role_.parameters.push_back(std::move(parameter));
  }

  void take_op(TextLine& line) {
    line.literal("op");
    line.literal(fmt::format("{}", role_.ops.size()));
    Op op;
    const std::string_view kind = line.word("the kind");
    std::optional<Kernel> kernel;
    if (kind == "compute") {
      const std::string_view name = line.word("the kernel");
      try {
        kernel = parse_kernel(name);
      } catch (const Error&) {
        line.fail(fmt::format("\"{}\" is not a kernel", name));
      }
    }
    op.name = take_label(line, op.origin.layer, op.origin.micro_batch);
    op.origin.phase = parse_enum<Phase>(line, line.word("the phase"), 7);
    if (const auto chunk = line.optional_value("chunk")) {
      op.origin.chunk = line.index<std::int16_t>(*chunk);
    }
    op.stream =
        static_cast<StreamId>(index_of_name(line, role_.streams, streams_, line.value("stream")));
    take_waits(line, op);
    take_operands(line, op);
    op.kind = kernel ? OpKind(take_compute(line, *kernel)) : take_kind(line, kind);
    role_.ops.push_back(op);
  }

  void take_waits(TextLine& line, Op& op) {
    op.waits.first = static_cast<std::uint32_t>(role_.waits.size());
    const auto list = line.optional_value("after");
    for (std::size_t begin = 0; list && begin < list->size();) {
      const std::size_t end = std::min(list->find(',', begin), list->size());
      role_.waits.push_back(
          static_cast<OpId>(line.index<std::uint32_t>(list->substr(begin, end - begin))));
      ++op.waits.count;
      begin = end + 1;
    }
  }

  void take_operands(TextLine& line, Op& op) {
    op.operands.first = static_cast<std::uint32_t>(role_.operands.size());
    while (!line.done() && line.peek()[0] == 'b' &&
           line.peek().find('[') != std::string_view::npos) {
      role_.operands.push_back(parse_operand(line, line.word("an operand")));
      ++op.operands.count;
    }
  }

  Compute take_compute(TextLine& line, Kernel kernel) {
    Work work;
    work.kernel = kernel;
    line.literal("dims");
    const auto& dims = signature_of(kernel).dims;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      work.dims[i] = line.number_of(dims[i]);
    }
    work.flop = Flop(line.real(line.value("flop")));
    work.traffic = Bytes(line.number_of("traffic"));
    std::vector<std::uint32_t>& alike =
        works_[{static_cast<std::uint8_t>(kernel), work.dims, work.traffic.value}];
    for (const std::uint32_t candidate : alike) {
      if (role_.works[candidate] == work) {
        return {candidate};
      }
    }
    role_.works.push_back(work);
    alike.push_back(static_cast<std::uint32_t>(role_.works.size() - 1));
    return {alike.back()};
  }

  static OpKind take_kind(TextLine& line, std::string_view kind) {
    if (kind == "send" || kind == "recv") {
      const auto peer = static_cast<std::int32_t>(line.number_of("peer"));
      const auto channel = line.index<std::uint16_t>(line.value("channel"));
      const auto tag = line.index<std::uint32_t>(line.value("tag"));
      return kind == "send" ? OpKind(Send{peer, channel, tag}) : OpKind(Recv{peer, channel, tag});
    }
    if (kind == "copy") {
      return Copy{};
    }
    const auto group = static_cast<GroupId>(line.index<std::uint32_t>(line.value("group")));
    if (kind == "all_reduce") {
      const std::string_view reduction = line.value("reduction");
      if (reduction != "sum" && reduction != "max") {
        line.fail("reduction is sum or max");
      }
      return AllReduce{group, reduction == "sum" ? Reduction::kSum : Reduction::kMax};
    }
    if (kind == "all_gather") {
      return AllGather{group};
    }
    if (kind == "reduce_scatter") {
      return ReduceScatter{group};
    }
    if (kind == "all_to_all") {
      const auto row = line.optional_value("row");
      return AllToAll{group, row ? line.number(*row) : 0};
    }
    if (kind == "broadcast") {
      return Broadcast{group, line.index<std::uint32_t>(line.value("root"))};
    }
    line.fail(fmt::format("\"{}\" is not a kind of op", kind));
  }

  Program& role_;
  std::map<std::string, std::uint32_t, std::less<>> names_, streams_;
  std::map<std::tuple<std::uint8_t, std::array<std::int64_t, 8>, std::int64_t>,
           std::vector<std::uint32_t>>
      works_;
};

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
