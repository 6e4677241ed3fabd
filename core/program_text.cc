#include "core/program_text.h"

#include <fmt/format.h>

#include <iterator>

#include "core/random.h"
#include "core/rendezvous.h"

namespace trireme {
namespace {

using Out = std::back_insert_iterator<std::string>;

std::string group_name(GroupId group) {
  return group == kNoGroup ? "-" : fmt::format("{}", index_of(group));
}

std::string operand_text(const Operand& operand) {
  if (operand.count == 0) {
    return "-";
  }
  const std::string shard =
      operand.shard == kNoGroup ? "" : fmt::format("@{}", index_of(operand.shard));
  const std::string stride = operand.stride == 0 ? "" : fmt::format(",{}", operand.stride);
  return fmt::format("b{}{}[{}+{}{}]", index_of(operand.buffer), shard, operand.offset,
                     operand.count, stride);
}

std::string axis_text(const GroupAxis& axis) {
  return fmt::format("{}:{}:{}", axis.degree, axis.stride, axis.period);
}

std::string_view to_text(Split split) {
  switch (split) {
    case Split::kNone:
      return "none";
    case Split::kRows:
      return "rows";
    case Split::kColumns:
      return "columns";
  }
  return "";
}

// What an op's kind adds after its name: the group, the peer.
struct KindText {
  const Program& role;
  std::string operator()(const Compute& compute) const {
    const Work& work = role.works[compute.work];
    const KernelSignature& signature = signature_of(work.kernel);
    std::string text = " dims";
    for (std::size_t i = 0; i < signature.dims.size(); ++i) {
      fmt::format_to(Out(text), " {}={}", signature.dims[i], work.dims[i]);
    }
    fmt::format_to(Out(text), " flop={} traffic={}", work.flop.value, work.traffic.value);
    return text;
  }
  std::string operator()(const AllReduce& op) const {
    return fmt::format(" group={} reduction={}", index_of(op.group),
                       op.reduction == Reduction::kSum ? "sum" : "max");
  }
  std::string operator()(const AllGather& op) const {
    return fmt::format(" group={}", index_of(op.group));
  }
  std::string operator()(const ReduceScatter& op) const {
    return fmt::format(" group={}", index_of(op.group));
  }
  std::string operator()(const AllToAll& op) const {
    return fmt::format(" group={}", index_of(op.group)) +
           (op.row > 0 ? fmt::format(" row={}", op.row) : "");
  }
  std::string operator()(const Broadcast& op) const {
    return fmt::format(" group={} root={}", index_of(op.group), op.root);
  }
  std::string operator()(const Shift& op) const {
    return fmt::format(" group={}", index_of(op.group));
  }
  std::string operator()(const Send& op) const {
    return fmt::format(" peer={} channel={} tag={}", op.peer, op.channel, op.tag);
  }
  std::string operator()(const Recv& op) const {
    return fmt::format(" peer={} channel={} tag={}", op.peer, op.channel, op.tag);
  }
  std::string operator()(const Copy&) const { return ""; }
};

void print_parameters(const Program& role, std::string& text) {
  for (std::size_t i = 0; i < role.units.size(); ++i) {
    const ParameterUnit& unit = role.units[i];
    fmt::format_to(Out(text), "unit {} {} elements={} shard={}", i, unit.name, unit.elements,
                   group_name(unit.shard));
    for (int s = 0; s < kStateCount; ++s) {
      const StateStorage& storage = unit.states[static_cast<std::size_t>(s)];
      fmt::format_to(Out(text), " {}={}{}", to_string(static_cast<State>(s)),
                     operand_text(storage.operand), storage.sharded ? "/" : "");
    }
    text += '\n';
  }
  for (const Parameter& parameter : role.parameters) {
    fmt::format_to(Out(text), "parameter {} rows={} columns={} local_rows={} local_columns={}",
                   parameter.name, parameter.rows, parameter.columns, parameter.local_rows,
                   parameter.local_columns);
    fmt::format_to(Out(text), " split={} unit={} offset={}", to_text(parameter.split),
                   parameter.unit, parameter.offset);
    if (parameter.expert_step > 0) {
      fmt::format_to(Out(text), " expert_first={} expert_step={}", parameter.expert_first,
                     parameter.expert_step);
    }
    text += '\n';
  }
}

std::string arithmetic_text(const Arithmetic& a) {
  std::string text = fmt::format(
      "arithmetic activation={} norm_epsilon={} norm_plus_one={:d} attention_scale={} "
      "attention_cap={}",
      to_string(a.activation), a.norm_epsilon, a.norm_plus_one, a.attention_scale, a.attention_cap);
  fmt::format_to(Out(text),
                 " embedding_multiplier={} residual_multiplier={} logit_multiplier={} logit_cap={}",
                 a.embedding_multiplier, a.residual_multiplier, a.logit_multiplier, a.logit_cap);
  fmt::format_to(Out(text),
                 " router_normalises={:d} router_scale={} router_groups={} router_groups_chosen={} "
                 "router_groups_by_two={:d} initial_deviation={}\n",
                 a.router_normalises, a.router_scale, a.router_groups, a.router_groups_chosen,
                 a.router_groups_by_two, a.initial_deviation);
  for (std::size_t i = 0; i < a.rotary.size(); ++i) {
    fmt::format_to(Out(text), "rotary {} scale={} neighbours={:d}", i, a.rotary[i].scale,
                   a.rotary[i].neighbours);
    for (const double frequency : a.rotary[i].frequencies) {
      fmt::format_to(Out(text), " {}", frequency);
    }
    text += '\n';
  }
  return text;
}

void print_names(const Program& role, std::string& text) {
  text += "names";
  for (const std::string& name : role.names) {
    text += ' ' + name;
  }
  text += "\nstreams";
  for (const std::string& stream : role.streams) {
    text += ' ' + stream;
  }
  text += '\n';
}

void print_ends(const Program& role, std::string& text) {
  fmt::format_to(Out(text), "tokens {}\ntargets {}\nloss {}\ngradient_norm {}\n",
                 operand_text(role.tokens), operand_text(role.targets), operand_text(role.loss),
                 operand_text(role.gradient_norm));
}

void print_role(const StepProgram& program, std::size_t index, std::string& text) {
  const Program& role = program.roles[index];
  fmt::format_to(Out(text), "role {}\n", index);
  print_names(role, text);
  for (std::size_t i = 0; i < role.buffers.size(); ++i) {
    const Buffer& buffer = role.buffers[i];
    fmt::format_to(Out(text), "buffer b{} {} {} elements={}{}{}\n", i, buffer_label(role, buffer),
                   to_string(buffer.type), buffer.elements, buffer.persistent ? " persistent" : "",
                   buffer.host ? " host" : "");
  }
  print_parameters(role, text);
  print_ends(role, text);
  for (std::uint32_t i = 0; i < role.ops.size(); ++i) {
    text += print_op(program, role, static_cast<OpId>(i));
    text += '\n';
  }
}

}  // namespace

std::string print_op(const StepProgram& program, const Program& role, OpId id) {
  static_cast<void>(program);
  const Op& op = role.ops[index_of(id)];
  std::string text = fmt::format("op {} {}", index_of(id), kind_name(op.kind));
  if (const auto* compute = std::get_if<Compute>(&op.kind)) {
    fmt::format_to(Out(text), " {}", signature_of(role.works[compute->work].kernel).name);
  }
  fmt::format_to(Out(text), " {} {}", op_label(role, op), to_string(op.origin.phase));
  if (op.origin.chunk >= 0) {
    fmt::format_to(Out(text), " chunk={}", op.origin.chunk);
  }
  fmt::format_to(Out(text), " stream={}", role.streams[index_of(op.stream)]);
  for (std::uint32_t w = 0; w < op.waits.count; ++w) {
    fmt::format_to(Out(text), "{}{}", w == 0 ? " after=" : ",",
                   index_of(role.waits[op.waits.first + w]));
  }
  for (std::uint32_t k = 0; k < op.operands.count; ++k) {
    fmt::format_to(Out(text), " {}", operand_text(role.operands[op.operands.first + k]));
  }
  text += std::visit(KindText{role}, op.kind);
  return text;
}

namespace {

std::string head_text(const StepProgram& program) {
  std::string text = fmt::format("step_program 1 {}\n", program.name.empty() ? "-" : program.name);
  fmt::format_to(Out(text), "ranks {} stages={} tensor={} data={}", program.ranks,
                 axis_text(program.stages), group_name(program.tensor), group_name(program.data));
  if (program.expert != kNoGroup || program.expert_tensor != kNoGroup) {
    fmt::format_to(Out(text), " expert={} expert_tensor={}", group_name(program.expert),
                   group_name(program.expert_tensor));
  }
  if (program.context != kNoGroup) {
    fmt::format_to(Out(text), " context={}", group_name(program.context));
  }
  text += '\n';
  fmt::format_to(Out(text), "widths compute={} master={} token={}\n", program.widths.compute,
                 program.widths.master, program.widths.token);
  fmt::format_to(Out(text), "batch sequence={} micro_batch={} micro_batches={} vocabulary={}\n",
                 program.batch.sequence, program.batch.micro_batch, program.batch.micro_batches,
                 program.batch.vocabulary);
  text += arithmetic_text(program.arithmetic);
  for (std::size_t i = 0; i < program.groups.size(); ++i) {
    fmt::format_to(Out(text), "group {} {}", i, program.groups[i].name);
    for (const GroupAxis& axis : program.groups[i].axes) {
      text += ' ' + axis_text(axis);
    }
    text += '\n';
  }
  return text;
}

std::uint64_t hash_ops(std::uint64_t key, const Program& role) {
  const auto add = [&](auto value) { key = random_bits(key, static_cast<std::uint64_t>(value)); };
  for (const Op& op : role.ops) {
    add(op.kind.index());
    add(index_of(op.stream));
    add(index_of(group_of(op.kind)));
    if (const auto* compute = std::get_if<Compute>(&op.kind)) {
      add(compute->work);
    } else if (const auto* send = std::get_if<Send>(&op.kind)) {
      add(send->peer);
      add(send->tag);
    } else if (const auto* recv = std::get_if<Recv>(&op.kind)) {
      add(recv->peer);
      add(recv->tag);
    }
    add(op.operands.count);
    add(op.waits.count);
  }
  for (const Operand& operand : role.operands) {
    add(index_of(operand.buffer));
    add(index_of(operand.shard));
    add(operand.offset);
    add(operand.count);
    if (operand.stride > 0) {
      add(operand.stride);
    }
  }
  for (const OpId wait : role.waits) {
    add(index_of(wait));
  }
  for (const Work& work : role.works) {
    add(work.kernel);
    for (const std::int64_t dim : work.dims) {
      add(dim);
    }
  }
  return key;
}

}  // namespace

std::string print(const StepProgram& program) {
  std::string text = head_text(program);
  for (std::size_t r = 0; r < program.roles.size(); ++r) {
    print_role(program, r, text);
  }
  return text;
}

std::uint64_t fingerprint(const StepProgram& program) {
  std::uint64_t key = random_key(0, head_text(program));
  for (const Program& role : program.roles) {
    std::string text;
    print_names(role, text);
    print_parameters(role, text);
    print_ends(role, text);
    key = hash_ops(random_key(key, text), role);
  }
  return key;
}

}  // namespace trireme
