#include "runtime/execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/check.h"
#include "core/parallel.h"
#include "core/random.h"
#include "runtime/clock.h"

namespace trireme::runtime {
namespace {

bool ends_with_norm_weight(const std::string& name) {
  return name.find("norm") != std::string::npos && name.ends_with("weight");
}

// Splits [0, count) over this rank's share of the host's cores: billions of initial values take
// minutes on one.
void over_threads(std::int64_t count, std::int64_t ranks,
                  const std::function<void(std::int64_t, std::int64_t)>& work) {
  constexpr std::int64_t kWorthAThread = 1 << 16;
  const std::int64_t parts =
      std::clamp<std::int64_t>(std::min(usable_threads() / ranks, count / kWorthAThread), 1, 16);
  parallel_for(static_cast<int>(parts), static_cast<std::size_t>(parts),
               [&](std::size_t /*thread*/, std::size_t part) {
                 const auto at = static_cast<std::int64_t>(part);
                 work(count * at / parts, count * (at + 1) / parts);
               });
}

Operand operand_of(const ParameterSlice& slice) {
  return {.buffer = slice.buffer, .shard = kNoGroup, .offset = slice.offset, .count = slice.count};
}

}  // namespace

std::int64_t global_batch_of(const StepProgram& program) {
  const std::int64_t places =
      program.data == kNoGroup ? 1 : group_size(program.groups[index_of(program.data)]);
  return places * program.batch.micro_batches * program.batch.micro_batch;
}

InitialValues::InitialValues(std::uint64_t seed, const Parameter& parameter,
                             const Arithmetic& arithmetic)
    : key_(random_key(seed, parameter.name)),
      columns_(parameter.columns),
      deviation_(arithmetic.initial_deviation) {
  if (parameter.columns == 1 && ends_with_norm_weight(parameter.name)) {
    rule_ = arithmetic.norm_plus_one ? Rule::kZero : Rule::kOne;
  } else if ((parameter.columns == 1 && parameter.name.ends_with("bias")) ||
             parameter.name.ends_with("lora_b.weight")) {
    rule_ = Rule::kZero;
  }
}

double InitialValues::at(std::int64_t row, std::int64_t column) const {
  if (rule_ != Rule::kNormal) {
    return rule_ == Rule::kOne ? 1.0 : 0.0;
  }
  return deviation_ * random_normal(key_, static_cast<std::uint64_t>(row * columns_ + column));
}

NormalFill InitialValues::fill_of(const ParameterSlice& slice) const {
  return {key_,     deviation_,      slice.row_begin, slice.column_begin, slice.column_count,
          columns_, slice.flat_begin};
}

RankExecutor::RankExecutor(const StepProgram& program, Rank rank, Backend& backend)
    : program_(&program),
      role_(&program.roles[index_of(role_of(program, rank))]),
      rank_(rank),
      backend_(&backend),
      addresses_(role_->buffers.size()),
      born_(role_->ops.size()),
      dying_(role_->ops.size()) {
  offsets_.reserve(role_->operands.size());
  for (const Operand& operand : role_->operands) {
    offsets_.push_back(resolved_offset(program, operand, rank));
  }
  const std::vector<Lifetime> lives = lifetimes(*role_);
  for (std::uint32_t i = 0; i < lives.size(); ++i) {
    if (role_->buffers[i].persistent) {
      addresses_[i] = backend_->allocate(BufferId(i));
    } else if (lives[i].first <= lives[i].last) {
      born_[lives[i].first].push_back(BufferId(i));
      dying_[lives[i].last].push_back(BufferId(i));
    }
  }
}

View RankExecutor::view_of(const Operand& operand) const {
  const Buffer& buffer = role_->buffers[index_of(operand.buffer)];
  const std::int64_t at =
      resolved_offset(*program_, operand, rank_) * width_of(program_->widths, buffer.type);
  TRIREME_CHECK(addresses_[index_of(operand.buffer)] != nullptr);
  return {static_cast<std::byte*>(addresses_[index_of(operand.buffer)]) + at, operand.count,
          buffer.type, operand.buffer};
}

void RankExecutor::initialise(std::uint64_t seed) {
  for (const State state : {State::kWeight, State::kMaster}) {
    for (const ParameterSlice& slice : parameter_slices(*program_, rank_, state)) {
      const InitialValues initial(seed, role_->parameters[slice.parameter], program_->arithmetic);
      if (initial.is_normal() &&
          backend_->fill_normal(view_of(operand_of(slice)), initial.fill_of(slice))) {
        continue;
      }
      std::vector<double> values(static_cast<std::size_t>(slice.count));
      const auto fill = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t flat = slice.flat_begin + i;
          values[static_cast<std::size_t>(i)] =
              initial.at(slice.row_begin + flat / slice.column_count,
                         slice.column_begin + flat % slice.column_count);
        }
      };
      over_threads(slice.count, program_->ranks, fill);
      write_slice(slice, values);
    }
  }
}

std::vector<double> RankExecutor::read_slice(const ParameterSlice& slice) {
  std::vector<double> values(static_cast<std::size_t>(slice.count));
  backend_->read(view_of(operand_of(slice)), values);
  return values;
}

void RankExecutor::write_slice(const ParameterSlice& slice, std::span<const double> values) {
  TRIREME_CHECK(static_cast<std::int64_t>(values.size()) == slice.count);
  backend_->write(view_of(operand_of(slice)), values);
}

void RankExecutor::fill_tokens(const TokenSource& source, std::int64_t first_sequence) {
  if (role_->tokens.count == 0 && role_->targets.count == 0) {
    return;
  }
  const Batch& batch = program_->batch;
  const std::int64_t rows = batch.micro_batches * batch.micro_batch;
  const std::int64_t first =
      first_sequence + index_in_group(*program_, program_->data, rank_) * rows;
  const auto length = static_cast<std::size_t>(batch.sequence);
  const std::int64_t sharers =
      program_->context == kNoGroup ? 1 : group_size(program_->groups[index_of(program_->context)]);
  const std::int64_t place = index_in_group(*program_, program_->context, rank_);
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<std::int32_t> line(length + 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    source.read(first + row, line);
    for (std::int64_t i = 0; i < batch.sequence / sharers; ++i) {
      const auto position =
          static_cast<std::size_t>(context_position(i, batch.sequence, sharers, place));
      tokens.push_back(line[position]);
      targets.push_back(line[position + 1]);
    }
  }
  if (role_->tokens.count > 0) {
    TRIREME_CHECK(role_->tokens.count == static_cast<std::int64_t>(tokens.size()));
    backend_->write_tokens(view_of(role_->tokens), tokens);
  }
  if (role_->targets.count > 0) {
    TRIREME_CHECK(role_->targets.count == static_cast<std::int64_t>(targets.size()));
    backend_->write_tokens(view_of(role_->targets), targets);
  }
}

void RankExecutor::issue(std::uint32_t index) {
  const Op& op = role_->ops[index];
  for (std::uint32_t i = op.waits.first; i < op.waits.first + op.waits.count; ++i) {
    const OpId earlier = role_->waits[i];
    if (role_->ops[index_of(earlier)].stream != op.stream) {
      backend_->wait(op.stream, earlier);
    }
  }
  std::vector<View> views;
  views.reserve(op.operands.count);
  for (std::uint32_t i = op.operands.first; i < op.operands.first + op.operands.count; ++i) {
    const Operand& operand = role_->operands[i];
    const Buffer& buffer = role_->buffers[index_of(operand.buffer)];
    views.push_back({static_cast<std::byte*>(addresses_[index_of(operand.buffer)]) +
                         offsets_[i] * width_of(program_->widths, buffer.type),
                     operand.count, buffer.type, operand.buffer});
  }
  struct Issue {
    Backend& backend;
    OpId id;
    StreamId stream;
    const Program& role;
    const std::vector<View>& v;
    void operator()(const Compute& k) const { backend.compute(id, stream, role.works[k.work], v); }
    void operator()(const AllReduce& k) const {
      backend.all_reduce(id, stream, k.group, k.reduction, v[0], v[1]);
    }
    void operator()(const AllGather& k) const {
      backend.all_gather(id, stream, k.group, v[0], v[1]);
    }
    void operator()(const ReduceScatter& k) const {
      backend.reduce_scatter(id, stream, k.group, v[0], v[1]);
    }
    void operator()(const AllToAll& k) const { backend.all_to_all(id, stream, k, v); }
    void operator()(const Broadcast& k) const {
      backend.broadcast(id, stream, k.group, k.root, v[0], v[1]);
    }
    void operator()(const Shift& k) const { backend.shift(id, stream, k.group, v[0], v[1]); }
    void operator()(const Send& k) const { backend.send(id, stream, k, v[0]); }
    void operator()(const Recv& k) const { backend.receive(id, stream, k, v[0]); }
    void operator()(const Copy&) const { backend.copy(id, stream, v[0], v[1]); }
  };
  std::visit(Issue{*backend_, OpId(index), op.stream, *role_, views}, op.kind);
}

double RankExecutor::read_scalar(const Operand& operand) {
  double value = 0;
  backend_->read(view_of(operand), {&value, 1});
  return value;
}

StepResult RankExecutor::step(const StepSettings& settings, const TokenSource& tokens,
                              std::int64_t first_sequence, Seconds timeout) {
  fill_tokens(tokens, first_sequence);
  StepResult result;
  StepSettings begun = settings;
  begun.began = result.began = now_seconds();
  backend_->begin_step(begun);
  for (std::uint32_t i = 0; i < role_->ops.size(); ++i) {
    for (const BufferId buffer : born_[i]) {
      addresses_[index_of(buffer)] = backend_->allocate(buffer);
    }
    issue(i);
    for (const BufferId buffer : dying_[i]) {
      backend_->release(buffer);
      addresses_[index_of(buffer)] = nullptr;
    }
  }
  result.ops = backend_->end_step(timeout);
  result.duration = Seconds(now_seconds() - result.began);
  if (role_->loss.count > 0) {
    result.loss = read_scalar(role_->loss);
    result.has_loss = true;
  }
  if (role_->gradient_norm.count > 0) {
    result.gradient_norm = read_scalar(role_->gradient_norm);
    result.has_gradient_norm = true;
  }
  return result;
}

}  // namespace trireme::runtime
