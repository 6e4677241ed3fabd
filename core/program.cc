#include "core/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "core/happens_before.h"

namespace trireme {
namespace {

const Group& group_of(const StepProgram& program, GroupId id) {
  TRIREME_CHECK(index_of(id) < program.groups.size());
  return program.groups[index_of(id)];
}

// Buffers that other streams touch live until stream 0 knows that all of that has ended.
void extend_to_release(const Program& role, const std::vector<std::uint32_t>& touched,
                       const std::vector<bool>& elsewhere, std::vector<Lifetime>& lives) {
  const std::size_t streams = role.streams.size();
  const HappensBefore order(role);
  // Buffers by the last op that touches them, in issue order of stream 0's ops.
  std::vector<std::uint32_t> waiting;
  std::vector<std::vector<std::uint32_t>> ending(role.ops.size());
  for (std::uint32_t b = 0; b < lives.size(); ++b) {
    if (elsewhere[b] && !role.buffers[b].persistent) {
      ending[lives[b].last].push_back(b);
    }
  }
  const auto known = [&](std::uint32_t op, std::uint32_t buffer) {
    for (std::size_t s = 1; s < streams; ++s) {
      const std::uint32_t place = touched[buffer * streams + s];
      if (place > order.ended_before(static_cast<OpId>(op), static_cast<StreamId>(s))) {
        return false;
      }
    }
    return true;
  };
  for (std::uint32_t i = 0; i < role.ops.size(); ++i) {
    if (index_of(role.ops[i].stream) == 0) {
      std::erase_if(waiting, [&](std::uint32_t buffer) {
        if (!known(i, buffer)) {
          return false;
        }
        lives[buffer].last = i - 1;
        return true;
      });
    }
    for (const std::uint32_t buffer : ending[i]) {
      const bool last_on_first_stream = index_of(role.ops[i].stream) == 0;
      if (!last_on_first_stream || !known(i, buffer)) {
        waiting.push_back(buffer);
      }
    }
  }
  for (const std::uint32_t buffer : waiting) {
    lives[buffer].last = static_cast<std::uint32_t>(role.ops.size()) - 1;
  }
}

}  // namespace

std::int64_t width_of(const ElementWidths& widths, ElementType type) {
  switch (type) {
    case ElementType::kCompute:
      return widths.compute;
    case ElementType::kMaster:
      return widths.master;
    case ElementType::kToken:
      return widths.token;
    case ElementType::kNarrow:
      return 1;
  }
  return 0;
}

Bytes size_of(const StepProgram& program, const Buffer& buffer) {
  return Bytes(buffer.elements * width_of(program.widths, buffer.type));
}

Bytes size_of(const StepProgram& program, const Program& role, const Operand& operand) {
  const Buffer& buffer = role.buffers[index_of(operand.buffer)];
  return Bytes(operand.count * width_of(program.widths, buffer.type));
}

std::int64_t group_size(const Group& group) {
  std::int64_t size = 1;
  for (const GroupAxis& axis : group.axes) {
    size *= axis.degree;
  }
  return size;
}

std::int64_t index_in_group(const StepProgram& program, GroupId group, Rank rank) {
  if (group == kNoGroup) {
    return 0;
  }
  std::int64_t place = 0;
  std::int64_t weight = 1;
  for (const GroupAxis& axis : group_of(program, group).axes) {
    place += index_of(rank) % axis.period / axis.stride * weight;
    weight *= axis.degree;
  }
  return place;
}

Rank first_member(const StepProgram& program, GroupId group, Rank rank) {
  if (group == kNoGroup) {
    return rank;
  }
  std::int64_t first = index_of(rank);
  for (const GroupAxis& axis : group_of(program, group).axes) {
    first -= index_of(rank) % axis.period / axis.stride * axis.stride;
  }
  return static_cast<Rank>(first);
}

std::vector<Rank> members_of(const StepProgram& program, GroupId group, Rank rank) {
  if (group == kNoGroup) {
    return {rank};
  }
  const Group& shape = group_of(program, group);
  std::vector<Rank> members = {first_member(program, group, rank)};
  for (const GroupAxis& axis : shape.axes) {
    const std::size_t before = members.size();
    for (std::int64_t i = 1; i < axis.degree; ++i) {
      for (std::size_t j = 0; j < before; ++j) {
        members.push_back(static_cast<Rank>(index_of(members[j]) + i * axis.stride));
      }
    }
  }
  return members;
}

RoleIndex role_of(const StepProgram& program, Rank rank) {
  return static_cast<RoleIndex>(index_of(rank) % program.stages.period / program.stages.stride);
}

std::int64_t resolved_offset(const StepProgram& program, const Operand& operand, Rank rank) {
  const std::int64_t stride = operand.stride > 0 ? operand.stride : operand.count;
  return operand.offset + index_in_group(program, operand.shard, rank) * stride;
}

std::vector<Lifetime> lifetimes(const Program& role) {
  const std::size_t streams = role.streams.size();
  std::vector<Lifetime> result(role.buffers.size());
  // Last place on each stream but the first at which a buffer is touched.
  std::vector<std::uint32_t> touched(role.buffers.size() * streams, 0);
  std::vector<bool> elsewhere(role.buffers.size(), false);
  std::vector<std::uint32_t> places(streams, 0);
  for (std::uint32_t i = 0; i < role.ops.size(); ++i) {
    const IndexRange range = role.ops[i].operands;
    const std::uint32_t stream = index_of(role.ops[i].stream);
    ++places[stream];
    for (std::uint32_t j = range.first; j < range.first + range.count; ++j) {
      const std::uint32_t buffer = index_of(role.operands[j].buffer);
      Lifetime& life = result[buffer];
      if (life.first > life.last) {
        life.first = i;
      }
      life.last = i;
      touched[buffer * streams + stream] = places[stream];
      elsewhere[buffer] = elsewhere[buffer] || stream != 0;
    }
  }
  extend_to_release(role, touched, elsewhere, result);
  return result;
}

Liveness liveness(const StepProgram& program, const Program& role) {
  const std::vector<Lifetime> lives = lifetimes(role);
  Liveness result;
  std::vector<std::int64_t> change(role.ops.size() + 1, 0);
  for (std::size_t i = 0; i < lives.size(); ++i) {
    const Bytes size = size_of(program, role.buffers[i]);
    if (role.buffers[i].host) {
      result.host += size;
    } else if (role.buffers[i].persistent) {
      result.persistent += size;
    } else if (lives[i].first <= lives[i].last) {
      change[lives[i].first] += size.value;
      change[lives[i].last + 1] -= size.value;
    }
  }
  result.peak = result.persistent;
  Bytes live = result.persistent;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    live += Bytes(change[i]);
    if (live > result.peak) {
      result.peak = live;
      result.peak_op = static_cast<OpId>(i);
    }
  }
  return result;
}

std::vector<ParameterSlice> parameter_slices(const StepProgram& program, Rank rank, State state) {
  const Program& role = program.roles[index_of(role_of(program, rank))];
  const std::int64_t tensor = index_in_group(program, program.tensor, rank);
  const std::int64_t expert = index_in_group(program, program.expert, rank);
  const std::int64_t expert_tensor = index_in_group(program, program.expert_tensor, rank);
  std::vector<ParameterSlice> slices;
  for (std::uint32_t i = 0; i < role.parameters.size(); ++i) {
    const Parameter& parameter = role.parameters[i];
    const ParameterUnit& unit = role.units[parameter.unit];
    const StateStorage& storage = unit.states[static_cast<std::size_t>(state)];
    if (storage.operand.count == 0) {
      continue;
    }
    ParameterSlice slice;
    slice.parameter = i;
    const std::int64_t place = parameter.expert_step > 0 ? expert_tensor : tensor;
    slice.row_begin = parameter.expert_first + expert * parameter.expert_step +
                      (parameter.split == Split::kRows ? place * parameter.local_rows : 0);
    slice.column_begin = parameter.split == Split::kColumns ? place * parameter.local_columns : 0;
    slice.row_count =
        std::clamp<std::int64_t>(parameter.rows - slice.row_begin, 0, parameter.local_rows);
    slice.column_count = parameter.local_columns;
    const std::int64_t real = slice.row_count * slice.column_count;
    // The part of the unit's flat elements that this rank keeps, cut with the parameter's own part
    // of them.
    const std::int64_t kept = storage.operand.count;
    const std::int64_t kept_begin =
        storage.sharded ? index_in_group(program, unit.shard, rank) * kept : 0;
    const std::int64_t begin = std::max(kept_begin, parameter.offset);
    const std::int64_t end = std::min(kept_begin + kept, parameter.offset + real);
    if (begin >= end) {
      continue;
    }
    slice.flat_begin = begin - parameter.offset;
    slice.count = end - begin;
    slice.buffer = storage.operand.buffer;
    slice.offset = resolved_offset(program, storage.operand, rank) + begin - kept_begin;
    slices.push_back(slice);
  }
  return slices;
}

std::string_view to_string(ElementType type) {
  switch (type) {
    case ElementType::kCompute:
      return "compute";
    case ElementType::kMaster:
      return "master";
    case ElementType::kToken:
      return "token";
    case ElementType::kNarrow:
      return "narrow";
  }
  return "";
}

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kRecompute:
      return "recompute";
    case Phase::kBackward:
      return "backward";
    case Phase::kWeightGradient:
      return "weight_gradient";
    case Phase::kParameterGather:
      return "parameter_gather";
    case Phase::kGradientReduce:
      return "gradient_reduce";
    case Phase::kOptimizer:
      return "optimizer";
  }
  return "";
}

std::string_view to_string(State state) {
  switch (state) {
    case State::kWeight:
      return "weight";
    case State::kMaster:
      return "master";
    case State::kMoment1:
      return "moment1";
    case State::kMoment2:
      return "moment2";
    case State::kGradient:
      return "gradient";
  }
  return "";
}

std::string_view kind_name(const OpKind& kind) {
  constexpr std::array<std::string_view, 10> kNames = {
      "compute",   "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
      "broadcast", "shift",      "send",       "recv",           "copy"};
  static_assert(std::variant_size_v<OpKind> == kNames.size());
  return kNames[kind.index()];
}

std::string op_label(const Program& role, const Op& op) {
  std::string label;
  if (op.origin.layer >= 0) {
    label = fmt::format("L{}.", op.origin.layer);
  }
  label += role.names[op.name];
  if (op.origin.micro_batch >= 0) {
    label += fmt::format(" mb{}", op.origin.micro_batch);
  }
  return label;
}

std::string buffer_label(const Program& role, const Buffer& buffer) {
  std::string label;
  if (buffer.layer >= 0) {
    label = fmt::format("L{}.", buffer.layer);
  }
  label += role.names[buffer.name];
  if (buffer.micro_batch >= 0) {
    label += fmt::format(" mb{}", buffer.micro_batch);
  }
  return label;
}

}  // namespace trireme
