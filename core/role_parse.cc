#include "core/role_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"

namespace trireme {
namespace {

// bBUFFER[@GROUP][OFFSET+COUNT], with ,STRIDE behind COUNT where it is another; or - for none.
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
  const std::size_t end = text.size() - 1;
  const std::size_t comma = std::min(text.find(',', plus), end);
  operand.count = line.number(text.substr(plus + 1, comma - plus - 1));
  operand.stride = comma < end ? line.number(text.substr(comma + 1, end - comma - 1)) : 0;
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

OpKind take_kind(TextLine& line, std::string_view kind) {
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
  if (kind == "shift") {
    return Shift{group};
  }
  line.fail(fmt::format("\"{}\" is not a kind of op", kind));
}

}  // namespace

GroupId parse_group(const TextLine& line, std::string_view text) {
  return text == "-" ? kNoGroup : static_cast<GroupId>(line.index<std::uint32_t>(text));
}

bool RoleParser::take(TextLine& line) {
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

// [L3.]name [mb2]
std::uint32_t RoleParser::take_label(TextLine& line, std::int32_t& layer,
                                     std::int32_t& micro_batch) {
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

void RoleParser::take_buffer(TextLine& line) {
  line.literal("buffer");
  line.literal(fmt::format("b{}", role_.buffers.size()));
  Buffer buffer;
  buffer.name = take_label(line, buffer.layer, buffer.micro_batch);
  buffer.type = parse_enum<ElementType>(line, line.word("the type"), 4);
  buffer.elements = line.number_of("elements");
  if (line.peek() == "persistent") {
    line.word("persistent");
    buffer.persistent = true;
  }
  if (line.peek() == "host") {
    line.word("host");
    buffer.host = true;
  }
  role_.buffers.push_back(buffer);
}

void RoleParser::take_unit(TextLine& line) {
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

void RoleParser::take_parameter(TextLine& line) {
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

void RoleParser::take_op(TextLine& line) {
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

void RoleParser::take_waits(TextLine& line, Op& op) {
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

void RoleParser::take_operands(TextLine& line, Op& op) {
  op.operands.first = static_cast<std::uint32_t>(role_.operands.size());
  while (!line.done() && line.peek()[0] == 'b' && line.peek().find('[') != std::string_view::npos) {
    role_.operands.push_back(parse_operand(line, line.word("an operand")));
    ++op.operands.count;
  }
}

Compute RoleParser::take_compute(TextLine& line, Kernel kernel) {
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

}  // namespace trireme
